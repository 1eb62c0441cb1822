"""Unpacks MatMulNBits, a MatMul of float32 weights that are stored in blocks of 2, 4 or 8 bits.

The weights become the float32 constant fl32((q - z) * s) that the blocks represent, the node becomes a MatMul, and its
bias an Add. The arithmetic is that of accuracy levels 0 to 3. Nodes of level 4 whose activations onnxruntime rounds to 8
bits have been replaced before (integer_blocks.py)."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from qverify.onnx_model.graph_view import attributes
from qverify.onnx_model.held_data import value_of
from qverify.plural import count

Array = npt.NDArray[Any]
BITS = (2, 4, 8)
KNOWN = {"K", "N", "bits", "block_size", "accuracy_level", "weight_prepacked"}
TWO_BITS = tuple(
    onnx.TensorProto.DataType.Value(n) for n in ("INT2", "UINT2") if n in dict(onnx.TensorProto.DataType.items())
)
FLOAT, UINT8 = onnx.TensorProto.FLOAT, onnx.TensorProto.UINT8
Constants = dict[str, onnx.TensorProto]


def compute_in_float32(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the model with accuracy level 1 in every MatMulNBits that can be unpacked, and with its bias moved to an
    Add after it; the model itself if there is no such node."""
    if not _unpackable(model):
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph, after = changed.graph, list[onnx.NodeProto]()
    names, unpackable = Names(graph), _unpackable(changed)
    for node in graph.node:
        copy = onnx.NodeProto.FromString(node.SerializeToString())
        after.append(copy)
        if node.output[0] not in unpackable:
            continue
        kept = [a for a in copy.attribute if a.name != "accuracy_level"]
        del copy.attribute[:]
        copy.attribute.extend([*kept, helper.make_attribute("accuracy_level", 1)])
        bias = input_at(copy, 5)
        del copy.input[5:]
        while not copy.input[-1]:
            del copy.input[-1]
        if bias:
            copy.output[0] = names.fresh(f"{node.output[0]}/product")
            _copy_type(graph, node.output[0], copy.output[0])
            add_name = {"name": f"{node.name}/bias"} if node.name else {}
            after.append(helper.make_node("Add", [copy.output[0], bias], [node.output[0]], **add_name))
    del graph.node[:]
    graph.node.extend(after)
    return changed


