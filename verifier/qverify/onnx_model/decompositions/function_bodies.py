"""Writes operators that ONNX defines by a function body as that body."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from qverify.onnx_model.decompositions.cached_attention import attention
from qverify.onnx_model.rewriter import Rewriter, attribute, input_name

LOW = np.float32(np.finfo(np.float32).min / 2)


def written_by_onnx(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes the body that ONNX defines for the node's opset, attributes and types. The softmax of an Attention is in
    float32 whatever its softmax_precision, as in onnxruntime."""
    if node.op_type == "Attention":
        if attention(r, node) is not False:
            return
        node = _without(node, "softmax_precision")
    if node.op_type == "MeanVarianceNormalization":
        _check_axes(r, node)
    body = _body(r, node)
    names = {inner: input_name(node, at) for at, inner in enumerate(body.input)}
    names |= {inner: outer for inner, outer in zip(body.output, node.output, strict=False) if outer}
    defaults = onnx.defs.get_schema(node.op_type, r.opset, "").attributes
    attributes = {n: a.default_value for n, a in defaults.items() if a.default_value.type}
    attributes |= {a.name: a for a in [*body.attribute_proto, *node.attribute]}
    for inner in body.node:
        if any(a.type in (a.GRAPH, a.GRAPHS) for a in inner.attribute):
            raise r.refusal("its definition branches at run time, which has no kernel")
        copy = onnx.NodeProto.FromString(inner.SerializeToString())
        for name in copy.output:
            names.setdefault(name, r.fresh(name))
        copy.input[:] = [names[name] if name else "" for name in inner.input]
        copy.output[:] = [names[name] if name else "" for name in inner.output]
        copy.name = node.name if node.output[0] in copy.output else f"{node.name}/{copy.output[0]}"
        del copy.attribute[:]
        for a in inner.attribute:
            if not a.ref_attr_name:
                copy.attribute.append(a)
            elif a.ref_attr_name in attributes:
                value = onnx.AttributeProto.FromString(attributes[a.ref_attr_name].SerializeToString())
                value.name = a.name
                copy.attribute.append(value)
        if copy.op_type == "Constant":
            _finite(copy)
        r.nodes.append(copy)


def _without(node: onnx.NodeProto, attribute: str) -> onnx.NodeProto:
    """Returns a copy of the node without the attribute."""
    copy = onnx.NodeProto.FromString(node.SerializeToString())
    del copy.attribute[:]
    copy.attribute.extend(a for a in node.attribute if a.name != attribute)
    return copy


def _check_axes(r: Rewriter, node: onnx.NodeProto) -> None:
    """Refuses axes of one element, over which nothing varies: the result would be a rounding error divided by almost
    0."""
    axes, dims = attribute(node, "axes", [0, 2, 3]), r.dims(node.input[0])
    if len(set(axes)) != len(axes) or prod(dims[a] for a in axes if -len(dims) <= a < len(dims)) < 2:
        raise r.refusal(f"axes {list(axes)} of {list(dims)} name single elements, or one axis twice")


def _finite(constant: onnx.NodeProto) -> None:
    """Replaces minus infinity by half of the lowest float32, in place: a score added to it is lost as well, and
    comparing infinities would show nothing."""
    for a in constant.attribute:
        if a.type == a.TENSOR and a.t.data_type == onnx.TensorProto.FLOAT:
            value = numpy_helper.to_array(a.t)
            a.t.CopyFrom(numpy_helper.from_array(np.where(np.isneginf(value), LOW, value), a.t.name))


def _body(r: Rewriter, node: onnx.NodeProto) -> onnx.FunctionProto:
    schema: Any = onnx.defs.get_schema(node.op_type, r.opset, "")
    typed = schema.has_context_dependent_function
    versions = schema.context_dependent_function_opset_versions if typed else schema.function_opset_versions
    version = max((v for v in versions if v <= r.opset), default=0)
    if not version:
        raise r.refusal(f"ONNX does not define it by other operators of opset {r.opset}")
    if not typed:
        data = schema.get_function_with_opset_version(version)
    else:
        types = [
            helper.make_tensor_type_proto(r.kind(n), r.dims(n)).SerializeToString() if n else b"" for n in node.input
        ]
        data = schema.get_context_dependent_function_with_opset_version(version, node.SerializeToString(), types)
    if not data:
        raise r.refusal("ONNX does not define this form by other operators")
    return onnx.FunctionProto.FromString(data)


KINDS = ("Attention", "CenterCropPad", "MeanVarianceNormalization")
REPLACED = {("", kind): written_by_onnx for kind in KINDS}
