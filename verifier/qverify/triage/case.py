"""Case: one blamed unit with what the board fed it and what came out; how a hypothesis runs the unit another way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify import ops
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import Unit
from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[Any]
Find = Callable[[str], Array | None]
SMALL_INTEGERS = ("int32", "int64", "bool")  # indices and conditions: noise would be out of range


def nothing(_: str) -> Array | None:
    return None


@dataclass(frozen=True, slots=True)
class Change:
    """What is otherwise when the unit runs again, by name. constants and inputs keep shape and dtype of what they stand for
    (a spec given beside them may say otherwise)."""

    inputs: Mapping[str, Array] = field(default_factory=dict)
    constants: Mapping[str, Array] = field(default_factory=dict)
    specs: Mapping[str, TensorSpec] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    rounding: str = ""

    @property
    def of_graph(self) -> bool:
        return bool(self.constants or self.specs or self.nodes or self.rounding)


@dataclass(slots=True)
class Case:
    """inputs: what the unit read, valid elements by tensor name, as the board had them. output: the unit's output looked at.
    recorded: what the board made of it, shape and dtype of its spec. raw: its aligned bytes, where known. board, previous:
    another tensor of this run, and any tensor of the frame before, looked up when asked for; None where there is none."""

    graph: Graph
    unit: Unit
    inputs: Mapping[str, Array]
    output: str
    recorded: Array
    board: Find = nothing
    previous: Find = nothing
    raw: bytes | None = None
    kept: dict[str, Any] = field(default_factory=dict, repr=False)
    states: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def spec(self) -> TensorSpec:
        return self.graph.spec(self.output)

    @property
    def last(self) -> Node:
        """The node that makes the output."""
        return self.unit.nodes[-1]

    @property
    def made(self) -> Array:
        """What the simulator makes of the inputs."""
        return self.once("made", lambda: self.again(Change()))

    @property
    def differing(self) -> Array:
        """Flat places of the elements whose bytes differ, ascending."""
        return self.once("differing", lambda: np.flatnonzero(bits(self.made) != bits(self.recorded)))

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Computed when first asked for."""
        if name not in self.kept:
            self.kept[name] = make()
        return self.kept[name]

    def again(self, change: Change) -> Array:
        """The output with this change. Whatever the op raises for words or shapes that do not fit."""
        graph = self.graph
        if change.of_graph:
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
            if change.of_graph:
                node, state = change.nodes.get(node.name, node), None
            values |= ops.simulate_node(graph, node, values, state)
        return values[self.output]

    def words(self, **changed: int) -> Change:
        """The last node with other words."""
        words = {**ops.words(self.last), **changed}
        return Change(nodes={self.last.name: replace(self.last, words=tuple(words.values()))})

    def on_noise(self, seed: int) -> Case:
        """The same unit on random inputs; other tensors are random, too."""
        made = {name: noise(value, name, seed) for name, value in self.inputs.items()}
        lookup = partial(_noise_of, self, seed)
        return replace(
            self, inputs=made, board=partial(lookup, "board"), previous=partial(lookup, "previous"), kept={}, raw=None
        )


def bits(values: Array) -> Array:
    """Flat, as unsigned integers, so that -0.0 is not 0.0 and a NaN equals itself."""
    return np.ascontiguousarray(values).reshape(-1).view(f"u{values.dtype.itemsize}")


def limits(spec: TensorSpec) -> tuple[int, int]:
    """Of the type of a quantized tensor."""
    of = np.iinfo(spec.dtype)
    return int(of.min), int(of.max)


def noise(values: Array, name: str, seed: int) -> Array:
    """Uniform over the type, floats over the values' own range; indices and conditions stay as they are."""
    rng = np.random.Generator(np.random.PCG64([seed, *name.encode()]))
    if values.dtype.name in SMALL_INTEGERS:
        return values
    if values.dtype.kind == "f":
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (-1.0, 1.0)
        return rng.uniform(low, high or 1.0, values.shape).astype(values.dtype)
    of = np.iinfo(values.dtype)
    return rng.integers(of.min, of.max, values.shape, values.dtype, endpoint=True)


def _noise_of(case: Case, seed: int, frame: str, name: str) -> Array | None:
    found = getattr(case, frame)(name)
    return None if found is None else noise(found, frame + name, seed)


def constants_of(case: Case) -> Iterator[tuple[Node, int, str]]:
    """Node, position among its inputs, name: of every constant the unit reads."""
    for node in case.unit.nodes:
        for at, name in enumerate(node.inputs):
            if name is not None and name in case.graph.constants:
                yield node, at, name
