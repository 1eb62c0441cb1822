"""The known mistake, or the two, that turn the intended input into the captured bytes; else the nearest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from qverify.inputs.buffers import dtype_of
from qverify.inputs.hypotheses import Page, pages
from qverify.inputs.recipe import Recipe
from qverify.inputs.reproduction import Reproduction, Start, in_key_order, size_bytes
from qverify.inputs.residual import Residual, residual, sampled, undone

Watch = Callable[[str, int, int], None]
NEAREST = 3  # of those nearest by a sample, judged in full


@dataclass(frozen=True, slots=True)
class Cause:
    """family: a page's NAME. said: what exactly."""

    family: str
    said: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """causes: in the order in which they are applied; none is the intended input itself."""

    causes: tuple[Cause, ...]
    recipe: Recipe

    @property
    def said(self) -> str:
        return " + ".join(c.said for c in self.causes) or "as described"


@dataclass(slots=True)
class Difference:
    """exact: what reproduces the bytes, in groups that give one another's bytes for every picture; the simplest first.
    nearest: where nothing does. not_searched: what was left out, and why."""

    equal: bool
    size_bytes: int
    intended_bytes: int
    exact: list[list[Explanation]] = field(default_factory=list)
    nearest: tuple[Explanation, Residual] | None = None
    tried: int = 0
    not_searched: list[str] = field(default_factory=list)


def compared(
    start: Start,
    captured: bytes,
    seconds: float = 60.0,
    watch: Watch | None = None,
    known: Sequence[Explanation] = (),
) -> Difference:
    """Equal, else single mistakes, else pairs of different families. seconds: after them no more is tried. known: what
    explained other frames; where one of them does here, too, nothing else is searched."""
    intended = start.intended(len(captured))
    trial = _Trial(Reproduction(start), captured, time.monotonic() + seconds)
    made = trial.reproduction.made(intended)
    found = Difference(made == captured, len(captured), len(made))
    if found.equal:
        return found
    trial.judge(Explanation((), intended))
    again = [replace(one, recipe=replace(one.recipe, evidence=intended.evidence)) for one in known]
    exact = [one for one in again if trial.may(one.recipe) and start.reaches(one.recipe) and trial.judge(one)]
    for name, explanations in (("single mistakes", _singles), ("pairs of mistakes", _pairs)):
        if exact or trial.over:
            break
        listed = in_key_order([e for e in explanations(intended) if trial.may(e.recipe)], lambda e: e.recipe)
        exact = trial.all_of(listed, name, watch)
    found.exact = _grouped(start, exact)
    found.nearest = None if exact else trial.nearest(Explanation((), intended))
    found.tried, found.not_searched = trial.tried, [*trial.not_searched, *_out_of_reach(trial, start)]
    return found


def _singles(intended: Recipe) -> Iterator[Explanation]:
    seen = {intended}
    for page in pages():
        for one in _of(page, intended, ()):
            if one.recipe not in seen:
                seen.add(one.recipe)
                yield one


def _pairs(intended: Recipe) -> Iterator[Explanation]:
    """Both orders, where they are not the same."""
    singles = list(_singles(intended))
    seen = {intended, *(s.recipe for s in singles)}
    for first in singles:
        for page in pages():
            if first.causes[0].family == page.NAME:
                continue
            for pair in _of(page, first.recipe, first.causes):
                if pair.recipe not in seen:
                    seen.add(pair.recipe)
                    yield pair


def _of(page: Page, recipe: Recipe, before: tuple[Cause, ...]) -> Iterator[Explanation]:
    for said, made in page.variants(recipe):
        yield Explanation((*before, Cause(page.NAME, said)), made)


