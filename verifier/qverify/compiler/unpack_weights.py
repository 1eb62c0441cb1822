"""MatMulNBits: a MatMul of float32 weights that are stored in blocks of 2, 4 or 8 bits.

The weights become the float32 constant that the blocks stand for, fl32((q - z) * s), and the node a MatMul; its bias is
added by an Add. The arithmetic is that of accuracy levels 0 and 1 for every level: a level is the least accuracy that
the model asks for, and at level 4 onnxruntime itself rounds the activations to 8 bits or not, as the CPU, the bits and
the block size have it."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from qverify.onnx_model.graph_view import attributes
from qverify.plural import count

Array = npt.NDArray[Any]
BITS = (2, 4, 8)
KNOWN = {"K", "N", "bits", "block_size", "accuracy_level", "weight_prepacked"}
FLOAT, UINT8 = onnx.TensorProto.FLOAT, onnx.TensorProto.UINT8
Constants = dict[str, onnx.TensorProto]


def compute_in_float32(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the model with accuracy level 1 and no bias in every MatMulNBits that can be unpacked, an Add behind those
    that had one; the model itself where there is none."""
    if not _unpackable(model):
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph, after = changed.graph, list[onnx.NodeProto]()
    names, found = _Names(graph), _unpackable(changed)
    for node in graph.node:
        made = onnx.NodeProto.FromString(node.SerializeToString())
        after.append(made)
        if node.output[0] not in found:
            continue
        kept = [a for a in made.attribute if a.name != "accuracy_level"]
        del made.attribute[:]
        made.attribute.extend([*kept, helper.make_attribute("accuracy_level", 1)])
        bias = _input(made, 5)
        del made.input[4 if made.input[3:4] != [""] else 3 :]
        if bias:
            made.output[0] = names.fresh(f"{node.output[0]}/product")
            _copy_type(graph, node.output[0], made.output[0])
            more = {"name": f"{node.name}/bias"} if node.name else {}
            after.append(helper.make_node("Add", [made.output[0], bias], [node.output[0]], **more))
    del graph.node[:]
    graph.node.extend(after)
    return changed


