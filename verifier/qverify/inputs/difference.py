"""Finds the one or two known mistakes that turn the intended input into the captured bytes, or else those that come
nearest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from qverify.errors import MissingExtraError, UsageError
from qverify.inputs.hypotheses import pages
from qverify.inputs.recipe import Recipe
from qverify.inputs.reproduction import Reproduction, Start, compute_size, sort_by_stages
from qverify.inputs.residual import Residual, measure_residual, undo_byte_steps
from qverify.inputs.sample import Sample
from qverify.mistakes import Explanation, list_pairs, list_single_mistakes

Watch = Callable[[str, int, int], None]
NEAREST = 3  # number of explanations nearest by a sample that are judged in full
PROMISING = 4  # number of nearest single mistakes; pairs with one of them are tried first
MORE_S = 10.0  # seconds to look for other exact matches after the first


MistakeExplanation = Explanation[Recipe]


@dataclass(slots=True)
class InputDifference:
    """The result of comparing intended and captured bytes.

    Attributes:
        equal: whether the bytes are equal.
        size_bytes: size of the captured bytes.
        intended_bytes: size of the intended bytes.
        exact: explanations that reproduce the bytes, the simplest first. Those of one group produce the same bytes for
            every picture.
        nearest: the nearest explanation with its distance, if no explanation is exact.
        tried: number of explanations that were tried.
        not_searched: explanations that were left out, with the reason, as text.
    """

    equal: bool
    size_bytes: int
    intended_bytes: int
    exact: list[list[MistakeExplanation]] = field(default_factory=list)
    nearest: tuple[MistakeExplanation, Residual] | None = None
    tried: int = 0
    not_searched: list[str] = field(default_factory=list)


def explain_difference(
    start: Start,
    captured: bytes,
    seconds: float = 60.0,
    watch: Watch | None = None,
    known: Sequence[MistakeExplanation] = (),
) -> InputDifference:
    """Compares captured bytes with the intended input: tries equality, then single mistakes, then pairs of mistakes of
    different families.

    Args:
        start: the intended input.
        captured: the captured bytes.
        seconds: time limit.
        watch: function that is called with the name of the search, the number of the explanation, and the number of
            all.
        known: explanations of other frames. If one of them is exact here, too, nothing else is searched.
    """
    intended = start.intended(len(captured))
    trial = _MistakeTrial(Reproduction(start), captured, time.monotonic() + seconds, Sample(captured))
    intended_bytes = trial.reproduction.make_bytes(intended)
    difference = InputDifference(intended_bytes == captured, len(captured), len(intended_bytes))
    if difference.equal:
        return difference
    if trial.fits_size(intended):
        trial.judge(Explanation((), intended))
    of_other_frames = [replace(e, recipe=replace(e.recipe, evidence=intended.evidence)) for e in known]
    exact = [e for e in of_other_frames if trial.fits_size(e.recipe) and start.can_reach(e.recipe) and trial.judge(e)]
    for name, explanations in (("single mistakes", list_single_mistakes), ("pairs of mistakes", list_pairs)):
        if exact or trial.over:
            break
        exact = trial.try_all(trial.sort_candidates(explanations(pages(), intended)), name, watch)
    difference.exact = _group_by_noise(start, exact)
    difference.nearest = None if exact else trial.find_nearest(Explanation((), intended))
    difference.tried, difference.not_searched = (
        trial.tried,
        [*trial.not_searched, *_describe_out_of_reach(trial, start)],
    )
    return difference


@dataclass(slots=True)
class _MistakeTrial:
    reproduction: Reproduction
    captured: bytes
    deadline: float
    sample: Sample
    tried: int = 0
    over: bool = False
    not_searched: list[str] = field(default_factory=list)
    out_of_reach: set[str] = field(default_factory=set)
    near: list[tuple[float, int, MistakeExplanation]] = field(default_factory=list)

    def fits_size(self, recipe: Recipe) -> bool:
        """Returns whether the recipe produces as many bytes as were captured."""
        return compute_size(recipe) == len(self.captured)

    def sort_candidates(self, explanations: Iterator[MistakeExplanation]) -> list[MistakeExplanation]:
        """Returns the explanations that produce as many bytes as were captured. Those with one of the nearest single
        mistakes come first; apart from that, explanations that share stages are neighbours."""
        near = {c for _, _, explanation in self.near[:PROMISING] for c in explanation.causes}
        parts: tuple[list[MistakeExplanation], list[MistakeExplanation]] = [], []
        for explanation in explanations:
            if self.fits_size(explanation.recipe):
                parts[near.isdisjoint(explanation.causes)].append(explanation)
        return [explanation for part in parts for explanation in sort_by_stages(part, lambda e: e.recipe)]

    def try_all(self, listed: list[MistakeExplanation], name: str, watch: Watch | None) -> list[MistakeExplanation]:
        exact: list[MistakeExplanation] = []
        for at, explanation in enumerate(listed):
            if time.monotonic() > self.deadline:
                self.over = True
                why = (
                    "an exact match was found, or the time limit was reached" if exact else "the time limit was reached"
                )
                self.not_searched.append(f"{len(listed) - at} of {len(listed)} {name}: {why}")
                break
            if watch is not None:
                watch(name, at + 1, len(listed))
            if not self.reproduction.start.can_reach(explanation.recipe):
                self.out_of_reach.update(c.family for c in explanation.causes if len(explanation.causes) == 1)
            elif self.judge(explanation):
                exact.append(explanation)
                self.deadline = min(self.deadline, time.monotonic() + MORE_S)
        return sorted(exact, key=lambda e: (e.recipe.steps, len(e.said)))

    def judge(self, explanation: MistakeExplanation) -> bool:
        """Returns whether the explanation reproduces the bytes, and keeps its distance if not."""
        try:
            return self._reproduces(explanation)
        except MissingExtraError:  # the user must know that an explanation could not be tried
            raise
        except UsageError:  # an ROI outside a turned picture
            return False

    def _reproduces(self, explanation: MistakeExplanation) -> bool:
        self.tried += 1
        with np.errstate(all="ignore"):
            far = self.sample.distance(explanation.recipe, self.reproduction)
            if far is None and self.reproduction.make_bytes(explanation.recipe) == self.captured:
                return True
            if far is None:
                far = self.sample.whole_distance(explanation.recipe, self.reproduction)
        self.near.append((far, self.tried, explanation))
        self.near = sorted(self.near, key=lambda n: n[:2])[: max(NEAREST, PROMISING)]
        return False

    def find_nearest(self, intended: MistakeExplanation) -> tuple[MistakeExplanation, Residual] | None:
        """Returns the nearest explanation, or the intended input itself, with its residual."""
        candidates = []
        of_size = [(0.0, 0, intended)] if self.fits_size(intended.recipe) else []
        for _, at, explanation in of_size + self.near[:NEAREST]:
            ours, theirs = self.reproduction.make_bytes(explanation.recipe), self.captured
            if (back := undo_byte_steps(theirs, explanation.recipe)) is not None:
                ours, theirs = self.reproduction.make_buffer(explanation.recipe), back
            candidates.append((explanation, measure_residual(ours, theirs, explanation.recipe.wanted), at))
        best = min(candidates, key=lambda f: (f[1].mean_abs, len(f[0].causes), f[2]), default=None)
        return None if best is None else best[:2]


def _describe_out_of_reach(trial: _MistakeTrial, start: Start) -> Iterator[str]:
    if trial.out_of_reach:
        names = ", ".join(sorted(trial.out_of_reach))
        needed = {"fitted": "the picture before the resize", "elements": "the picture", "bytes": "a description"}
        yield f"all or part of {names}: needs {needed[start.stage]}"


def _group_by_noise(start: Start, exact: list[MistakeExplanation]) -> list[list[MistakeExplanation]]:
    """Groups explanations that produce the same bytes if the picture is replaced by noise."""
    if len(exact) < 2:
        return [exact] if exact else []
    rgb = None if start.rgb is None else np.asarray(_make_noise(start.rgb))
    noise = Start(start.stage, _make_noise(start.values), start.wanted, rgb)
    reproduction, evidence = Reproduction(noise), replace(exact[0].recipe.evidence, rgb=rgb)
    groups: dict[bytes, list[MistakeExplanation]] = {}
    with np.errstate(all="ignore"):
        for explanation in exact:
            groups.setdefault(reproduction.make_bytes(replace(explanation.recipe, evidence=evidence)), []).append(
                explanation
            )
    return list(groups.values())


def _make_noise(values: object) -> object:
    generator = np.random.Generator(np.random.PCG64(0))
    if isinstance(values, bytes):
        return generator.bytes(len(values))
    if isinstance(values, list):
        return [_make_noise(v) for v in values]
    assert isinstance(values, np.ndarray)
    if values.dtype.kind == "f":
        return np.asarray(generator.standard_normal(values.shape), values.dtype)
    limits = np.iinfo(values.dtype)
    return generator.integers(limits.min, limits.max, values.shape, values.dtype, endpoint=True)
