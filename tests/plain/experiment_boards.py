"""Boards of experiments within this process: one unit with a fault planted in it, which runs on whatever inputs are drawn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np
from qverify.model_bin.units import units
from qverify.tensors.digest import tensor_digest
from qverify.triage.case import SMALL_INTEGERS, Case
from qverify.triage.experiments import DRAWS, MAX_EXPERIMENTS, ExperimentSeries, NoOtherModel, run_experiments
from qverify.triage.fault import Candidate, Fault
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.probe_models import ProbeModel
from qverify_agents.errors import LinkClosed

from tests.plain.forensic_units import Small, generator

Array = Any
Way = Callable[[Case], Array]
LATER = 600.0  # seconds, of which no test needs one


@dataclass
class Ran:
    output: Array
    fetched: int = 0

    @property
    def digest(self) -> str:
        return tensor_digest(self.output)

    def fetch(self) -> Array:
        self.fetched += 1
        return self.output


@dataclass
class FaultyUnit:
    """An ExperimentBoard. alone: what the unit gives when it runs by itself. within: what it gives in the run of the
    network, whose other tensors are `others` and, of the run before, the same under the seed before. elsewhere: what the
    same op gives in other shapes; None where it runs no other model. lasts: experiments until the link is lost."""

    alone: Way
    within: Way | None = None
    others: Callable[[int], Mapping[str, Array]] = lambda seed: {}
    most: int = MAX_EXPERIMENTS
    why_not: str = ""
    until: float = inf
    elsewhere: Way | None = None
    probed: list[str] = field(default_factory=list)
    lasts: int = 1000
    ran: list[Ran] = field(default_factory=list)
    asked: list[frozenset[str]] = field(default_factory=list)

    def seeds(self, case: Case, kind: str, turn: int) -> range:
        return range(turn * DRAWS + 1, (turn + 1) * DRAWS + 1)

    def cost(self, case: Case) -> str:
        return ""

    def run_node(self, case: Case, inputs: Mapping[str, Array]) -> Ran:
        self._live()
        self.ran.append(Ran(np.asarray(self.alone(case.on_inputs(inputs)))))
        return self.ran[-1]

    def run_network(self, case: Case, seed: int, names: frozenset[str]) -> Case:
        self._live()
        self.asked.append(names)
        rng = generator(1000 + seed)
        inputs = {n: random_like(v, rng) for n, v in case.inputs.items()}
        now, before = self.others(seed), self.others(seed - 1)
        new = replace(case, inputs=inputs, board=now.get, previous=before.get, cache={}, raw=None)
        return replace(new, recorded=np.asarray((self.within or self.alone)(new)), cache={})

    def run_probe(self, case: Case, model: ProbeModel, probe_case: Case, kind: str, seed: int) -> Array:
        self._live()
        if self.elsewhere is None:
            raise NoOtherModel("this board has one model")
        self.probed.append(model.shape)
        return np.asarray(self.elsewhere(probe_case))

    def _live(self) -> None:
        self.lasts -= 1
        if self.lasts < 0:
            raise LinkClosed("the board is gone.\nNext: look whether it is powered")


def random_like(values: Array, rng: np.random.Generator) -> Array:
    if values.dtype.kind == "f":
        return rng.normal(0, 1, values.shape).astype(values.dtype)
    if values.dtype.name in SMALL_INTEGERS:
        return rng.permutation(values.reshape(-1)).reshape(values.shape)
    info = np.iinfo(values.dtype)
    return rng.integers(info.min, info.max, values.shape, values.dtype, endpoint=True)


def unit(way: Way, shape: tuple[int, ...] = (1, 3, 5, 7), dtype: str = "int8", **more: Any) -> Case:
    """A unit that gives its input as it is, with what the board recorded under a fault."""
    x = random_like(np.zeros(shape, dtype), generator(40))
    small = Small("reshape", (), (dtype, 0.1, 0), shape, x=(x, 0.1, 0))
    case = Case(small.graph, units(small.graph)[0], {"x": x}, "y", x, **more)
    return replace(case, recorded=np.asarray(way(case)), cache={})


def cause(said: str, way: Way, bits: float = 3.0, **more: Any) -> Candidate:
    return Candidate(Fault("a family", said, bits), FaultVariant(said, way, bits, **more))


def decided(
    case: Case, board: FaultyUnit, *causes: Candidate, tried: int = 50, wait: float = LATER
) -> ExperimentSeries:
    return run_experiments(case, [*causes], board, tried, time.monotonic() + wait)


def flipped(bit: int) -> Way:
    return lambda case: case.healthy ^ case.healthy.dtype.type(1 << bit)
