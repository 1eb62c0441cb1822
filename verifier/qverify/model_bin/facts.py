"""Facts about a model file and its tensors, as `qverify inspect` shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qverify.closest_names import closest_names
from qverify.errors import UsageError
from qverify.model_bin.graph import Graph, Node
from qverify.tensors.spec import TensorSpec

NEAREST = 5  # names that a mistyped one may have meant


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """One tensor of a compiled model. low, high: the real values that its integers cover, per tensor or the widest
    channel; None where it is not quantized. values: statistics of a constant: minimum, maximum, mean, distinct."""

    spec: TensorSpec
    made_by: str
    read_by: tuple[str, ...]
    low: float | None = None
    high: float | None = None
    values: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One model file. graph: what it compiles to; None for a float ONNX and for what cannot be compiled (why says the
    reason). operators: ONNX types and how often they occur; empty for model.bin. inputs, outputs: name, dtype and dims
    as the file states them."""

    path: str
    kind: str
    size_bytes: int
    sha256: str
    inputs: tuple[tuple[str, str, str], ...]
    outputs: tuple[tuple[str, str, str], ...]
    operators: dict[str, int] = field(default_factory=dict)
    opsets: dict[str, int] = field(default_factory=dict)
    graph: Graph | None = None
    why: str = ""

    def tensor(self, name: str) -> TensorFacts:
        """Returns the facts about one tensor. UsageError, with the nearest names, where there is none of that name."""
        if self.graph is None:
            raise UsageError(f"{self.path}: {self.why}, so there is nothing to say of tensor {name!r}")
        return tensor_facts(self.graph, self._resolve(name))

    def _resolve(self, name: str) -> str:
        assert self.graph is not None
        tensors = self.graph.tensors
        if name in tensors:
            return name
        covered = [n.name for n in self.graph.nodes if name in n.covers]
        if len(covered) == 1:
            return covered[0]
        made = {output for n in self.graph.nodes for output in n.outputs}
        near = closest_names(name, sorted(tensors, key=lambda one: one not in made), NEAREST)
        meant = f"; near it: {', '.join(near)}" if near else ""
        raise UsageError(f"{self.path}: no tensor and no ONNX node {name!r}{meant}. Without a name all are listed")


def tensor_facts(graph: Graph, name: str) -> TensorFacts:
    """Returns the facts about a tensor of the graph."""
    spec = graph.tensors[name]
    maker = graph.producers().get(name)
    readers = tuple(n.name for n in graph.nodes if name in n.inputs)
    low, high = real_range(spec)
    constant = graph.constants.get(name)
    return TensorFacts(
        spec, _describe_maker(graph, name, maker), readers, low, high, {} if constant is None else _statistics(constant)
    )


def _describe_maker(graph: Graph, name: str, maker: Node | None) -> str:
    if maker is not None:
        return f"{maker.op} node {maker.name}" + (f" (ONNX: {', '.join(maker.covers)})" if maker.covers else "")
    if name in graph.constants:
        return "a constant"
    return "an input of the network" if name in graph.inputs else "the host"


def real_range(spec: TensorSpec) -> tuple[float | None, float | None]:
    """Returns the lowest and highest real value that the tensor's integers stand for, over all channels; None, None
    where it is not quantized."""
    if not spec.quantized or not np.issubdtype(np.dtype(spec.dtype), np.integer):
        return None, None
    limits = np.iinfo(spec.dtype)
    scale, zero = np.asarray(spec.scale, np.float64), np.asarray(spec.zero_point, np.float64)
    return float(((int(limits.min) - zero) * scale).min()), float(((int(limits.max) - zero) * scale).max())


def _statistics(values: np.ndarray[Any, Any]) -> dict[str, float]:
    if not values.size or values.dtype.kind not in "iufb":
        return {}
    wide = values.astype(np.float64)
    return {
        "minimum": float(wide.min()),
        "maximum": float(wide.max()),
        "mean": float(wide.mean()),
        "distinct": int(np.unique(values).size),
    }
