"""Experiments on the board: causes that fit a recorded output predict it for new inputs, and the board decides."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from math import log2
from typing import TYPE_CHECKING, Protocol

from qverify import plural
from qverify.tensors.digest import tensor_digest
from qverify.triage import evidence
from qverify.triage.case import Array, Case, Find, bits
from qverify.triage.experiment_inputs import KINDS, draw_inputs
from qverify.triage.fault import DOES_NOT_FIT, Candidate, Fault

if TYPE_CHECKING:
    from qverify.triage.probe_models import ProbeModel

ENOUGH, MOST = 3, len(KINDS)  # experiments that a cause must predict; that are run
SHOWING = 2  # of which at least so many must differ from a healthy board's output
CERTAIN = 16.0  # bits of evidence beyond the choice among all that was tried
ROUNDS = 4  # in which all kinds are drawn, while the evidence is not enough
OUT_OF_TIME = "the time limit was reached (--explain SECONDS)"
DRAWS = 2  # inputs drawn for each experiment, of which the more telling ones are run


class NoOtherModel(Exception):
    """Raised where a board runs no other model than the user's; the text says why."""


class NodeRun(Protocol):
    """A unit that ran on the board. digest: of its output. fetch: returns the output."""

    @property
    def digest(self) -> str: ...

    def fetch(self) -> Array: ...


class ExperimentBoard(Protocol):
    """A board that is still connected. most: experiments worth their time on its link. run_node runs a case's unit on
    inputs of its own. run_network runs the whole network on inputs drawn from the seed and returns the case as
    recorded there. why_not: why it cannot run a node by itself, "" where it can. seeds: of inputs of a kind to draw, of which
    the most telling are run. cost: what the experiments take on a slow link, in words. until: on time.monotonic()'s
    clock; no run takes longer. run_probe: the output that the board gives in a probe of the case's unit, on the inputs of
    `made`, drawn by kind and seed; raises NoOtherModel. The runs raise LinkError."""

    most: int
    why_not: str
    until: float

    def seeds(self, case: Case, kind: str, turn: int) -> Iterable[int]: ...

    def cost(self, case: Case) -> str: ...

    def run_node(self, case: Case, inputs: Mapping[str, Array]) -> NodeRun: ...

    def run_network(self, case: Case, seed: int, names: frozenset[str]) -> Case: ...

    def run_probe(self, case: Case, model: ProbeModel, made: Case, kind: str, seed: int) -> Array: ...


@dataclass(frozen=True, slots=True)
class Experiment:
    """One run on drawn inputs. place: "node" (the unit by itself), "network", or "probe" (the same op in another shape;
    changed is then what the board gave otherwise). kind, seed: of the inputs (KINDS; for a
    network, random inputs of this seed). inputs: digest by tensor. board, simulator: digests of the board's output and
    of a healthy one. elements: of the output. changed: those in which the best cause's prediction differs from a
    healthy output. stood, fell: causes that gave every byte, and that did not. shape: of a probe, in words. output: the board's
    output of a probe (probes.pack_output)."""

    place: str
    kind: str
    seed: int
    inputs: dict[str, str]
    board: str
    simulator: str
    elements: int
    changed: int
    stood: int
    fell: int
    shape: str = ""
    output: str = ""


@dataclass(frozen=True, slots=True)
class FallenFault:
    """A cause that fits the recorded bytes and failed an experiment. experiment: its number, from 1."""

    cause: Fault
    experiment: int


@dataclass(slots=True)
class ExperimentSeries:
    """The outcome. standing: candidates that gave every byte of every experiment. bits: the evidence of the experiments
    for the first of them. confirmed: whether that decides. why: the reason where it does not."""

    standing: list[Candidate]
    experiments: list[Experiment] = field(default_factory=list)
    fallen: list[FallenFault] = field(default_factory=list)
    bits: float = 0.0
    confirmed: bool = False
    why: str = ""


def run_experiments(
    case: Case, candidates: list[Candidate], board: ExperimentBoard, tried: int, deadline: float
) -> ExperimentSeries:
    """Lets the board decide between causes. candidates: the most specific first, each of which gives every recorded
    byte. tried: faults tried to find them. deadline: on time.monotonic()'s clock; no experiment starts after it. Raises
    LinkError where the board fails."""
    series = _Series(case, candidates, board, tried, deadline)
    reading = {c.variant.said for c in candidates if reads_other_tensors(case, c)}
    over = time.monotonic() > deadline  # then none is run
    alone = not board.why_not and not reading and (over or _is_repeated(case, board))
    series.run(alone)
    return series.conclude()