def unpack_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the model, which compute_in_float32 made, with a MatMul of a float32 constant in the place of every
    MatMulNBits that can be unpacked; the model itself where there is none."""
    found = _unpackable(model)
    if not found:
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph, made = changed.graph, dict[tuple[Any, ...], str]()
    names, constants = _Names(graph), _constants(graph)
    for node in graph.node:
        if node.output[0] not in found:
            continue
        attrs = attributes(node)
        same = (*node.input[1:4], attrs["K"], attrs["N"], attrs.get("bits", 4), attrs["block_size"])
        if same not in made:
            made[same] = names.fresh(f"{node.input[1]}/unpacked")
            graph.initializer.append(numpy_helper.from_array(_weights(node, constants), made[same]))
        node.op_type, node.domain = "MatMul", ""
        node.input[1] = made[same]
        del node.input[2:], node.attribute[:]
    return changed


def obstacle(node: Any, constants: Constants) -> str:
    """Returns why this MatMulNBits cannot be unpacked, "" if it can."""
    attrs = attributes(node)
    unknown = sorted(attrs.keys() - KNOWN)
    if unknown or attrs.get("weight_prepacked"):
        name = unknown[0] if unknown else "weight_prepacked"
        return f"its attribute {name} is not supported; export without it"
    if _input(node, 4):
        return "its input g_idx (columns in another order) is not supported; quantize without act_order"
    bits, size, depth, rows = (attrs.get(n, o) for n, o in (("bits", 4), ("block_size", 0), ("K", 0), ("N", 0)))
    if bits not in BITS or size < 16 or size & (size - 1) or depth < 1 or rows < 1:
        return f"bits={bits}, block_size={size}, K={depth}, N={rows} is not supported; wanted 2, 4 or 8 bits in blocks of a power of two, 16 or more"
    for name in filter(None, node.input[1:4]):
        if name not in constants:
            return f"{name!r} is computed at run time; only constants can be compiled"
    return _wrong_tensors(node, constants, -(-depth // size), bits, size, rows)


def _wrong_tensors(node: Any, constants: Constants, blocks: int, bits: int, size: int, rows: int) -> str:
    zero = _input(node, 3)
    packed = bool(zero) and constants[zero].data_type == UINT8
    if zero and not packed and bits == 8:
        return "zero points of 8-bit weights that are not uint8 have no kernel in onnxruntime; store them as uint8"
    wanted = {
        node.input[1]: (UINT8, rows * blocks * (size * bits // 8)),
        node.input[2]: (FLOAT, rows * blocks),
        **({zero: (UINT8, rows * -(-blocks * bits // 8)) if packed else (FLOAT, rows * blocks)} if zero else {}),
    }
    for name, (kind, wanted_size) in wanted.items():
        tensor = constants[name]
        if tensor.data_type != kind or prod(tensor.dims) != wanted_size:
            got, asked = (onnx.TensorProto.DataType.Name(k).lower() for k in (tensor.data_type, kind))
            return f"{name!r} is {got} of {prod(tensor.dims)} elements; wanted {asked} of {wanted_size}"
    return ""


def _weights(node: Any, constants: Constants) -> Array:
    """Returns the float32 weights [K, N]."""
    attrs = attributes(node)
    bits, size, depth, rows = attrs.get("bits", 4), attrs["block_size"], attrs["K"], attrs["N"]
    blocks = -(-depth // size)
    packed, scales = (numpy_helper.to_array(constants[n]) for n in node.input[1:3])
    whole = unpack(packed.reshape(rows * blocks, -1), bits).reshape(rows, blocks, size)
    zeros: Array = np.full((rows, blocks), 1 << (bits - 1), np.float32)
    if _input(node, 3):
        stored = numpy_helper.to_array(constants[node.input[3]]).reshape(rows, -1)
        zeros = unpack(stored, bits)[:, :blocks] if stored.dtype == np.uint8 else stored
    centred = whole.astype(np.float32) - zeros.astype(np.float32)[..., None]
    real = (centred * scales.reshape(rows, blocks, 1)).reshape(rows, -1)[:, :depth]
    return np.ascontiguousarray(real.T)


def unpack(packed: Array, bits: int) -> Array:
    """Returns the uint8 elements that are packed in the bytes of each row, those in the low bits first."""
    parts = [(packed >> np.uint8(at)) & np.uint8((1 << bits) - 1) for at in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(len(packed), -1)


def _unpackable(model: onnx.ModelProto) -> set[str]:
    """Returns the outputs of the nodes that can be unpacked."""
    nodes = [n for n in model.graph.node if n.op_type == "MatMulNBits" and n.domain == "com.microsoft"]
    constants = _constants(model.graph) if nodes else {}
    return {n.output[0] for n in nodes if not obstacle(n, constants)}


def stores_weights_in_blocks(model: onnx.ModelProto) -> bool:
    """Returns whether a node of the model, or of a function of it, has weights in blocks. model: as its file has it."""
    nodes = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    return any(a.name == "block_size" for n in nodes for a in n.attribute)


def notes_on_levels(model: onnx.ModelProto) -> list[str]:
    """Returns what a report says of the nodes whose activations onnxruntime may round to 8 bits: MatMulNBits above
    accuracy level 1, and those that its optimizer makes of a MatMul behind a DequantizeLinear in blocks, with level 4.
    model: as its file has it."""
    nodes = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    above = sum(n.op_type == "MatMulNBits" and attributes(n).get("accuracy_level", 0) > 1 for n in nodes)
    blocked = {n.output[0] for n in nodes if n.op_type == "DequantizeLinear" and attributes(n).get("block_size", 0)}
    above += sum(n.op_type == "MatMul" and not blocked.isdisjoint(n.input) for n in nodes)
    if not above:
        return []
    found = count(above, "MatMul", "has", "have")
    return [
        f"{found} weights in blocks and no accuracy_level of float32: verified in float32; default onnxruntime may round "
        "the activations of MatMulNBits to 8 bits (its accuracy level 4), so that its outputs differ"
    ]


def _constants(graph: onnx.GraphProto) -> Constants:
    return {i.name: i for i in graph.initializer}


def _input(node: Any, at: int) -> str:
    return str(node.input[at]) if len(node.input) > at else ""


def _copy_type(graph: onnx.GraphProto, name: str, to: str) -> None:
    for value in [*graph.value_info, *graph.output]:
        if value.name == name:
            made = onnx.ValueInfoProto.FromString(value.SerializeToString())
            made.name = to
            graph.value_info.append(made)
            return


class _Names:
    """Names that no tensor of the graph has."""

    def __init__(self, graph: onnx.GraphProto):
        self._taken = {i.name for i in [*graph.initializer, *graph.input]} | {o for n in graph.node for o in n.output}

    def fresh(self, name: str) -> str:
        while name in self._taken:
            name += "~"
        self._taken.add(name)
        return name
