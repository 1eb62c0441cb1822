"""Checks a Graph against FORMAT.md: that sizes, counts and quantization are in range, and that every tensor is computed
once before it is read."""

from __future__ import annotations

from math import inf

import numpy as np

from qverify.errors import BadFileError
from qverify.model_bin.check_requantization import check_requantization
from qverify.model_bin.graph import MAX_BYTES, MAX_DIM, MAX_RANK, ROUNDINGS, Graph, Node
from qverify.model_bin.islands import HostIsland
from qverify.model_bin.units import may_be_interior
from qverify.tensors.spec import TensorSpec

MAX_NAME_BYTES = 1023  # limit of a text in PROTOCOL.md
MAX_COUNT = 65536  # tensors, nodes, graph inputs, graph outputs
MAX_LIST, MAX_COVERS = 64, 4096  # inputs, outputs or words of a node; ONNX nodes that a node covers
MAX_SCALES = 1 << 20  # of a tensor
FEW = 64  # scales; numpy is slower for fewer
HALF_FLOAT = "half_float"  # the op that alone reads and computes float16


def check_graph(graph: Graph) -> None:
    """Raises BadFileError if the graph violates FORMAT.md, naming the tensor or node and the rule."""
    if graph.rounding not in ROUNDINGS:
        raise BadFileError(f"unknown rounding {graph.rounding!r}; known: {', '.join(ROUNDINGS)}")
    for what, count in (("tensors", len(graph.tensors)), ("nodes", len(graph.nodes)), ("outputs", len(graph.outputs))):
        if count > MAX_COUNT:
            raise BadFileError(f"{count} {what}; model.bin may have at most {MAX_COUNT}. Cut the model in two")
    for name, spec in graph.tensors.items():
        _check_size(graph, spec)
        _check_tensor(name, spec)
    for node in graph.nodes:
        _check_node(node)
        check_requantization(graph, node)
    for name, array in graph.constants.items():
        spec = graph.tensors[name]
        if array.shape != spec.shape or array.dtype != spec.numpy_dtype:
            raise BadFileError(
                f"constant {name!r}: {array.dtype}{list(array.shape)}, its record says {spec.dtype}{list(spec.shape)}"
            )
    _check_order(graph)
    _check_float16(graph)
    if hidden := {n for n, spec in graph.tensors.items() if spec.interior} - may_be_interior(graph):
        raise BadFileError(
            f"tensor {min(hidden)!r}: flagged interior, which would keep it from being compared; only floats between "
            "dequantize and quantize may be"
        )


def _describe_tensor(graph: Graph, name: str) -> str:
    """Returns a name for the tensor in messages, which includes the node that computes it."""
    node = graph.producers().get(name)
    return f"tensor {name!r}" if node is None else f"node {node.name!r} ({node.op}): its output {name!r}"


def _check_size(graph: Graph, spec: TensorSpec) -> None:
    """Raises BadFileError for a tensor that is too large for its record or for the runtime's buffers."""
    wrong = ""
    if len(spec.shape) > MAX_RANK:
        wrong = (
            f"has {len(spec.shape)} dims {list(spec.shape)}; model.bin may have at most {MAX_RANK}. Reshape it to fewer"
        )
    elif any(not 1 <= n <= MAX_DIM for n in spec.aligned_shape):
        wrong = f"is {list(spec.aligned_shape)}; model.bin may have dims of 1 to {MAX_DIM}. Change the model's shapes"
    elif spec.size_bytes > MAX_BYTES:
        wrong = f"has {spec.size_bytes} bytes ({spec.dtype}{list(spec.aligned_shape)}); a tensor may have at most {MAX_BYTES}. Make its dims smaller"
    elif len(spec.scale) > MAX_SCALES:
        wrong = f"has {len(spec.scale)} scales; model.bin may have at most {MAX_SCALES}. Quantize it per tensor"
    if wrong:
        raise BadFileError(f"{_describe_tensor(graph, spec.name)} {wrong}, or cut the model before it")


def _check_node(node: Node) -> None:
    limits = np.iinfo(np.int32)
    for what, count, most in (
        ("inputs", len(node.inputs), MAX_LIST),
        ("outputs", len(node.outputs), MAX_LIST),
        ("words", len(node.words), MAX_LIST),
        ("ONNX nodes it stands for", len(node.covers), MAX_COVERS),
    ):
        if count > most:
            raise BadFileError(
                f"node {node.name!r} ({node.op}): {count} {what}; model.bin may have at most {most}. Split it in the ONNX, or cut the model before it"
            )
    for word in node.words:
        if not limits.min <= word <= limits.max:
            raise BadFileError(
                f"node {node.name!r} ({node.op}): a word is {word}; model.bin has words of 32 bits. Change that attribute"
            )
    for text in (node.op, *node.covers):
        if "\0" in text:
            raise BadFileError(
                f"node {node.name!r} ({node.op}): the name {text!r} contains a NUL character; rename that node"
            )


