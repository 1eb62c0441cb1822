"""Compares what model.bin claims with what its quant.onnx compiles to: a file's claims never narrow what is judged."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph
from qverify.tensors.spec import TensorSpec

_NODE = ("op", "inputs", "outputs", "covers", "integer_reference")


def contradiction(claimed: Graph, known: Graph) -> str:
    """Returns the first difference for which model.bin (`claimed`) would be judged differently from the compiled
    quant.onnx (`known`): rounding, inputs, outputs, nodes, tensors with their scales and flags; "" where they agree.
    Weights and words are not compared here: they are what is judged (other_parameters tells of them)."""
    if _islands(claimed) != _islands(known):
        return "what it leaves to the host is not what cannot be compiled"
    for what in ("rounding", "inputs", "outputs"):
        if getattr(claimed, what) != getattr(known, what):
            return f"its {what}: {getattr(claimed, what)}, wanted {getattr(known, what)}"
    if [n.name for n in claimed.nodes] != [n.name for n in known.nodes]:
        return f"its nodes ({len(claimed.nodes)}) are not those of the ONNX ({len(known.nodes)})"
    for one, two in zip(claimed.nodes, known.nodes, strict=True):
        for what in _NODE:
            if getattr(one, what) != getattr(two, what):
                return f"node {one.name}: {what} is {getattr(one, what)}, wanted {getattr(two, what)}"
    return next((why for n, spec in known.tensors.items() if (why := _compare_spec(claimed.tensors.get(n), spec))), "")


def other_parameters(claimed: Graph, known: Graph) -> list[str]:
    """Returns the names of constants, and of nodes by their words, that model.bin (`claimed`) holds with other values than
    the compiled quant.onnx (`known`): a verdict judges them only as far as its inputs use them."""
    constants = [n for n, value in known.constants.items() if not _same_bytes(claimed.constants.get(n), value)]
    pairs = zip(claimed.nodes, known.nodes, strict=True)
    return [*constants, *(two.name for one, two in pairs if one.words != two.words)]


def _same_bytes(one: npt.NDArray[np.generic] | None, two: npt.NDArray[np.generic]) -> bool:
    if one is None or one.dtype != two.dtype or one.shape != two.shape:
        return False
    return np.array_equal(np.ascontiguousarray(one).view(np.uint8), np.ascontiguousarray(two).view(np.uint8))


def _compare_spec(claimed: TensorSpec | None, known: TensorSpec) -> str:
    if claimed is None:
        return f"tensor {known.name} is missing"
    for field in fields(TensorSpec):
        one, two = getattr(claimed, field.name), getattr(known, field.name)
        if one != two:
            return f"tensor {known.name}: {field.name} is {one}, wanted {two}"
    return ""


def _islands(graph: Graph) -> list[tuple[object, ...]]:
    """Returns the host islands without the reasons, which are for people."""
    return [(i.inputs, i.pulled, i.outputs, i.finals, [(n.name, n.op) for n in i.nodes]) for i in graph.islands]
