"""Checks a Graph once: every tensor made before it is read, quantization in range, every op's own rules."""

from __future__ import annotations

import numpy as np

from qverify.errors import BadFileError
from qverify.model_bin.graph import ROUNDINGS, Graph
from qverify.model_bin.units import may_be_interior
from qverify.tensors.spec import TensorSpec

LONGEST_NAME = 1023  # bytes of a text in PROTOCOL.md


def check_graph(graph: Graph) -> None:
    """Raises BadFileError naming the tensor or node and the rule of FORMAT.md it breaks."""
    if graph.rounding not in ROUNDINGS:
        raise BadFileError(f"unknown rounding {graph.rounding!r}; known: {', '.join(ROUNDINGS)}")
    for name, spec in graph.tensors.items():
        _check_tensor(name, spec)
    for name, array in graph.constants.items():
        spec = graph.tensors[name]
        if array.shape != spec.shape or array.dtype != spec.numpy_dtype:
            raise BadFileError(
                f"constant {name!r}: {array.dtype}{list(array.shape)}, its record says {spec.dtype}{list(spec.shape)}"
            )
    _check_order(graph)
    if hidden := {n for n, spec in graph.tensors.items() if spec.interior} - may_be_interior(graph):
        raise BadFileError(
            f"tensor {min(hidden)!r}: flagged interior, which would keep it from being compared; only floats between "
            "dequantize and quantize may be"
        )


def _check_tensor(name: str, spec: TensorSpec) -> None:
    if name != spec.name or "\0" in name:
        raise BadFileError(f"tensor {name!r}: bad name")
    if len(name.encode()) > LONGEST_NAME:
        raise BadFileError(
            f"tensor {name[:60]!r}...: its name is {len(name.encode())} bytes long, at most {LONGEST_NAME} go to a board"
        )
    if len(spec.scale) != len(spec.zero_point):
        raise BadFileError(f"tensor {name!r}: {len(spec.scale)} scales and {len(spec.zero_point)} zero points")
    if len(spec.scale) > 1 and (spec.channel_axis < 0 or len(spec.scale) != spec.shape[spec.channel_axis]):
        raise BadFileError(
            f"tensor {name!r}: {len(spec.scale)} scales for axis {spec.channel_axis} of {list(spec.shape)}"
        )
    if spec.scale:
        if spec.dtype in ("float32", "float64", "bool"):
            raise BadFileError(f"tensor {name!r}: {spec.dtype} carries a scale")
        limits = np.iinfo(spec.dtype)
        if any(not limits.min <= z <= limits.max for z in spec.zero_point):
            raise BadFileError(f"tensor {name!r}: a zero point is outside {spec.dtype}")
        if any(not (np.isfinite(s) and s > 0) for s in spec.scale):
            raise BadFileError(f"tensor {name!r}: a scale is not finite and positive")


def _check_order(graph: Graph) -> None:
    made = set(graph.inputs) | set(graph.constants)
    for name in graph.inputs:
        if name in graph.constants:
            raise BadFileError(f"graph input {name!r} is also a constant")
    for node in graph.nodes:
        if not node.outputs or node.name != node.outputs[0]:
            raise BadFileError(f"node {node.name!r}: not named after its first output")
        for source in node.inputs:
            if source is not None and source not in made:
                raise BadFileError(f"node {node.name!r} reads {source!r} before anything makes it")
        for name in node.outputs:
            if name in made or name not in graph.tensors:
                raise BadFileError(f"node {node.name!r}: {name!r} is made twice or has no record")
            made.add(name)
    for name in graph.outputs:
        if name not in made:
            raise BadFileError(f"graph output {name!r} is never made")
    unmade = graph.tensors.keys() - made
    if unmade:
        raise BadFileError(f"tensor {min(unmade)!r} is never made")
