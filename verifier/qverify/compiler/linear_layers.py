"""Shared parts of the lowerings of convolutions and matrix products: constants, and whether onnxruntime has an integer
kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from qverify.compiler.builder import Builder
from qverify.compiler.float_output import FloatOutput
from qverify.compiler.unit import Array
from qverify.errors import NotOnHostError, UnsupportedError
from qverify.onnx_model.graph_view import GraphView, QuantizedTensor


def integer_bias(
    view: GraphView, node: Any, name: str, x: QuantizedTensor, w: QuantizedTensor, wide: bool, kernel: bool
) -> tuple[Array | None, str, dict[str, Array]]:
    """Returns the integer bias of a unit, its name in the integer ONNX, and a new initializer if it had to be quantized
    here.

    name: the bias in the ONNX, "" for none. wide: whether a tensor of the unit has 16 bits, so that the bias is int64.
    kernel: whether an integer kernel reads the bias; otherwise the reference adds its real value, whatever its stored
    scale."""
    if not name:
        return None, "", {}
    steps = x.scale.astype(np.float64) * w.scale.astype(np.float64)
    stored = view.dequantized_bias(name)
    if stored is not None and stored.value is not None and stored.dtype == "int32" and not stored.zero_point.any():
        rtol, atol = (1e-3, 1e-8) if kernel else (2.0**-20, 0.0)
        if np.allclose(stored.scale, steps, rtol=rtol, atol=atol):
            return stored.value.reshape(-1), stored.name, {}
    real = view.float_constant(name)
    if real is None:
        raise UnsupportedError(
            f"{node.name} ({node.op_type}): bias {name!r} is not a constant; only constant biases can be compiled"
        )
    if steps.size not in (1, real.size):
        raise NotOnHostError(
            f"{node.name} ({node.op_type}): bias {name!r} has {real.size} values for {steps.size} scales of the weights"
        )
    if not np.isfinite(real).all():
        raise NotOnHostError(f"{node.name} ({node.op_type}): bias {name!r} contains infinite values")
    limit = 2**62 if wide else 2**31 - 1
    integers = np.clip(np.rint(real.reshape(-1).astype(np.float64) / steps), -limit, limit).astype(
        np.int64 if wide else np.int32
    )
    shared = len(view.consumers.get(name, ())) > 1  # by nodes whose scales, and therefore integers, may differ
    new = f"{name}/int32/{node.output[0]}" if shared else f"{name}/int32"
    return integers, new, {new: integers}


def bias_overflows(view: GraphView, name: str, x: QuantizedTensor, w: QuantizedTensor, wide: bool) -> bool:
    """Returns whether a float bias, divided by the scale of the products, leaves no room for them in an int32 sum. This
    happens if a quantizer saw only zeros and gave x a tiny scale. Returns False if the number of scales does not fit
    the bias."""
    real = view.float_constant(name) if name else None
    stored = view.dequantized_bias(name) if name else None
    steps = x.scale.astype(np.float64) * w.scale.astype(np.float64)
    if wide or real is None or stored is not None or w.value is None or steps.size not in (1, real.size):
        return False
    room = 2.0**31 - 1 - w.value.size / max(real.size, 1) * 255 * 255
    return bool((np.abs(real.reshape(-1).astype(np.float64)) > room * steps).any())


def weight_and_bias(
    builder: Builder,
    y: QuantizedTensor | FloatOutput,
    w: QuantizedTensor,
    weight: Array,
    axis: int,
    bias: Array | None,
    wide: bool,
) -> list[str | None]:
    """Adds the constants of a linear node's second and third input and returns their names.

    weight: the values of w in the node's layout. axis: the axis of its scales in that layout."""
    name = f"{y.name}/weight"
    spec = replace(w.spec(name, tuple(weight.shape)), channel_axis=axis if len(w.scale) > 1 else -1)
    name = builder.new_constant(name, weight, spec)
    if bias is None:
        return [name, None]
    kind: type = np.float32 if bias.dtype == np.float32 else np.int64 if wide else np.int32
    return [name, builder.new_constant(f"{y.name}/bias", bias.reshape(-1).astype(kind))]


def scaled_alike(x: QuantizedTensor, w: QuantizedTensor) -> bool:
    """Returns whether each sum of a Conv has a single scale: x has one scale, or one per channel and each output
    channel reads one input channel."""
    return len(x.scale) == 1 or (x.axis == 1 and w.value is not None and w.value.shape[1] == 1)


def repeated_for_outputs(x: QuantizedTensor, outputs: int) -> QuantizedTensor:
    """Returns x with the scale of the input channel that each output channel of a depthwise Conv reads. Returns x
    itself if it has one scale."""
    return x if len(x.scale) == 1 else replace(x, scale=np.repeat(x.scale, outputs // len(x.scale)))


def tiled_for_groups(w: QuantizedTensor, group: int) -> QuantizedTensor:
    """Returns the weights of a ConvTranspose with a scale for each output channel; every group has the same scales."""
    return w if len(w.scale) == 1 else replace(w, scale=np.tile(w.scale, group))


def integer_kernel(x: QuantizedTensor, y: QuantizedTensor, *others: QuantizedTensor) -> bool:
    """Returns whether onnxruntime has an integer kernel for these tensors: all have 8 bits, x and y have the same
    dtype, x has one scale, and no uint8 operand is multiplied by an int8 x."""
    if not all(q.eight_bit for q in (x, y, *others)) or x.dtype != y.dtype or len(x.scale) > 1:
        return False
    return not (x.dtype == "int8" and any(o.dtype == "uint8" for o in others))