def _is_repeated(case: Case, board: ExperimentBoard) -> bool:
    """Returns whether the unit run by itself gives the recorded bytes: its fault does not come from the run around
    it."""
    return board.run_node(case, case.inputs).digest == tensor_digest(case.recorded)


def reads_other_tensors(case: Case, candidate: Candidate) -> frozenset[str]:
    """Returns the tensors besides the unit's inputs from which a candidate computes its output."""
    names: set[str] = set()

    def noted(find: Find) -> Find:
        def look(name: str) -> Array | None:
            names.add(name)
            return find(name)

        return look

    traced = replace(case, board=noted(case.board), previous=noted(case.previous), cache=dict(case.cache))
    predict(traced, candidate)
    return frozenset(names - set(case.inputs))


def predict(case: Case, candidate: Candidate) -> Array | None:
    """Returns the output that the cause gives in this case; None where it cannot say."""
    try:
        output = candidate.variant.make(case)
    except DOES_NOT_FIT:
        return None
    fits = output.shape == case.recorded.shape and output.dtype == case.recorded.dtype
    return output if fits else None


def needed_bits(candidate: Candidate, tried: int) -> float:
    """Returns the bits of evidence that confirm a cause. tried: faults tried to find it."""
    return log2(max(tried, 1)) + candidate.variant.bits + candidate.variant.part_bits + CERTAIN


def lacking_evidence(series: ExperimentSeries, tried: int) -> str | None:
    """Returns why the experiments do not confirm the first cause that stands, or None."""
    need = needed_bits(series.standing[0], tried)
    if series.bits >= need:
        return None
    return f"the experiments give {series.bits:.0f} bits of evidence, where {need:.0f} were wanted"