def unpack_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns a model from compute_in_float32 with every MatMulNBits that can be unpacked replaced by a MatMul with a
    float32 constant; the model itself if there is no such node."""
    unpackable = _unpackable(model)
    if not unpackable:
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph, unpacked = changed.graph, dict[tuple[Any, ...], str]()
    names, constants = Names(graph), constants_of(graph)
    for node in graph.node:
        if node.output[0] not in unpackable:
            continue
        attrs = attributes(node)
        key = (*node.input[1:5], attrs["K"], attrs["N"], attrs.get("bits", 4), attrs["block_size"])
        if key not in unpacked:  # nodes may share weights
            unpacked[key] = names.fresh(f"{node.input[1]}/unpacked")
            graph.initializer.append(numpy_helper.from_array(_weights(node, constants), unpacked[key]))
        node.op_type, node.domain = "MatMul", ""
        node.input[1] = unpacked[key]
        del node.input[2:], node.attribute[:]
    return changed


def obstacle(node: Any, constants: Constants) -> str:
    """Returns the reason why this MatMulNBits cannot be unpacked, "" if it can."""
    attrs = attributes(node)
    unknown = sorted(attrs.keys() - KNOWN)
    if unknown or attrs.get("weight_prepacked"):
        name = unknown[0] if unknown else "weight_prepacked"
        return f"its attribute {name} is not supported; export without it"
    bits, size, depth, rows = (attrs.get(n, o) for n, o in (("bits", 4), ("block_size", 0), ("K", 0), ("N", 0)))
    if bits not in BITS or size < 16 or size & (size - 1) or depth < 1 or rows < 1:
        return f"bits={bits}, block_size={size}, K={depth}, N={rows} is not supported; wanted 2, 4 or 8 bits in blocks of a power of two, 16 or more"
    for name in filter(None, node.input[1:5]):
        if name not in constants:
            return f"{name!r} is computed at run time; only constants can be compiled"
    blocks = -(-depth // size)
    return _wrong_tensors(node, constants, blocks, bits, size, rows) or _wrong_order(node, constants, blocks)


def _wrong_tensors(node: Any, constants: Constants, blocks: int, bits: int, size: int, rows: int) -> str:
    """Returns why the type or size of a constant is wrong, "" if all are right. blocks: number of blocks in a row."""
    zero = input_at(node, 3)
    packed = bool(zero) and constants[zero].data_type == UINT8
    if zero and not packed and bits == 8:
        return "zero points of 8-bit weights that are not uint8 have no kernel in onnxruntime; store them as uint8"
    expected = {
        node.input[1]: (UINT8, rows * blocks * (size * bits // 8)),
        node.input[2]: (FLOAT, rows * blocks),
        **({zero: (UINT8, rows * -(-blocks * bits // 8)) if packed else (FLOAT, rows * blocks)} if zero else {}),
    }
    for name, (kind, expected_size) in expected.items():
        tensor = constants[name]
        if tensor.data_type != kind or prod(tensor.dims) != expected_size:
            actual, wanted = (onnx.TensorProto.DataType.Name(k).lower() for k in (tensor.data_type, kind))
            return f"{name!r} is {actual} of {prod(tensor.dims)} elements; wanted {wanted} of {expected_size}"
    return ""


def _wrong_order(node: Any, constants: Constants, blocks: int) -> str:
    """Returns why g_idx, the block of each row of the weights (act_order of GPTQ), is not as onnxruntime reads it, "" if it
    is, or if there is none. Measured with onnxruntime 1.32: with it, zero points that are packed are ignored, and weights
    of 2 bits are other numbers."""
    name, attrs = input_at(node, 4), attributes(node)
    if not name:
        return ""
    if attrs.get("bits", 4) != 4:
        return f"its input g_idx beside bits={attrs['bits']} has no right kernel in onnxruntime; wanted 4 bits"
    if input_at(node, 3) and constants[node.input[3]].data_type == UINT8:
        return "onnxruntime ignores packed zero points beside its input g_idx; store them as float32"
    order = constants[name]
    lengths = (attrs["K"], blocks * attrs["block_size"])
    if order.data_type != onnx.TensorProto.INT32 or prod(order.dims) not in lengths:
        kind = onnx.TensorProto.DataType.Name(order.data_type).lower()
        return f"its input g_idx is {kind} of {prod(order.dims)} elements; wanted int32 of {lengths[0]}"
    values = value_of(order)
    if values.min() < 0 or values.max() >= blocks:
        return f"its input g_idx has values from {values.min()} to {values.max()}; wanted 0 to {blocks - 1}"
    return ""


def _weights(node: Any, constants: Constants) -> Array:
    """Returns the unpacked float32 weights, [K, N]."""
    from qverify.onnx_model.packed_bits import unpack

    attrs = attributes(node)
    bits, size, depth, rows = attrs.get("bits", 4), attrs["block_size"], attrs["K"], attrs["N"]
    blocks = -(-depth // size)
    packed, scales = (value_of(constants[n]) for n in node.input[1:3])
    whole = unpack(packed.reshape(rows * blocks, -1), bits).reshape(rows, blocks, size)
    zeros: Array = np.full((rows, blocks), 1 << (bits - 1), np.float32)
    if input_at(node, 3):
        stored = value_of(constants[node.input[3]]).reshape(rows, -1)
        zeros = unpack(stored, bits)[:, :blocks] if stored.dtype == np.uint8 else stored
    block_of = np.arange(depth) // size
    if input_at(node, 4):
        block_of = value_of(constants[node.input[4]]).reshape(-1)[:depth]
    real = whole.reshape(rows, -1)[:, :depth].astype(np.float32)
    real -= zeros.astype(np.float32)[:, block_of]
    real *= scales.reshape(rows, blocks)[:, block_of]
    return np.ascontiguousarray(real.T)


def _unpackable(model: onnx.ModelProto) -> set[str]:
    """Returns the outputs of the nodes that can be unpacked."""
    nodes = [n for n in model.graph.node if n.op_type == "MatMulNBits" and n.domain == "com.microsoft"]
    constants = constants_of(model.graph) if nodes else {}
    return {n.output[0] for n in nodes if not obstacle(n, constants)}


def stores_weights_in_blocks(model: onnx.ModelProto) -> bool:
    """Returns whether a node of the model or of one of its functions has weights in blocks. model: as parsed from its
    file."""
    nodes = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    return any(a.name == "block_size" for n in nodes for a in n.attribute)


def notes_on_levels(model: onnx.ModelProto) -> list[str]:
    """Returns notes for reports about every MatMul after a DequantizeLinear in blocks, which onnxruntime's optimizer turns into
    a MatMulNBits of accuracy level 4; of 2 bits, its result is wrong at every level (measured with onnxruntime 1.32). model: as
    parsed from its file."""
    nodes = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    of_two_bits = {i.name for i in model.graph.initializer if i.data_type in TWO_BITS}
    blocked = [n for n in nodes if n.op_type == "DequantizeLinear" and attributes(n).get("block_size", 0)]
    wrong = {n.output[0] for n in blocked if n.input[0] in of_two_bits}
    right = {n.output[0] for n in blocked} - wrong
    rounded = sum(n.op_type == "MatMul" and not right.isdisjoint(n.input) for n in nodes)
    bad = sum(n.op_type == "MatMul" and not wrong.isdisjoint(n.input) for n in nodes)
    notes = []
    if rounded:
        notes.append(
            f"{count(rounded, 'MatMul', 'has', 'have')} weights in blocks behind a DequantizeLinear: verified in float32, as the "
            "file states; default onnxruntime may fuse both into a MatMulNBits of accuracy level 4, which rounds the activations "
            "to 8 bits, so that its outputs differ"
        )
    if bad:
        notes.append(
            f"{count(bad, 'MatMul', 'has', 'have')} weights of 2 bits in blocks: verified in float32; default onnxruntime makes a "
            "MatMulNBits of 2 bits of it, whose result is wrong at every accuracy level, so that its outputs differ"
        )
    return notes


def constants_of(graph: onnx.GraphProto) -> Constants:
    return {i.name: i for i in graph.initializer}


def input_at(node: Any, at: int) -> str:
    return str(node.input[at]) if len(node.input) > at else ""


def _copy_type(graph: onnx.GraphProto, name: str, to: str) -> None:
    """Declares tensor `to` with the type of tensor `name`, if that is declared."""
    for value in [*graph.value_info, *graph.output]:
        if value.name == name:
            copy = onnx.ValueInfoProto.FromString(value.SerializeToString())
            copy.name = to
            graph.value_info.append(copy)
            return


class Names:
    """Hands out names that no tensor of the graph has."""

    def __init__(self, graph: onnx.GraphProto):
        self._taken = {i.name for i in [*graph.initializer, *graph.input]} | {o for n in graph.node for o in n.output}

    def fresh(self, name: str) -> str:
        """Returns the name with `~` appended while it is taken, and reserves it."""
        while name in self._taken:
            name += "~"
        self._taken.add(name)
        return name
