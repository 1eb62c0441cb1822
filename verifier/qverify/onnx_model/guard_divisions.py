"""Rewrites integer divisions, and what else would make onnxruntime end this process.

Dividing the lowest int32 or int64 by -1 traps on x86, and so do STFT with a frame length or step of 0 and
QLinearAveragePool with the channels last and a window larger than its input. An omitted output of a Loop, a Scan or a Split
is written to in spite of that. Every model is rewritten before it is run, also inside If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, numpy_helper, shape_inference

from qverify.errors import BadFileError
from qverify.onnx_model.held_data import value_of
from qverify.onnx_model.infer_types import without_large_constants
from qverify.onnx_model.model_functions import inline_functions
from qverify.onnx_model.node_order import graphs_of, inner_nodes, sort_nodes

WIDE: dict[int, type] = {TensorProto.INT32: np.int32, TensorProto.INT64: np.int64}
KINDS = ("Div", "Mod", "STFT", "QLinearAveragePool", "Loop", "Scan", "Split")
SEVERAL_OUTPUTS = ("Loop", "Scan", "Split")
FRAME_INPUTS = (1, 3)  # of STFT: frame_step and frame_length
OPSET = 7  # the first opset with numpy's broadcasting
Types = Mapping[str, int]
Constants = Mapping[str, onnx.TensorProto]
Makers = Mapping[str, onnx.NodeProto]


def guard_divisions(model: bytes) -> bytes:
    """Returns the serialized model with guarded divisions, or the same object if there is nothing to guard.

    Every Div and Mod of int32 or int64 whose divisor may be -1 divides by 1 in that case, and the sign of Div's result
    is changed after it. The values are the same; where onnxruntime would end the process, Div gives the lowest integer
    and Mod 0. A frame length or step of STFT below 1 becomes 1. A QLinearAveragePool gets its channels first, between two
    Transposes; a window larger than the input then gives no elements. Omitted outputs of Loop, Scan and Split get names. A
    division whose type ONNX's inference does not find is left as it is."""
    if not any(kind.encode() in model for kind in KINDS):
        return model
    try:
        proto = onnx.load_from_string(model)
        if not any(_may_end_process(node) for owner in (proto.graph, *proto.functions) for node in _all_nodes(owner)):
            return model
        proto = inline_functions(proto, "model")
        sort_nodes(proto.graph, "model")
    except (DecodeError, BadFileError):
        return model  # the session reports it
    opsets = {o.domain: o.version for o in proto.opset_import}
    if opsets.get("", opsets.get("ai.onnx", 0)) < OPSET or not _guard(proto.graph, _inferred(proto), {}, {}):
        return model
    return bytes(proto.SerializeToString())


def _all_nodes(owner: onnx.GraphProto | onnx.FunctionProto) -> list[onnx.NodeProto]:
    """Returns the nodes of a graph or function, also those inside their subgraphs."""
    return [inner for node in owner.node for inner in inner_nodes(node)]


def _may_end_process(node: onnx.NodeProto) -> bool:
    """Returns whether the node may divide integers, or is another one that can end onnxruntime's process."""
    if node.op_type == "QLinearAveragePool":
        attributes = {a.name: a for a in node.attribute}
        return "kernel_shape" in attributes and "channels_last" in attributes and attributes["channels_last"].i == 1
    if node.op_type in SEVERAL_OUTPUTS:
        return "" in node.output
    if node.op_type not in KINDS or node.domain not in ("", "ai.onnx"):
        return False
    return node.op_type == "STFT" or (
        len(node.input) == 2 and not any(a.name == "fmod" and a.i for a in node.attribute)
    )


def _inferred(model: onnx.ModelProto) -> onnx.GraphProto:
    """Returns the graph with the types that inference finds for its tensors and those of its subgraphs."""
    skeleton = without_large_constants(model)
    try:
        return shape_inference.infer_shapes(skeleton).graph
    except Exception:  # the C++ library's errors: use the types that the file declares
        return skeleton.graph


