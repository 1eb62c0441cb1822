"""Writes convolutions over three spatial dims as convolutions over two: the slices that one output depth reads become
channels of one image."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from qverify.onnx_model.depth_slices import Volume, images, slices, volume_again, volume_of
from qverify.onnx_model.rewriter import Rewriter, attribute, input_name

WEIGHTS_AT = {"QLinearConv": 3}


def convolution(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Writes a Conv, ConvInteger or QLinearConv."""
    weights_at, y = WEIGHTS_AT.get(node.op_type, 1), node.output[0]
    weights = r.dims(node.input[weights_at])
    if len(weights) != 5:
        return False
    last, act = r.absorbed_activation(node)
    window = volume_of(r, node, weights[2:], node.input[0], y)
    source = images(r, *slices(r, node.input[0], window.taps(), _zero(node)))
    inputs = list(node.input)
    inputs[0], inputs[weights_at] = source, _flat_weights(r, inputs[weights_at], weights)
    _planes(r, node, inputs, window, last, act)
    return None


def transposed(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Writes a ConvTranspose: each output depth reads the slices that contribute to it; missing ones are zero."""
    weights, y = r.dims(node.input[1]), node.output[0]
    if len(weights) != 5:
        return False
    auto = attribute(node, "auto_pad", b"NOTSET")
    if (
        auto.startswith(b"SAME")
        and any(attribute(node, "output_padding", ()))
        and not attribute(node, "output_shape", ())
    ):
        raise r.refusal(
            f"output_padding with auto_pad={auto.decode(errors='replace')} is not supported; export with pads"
        )
    last, act = r.absorbed_activation(node)
    window = volume_of(r, node, weights[2:], node.input[0], y)
    source = images(r, *slices(r, node.input[0], window.transposed_taps(), None))
    swapped = r.step("Transpose", [node.input[1]], "weight_slices", perm=[0, 2, 1, 3, 4])
    dims = [weights[0] * weights[2], weights[1], *weights[3:]]
    kernel = r.step("Reshape", [swapped, r.ints("weight_dims", dims)], "weight")
    _planes(r, node, [source, kernel, *node.input[2:]], window, last, act)
    return None


def _planes(
    r: Rewriter, node: onnx.NodeProto, inputs: list[str], window: Volume, last: str, act: onnx.NodeProto | None
) -> None:
    """Writes the convolution of the images, its activation, and the conversion of the result to a volume."""
    dims, more = r.dims(node.output[0]), dict[str, Any](group=attribute(node, "group", 1))
    if node.op_type == "ConvTranspose":
        more["output_padding"] = _further(window)
    image = r.step(node.op_type, inputs, "planes", node.domain, **window.plane(), **more)
    if act is not None:
        kept = {a.name: onnx.helper.get_attribute_value(a) for a in act.attribute}
        image = r.step(act.op_type, [image, *act.input[1:]], "activated_planes", act.domain, **kept)
    volume_again(r, image, dims[0], dims, last)


def _further(window: Volume) -> list[int]:
    """Returns the output_padding of rows and columns that leads to the output's size."""
    padding = []
    for i in (1, 2):
        reach = (window.kernel[i] - 1) * window.dilations[i] + 1
        padding.append(
            window.out[i] - ((window.size[i] - 1) * window.strides[i] + reach - window.pads[i] - window.pads[i + 3])
        )
    return padding


def _zero(node: onnx.NodeProto) -> str | None:
    """Returns the tensor with the zero point of the node's first input, or None if that is 0."""
    at = {"ConvInteger": 2, "QLinearConv": 2}.get(node.op_type, 99)
    return input_name(node, at) or None


def _flat_weights(r: Rewriter, weights: str, dims: tuple[int, ...]) -> str:
    flat = (dims[0], dims[1] * dims[2], *dims[3:])
    value = r.value(weights)
    if value is not None:
        return r.constant("weight", np.asarray(value).reshape(flat))
    return r.step("Reshape", [weights, r.ints("weight_dims", flat)], "weight")


REPLACED = {
    ("", "Conv"): convolution,
    ("", "ConvInteger"): convolution,
    ("", "ConvTranspose"): transposed,
}