class _Series:
    def __init__(self, case: Case, candidates: list[Candidate], board: ExperimentBoard, tried: int, deadline: float):
        self.case, self.board, self.tried, self.deadline = case, board, tried, deadline
        self.result = ExperimentSeries(list(candidates))
        self.alone = True
        self.values = set[int]()  # some of those that were predicted: one value alone has many causes
        self.shown = set[bytes]()  # differences that were predicted, each of which is evidence once
        self.left: Array | None = None  # the output before, which stays where nothing is written

    def run(self, alone: bool) -> None:
        """Runs experiments until enough are done or no candidate stands. alone: on the node by itself."""
        self.alone = alone
        kinds = list(KINDS)[: self.board.most]
        rounds = ROUNDS if len(kinds) == MOST else 1
        for number, (turn, kind) in enumerate(product(range(rounds), kinds), 1):
            if not self.result.standing or (turn and self._is_enough()):
                return
            if time.monotonic() > self.deadline:
                self.result.why = OUT_OF_TIME
                return
            try:
                self._on_the_node(kind, turn) if alone else self._on_the_network(number)
            except TimeoutError:
                self.result.why = OUT_OF_TIME
                return

    def _is_enough(self) -> bool:
        """Returns whether the first cause is confirmed, and no other that random inputs tell from it stands."""
        groups = {candidate.group for candidate in self.result.standing}
        return len(self.shown) >= SHOWING and self.result.bits >= self._needed() and len(groups) == 1

    def _needed(self) -> float:
        return needed_bits(self.result.standing[0], self.tried)

    def _on_the_node(self, kind: str, turn: int) -> None:
        drawn = [self._drawn(kind, seed) for seed in self.board.seeds(self.case, kind, turn)]
        seed, case, predictions = max(drawn, key=lambda d: _telling(d[1], d[2]))
        run = self.board.run_node(case, case.inputs)
        free = any(c.variant.free is not None for c in self.result.standing)
        self._judge(replace(case, recorded=run.fetch()) if free else case, run.digest, predictions, kind, seed)

    def _drawn(self, kind: str, seed: int) -> tuple[int, Case, list[Array | None]]:
        case = self.case.on_inputs(draw_inputs(self.case, kind, seed))
        return seed, case, self._predictions(case)

    def _predictions(self, case: Case) -> list[Array | None]:
        """Returns what each cause predicts. Raises TimeoutError at the deadline, as an experiment that only some causes
        were asked about decides nothing."""
        predictions = []
        for candidate in self.result.standing:
            if time.monotonic() > self.deadline:
                raise TimeoutError
            predictions.append(predict(case, candidate))
        return predictions

    def _on_the_network(self, seed: int) -> None:
        names = frozenset().union(*(reads_other_tensors(self.case, c) for c in self.result.standing))
        case = self.board.run_network(self.case, seed, names)
        self._judge(case, tensor_digest(case.recorded), self._predictions(case), "network", seed)

    def _judge(self, case: Case, board: str, predictions: list[Array | None], kind: str, seed: int) -> None:
        result, healthy = self.result, tensor_digest(case.healthy)
        stood, fell = list[Candidate](), list[Candidate]()
        first: Array | None = None
        for candidate, output in zip(result.standing, predictions, strict=True):
            held = output is not None and _is_predicted(case, candidate, output, board) and self._stays(case, candidate)
            first = output if held and first is None else first
            (stood if held else fell).append(candidate)
        changed = 0
        if first is not None:
            shown = replace(case, recorded=first, cache={"healthy": case.healthy})
            changed = int(shown.differing.size)
            self.values |= {int(value) for value in (bits(first).min(), bits(first).max())}
            difference = shown.differing.tobytes() + bits(first)[shown.differing].tobytes()
            if changed and difference not in self.shown:
                self.shown.add(difference)
                result.bits += _weigh(shown, stood[0])
        inputs = {n: tensor_digest(v) for n, v in case.inputs.items()}
        place = "node" if self.alone else "network"
        number = len(result.experiments) + 1
        result.experiments.append(
            Experiment(place, kind, seed, inputs, board, healthy, case.recorded.size, changed, len(stood), len(fell))
        )
        result.fallen += [FallenFault(c.cause, number) for c in fell]
        result.standing, self.left = stood, case.recorded

    def _stays(self, case: Case, candidate: Candidate) -> bool:
        """Returns whether elements that are said not to be written are as the experiment before left them. On the
        whole network other nodes write there."""
        free = candidate.variant.free
        if free is None or self.left is None or not self.alone:
            return True
        return bool((bits(case.recorded)[free] == bits(self.left)[free]).all())

    def conclude(self) -> ExperimentSeries:
        """Returns the result with its decision."""
        result, count = self.result, len(self.result.experiments)
        if not result.standing:
            result.why = f"no cause gave every byte of experiment {count}" if count else "no experiment was run"
        elif count < ENOUGH:
            result.why = result.why or f"only {count} of {ENOUGH} experiments were run"
        elif len(self.shown) < SHOWING:
            ways = plural.count(len(self.shown), "different way")
            result.why = f"the fault showed in {ways} in {count} experiments, where {SHOWING} were wanted"
        elif len(self.values) == 1 and result.standing[0].variant.free is None:
            result.why = "the board gave one value everywhere in every experiment, for which there are many causes"
        elif (why := lacking_evidence(result, self.tried)) is not None:
            result.why = why
        else:
            result.confirmed = True
        return result


def _telling(case: Case, predictions: list[Array | None]) -> tuple[int, int]:
    """Returns how many different outputs are predicted, and in how many elements the first differs from a healthy
    one."""
    outputs = [p for p in predictions if p is not None]
    first = int((bits(outputs[0]) != bits(case.healthy)).sum()) if outputs else 0
    return len({tensor_digest(p) for p in outputs}), first


def _weigh(case: Case, candidate: Candidate) -> float:
    """Returns the bits of evidence of a predicted output. Elements that nothing predicts count by their places alone,
    and only where they are unrelated to the healthy ones."""
    free = candidate.variant.free
    if free is None:
        return evidence.difference_bits(case)
    return evidence.log2_choices(case.recorded.size, case.differing.size) if evidence.unrelated(case, free) else 0.0


def _is_predicted(case: Case, candidate: Candidate, output: Array, board: str) -> bool:
    free = candidate.variant.free
    if free is None:
        return tensor_digest(output) == board
    return bool((bits(output) == bits(case.recorded))[~free].all())
