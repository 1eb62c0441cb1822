"""Facts about a model file and its tensors, as `qverify inspect` shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qverify.closest_names import closest_names
from qverify.errors import UsageError
from qverify.model_bin.graph import Graph, Node
from qverify.tensors.spec import TensorSpec

NEAREST = 5  # number of similar names that are listed for an unknown one


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """Facts about one tensor of a compiled model.

    Attributes:
        spec: spec of the tensor.
        made_by: description of the node or other source that the tensor comes from.
        read_by: names of the nodes that read it.
        low, high: smallest and largest real value that its integers stand for, over all channels; None if it is not
            quantized.
        values: statistics of a constant: minimum, maximum, mean, distinct.
    """

    spec: TensorSpec
    made_by: str
    read_by: tuple[str, ...]
    low: float | None = None
    high: float | None = None
    values: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts about one model file.

    Attributes:
        path, kind, size_bytes, sha256: the file.
        inputs, outputs: name, dtype and dims of each, as the file states them.
        operators: number of occurrences by ONNX type; empty for a model.bin.
        opsets: opset versions by domain.
        graph: the compiled model, or None for a float ONNX and for a model that cannot be compiled.
        why: the reason why there is no graph.
    """

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
        """Returns the facts about one tensor. Raises UsageError, with similar names, if there is no tensor with this
        name."""
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
        node_outputs = {output for n in self.graph.nodes for output in n.outputs}
        similar = closest_names(name, sorted(tensors, key=lambda tensor: tensor not in node_outputs), NEAREST)
        hint = f"; near it: {', '.join(similar)}" if similar else ""
        raise UsageError(f"{self.path}: no tensor and no ONNX node {name!r}{hint}. Without a name all are listed")


def tensor_facts(graph: Graph, name: str) -> TensorFacts:
    """Returns the facts about a tensor of the graph."""
    spec = graph.tensors[name]
    maker = graph.producers().get(name)
    readers = tuple(n.name for n in graph.nodes if name in n.inputs)
    low, high = real_range(spec)
    constant = graph.constants.get(name)
    return TensorFacts(
        spec,
        _describe_maker(graph, name, maker),
        readers,
        low,
        high,
        {} if constant is None else _compute_statistics(constant),
    )


def _describe_maker(graph: Graph, name: str, maker: Node | None) -> str:
    if maker is not None:
        return f"{maker.op} node {maker.name}" + (f" (ONNX: {', '.join(maker.covers)})" if maker.covers else "")
    if name in graph.constants:
        return "a constant"
    return "an input of the network" if name in graph.inputs else "the host"


def real_range(spec: TensorSpec) -> tuple[float | None, float | None]:
    """Returns the smallest and the largest real value that the tensor's integers stand for, over all channels, or None
    and None if it is not quantized."""
    if not spec.quantized or not np.issubdtype(np.dtype(spec.dtype), np.integer):
        return None, None
    limits = np.iinfo(spec.dtype)
    scale, zero = np.asarray(spec.scale, np.float64), np.asarray(spec.zero_point, np.float64)
    return float(((int(limits.min) - zero) * scale).min()), float(((int(limits.max) - zero) * scale).max())


def _compute_statistics(values: np.ndarray[Any, Any]) -> dict[str, float]:
    if not values.size or values.dtype.kind not in "iufb":
        return {}
    real = values.astype(np.float64)
    return {
        "minimum": float(real.min()),
        "maximum": float(real.max()),
        "mean": float(real.mean()),
        "distinct": int(np.unique(values).size),
    }