def _check_tensor(name: str, spec: TensorSpec) -> None:
    if name != spec.name or "\0" in name:
        raise BadFileError(
            f"tensor {name!r}: its name contains a NUL character, or its spec is named {spec.name!r}; rename it"
        )
    if len(name.encode()) > MAX_NAME_BYTES:
        raise BadFileError(
            f"tensor {name[:60]!r}...: its name is {len(name.encode())} bytes long, wanted at most {MAX_NAME_BYTES}; rename it"
        )
    if len(spec.scale) != len(spec.zero_point):
        raise BadFileError(f"tensor {name!r}: {len(spec.scale)} scales and {len(spec.zero_point)} zero points")
    if len(spec.scale) > 1 and (spec.channel_axis < 0 or len(spec.scale) != spec.shape[spec.channel_axis]):
        raise BadFileError(
            f"tensor {name!r}: {len(spec.scale)} scales for axis {spec.channel_axis} of {list(spec.shape)}"
        )
    if spec.scale:
        if spec.dtype in ("float32", "float64", "float16", "bool"):
            raise BadFileError(f"tensor {name!r}: a scale for {spec.dtype}; only integers have scales")
        limits = np.iinfo(spec.dtype)
        if min(spec.zero_point) < limits.min or max(spec.zero_point) > limits.max:
            raise BadFileError(f"tensor {name!r}: a zero point is outside {spec.dtype}")
        if not _are_scales(spec.scale):
            raise BadFileError(f"tensor {name!r}: a scale is not finite and positive")


def _are_scales(scales: tuple[float, ...]) -> bool:
    """Returns whether all are finite and positive."""
    if len(scales) < FEW:
        return all(0 < s < inf for s in scales)
    values = np.array(scales)
    return bool(((values > 0) & (values < inf)).all())


def _check_float16(graph: Graph) -> None:
    """Raises BadFileError for a float16 tensor that is neither an input nor an output of the graph, or that another op
    than half_float reads or computes."""
    ends = {*graph.fed(), *graph.outputs}
    halves = {name for name, spec in graph.tensors.items() if spec.dtype == "float16"}
    if wrong := halves - ends:
        raise BadFileError(f"tensor {min(wrong)!r} is float16 and no input or output of the graph")
    for node in graph.nodes if halves else ():
        if node.op != HALF_FLOAT and (wrong := halves.intersection(filter(None, (*node.inputs, *node.outputs)))):
            raise BadFileError(f"node {node.name!r} ({node.op}): {min(wrong)!r} is float16; only {HALF_FLOAT} has it")


def _check_order(graph: Graph) -> None:
    computed = set(graph.inputs) | set(graph.constants)
    for name in graph.inputs:
        if name in graph.constants:
            raise BadFileError(f"graph input {name!r} is also a constant")
    islands_reached = 0
    for step in graph.steps():
        if isinstance(step, HostIsland):
            islands_reached += 1
            if clash := computed.intersection(step.made):
                raise BadFileError(f"{min(clash)!r} is made by a host island and computed elsewhere, too")
            computed.update(step.made)
        else:
            _check_step(graph, step, computed)
    if islands_reached < len(graph.islands):
        raise BadFileError("a host island reads a tensor that is never computed")
    for name in graph.outputs:
        if name not in computed or name not in graph.tensors:
            raise BadFileError(f"graph output {name!r} is never computed")
    missing = graph.tensors.keys() - computed
    if missing:
        raise BadFileError(f"tensor {min(missing)!r} is never computed")


def _check_step(graph: Graph, node: Node, computed: set[str]) -> None:
    """Raises BadFileError if the node cannot run after the tensors in `computed`, to which its outputs are added."""
    if not node.outputs or node.name != node.outputs[0]:
        raise BadFileError(f"node {node.name!r}: not named after its first output")
    for source in node.inputs:
        if source is not None and (source not in computed or source not in graph.tensors):
            raise BadFileError(f"node {node.name!r} reads {source!r} before any node computes it")
    for name in node.outputs:
        if name in computed or name not in graph.tensors:
            raise BadFileError(f"node {node.name!r}: {name!r} is computed twice or has no record")
        computed.add(name)