@dataclass(slots=True)
class _Trial:
    reproduction: Reproduction
    captured: bytes
    deadline: float
    tried: int = 0
    over: bool = False
    not_searched: list[str] = field(default_factory=list)
    out_of_reach: set[str] = field(default_factory=set)
    near: list[tuple[float, int, Explanation]] = field(default_factory=list)
    samples: dict[tuple[object, ...], tuple[np.ndarray, float]] = field(default_factory=dict)

    def may(self, recipe: Recipe) -> bool:
        """Of the captured size."""
        return size_bytes(recipe) == len(self.captured)

    def all_of(self, listed: list[Explanation], name: str, watch: Watch | None) -> list[Explanation]:
        exact = []
        for at, one in enumerate(listed):
            if time.monotonic() > self.deadline:
                self.over = True
                self.not_searched.append(f"{len(listed) - at} of {len(listed)} {name}: the time was over")
                break
            if watch is not None:
                watch(name, at + 1, len(listed))
            if not self.reproduction.start.reaches(one.recipe):
                self.out_of_reach.update(c.family for c in one.causes if len(one.causes) == 1)
            elif self.judge(one):
                exact.append(one)
        return sorted(exact, key=lambda e: (e.recipe.steps, len(e.said)))

    def judge(self, one: Explanation) -> bool:
        """Whether it reproduces the bytes; how near it comes is kept."""
        self.tried += 1
        with np.errstate(all="ignore"):
            made = self.reproduction.made(one.recipe)
            if made == self.captured:
                return True
            if len(made) == len(self.captured):
                self.near.append((self._sampled_distance(one.recipe, made), self.tried, one))
                self.near = sorted(self.near, key=lambda n: n[:2])[:NEAREST]
        return False

    def _sampled_distance(self, recipe: Recipe, made: bytes) -> float:
        """Mean |difference| of a sample by the spread of the captured elements, so that element types can be compared."""
        back = undone(self.captured, recipe)
        key = (recipe.bytes if back is not None else (), dtype_of(recipe.wanted))
        if key not in self.samples:
            theirs = sampled(self.captured if back is None else back, recipe.wanted)
            spread = float(np.abs(theirs - np.median(theirs)).mean()) if theirs.size else 0.0
            self.samples[key] = theirs, spread if np.isfinite(spread) and spread > 0 else 1.0
        theirs, spread = self.samples[key]
        ours = sampled(made if back is None else (undone(made, recipe) or made), recipe.wanted)
        away = float(np.abs(ours - theirs).mean()) / spread if ours.size else np.inf
        return away if np.isfinite(away) else np.inf

    def nearest(self, intended: Explanation) -> tuple[Explanation, Residual] | None:
        """The intended input itself is always among them."""
        found = []
        of_size = [(0.0, 0, intended)] if self.may(intended.recipe) else []
        for _, at, one in of_size + self.near:
            made, captured = self.reproduction.made(one.recipe), self.captured
            if (back := undone(captured, one.recipe)) is not None:
                made, captured = self.reproduction.packed(one.recipe), back
            found.append((one, residual(made, captured, one.recipe.wanted), at))
        best = min(found, key=lambda f: (f[1].mean_abs, len(f[0].causes), f[2]), default=None)
        return None if best is None else best[:2]


def _out_of_reach(trial: _Trial, start: Start) -> Iterator[str]:
    if trial.out_of_reach:
        names = ", ".join(sorted(trial.out_of_reach))
        known = {"fitted": "the picture before the resize", "elements": "the picture", "bytes": "a description"}
        yield f"all or part of {names}: {known[start.stage]} is needed"


def _grouped(start: Start, exact: list[Explanation]) -> list[list[Explanation]]:
    """By the bytes they give for noise in place of the picture."""
    if len(exact) < 2:
        return [exact] if exact else []
    rgb = None if start.rgb is None else np.asarray(_noise(start.rgb))
    noise = Start(start.stage, _noise(start.values), start.wanted, rgb)
    made, evidence = Reproduction(noise), replace(exact[0].recipe.evidence, rgb=rgb)
    groups: dict[bytes, list[Explanation]] = {}
    with np.errstate(all="ignore"):
        for one in exact:
            groups.setdefault(made.made(replace(one.recipe, evidence=evidence)), []).append(one)
    return list(groups.values())


def _noise(values: object) -> object:
    generator = np.random.Generator(np.random.PCG64(0))
    if isinstance(values, bytes):
        return generator.bytes(len(values))
    if isinstance(values, list):
        return [_noise(v) for v in values]
    assert isinstance(values, np.ndarray)
    if values.dtype.kind == "f":
        return np.asarray(generator.standard_normal(values.shape), values.dtype)
    limits = np.iinfo(values.dtype)
    return generator.integers(limits.min, limits.max, values.shape, values.dtype, endpoint=True)
