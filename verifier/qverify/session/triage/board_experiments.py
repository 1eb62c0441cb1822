"""Runs the experiments of triage (triage/experiments.py) on a connected board."""

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
from qverify.triage.experiments import DRAWS, MAX_EXPERIMENTS, MIN_EXPERIMENTS, NoOtherModel
from qverify.triage.probe_models import ProbeModel
from qverify.triage.probes import MAX_PROBES_SLOW, cost_bytes

NETWORK_SEED = 1000  # for experiments on the whole network; the frames of a run have smaller seeds


@dataclass(slots=True)
class UnitRun:
    """A run of a unit by itself on the board. digest: digest of the examined output. digests: digests of all outputs,
    by name. until: deadline on time.monotonic()'s clock."""

    digest: str
    board: Board
    unit: Unit
    output: str
    digests: dict[str, str]
    until: float = inf

    def fetch(self) -> Array:
        """Returns the examined output. Raises LinkError if the board fails."""
        with self.board.bounded_until(self.until):
            return self.board.fetch_unit(self.unit, self.digests)[self.output]


@dataclass(slots=True)
class BoardExperiments:
    """An ExperimentBoard that runs experiments on a connected board. After run_network, values of the recorded run can
    no longer be pulled.

    why_not: why no experiments can be run, "" if they can. most: largest number of experiments on a node. until:
    deadline on time.monotonic()'s clock."""

    board: Board
    why_not: str = ""
    most: int = MAX_EXPERIMENTS
    until: float = inf
    _last: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.why_not = "" if "inject" in self.board.capabilities else "the board runs no single node"
        self.most = MIN_EXPERIMENTS if self.board.slow_link else MAX_EXPERIMENTS

    def seeds(self, case: Case, kind: str, turn: int) -> range:
        """Returns the seeds of the inputs that are drawn in round `turn`."""
        return range(turn * DRAWS + 1, (turn + 1) * DRAWS + 1)

    def cost(self, case: Case) -> str:
        """Returns a text on how much the experiments on this case's unit transfer over a slow link; "" for another
        link."""
        if not self.board.slow_link:
            return ""
        size = sum(values.nbytes for values in case.inputs.values()) * (self.most + 1) + cost_bytes(case)
        seconds = size / estimate_rate(self.board.uri).bytes_per_s
        return f"experiments on {case.unit.name}: {self.most} runs of this node alone and up to {MAX_PROBES_SLOW} models of one node, about {size} bytes, {'under 1' if seconds < 1 else f'{seconds:.0f}'} s"

    def run_node(self, case: Case, inputs: Mapping[str, Array]) -> UnitRun:
        """Runs the case's unit by itself on these inputs."""
        with self.board.bounded_until(self.until):
            digests = self.board.start_unit(case.unit, inputs)
            if case.output in digests:
                return UnitRun(digests[case.output], self.board, case.unit, case.output, digests, self.until)
            value = self.board.fetch_unit(case.unit, digests)[case.output]
        return UnitRun(tensor_digest(value), self.board, case.unit, case.output, digests, self.until)

    def run_probe(self, case: Case, model: ProbeModel, probe_case: Case, kind: str, seed: int) -> Array:
        """Loads the model of a probe beside the user's, runs it, and returns its output. Raises NoOtherModel if the
        agent refuses the model, ends, or does not reply."""
        try:
            with self.board.bounded_until(self.until):
                return self.board.run_other(
                    encode(probe_case.graph), probe_case.graph, probe_case.unit, probe_case.inputs
                )[probe_case.output]
        except AgentError as error:
            raise NoOtherModel(f"the board does not run another model: {error}") from error
        except (LinkClosed, LinkTimeout) as error:
            raise NoOtherModel(f"the same op at {model.shape} could not be run: {error}") from error

    def run_network(self, case: Case, seed: int, names: frozenset[str]) -> Case:
        """Runs the whole network on random inputs. Returns the case with the board's values of that run. names: further
        tensors whose values the case also provides, of that run and of the run before it."""
        offered = {*self.board.graph.observable(), *self.board.graph.inputs}
        needed = sorted({*case.inputs, case.output, *(names & offered)})
        if names and not self._last.keys() >= set(needed):
            self._last = self._run(NETWORK_SEED, needed)
        before, self._last = self._last, self._run(NETWORK_SEED + seed, needed)
        values = self._last
        return replace(
            case,
            inputs={n: values[n] for n in case.inputs},
            recorded=values[case.output],
            board=partial(_find, values),
            previous=partial(_find, before),
            cache={},
            raw=None,
        )

    def _run(self, seed: int, names: list[str]) -> dict[str, Array]:
        """Runs the network on random inputs. Returns the inputs and the named tensors. Raises LinkError if the run did
        not end, because the board's tensors may then be those of another run."""
        prepared = random_inputs(self.board.graph, seed)
        with self.board.bounded_until(self.until):
            recording = self.board.run(prepared)
        if recording.state != "complete":
            raise LinkError(recording.why)
        inputs = prepared.arrays()
        return {**inputs, **self.board.pull([n for n in names if n not in inputs])}


def _find(values: Mapping[str, Array], name: str) -> Array | None:
    return values.get(name)
