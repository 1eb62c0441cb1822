"""Experiments on the board: causes that fit the recorded output predict the output for new inputs, and the board
decides between them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Protocol

from qverify import plural
from qverify.arithmetic.functions64 import log2_choices, log2_of
from qverify.tensors.digest import tensor_digest
from qverify.tensors.find import Find
from qverify.triage import evidence
from qverify.triage.case import Array, Case, element_bits
from qverify.triage.experiment_inputs import KINDS, draw_inputs
from qverify.triage.fault import DOES_NOT_FIT, Candidate, Fault

if TYPE_CHECKING:
    from qverify.triage.probe_models import ProbeModel

MIN_EXPERIMENTS = 3  # that a cause must predict to be confirmed
MAX_EXPERIMENTS = len(KINDS)  # in one round
MIN_DIFFERENT_WAYS = 2  # in which the predictions must differ from a healthy board's output
CERTAINTY_BITS = 16.0  # of evidence, beyond those of the choice among all faults that were tried
MAX_ROUNDS = 4  # of experiments of all kinds, while the evidence is not enough
OUT_OF_TIME = "the time limit was reached (--explain SECONDS)"
DRAWS = 2  # inputs drawn for each experiment, of which those with the most different predictions are run


class NoOtherModel(Exception):
    """Raised if a board runs no model other than the user's, with the reason as its text."""


class NodeRun(Protocol):
    """A unit that ran on the board: digest of its output, and fetch, which transfers the output."""

    @property
    def digest(self) -> str: ...

    def fetch(self) -> Array: ...


class ExperimentBoard(Protocol):
    """A board that is still connected. All methods that run something raise LinkError.

    Attributes:
        most: number of experiments that are worth their time on the board's link.
        why_not: the reason why the board cannot run a node by itself, or "" if it can.
        until: time of time.monotonic() at which every run ends at the latest.

    Methods:
        seeds: returns seeds of inputs of a kind, of which those with the most different predictions are run.
        cost: returns in words what the experiments cost on a slow link.
        run_node: runs the case's unit by itself on these inputs.
        run_network: runs the whole network on inputs drawn from the seed and returns the case recorded there.
        run_probe: runs a probe model of the case's unit on the inputs of `probe_case`, which were drawn by kind and
            seed, and returns the board's output. Raises NoOtherModel.
    """

    most: int
    why_not: str
    until: float

    def seeds(self, case: Case, kind: str, turn: int) -> Iterable[int]: ...

    def cost(self, case: Case) -> str: ...

    def run_node(self, case: Case, inputs: Mapping[str, Array]) -> NodeRun: ...

    def run_network(self, case: Case, seed: int, names: frozenset[str]) -> Case: ...

    def run_probe(self, case: Case, model: ProbeModel, probe_case: Case, kind: str, seed: int) -> Array: ...


@dataclass(frozen=True, slots=True)
class Experiment:
    """One run on drawn inputs.

    Attributes:
        place: "node" (the unit by itself), "network", or "probe" (the same op in another shape).
        kind: kind of the inputs, a key of KINDS, or "network" for random inputs of the network.
        seed: seed of the inputs.
        inputs: digest of each input by tensor name.
        board, simulator: digests of the board's output and of a healthy one.
        elements: number of elements of the output.
        changed: number of elements in which the best cause's prediction differs from a healthy output; of a probe, in
            which the board's output does.
        stood, fell: number of causes that predicted every byte, and of those that did not.
        shape: shape of a probe, in words.
        output: the board's output of a probe (probes.pack_output).
    """

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
    """A cause that fits the recorded bytes and failed an experiment (its number, counted from 1)."""

    cause: Fault
    experiment: int


@dataclass(slots=True)
class ExperimentSeries:
    """The outcome of all experiments.

    Attributes:
        standing: candidates that predicted every byte of every experiment.
        fallen: candidates that failed an experiment.
        bits: the evidence that the experiments give for the first standing candidate.
        confirmed: whether the experiments confirm it.
        why: the reason why they do not.
    """

    standing: list[Candidate]
    experiments: list[Experiment] = field(default_factory=list)
    fallen: list[FallenFault] = field(default_factory=list)
    bits: float = 0.0
    confirmed: bool = False
    why: str = ""


