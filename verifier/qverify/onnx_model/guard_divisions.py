"""Integer divisions that cannot end onnxruntime, and this process with it: the lowest int32 or int64 by -1 traps on x86. Every
model is run with them, whoever made it, also inside If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, numpy_helper, shape_inference

from qverify.errors import BadFileError
from qverify.onnx_model.infer_types import without_large_constants
from qverify.onnx_model.model_functions import inline_functions
from qverify.onnx_model.node_order import graphs_of, inner_nodes, sort_nodes

WIDE: dict[int, type] = {TensorProto.INT32: np.int32, TensorProto.INT64: np.int64}
KINDS = ("Div", "Mod")
OPSET = 7  # the first with numpy's broadcasting
Types = Mapping[str, int]
Constants = Mapping[str, onnx.TensorProto]
Makers = Mapping[str, onnx.NodeProto]


def guard_divisions(model: bytes) -> bytes:
    """Returns the model, serialized, in which every Div and Mod of int32 or int64 by what may be -1 divides by 1 there, and
    the sign of Div's result changes behind it: the same values, and the lowest integer (of Mod 0) where onnxruntime
    would end the process. The same object where there is none. A tensor whose type ONNX's inference does not find is
    left as it is."""
    if not any(kind.encode() in model for kind in KINDS):
        return model
    try:
        proto = onnx.load_from_string(model)
        if not any(_divides(one) for owner in (proto.graph, *proto.functions) for one in _all_nodes(owner)):
            return model
        proto = inline_functions(proto, "model")
        sort_nodes(proto.graph, "model")
    except (DecodeError, BadFileError):
        return model  # onnxruntime says so
    opsets = {o.domain: o.version for o in proto.opset_import}
    if opsets.get("", opsets.get("ai.onnx", 0)) < OPSET or not _guard(proto.graph, _inferred(proto), {}, {}):
        return model
    return bytes(proto.SerializeToString())


def _all_nodes(owner: onnx.GraphProto | onnx.FunctionProto) -> list[onnx.NodeProto]:
    return [one for node in owner.node for one in inner_nodes(node)]


def _divides(node: onnx.NodeProto) -> bool:
    plain = node.op_type in KINDS and node.domain in ("", "ai.onnx") and len(node.input) == 2
    return plain and not any(a.name == "fmod" and a.i for a in node.attribute)


def _inferred(model: onnx.ModelProto) -> onnx.GraphProto:
    """Returns the graph with the types that are known of its tensors and of those in its nodes' graphs."""
    skeleton = without_large_constants(model)
    try:
        return shape_inference.infer_shapes(skeleton).graph
    except Exception:  # of the C++ library: then only what the file says is known
        return skeleton.graph


def _guard(graph: onnx.GraphProto, inferred: onnx.GraphProto, types: Types, constants: Constants) -> bool:
    """Guards the divisions of a graph, in place; whether there was one. types, constants: of the graphs around it."""
    types = {**types, **{v.name: v.type.tensor_type.elem_type for v in _values(inferred)}}
    types |= {i.name: i.data_type for i in graph.initializer}
    constants, makers = {**constants, **_constants(graph)}, {o: node for node in graph.node for o in node.output}
    nodes, guarded = list[onnx.NodeProto](), False
    for node, known in zip(graph.node, inferred.node, strict=True):
        for inner, its in zip(graphs_of(node), graphs_of(known), strict=True):
            guarded |= _guard(inner, its, types, constants)
        copy = onnx.NodeProto.FromString(node.SerializeToString())
        if _divides(node) and types.get(node.input[1]) in WIDE and _may_be_minus_one(node.input[1], constants, makers):
            nodes += _guarded(copy, types[node.input[1]])
            guarded = True
        else:
            nodes.append(copy)
    if guarded:
        del graph.node[:]
        graph.node.extend(nodes)
    return guarded


def _values(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    return [*graph.value_info, *graph.input, *graph.output]


def _constants(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    found = {i.name: i for i in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and len(node.attribute) == 1 and node.attribute[0].name == "value":
            found[node.output[0]] = node.attribute[0].t
    return found


def _may_be_minus_one(divisor: str, constants: Constants, makers: Makers) -> bool:
    """Returns whether a divisor has a -1 or is not known; that of decompositions/computed_divisors.py has none."""
    if divisor in constants:
        return _holds(constants[divisor], -1)
    choice = makers.get(divisor)
    asked = makers.get(choice.input[0]) if choice is not None and choice.op_type == "Where" else None
    if choice is None or asked is None or asked.op_type != "Equal" or asked.input[0] != choice.input[2]:
        return True
    one, minus_one = constants.get(choice.input[1]), constants.get(asked.input[1])
    return one is None or minus_one is None or _holds(one, -1) or len(minus_one.dims) > 0 or not _holds(minus_one, -1)


def _holds(constant: onnx.TensorProto, value: int) -> bool:
    """Returns whether an element of a constant has this value; True where its data is elsewhere."""
    if constant.data_location == TensorProto.EXTERNAL:
        return True
    try:
        return bool((numpy_helper.to_array(constant) == value).any())
    except Exception:  # of the helper: damaged data
        return True


def _guarded(node: onnx.NodeProto, kind: int) -> list[onnx.NodeProto]:
    """Returns the nodes in the place of one, without Where, which older opsets have not."""
    b, y = node.input[1], node.output[0]
    name = {n: f"{y}/guarded/{n}" for n in ("minus_one", "one", "there", "by", "twice", "divisor", "quotient", "sign")}

    def constant(key: str, value: int) -> onnx.NodeProto:
        tensor = numpy_helper.from_array(np.array(value, WIDE[kind]))
        return helper.make_node("Constant", [], [name[key]], value=tensor)

    nodes = [
        constant("minus_one", -1),
        helper.make_node("Equal", [b, name["minus_one"]], [name["there"]]),
        helper.make_node("Cast", [name["there"]], [name["by"]], to=kind),
        helper.make_node("Add", [name["by"], name["by"]], [name["twice"]]),
        helper.make_node("Add", [b, name["twice"]], [name["divisor"]]),
        node,
    ]
    node.input[1] = name["divisor"]
    if node.op_type == "Div":
        node.output[0] = name["quotient"]
        nodes += [
            constant("one", 1),
            helper.make_node("Sub", [name["one"], name["twice"]], [name["sign"]]),
            helper.make_node("Mul", [name["quotient"], name["sign"]], [y]),
        ]
    return nodes
