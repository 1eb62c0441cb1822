"""Compares a model.bin with what its quant.onnx compiles to, so that nothing that the file claims can reduce what is
judged."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph
from qverify.tensors.spec import TensorSpec

_NODE_FIELDS = ("op", "inputs", "outputs", "covers", "integer_reference")


def find_contradiction(claimed: Graph, known: Graph) -> str:
    """Returns the first difference because of which model.bin (`claimed`) would be judged differently from the compiled
    quant.onnx (`known`): rounding, inputs, outputs, nodes, tensors with their scales and flags; "" if there is none.
    Weights and words are not compared: the verdict judges them (see differing_parameters)."""
    if _islands(claimed) != _islands(known):
        return "what it leaves to the host is not what cannot be compiled"
    for field in ("rounding", "inputs", "outputs"):
        if getattr(claimed, field) != getattr(known, field):
            return f"its {field}: {getattr(claimed, field)}, wanted {getattr(known, field)}"
    if [n.name for n in claimed.nodes] != [n.name for n in known.nodes]:
        return f"its nodes ({len(claimed.nodes)}) are not those of the ONNX ({len(known.nodes)})"
    for node, known_node in zip(claimed.nodes, known.nodes, strict=True):
        for field in _NODE_FIELDS:
            value, wanted = getattr(node, field), getattr(known_node, field)
            if value != wanted:
                return f"node {node.name}: {field} is {value}, wanted {wanted}"
    return next((why for n, spec in known.tensors.items() if (why := _compare_spec(claimed.tensors.get(n), spec))), "")


def differing_parameters(claimed: Graph, known: Graph) -> list[str]:
    """Returns the names of the constants, and of the nodes whose words, differ between model.bin (`claimed`) and the
    compiled quant.onnx (`known`). A verdict judges them only as far as its inputs use them."""
    constants = [n for n, value in known.constants.items() if not _same_bytes(claimed.constants.get(n), value)]
    pairs = zip(claimed.nodes, known.nodes, strict=True)
    return [*constants, *(known_node.name for node, known_node in pairs if node.words != known_node.words)]


def _same_bytes(a: npt.NDArray[np.generic] | None, b: npt.NDArray[np.generic]) -> bool:
    if a is None or a.dtype != b.dtype or a.shape != b.shape:
        return False
    return np.array_equal(np.ascontiguousarray(a).view(np.uint8), np.ascontiguousarray(b).view(np.uint8))


def _compare_spec(claimed: TensorSpec | None, known: TensorSpec) -> str:
    """Returns how a tensor's spec differs from the known one; "" if it does not."""
    if claimed is None:
        return f"tensor {known.name} is missing"
    for field in fields(TensorSpec):
        value, wanted = getattr(claimed, field.name), getattr(known, field.name)
        if value != wanted:
            return f"tensor {known.name}: {field.name} is {value}, wanted {wanted}"
    return ""


def _islands(graph: Graph) -> list[tuple[object, ...]]:
    """Returns the fields of the host islands that must agree, which leaves out the reasons (texts for the user)."""
    return [(i.inputs, i.pulled, i.outputs, i.finals, [(n.name, n.op) for n in i.nodes]) for i in graph.islands]
