"""Summarizes what an ONNX file states: inputs, outputs, operators, opsets. Nothing is checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import onnx


@dataclass(frozen=True, slots=True)
class FileSummary:
    """A summary of an ONNX file.

    Attributes:
        inputs, outputs: name, dtype and dims of each, as text.
        operators: operator types with the number of their nodes, the most frequent first.
        opsets: opset versions by domain, of the domains that nodes use.
    """

    inputs: tuple[tuple[str, str, str], ...]
    outputs: tuple[tuple[str, str, str], ...]
    operators: dict[str, int]
    opsets: dict[str, int]


def summarize(model: onnx.ModelProto) -> FileSummary:
    """Returns the summary of a parsed model."""
    constants = {i.name for i in model.graph.initializer}
    used = {n.domain or "ai.onnx" for n in model.graph.node}
    versions = {o.domain or "ai.onnx": o.version for o in model.opset_import}
    return FileSummary(
        _values(i for i in model.graph.input if i.name not in constants),
        _values(model.graph.output),
        dict(Counter(_operator(n) for n in model.graph.node).most_common()),
        {domain: version for domain, version in versions.items() if domain in used} or versions,
    )


def _operator(node: onnx.NodeProto) -> str:
    return f"{node.domain}::{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type


def _values(values: Iterable[onnx.ValueInfoProto]) -> tuple[tuple[str, str, str], ...]:
    return tuple((v.name, _type_name(v), _dims(v)) for v in values)


def _type_name(value: onnx.ValueInfoProto) -> str:
    kind = value.type.tensor_type.elem_type
    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(kind))
    except KeyError:  # a sequence, a map, or a type that this onnx does not know
        return "no tensor"


def _dims(value: onnx.ValueInfoProto) -> str:
    dims = value.type.tensor_type.shape.dim
    return "x".join(str(d.dim_value) if d.dim_value > 0 else d.dim_param or "?" for d in dims) or "scalar"
