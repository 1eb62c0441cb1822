"""Computes everything that depends on constants and static shapes only: shape arithmetic, QuantizeLinear of weights,
scales, the branch of an If.

A DequantizeLinear of constant integers stays, because it states how they are quantized. One with blocked scales is
computed: no integer kernel has a scale for each block, so the nodes after it compute with the float32 constant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np
import onnx
from onnx import helper, numpy_helper

from qverify.errors import BadFileError
from qverify.onnx_model.copy_constant_outputs import copy_constant_outputs
from qverify.onnx_model.engine import Array
from qverify.onnx_model.infer_types import Types, infer_types
from qverify.onnx_model.inline_branches import inline_branches
from qverify.onnx_model.node_order import reads
from qverify.onnx_model.omitted_outputs import name_omitted_outputs
from qverify.onnx_model.open_exposed import open_exposed
from qverify.onnx_model.opsets import standard_opset
from qverify.onnx_model.plain_casts import casts_to_identity
from qverify.onnx_model.random_operators import reason_it_draws
from qverify.onnx_model.scalar_parameters import make_parameters_scalar
from qverify.onnx_model.split_dynamic_matmul import split_dynamic_matmul
from qverify.onnx_model.widen_constants import PER_BYTE, widen_constants
from qverify.onnx_model.written_sequences import write_sequences_out

FLOAT8 = tuple(number for name, number in onnx.TensorProto.DataType.items() if name.startswith("FLOAT8E"))
MAX_BYTES = 1 << 31  # of all folded tensors together: the largest size of a model
MAX_ROUNDS = 32  # each round can fold what depends on shapes that the round before made constant
STANDARD = ("", "ai.onnx", "com.microsoft")
MOVEMENTS = {"Identity", "Dropout", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"}


def fold_constants(model: onnx.ModelProto, known: Types) -> Types:
    """Replaces nodes that depend on constants only by initializers, in place, and returns the types of all tensors as
    far as they are known afterwards. onnxruntime computes the values, so they are the same as in the untouched model.

    Nodes must be in running order. known: types of tensors that inference does not find."""
    copy_constant_outputs(model.graph)
    constants_to_initializers(model.graph)
    bytes_left = MAX_BYTES
    for _ in range(MAX_ROUNDS):
        widen_constants(model.graph)
        make_parameters_scalar(model.graph)
        types = infer_types(model, known)
        casts_to_identity(model.graph, types)
        shapes, folded = _fold_shapes(model.graph, types), _fold_nodes(model, types, bytes_left)
        bytes_left -= folded or 0
        branches = _inline_branches(model)
        sequences = write_sequences_out(model.graph, types, standard_opset(model))
        if not shapes and folded is None and not branches and not sequences:
            return types
    return infer_types(model, known)


def _inline_branches(model: onnx.ModelProto) -> bool:
    """Inlines the branches that constants select, and makes their nodes as those of a loaded graph. Returns whether
    there was one."""
    if not inline_branches(model.graph):
        return False
    constants_to_initializers(model.graph)
    split_dynamic_matmul(model)
    name_omitted_outputs(model)
    return True


def constants_to_initializers(graph: onnx.GraphProto) -> None:
    """Makes the values of Constant nodes initializers, in place, unless they are outputs of the graph."""
    finals, initializers = {o.name for o in graph.output}, list[onnx.TensorProto]()
    for node in graph.node:
        value = _value(node)
        if value is not None and node.output[0] not in finals:
            initializers.append(value)
    _replace(graph, initializers)


def _value(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """Returns the value of a Constant node as a tensor; None for other nodes and for sparse or string values."""
    if node.op_type != "Constant" or len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    if attribute.name == "value" and attribute.t.data_type != onnx.TensorProto.STRING:
        tensor = onnx.TensorProto()
        tensor.CopyFrom(attribute.t)
        tensor.name = node.output[0]
        return tensor
    if attribute.name in ("value_float", "value_floats", "value_int", "value_ints"):
        kind = np.float32 if "float" in attribute.name else np.int64
        return numpy_helper.from_array(np.array(helper.get_attribute_value(attribute), kind), node.output[0])
    return None


def _fold_shapes(graph: onnx.GraphProto, types: Types) -> bool:
    """Replaces Shape and Size of tensors whose shape is known. Returns whether there was one."""
    finals, initializers = {o.name for o in graph.output}, list[onnx.TensorProto]()
    for node in graph.node:
        if node.op_type in ("Shape", "Size") and node.input and node.input[0] in types and node.output[0] not in finals:
            dims = types[node.input[0]][1]
            ends = {a.name: a.i for a in node.attribute}
            part = dims[ends.get("start", 0) : ends.get("end", len(dims))]
            value = np.array(part, np.int64) if node.op_type == "Shape" else np.array(prod(dims), np.int64)
            initializers.append(numpy_helper.from_array(value, node.output[0]))
    _replace(graph, initializers)
    return bool(initializers)


def _fold_nodes(model: onnx.ModelProto, types: Types, bytes_left: int) -> int | None:
    """Replaces the nodes that depend on constants only. Returns the size of the new constants in bytes, or None if
    there are no such nodes or onnxruntime cannot compute them."""
    nodes, wanted = _computable(model.graph, types, bytes_left)
    if not wanted:
        return None
    graph, read = model.graph, {i for node in nodes for i in node.input}
    small = {
        n: f"{n}/8 bits" for n in wanted if types[n][0] in PER_BYTE
    }  # onnxruntime cannot return arrays of these types
    casts = [helper.make_node("Cast", [n], [small[n]], to=onnx.TensorProto.INT8) for n in small]
    fetched = [small.get(n, n) for n in wanted]
    part = helper.make_model(
        helper.make_graph(
            [*nodes, *casts],
            "constants",
            [],
            [onnx.ValueInfoProto(name=n) for n in fetched],
            [i for i in graph.initializer if i.name in read],
        ),
        opset_imports=list(model.opset_import),
        ir_version=max(model.ir_version, 4),
    )
    try:
        results = open_exposed(part, []).run({}, fetched)
    except BadFileError:
        return None  # the nodes stay; those that cannot be compiled are refused by name later
    values = {n: results[o] for n, o in zip(wanted, fetched, strict=True)}
    values |= {n: values[n].astype(helper.tensor_dtype_to_np_dtype(types[n][0])) for n in small}
    _replace(graph, [_tensor(n, v, types[n][0]) for n, v in values.items()])
    _drop_unread(graph, {o for node in nodes for o in node.output})
    return sum(v.nbytes for v in values.values())


def _tensor(name: str, value: Array, kind: int) -> onnx.TensorProto:
    """Returns the value as a tensor of this type; onnxruntime returns float8 as the uint8 numbers of its bytes."""
    tensor = numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name)
    if kind in FLOAT8 and value.dtype == np.uint8:
        tensor.data_type = kind
    return tensor


def _drop_unread(graph: onnx.GraphProto, computed: set[str]) -> None:
    """Removes the nodes that compute these tensors if only folded nodes read them."""
    read, dead = {o.name for o in graph.output}, set[str]()
    for node in reversed(graph.node):
        if computed.issuperset(node.output) and read.isdisjoint(node.output):
            dead.update(node.output)
        else:
            read.update(reads(node))
    kept = [onnx.NodeProto.FromString(n.SerializeToString()) for n in _without(graph, dead)] if dead else []
    if dead:
        del graph.node[:]
        graph.node.extend(kept)


def _computable(graph: onnx.GraphProto, types: Types, bytes_left: int) -> tuple[list[onnx.NodeProto], list[str]]:
    """Returns the nodes to compute, and those of their outputs that remaining nodes read.

    bytes_left: the most bytes that the outputs may have."""
    values = {i.name: i for i in graph.initializer}
    constants = set(values)
    available = set(constants)  # also what DequantizeLinear makes of constants, and where it is only moved
    finals, nodes, folded = {o.name for o in graph.output}, list[onnx.NodeProto](), set[str]()
    for node in graph.node:
        if reason_it_draws(node, values) or not depends_on(node, constants if _stays(node, values) else available):
            continue
        size = _size_bytes(node, types)
        if _stays(node, values) or (node.op_type in MOVEMENTS and node.input[0] not in constants):
            available.update(node.output)
        elif size is None or size > bytes_left or finals.intersection(node.output):
            continue
        else:
            bytes_left -= size
            constants.update(node.output)
            available.update(node.output)
            folded.update(node.output)
        nodes.append(node)
    read = {i for node in graph.node if not folded.intersection(node.output) for i in reads(node)}
    wanted = [o for node in nodes for o in node.output if o in folded and o in read]
    return _leading_to(nodes, wanted), wanted


def _stays(node: onnx.NodeProto, values: Mapping[str, onnx.TensorProto]) -> bool:
    """Returns whether the node is a DequantizeLinear of integers without blocks, which is not folded."""
    if node.op_type != "DequantizeLinear" or any(a.name == "block_size" and a.i for a in node.attribute):
        return False
    return node.input[0] not in values or values[node.input[0]].data_type not in FLOAT8


def _leading_to(nodes: list[onnx.NodeProto], wanted: list[str]) -> list[onnx.NodeProto]:
    """Returns those of the nodes that the wanted tensors depend on, in the same order."""
    needed, kept = set(wanted), list[onnx.NodeProto]()
    for node in reversed(nodes):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(node.input)
    return kept[::-1]


def depends_on(node: onnx.NodeProto, constants: set[str]) -> bool:
    """Returns whether the node is a function of these tensors alone."""
    inputs = [i for i in node.input if i]
    has_graphs = any(a.HasField("g") or a.graphs for a in node.attribute)
    foldable = node.domain in STANDARD and not has_graphs
    return foldable and bool(inputs) and all(i in constants for i in inputs)


def _size_bytes(node: onnx.NodeProto, types: Types) -> int | None:
    """Returns an estimate of the bytes of the node's outputs, or None if the type of one is unknown."""
    sizes = [(types[n][0], prod(types[n][1])) if n in types else None for n in node.output if n]
    known_sizes = [s for s in sizes if s is not None]
    return (
        sum(8 * size if kind == onnx.TensorProto.INT64 else 4 * size for kind, size in known_sizes)
        if known_sizes == sizes
        else None
    )


def _replace(graph: onnx.GraphProto, initializers: list[onnx.TensorProto]) -> None:
    """Replaces the nodes that compute these tensors by initializers."""
    names = {t.name for t in initializers}
    if not names:
        return
    kept = [onnx.NodeProto.FromString(n.SerializeToString()) for n in _without(graph, names)]
    del graph.node[:]
    graph.node.extend(kept)
    graph.initializer.extend(initializers)


def _without(graph: onnx.GraphProto, names: set[str]) -> Iterator[onnx.NodeProto]:
    """Yields the nodes that compute none of these tensors."""
    for node in graph.node:
        if not names.intersection(node.output):
            yield node
