"""A connected board as experiments see it (triage/experiments.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

from qverify_agents.errors import AgentError, LinkClosed, LinkError, LinkTimeout
from qverify_agents.link_estimates import estimate_rate

from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.records import encode
from qverify.model_bin.units import Unit
from qverify.sides.board import Board
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Array
from qverify.triage.case import Case
from qverify.triage.experiments import DRAWS, ENOUGH, MOST, NoOtherModel
from qverify.triage.probe_models import ProbeModel
from qverify.triage.probes import MOST_SLOW, cost_bytes

NETWORK_SEED = 1000  # of the first experiment on the whole network; frames of a run have smaller ones


@dataclass(slots=True)
class UnitRun:
    """A unit that ran on the board by itself. digest: of the output examined. fetch: returns that output."""

    digest: str
    board: Board
    unit: Unit
    output: str
    digests: dict[str, str]
    until: float = inf

    def fetch(self) -> Array:
        with self.board.ending(self.until):
            return self.board.fetch_unit(self.unit, self.digests)[self.output]


@dataclass(slots=True)
class BoardExperiments:
    """An ExperimentBoard. Once run_network ran, values of the recorded run can no longer be pulled."""

    board: Board
    why_not: str = ""
    most: int = MOST
    until: float = inf
    _last: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.why_not = "" if "inject" in self.board.capabilities else "the board runs no single node"
        self.most = ENOUGH if self.board.slow_link else MOST

    def seeds(self, case: Case, kind: str, turn: int) -> range:
        """Returns the seeds of the inputs to draw in this round."""
        return range(turn * DRAWS + 1, (turn + 1) * DRAWS + 1)

    def cost(self, case: Case) -> str:
        """Returns what the experiments on this case's unit take on a slow link, in words; "" on any other."""
        if not self.board.slow_link:
            return ""
        size = sum(values.nbytes for values in case.inputs.values()) * (self.most + 1) + cost_bytes(case)
        seconds = size / estimate_rate(self.board.uri).bytes_per_s
        return f"experiments on {case.unit.name}: {self.most} runs of this node alone and up to {MOST_SLOW} models of one node, about {size} bytes, {'under 1' if seconds < 1 else f'{seconds:.0f}'} s"

    def run_node(self, case: Case, inputs: Mapping[str, Array]) -> UnitRun:
        """Runs the case's unit by itself."""
        with self.board.ending(self.until):
            digests = self.board.start_unit(case.unit, inputs)
            if case.output in digests:
                return UnitRun(digests[case.output], self.board, case.unit, case.output, digests, self.until)
            value = self.board.fetch_unit(case.unit, digests)[case.output]
        return UnitRun(tensor_digest(value), self.board, case.unit, case.output, digests, self.until)

    def run_probe(self, case: Case, model: ProbeModel, made: Case, kind: str, seed: int) -> Array:
        """Loads a probe's model beside the user's, runs it, and returns its output. Raises NoOtherModel where the agent
        refuses it, ends or hangs."""
        try:
            with self.board.ending(self.until):
                return self.board.run_other(encode(made.graph), made.graph, made.unit, made.inputs)[made.output]
        except AgentError as error:
            raise NoOtherModel(f"the board does not run another model: {error}") from error
        except (LinkClosed, LinkTimeout) as error:
            raise NoOtherModel(f"the same op at {model.shape} could not be run: {error}") from error

    def run_network(self, case: Case, seed: int, names: frozenset[str]) -> Case:
        """Runs the whole network on random inputs. Returns the case as the board had it then; of other tensors, those
        named are known, of this run and of the one before."""
        offered = {*self.board.graph.observable(), *self.board.graph.inputs}
        wanted = sorted({*case.inputs, case.output, *(names & offered)})
        if names and not self._last.keys() >= set(wanted):
            self._last = self._run(NETWORK_SEED, wanted)
        before, self._last = self._last, self._run(NETWORK_SEED + seed, wanted)
        values = self._last
        return replace(
            case,
            inputs={n: values[n] for n in case.inputs},
            recorded=values[case.output],
            board=partial(_find, values),
            previous=partial(_find, before),
            kept={},
            raw=None,
        )

    def _run(self, seed: int, wanted: list[str]) -> dict[str, Array]:
        prepared = random_inputs(self.board.graph, seed)
        with self.board.ending(self.until):
            ran = self.board.run(prepared)
        if ran.state != "complete":  # what it holds may be of another run
            raise LinkError(ran.why)
        given = prepared.arrays()
        return {**given, **self.board.pull([n for n in wanted if n not in given])}


def _find(values: Mapping[str, Array], name: str) -> Array | None:
    return values.get(name)