def run_experiments(
    case: Case, candidates: list[Candidate], board: ExperimentBoard, tried: int, deadline: float
) -> ExperimentSeries:
    """Runs experiments on the board that decide between causes. Raises LinkError if the board fails.

    Args:
        candidates: causes that give every recorded byte, the most specific first.
        tried: number of faults that were tried to find them.
        deadline: time of time.monotonic() after which no experiment starts.
    """
    series = _Series(case, candidates, board, tried, deadline)
    reads_others = any([reads_other_tensors(case, candidate) for candidate in candidates])
    is_over = time.monotonic() > deadline  # no experiment is run then
    alone = not board.why_not and not reads_others and (is_over or _is_repeated(case, board))
    series.run(alone)
    return series.conclude()


def _is_repeated(case: Case, board: ExperimentBoard) -> bool:
    """Returns whether the unit run by itself gives the recorded bytes, so that its fault does not depend on the rest of
    the network."""
    return board.run_node(case, case.inputs).digest == tensor_digest(case.recorded)


def reads_other_tensors(case: Case, candidate: Candidate) -> frozenset[str]:
    """Returns the tensors besides the unit's inputs from which a candidate computes its output."""
    names: set[str] = set()

    def traced(find: Find) -> Find:
        def find_and_note(name: str) -> Array | None:
            names.add(name)
            return find(name)

        return find_and_note

    traced_case = replace(case, board=traced(case.board), previous=traced(case.previous), cache=dict(case.cache))
    predict(traced_case, candidate)
    return frozenset(names - set(case.inputs))


def predict(case: Case, candidate: Candidate) -> Array | None:
    """Returns the output that the cause predicts for this case, or None if it does not fit the case."""
    try:
        output = candidate.variant.make(case)
    except DOES_NOT_FIT:
        return None
    fits = output.shape == case.recorded.shape and output.dtype == case.recorded.dtype
    return output if fits else None


def needed_bits(candidate: Candidate, tried: int) -> float:
    """Returns how many bits of evidence confirm a cause that was found among `tried` faults."""
    return log2_of(max(tried, 1)) + candidate.variant.bits + candidate.variant.part_bits + CERTAINTY_BITS


def lacking_evidence(series: ExperimentSeries, tried: int) -> str | None:
    """Returns the reason why the evidence does not confirm the first standing cause, or None if it does."""
    need = needed_bits(series.standing[0], tried)
    if series.bits >= need:
        return None
    return f"the experiments give {series.bits:.0f} bits of evidence, where {need:.0f} were wanted"


