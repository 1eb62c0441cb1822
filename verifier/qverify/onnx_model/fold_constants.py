"""Computes what depends on constants and static shapes only: shape arithmetic, QuantizeLinear of weights, scales.
DequantizeLinear of a constant stays: it says how that constant is quantized. In blocks it does not: no integer kernel
has a scale for each block, so what follows computes with the float32 constant."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np
import onnx
from onnx import helper, numpy_helper

from qverify.errors import BadFileError
from qverify.onnx_model.engine import Engine
from qverify.onnx_model.infer_types import Types, infer_types
from qverify.onnx_model.node_order import reads
from qverify.onnx_model.plain_casts import casts_to_identity
from qverify.onnx_model.random_operators import draws
from qverify.onnx_model.widen_constants import PER_BYTE, widen_constants

MOST_BYTES = 1 << 31  # of all folded tensors: what a model may have
MOST_ROUNDS = 32  # each finds the sizes that the one before has made constant
STANDARD = ("", "ai.onnx", "com.microsoft")
MOVEMENTS = {"Identity", "Dropout", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"}


def fold_constants(model: onnx.ModelProto, known: Types) -> Types:
    """Replaces nodes of constants by initializers, in place; what onnxruntime computes of them is what it computes in
    the untouched model. Nodes must be in running order. known: types that inference does not find. Returns all types
    that are known in the end."""
    _constants_to_initializers(model.graph)
    left = MOST_BYTES
    for _ in range(MOST_ROUNDS):
        widen_constants(model.graph)
        types = infer_types(model, known)
        casts_to_identity(model.graph, types)
        shapes, folded = _fold_shapes(model.graph, types), _fold_nodes(model, types, left)
        left -= folded or 0
        if not shapes and folded is None:
            return types
    return infer_types(model, known)


def _constants_to_initializers(graph: onnx.GraphProto) -> None:
    finals, made = {o.name for o in graph.output}, list[onnx.TensorProto]()
    for node in graph.node:
        value = _value(node)
        if value is not None and node.output[0] not in finals:
            made.append(value)
    _replace(graph, made)


def _value(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """Returns the tensor of a Constant node; None for other nodes and for values that are no such tensor."""
    if node.op_type != "Constant" or len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    if attribute.name == "value" and attribute.t.data_type != onnx.TensorProto.STRING:
        made = onnx.TensorProto()
        made.CopyFrom(attribute.t)
        made.name = node.output[0]
        return made
    if attribute.name in ("value_float", "value_floats", "value_int", "value_ints"):
        kind = np.float32 if "float" in attribute.name else np.int64
        return numpy_helper.from_array(np.array(helper.get_attribute_value(attribute), kind), node.output[0])
    return None


def _fold_shapes(graph: onnx.GraphProto, types: Types) -> bool:
    """Replaces Shape and Size of tensors whose shape is known. Returns whether there was one."""
    finals, made = {o.name for o in graph.output}, list[onnx.TensorProto]()
    for node in graph.node:
        if node.op_type in ("Shape", "Size") and node.input and node.input[0] in types and node.output[0] not in finals:
            dims = types[node.input[0]][1]
            ends = {a.name: a.i for a in node.attribute}
            part = dims[ends.get("start", 0) : ends.get("end", len(dims))]
            value = np.array(part, np.int64) if node.op_type == "Shape" else np.array(prod(dims), np.int64)
            made.append(numpy_helper.from_array(value, node.output[0]))
    _replace(graph, made)
    return bool(made)


def _fold_nodes(model: onnx.ModelProto, types: Types, left: int) -> int | None:
    """Replaces the nodes whose inputs are constants. Returns the bytes of the new ones; None where there are none."""
    nodes, wanted = _computable(model.graph, types, left)
    if not wanted:
        return None
    graph, read = model.graph, {i for node in nodes for i in node.input}
    small = {n: f"{n}/8 bits" for n in wanted if types[n][0] in PER_BYTE}  # what onnxruntime returns no array of
    casts = [helper.make_node("Cast", [n], [small[n]], to=onnx.TensorProto.INT8) for n in small]
    asked = [small.get(n, n) for n in wanted]
    part = helper.make_model(
        helper.make_graph(
            [*nodes, *casts],
            "constants",
            [],
            [onnx.ValueInfoProto(name=n) for n in asked],
            [i for i in graph.initializer if i.name in read],
        ),
        opset_imports=list(model.opset_import),
        ir_version=max(model.ir_version, 4),
    )
    try:
        found = Engine(part.SerializeToString()).run({}, asked)
    except BadFileError:
        return None  # they stay, and are refused by name where they cannot be compiled
    values = {n: found[o] for n, o in zip(wanted, asked, strict=True)}
    values |= {n: values[n].astype(helper.tensor_dtype_to_np_dtype(types[n][0])) for n in small}
    _replace(graph, [numpy_helper.from_array(np.ascontiguousarray(v).reshape(v.shape), n) for n, v in values.items()])
    _drop_unread(graph, {o for node in nodes for o in node.output})
    return sum(v.nbytes for v in values.values())


def _drop_unread(graph: onnx.GraphProto, computed: set[str]) -> None:
    """Takes out the nodes of these tensors that only folded nodes have read."""
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


def _computable(graph: onnx.GraphProto, types: Types, left: int) -> tuple[list[onnx.NodeProto], list[str]]:
    """Returns the nodes to compute and those of their tensors that other nodes read. left: the bytes they may have."""
    values = {i.name: i for i in graph.initializer}
    constants = set(values)
    available = set(constants)  # and what DequantizeLinear makes of constants
    finals, nodes, folded = {o.name for o in graph.output}, list[onnx.NodeProto](), set[str]()
    for node in graph.node:
        if draws(node, values) or not _depends_on(node, constants if _stays(node) else available):
            continue
        size = _size_bytes(node, types)
        if _stays(node):
            available.update(node.output)
        elif size is None or size > left or finals.intersection(node.output):
            continue
        elif node.op_type not in MOVEMENTS or node.input[0] in constants:
            left -= size
            constants.update(node.output)
            available.update(node.output)
            folded.update(node.output)
        else:
            continue
        nodes.append(node)
    read = {i for node in graph.node if not folded.intersection(node.output) for i in reads(node)}
    wanted = [o for node in nodes for o in node.output if o in folded and o in read]
    return _leading_to(nodes, wanted), wanted


def _stays(node: onnx.NodeProto) -> bool:
    return node.op_type == "DequantizeLinear" and not any(a.name == "block_size" and a.i for a in node.attribute)


def _leading_to(nodes: list[onnx.NodeProto], wanted: list[str]) -> list[onnx.NodeProto]:
    """Returns the nodes that these tensors depend on, in their order."""
    needed, kept = set(wanted), list[onnx.NodeProto]()
    for node in reversed(nodes):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(node.input)
    return kept[::-1]


def _depends_on(node: onnx.NodeProto, constants: set[str]) -> bool:
    """Returns whether the node is a function of these tensors alone."""
    given = [i for i in node.input if i]
    graphs = any(a.HasField("g") or a.graphs for a in node.attribute)
    known = node.domain in STANDARD and not graphs
    return known and bool(given) and all(i in constants for i in given)


def _size_bytes(node: onnx.NodeProto, types: Types) -> int | None:
    """Returns the bytes of the node's outputs before anything is computed; None where one is not known."""
    sizes = [(types[n][0], prod(types[n][1])) if n in types else None for n in node.output if n]
    known = [s for s in sizes if s is not None]
    return (
        sum(8 * size if kind == onnx.TensorProto.INT64 else 4 * size for kind, size in known)
        if known == sizes
        else None
    )


def _replace(graph: onnx.GraphProto, made: list[onnx.TensorProto]) -> None:
    """Puts initializers in the place of the nodes that make tensors of their names."""
    names = {t.name for t in made}
    if not names:
        return
    kept = [onnx.NodeProto.FromString(n.SerializeToString()) for n in _without(graph, names)]
    del graph.node[:]
    graph.node.extend(kept)
    graph.initializer.extend(made)


def _without(graph: onnx.GraphProto, names: set[str]) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        if not names.intersection(node.output):
            yield node
