"""Case: one blamed unit with the board's inputs and output, which a hypothesis computes again with a fault in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify import ops
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import Unit
from qverify.tensors.find import Find, find_nothing
from qverify.tensors.spec import TensorSpec
from qverify.triage.drawn_integers import draw_integers

Array = npt.NDArray[Any]
SMALL_INTEGERS = ("int32", "int64", "bool")  # of indices and conditions, for which most random values would be illegal


class OutOfTime(Exception):
    """Raised while a page examines faults, if the limit of computing was reached."""


@dataclass(frozen=True, slots=True)
class UnitChange:
    """Changes with which a unit is computed again.

    Attributes:
        inputs, constants: new values by tensor name, with the shape and dtype of those they replace, unless specs
            contains others.
        specs: new specs by tensor name.
        nodes: new nodes by node name.
        rounding: another rounding mode, or "" for the graph's own.
    """

    inputs: Mapping[str, Array] = field(default_factory=dict)
    constants: Mapping[str, Array] = field(default_factory=dict)
    specs: Mapping[str, TensorSpec] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    rounding: str = ""

    @property
    def changes_graph(self) -> bool:
        """Whether anything other than the inputs changes."""
        return bool(self.constants or self.specs or self.nodes or self.rounding)


@dataclass(slots=True)
class Case:
    """One blamed unit.

    Attributes:
        inputs: the valid elements that the unit read on the board, by tensor name.
        output: name of the output that is examined.
        recorded: the board's values of that output, in the shape and dtype of its spec.
        board: looks up any other tensor of this run; returns None for a tensor that is not available.
        previous: the same for any tensor of the previous frame.
        raw: the output's aligned bytes, or None if they are not known.
        cache: values that compute_once and others keep for this case, by name.
        states: prepared states of the nodes, by node name.
    """

    graph: Graph
    unit: Unit
    inputs: Mapping[str, Array]
    output: str
    recorded: Array
    board: Find = find_nothing
    previous: Find = find_nothing
    raw: bytes | None = None
    cache: dict[str, Any] = field(default_factory=dict, repr=False)
    states: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def spec(self) -> TensorSpec:
        """The output's spec."""
        return self.graph.spec(self.output)

    @property
    def last(self) -> Node:
        """The node that computes the output."""
        return self.unit.nodes[-1]

    @property
    def healthy(self) -> Array:
        """The output of a board without a fault: what the simulator computes from the same inputs."""
        return self.compute_once("healthy", lambda: self.recompute(UnitChange()))

    @property
    def differing(self) -> Array:
        """Flat indices of the elements whose bytes differ, ascending."""
        return self.compute_once(
            "differing", lambda: np.flatnonzero(element_bits(self.healthy) != element_bits(self.recorded))
        )

    def compute_once(self, name: str, make: Callable[[], Any]) -> Any:
        """Returns make(), which is called only at the first call with this name."""
        if name not in self.cache:
            self.cache[name] = make()
        return self.cache[name]

    def count_tried(self, number: int = 1, texts: Iterable[str] = ()) -> None:
        """Counts faults that a hypothesis examined and did not yield because they do not fit: these were tried, too. Raises
        OutOfTime after the time that is set as "end" in the cache, on time.process_time()'s clock."""
        if time.process_time() > self.cache.get("end", inf):
            raise OutOfTime
        self.cache["tried"] = self.cache.get("tried", 0) + number
        if "texts" in self.cache:
            self.cache["texts"].update(texts)

    def note_texts(self) -> set[str]:
        """Returns a set to which count_tried adds the texts of the faults it counts from now on."""
        return self.compute_once("texts", lambda: set[str]())

    @property
    def number_tried(self) -> int:
        """The number of faults that count_tried has counted."""
        return int(self.cache.get("tried", 0))

    def recompute(self, change: UnitChange) -> Array:
        """Returns the output with this change. Raises the op's own exceptions for words or shapes that do not fit
        it."""
        graph = self.graph
        if change.changes_graph:
            graph = replace(
                graph,
                tensors={**graph.tensors, **change.specs},
                constants={**graph.constants, **change.constants},
                rounding=change.rounding or graph.rounding,
            )
        values = {**self.inputs, **change.inputs}
        for node in self.unit.nodes:
            state = ops.prepare(node, self.graph) if node.name not in self.states else self.states[node.name]
            self.states[node.name] = state
            if change.changes_graph:
                node, state = change.nodes.get(node.name, node), None
            values |= ops.simulate_node(graph, node, values, state)
        return values[self.output]

    def change_words(self, **changed: int) -> UnitChange:
        """Returns the change that replaces these parameter words of the last node."""
        words = {**ops.words(self.last), **changed}
        return UnitChange(nodes={self.last.name: replace(self.last, words=tuple(words.values()))})

    def on_inputs(self, inputs: Mapping[str, Array]) -> Case:
        """Returns the case of the same unit on other inputs, run by itself: no other tensor is known. Its output was
        not recorded, so `recorded` is still that of this case."""
        return replace(self, inputs=inputs, board=find_nothing, previous=find_nothing, cache={}, raw=None)

    def on_noise(self, seed: int) -> Case:
        """Returns the case of the same unit on random inputs (integers legal for their node); all other tensors are
        random, too."""
        inputs = {name: self._noise_for(name, value, seed) for name, value in self.inputs.items()}
        lookup = partial(_noise_of, self, seed)
        return replace(
            self,
            inputs=inputs,
            board=partial(lookup, "board"),
            previous=partial(lookup, "previous"),
            cache={},
            raw=None,
        )

    def _noise_for(self, name: str, values: Array, seed: int) -> Array:
        if values.dtype.name not in SMALL_INTEGERS:
            return noise(values, name, seed)
        rng = np.random.Generator(np.random.PCG64([seed, *name.encode()]))
        return draw_integers(self.graph, self.unit, name, values, "uniform", rng)


def element_bits(values: Array) -> Array:
    """Returns the elements as flat unsigned integers, so that -0.0 differs from 0.0 and a NaN is equal to itself."""
    return np.asanyarray(values, order="C").reshape(-1).view(f"u{values.dtype.itemsize}")


def limits(spec: TensorSpec) -> tuple[int, int]:
    """Returns the smallest and the largest integer of a quantized tensor's dtype."""
    info = np.iinfo(spec.dtype)
    return int(info.min), int(info.max)


def noise(values: Array, name: str, seed: int) -> Array:
    """Returns random values of the same shape and dtype: integers uniform over the type, floats over the range of
    `values`. Indices and conditions are returned unchanged."""
    rng = np.random.Generator(np.random.PCG64([seed, *name.encode()]))
    if values.dtype.name in SMALL_INTEGERS:
        return values
    if values.dtype.kind == "f":
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (-1.0, 1.0)
        return rng.uniform(low, high or 1.0, values.shape).astype(values.dtype)
    info = np.iinfo(values.dtype)
    return rng.integers(info.min, info.max, values.shape, values.dtype, endpoint=True)


def _noise_of(case: Case, seed: int, frame: str, name: str) -> Array | None:
    values = getattr(case, frame)(name)
    return None if values is None else noise(values, frame + name, seed)


def constants_of(case: Case) -> Iterator[tuple[Node, int, str]]:
    """Yields (node, input number, name) for every constant that the unit reads."""
    for node in case.unit.nodes:
        for at, name in enumerate(node.inputs):
            if name is not None and name in case.graph.constants:
                yield node, at, name