class _Series:
    def __init__(self, case: Case, candidates: list[Candidate], board: ExperimentBoard, tried: int, deadline: float):
        self.case, self.board, self.tried, self.deadline = case, board, tried, deadline
        self.result = ExperimentSeries(list(candidates))
        self.alone = True
        self.values = set[int]()  # some of the predicted values: many causes give one value everywhere
        self.shown = set[bytes]()  # predicted differences, each of which is evidence only once
        self.earlier: Array | None = None  # output of the experiment before, which remains where nothing is written

    def run(self, alone: bool) -> None:
        """Runs experiments, with `alone` on the node by itself, until they are enough or no candidate stands."""
        self.alone = alone
        kinds = list(KINDS)[: self.board.most]
        rounds = MAX_ROUNDS if len(kinds) == MAX_EXPERIMENTS else 1
        for number, (turn, kind) in enumerate(product(range(rounds), kinds), 1):
            if not self.result.standing or (turn and self._is_enough()):
                return
            if time.monotonic() > self.deadline:
                self.result.why = OUT_OF_TIME
                return
            try:
                self._run_node(kind, turn) if alone else self._run_network(number)
            except TimeoutError:
                self.result.why = OUT_OF_TIME
                return

    def _is_enough(self) -> bool:
        """Returns whether the first cause is confirmed and no other stands that random inputs can distinguish from
        it."""
        groups = {candidate.group for candidate in self.result.standing}
        return len(self.shown) >= MIN_DIFFERENT_WAYS and self.result.bits >= self._needed() and len(groups) == 1

    def _needed(self) -> float:
        return needed_bits(self.result.standing[0], self.tried)

    def _run_node(self, kind: str, turn: int) -> None:
        draws = [self._draw(kind, seed) for seed in self.board.seeds(self.case, kind, turn)]
        seed, case, predictions = max(draws, key=lambda draw: _count_differences(draw[1], draw[2]))
        run = self.board.run_node(case, case.inputs)
        needs_output = any(c.variant.free is not None for c in self.result.standing)
        self._judge(replace(case, recorded=run.fetch()) if needs_output else case, run.digest, predictions, kind, seed)

    def _draw(self, kind: str, seed: int) -> tuple[int, Case, list[Array | None]]:
        case = self.case.on_inputs(draw_inputs(self.case, kind, seed))
        return seed, case, self._predict_all(case)

    def _predict_all(self, case: Case) -> list[Array | None]:
        """Returns the prediction of each standing cause. Raises TimeoutError at the deadline, because an experiment for
        which only some causes have a prediction decides nothing."""
        predictions = []
        for candidate in self.result.standing:
            if time.monotonic() > self.deadline:
                raise TimeoutError
            predictions.append(predict(case, candidate))
        return predictions

    def _run_network(self, seed: int) -> None:
        names = frozenset().union(*(reads_other_tensors(self.case, c) for c in self.result.standing))
        case = self.board.run_network(self.case, seed, names)
        self._judge(case, tensor_digest(case.recorded), self._predict_all(case), "network", seed)

    def _judge(self, case: Case, board: str, predictions: list[Array | None], kind: str, seed: int) -> None:
        result, healthy = self.result, tensor_digest(case.healthy)
        stood, fell = list[Candidate](), list[Candidate]()
        first: Array | None = None
        for candidate, output in zip(result.standing, predictions, strict=True):
            is_right = (
                output is not None
                and _is_predicted(case, candidate, output, board)
                and self._is_left_unwritten(case, candidate)
            )
            first = output if is_right and first is None else first
            (stood if is_right else fell).append(candidate)
        changed = 0
        if first is not None:
            predicted = replace(case, recorded=first, cache={"healthy": case.healthy})
            changed = int(predicted.differing.size)
            self.values |= {int(value) for value in (element_bits(first).min(), element_bits(first).max())}
            difference = predicted.differing.tobytes() + element_bits(first)[predicted.differing].tobytes()
            if changed and difference not in self.shown:
                self.shown.add(difference)
                result.bits += _weigh(predicted, stood[0])
        inputs = {n: tensor_digest(v) for n, v in case.inputs.items()}
        place = "node" if self.alone else "network"
        number = len(result.experiments) + 1
        result.experiments.append(
            Experiment(place, kind, seed, inputs, board, healthy, case.recorded.size, changed, len(stood), len(fell))
        )
        result.fallen += [FallenFault(c.cause, number) for c in fell]
        result.standing, self.earlier = stood, case.recorded

    def _is_left_unwritten(self, case: Case, candidate: Candidate) -> bool:
        """Returns whether the elements that the candidate leaves unwritten are as the experiment before left them. True
        for the whole network, where other nodes write there."""
        free = candidate.variant.free
        if free is None or self.earlier is None or not self.alone:
            return True
        return bool((element_bits(case.recorded)[free] == element_bits(self.earlier)[free]).all())

    def conclude(self) -> ExperimentSeries:
        """Returns the result, with confirmed and why set."""
        result, count = self.result, len(self.result.experiments)
        if not result.standing:
            result.why = f"no cause gave every byte of experiment {count}" if count else "no experiment was run"
        elif count < MIN_EXPERIMENTS:
            result.why = result.why or f"only {count} of {MIN_EXPERIMENTS} experiments were run"
        elif len(self.shown) < MIN_DIFFERENT_WAYS:
            ways = plural.count(len(self.shown), "different way")
            result.why = f"the fault showed in {ways} in {count} experiments, where {MIN_DIFFERENT_WAYS} were wanted"
        elif len(self.values) == 1 and result.standing[0].variant.free is None:
            result.why = "the board gave one value everywhere in every experiment, for which there are many causes"
        elif (why := lacking_evidence(result, self.tried)) is not None:
            result.why = why
        else:
            result.confirmed = True
        return result


def _count_differences(case: Case, predictions: list[Array | None]) -> tuple[int, int]:
    """Returns the number of different outputs that are predicted, and the number of elements in which the first of them
    differs from a healthy output."""
    outputs = [p for p in predictions if p is not None]
    first = int((element_bits(outputs[0]) != element_bits(case.healthy)).sum()) if outputs else 0
    return len({tensor_digest(p) for p in outputs}), first


def _weigh(case: Case, candidate: Candidate) -> float:
    """Returns the bits of evidence of a predicted output. Elements that nothing predicts count by their places alone,
    and only if their values are unrelated to the healthy ones."""
    free = candidate.variant.free
    if free is None:
        return evidence.difference_bits(case)
    return log2_choices(case.recorded.size, case.differing.size) if evidence.is_unrelated(case, free) else 0.0


def _is_predicted(case: Case, candidate: Candidate, output: Array, board: str) -> bool:
    free = candidate.variant.free
    if free is None:
        return tensor_digest(output) == board
    return bool((element_bits(output) == element_bits(case.recorded))[~free].all())
