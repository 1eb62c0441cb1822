"""What model.bin says of itself, against what its quant.onnx compiles to: a file's claims never narrow what is judged."""

from __future__ import annotations

from dataclasses import fields

from qverify.model_bin.graph import Graph
from qverify.tensors.spec import TensorSpec

_NODE = ("op", "inputs", "outputs", "covers", "integer_reference")


def contradiction(said: Graph, known: Graph) -> str:
    """The first thing by which model.bin (`said`) would be judged otherwise than the compiled quant.onnx (`known`): rounding,
    inputs, outputs, nodes, tensors with their scales and flags. "" where they agree. Its weights and words are what is judged:
    other ones are a compiler's mistake, found and blamed by comparing."""
    for what in ("rounding", "inputs", "outputs"):
        if getattr(said, what) != getattr(known, what):
            return f"its {what}: {getattr(said, what)}, wanted {getattr(known, what)}"
    if [n.name for n in said.nodes] != [n.name for n in known.nodes]:
        return f"its {len(said.nodes)} nodes are not the {len(known.nodes)} of the ONNX"
    for one, two in zip(said.nodes, known.nodes, strict=True):
        for what in _NODE:
            if getattr(one, what) != getattr(two, what):
                return f"node {one.name}: {what} is {getattr(one, what)}, wanted {getattr(two, what)}"
    return next((why for n, spec in known.tensors.items() if (why := _tensor(said.tensors.get(n), spec))), "")


def _tensor(said: TensorSpec | None, known: TensorSpec) -> str:
    if said is None:
        return f"tensor {known.name} is not there"
    for field in fields(TensorSpec):
        one, two = getattr(said, field.name), getattr(known, field.name)
        if one != two:
            return f"tensor {known.name}: {field.name} is {one}, wanted {two}"
    return ""
