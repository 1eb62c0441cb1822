"""What model.bin says of itself, against what its quant.onnx compiles to: a file's claims never narrow what is judged."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import numpy.typing as npt

from qverify.compare.paired_values import bits_equal
from qverify.model_bin.graph import Graph
from qverify.tensors.spec import TensorSpec

_NODE = ("op", "inputs", "outputs", "words", "covers", "integer_reference")


def contradiction(said: Graph, known: Graph) -> str:
    """The first thing that model.bin (`said`) says otherwise than the compiled quant.onnx (`known`): rounding, inputs, outputs,
    nodes, tensors with their scales and flags, constants. "" where they agree."""
    for what in ("rounding", "inputs", "outputs"):
        if getattr(said, what) != getattr(known, what):
            return f"its {what}: {getattr(said, what)}, wanted {getattr(known, what)}"
    if [n.name for n in said.nodes] != [n.name for n in known.nodes]:
        return f"its {len(said.nodes)} nodes are not the {len(known.nodes)} of the ONNX"
    for one, two in zip(said.nodes, known.nodes, strict=True):
        for what in _NODE:
            if getattr(one, what) != getattr(two, what):
                return f"node {one.name}: {what} is {getattr(one, what)}, wanted {getattr(two, what)}"
    tensors = (why for n, spec in known.tensors.items() if (why := _tensor(said.tensors.get(n), spec)))
    others = (n for n, held in known.constants.items() if not _same(said.constants.get(n), held))
    return next(tensors, "") or next((f"constant {n} holds other values" for n in others), "")


def _same(said: npt.NDArray[np.generic] | None, known: npt.NDArray[np.generic]) -> bool:
    return said is not None and bits_equal(said, known)


def _tensor(said: TensorSpec | None, known: TensorSpec) -> str:
    if said is None:
        return f"tensor {known.name} is not there"
    for field in fields(TensorSpec):
        one, two = getattr(said, field.name), getattr(known, field.name)
        if one != two:
            return f"tensor {known.name}: {field.name} is {one}, wanted {two}"
    return ""