def _guard(graph: onnx.GraphProto, inferred: onnx.GraphProto, types: Types, constants: Constants) -> bool:
    """Guards the divisions of a graph, in place, and returns whether there were any.

    types, constants: those of the graphs around it."""
    types = {**types, **{v.name: v.type.tensor_type.elem_type for v in _values(inferred)}}
    types |= {i.name: i.data_type for i in graph.initializer}
    constants, makers = {**constants, **_constants(graph)}, {o: node for node in graph.node for o in node.output}
    nodes, guarded = list[onnx.NodeProto](), False
    for node, inferred_node in zip(graph.node, inferred.node, strict=True):
        for inner, inferred_inner in zip(graphs_of(node), graphs_of(inferred_node), strict=True):
            guarded |= _guard(inner, inferred_inner, types, constants)
        copy = onnx.NodeProto.FromString(node.SerializeToString())
        if not _may_end_process(node):
            nodes.append(copy)
        elif node.op_type == "STFT":
            limits = _guard_frames(copy, types, constants)
            nodes += [*limits, copy]
            guarded |= bool(limits)
        elif node.op_type in SEVERAL_OUTPUTS:
            named = next((o for o in node.output if o), f"{graph.name}/{len(nodes)}")
            copy.output[:] = [o or f"{named}/guarded/output_{at}" for at, o in enumerate(node.output)]
            nodes.append(copy)
            guarded = True
        elif node.op_type == "QLinearAveragePool":
            nodes += _with_channels_first(copy)
            guarded = True
        elif types.get(node.input[1]) in WIDE and _may_be_minus_one(node.input[1], constants, makers):
            nodes += _guard_division(copy, types[node.input[1]])
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
    constants = {i.name: i for i in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and len(node.attribute) == 1 and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t
    return constants


def _may_be_minus_one(divisor: str, constants: Constants, makers: Makers) -> bool:
    """Returns whether a divisor contains -1 or is unknown. One made by decompositions/computed_divisors.py, which
    replaces -1 by a constant, is recognised as safe."""
    if divisor in constants:
        return _contains(constants[divisor], -1)
    choice = makers.get(divisor)
    condition = makers.get(choice.input[0]) if choice is not None and choice.op_type == "Where" else None
    if choice is None or condition is None or condition.op_type != "Equal" or condition.input[0] != choice.input[2]:
        return True
    substitute, compared = constants.get(choice.input[1]), constants.get(condition.input[1])
    if substitute is None or compared is None:
        return True
    return _contains(substitute, -1) or len(compared.dims) > 0 or not _contains(compared, -1)


def _contains(constant: onnx.TensorProto, value: int) -> bool:
    """Returns whether a constant has an element of this value; True if its data cannot be read."""
    if constant.data_location == TensorProto.EXTERNAL:
        return True
    try:
        return bool((value_of(constant) == value).any())
    except Exception:  # the helper's errors for damaged data
        return True


def _with_channels_first(pool: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Returns the pool, changed in place, between two Transposes."""
    attributes = {a.name: a for a in pool.attribute}
    rank, x, y = len(attributes["kernel_shape"].ints) + 2, pool.input[0], pool.output[0]
    first, pooled = f"{y}/guarded/channels_first", f"{y}/guarded/pooled"
    attributes["channels_last"].i, pool.input[0], pool.output[0] = 0, first, pooled
    return [
        helper.make_node("Transpose", [x], [first], perm=[0, rank - 1, *range(1, rank - 1)]),
        pool,
        helper.make_node("Transpose", [pooled], [y], perm=[0, *range(2, rank), 1]),
    ]


def _guard_frames(node: onnx.NodeProto, types: Types, constants: Constants) -> list[onnx.NodeProto]:
    """Returns nodes that keep the frame length and step of an STFT at 1 or more, unless they are constants that are;
    changes its inputs in place."""
    nodes = list[onnx.NodeProto]()
    for at in FRAME_INPUTS:
        size = node.input[at] if len(node.input) > at else ""
        if types.get(size) not in WIDE or (size in constants and not _contains(constants[size], 0)):
            continue
        one, positive = f"{node.output[0]}/guarded/one_{at}", f"{node.output[0]}/guarded/frame_{at}"
        value = numpy_helper.from_array(np.array(1, WIDE[types[size]]))
        nodes += [
            helper.make_node("Constant", [], [one], value=value),
            helper.make_node("Max", [size, one], [positive]),
        ]
        node.input[at] = positive
    return nodes


def _guard_division(node: onnx.NodeProto, kind: int) -> list[onnx.NodeProto]:
    """Returns the nodes that replace a division. They do not use Where, which older opsets lack."""
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
