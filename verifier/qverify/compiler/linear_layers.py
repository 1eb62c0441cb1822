"""What convolutions and matrix products share: their constants and whether onnxruntime has an integer kernel for
them."""

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
    here. kernel: an integer kernel reads it; without one the reference adds its real value, regardless of its stored
    scale."""
    if not name:
        return None, "", {}
    steps = x.scale.astype(np.float64) * w.scale.astype(np.float64)
    stored = view.dequantized(name)
    if stored is not None and stored.value is not None and stored.dtype == "int32" and not stored.zero_point.any():
        near, nearest = (1e-3, 1e-8) if kernel else (2.0**-20, 0.0)
        if np.allclose(stored.scale, steps, rtol=near, atol=nearest):
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
    whole = np.clip(np.rint(real.reshape(-1).astype(np.float64) / steps), -limit, limit).astype(
        np.int64 if wide else np.int32
    )
    return whole, f"{name}/int32", {f"{name}/int32": whole}


def bias_overflows(view: GraphView, name: str, x: QuantizedTensor, w: QuantizedTensor, wide: bool) -> bool:
    """Returns whether a float bias, in steps of the products, leaves an int32 sum no room: a quantizer that saw only
    zeros gives x a tiny scale. False where the scales are not one, or one for each value of the bias."""
    real = view.float_constant(name) if name else None
    stored = view.dequantized(name) if name else None
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
    """Adds the constants of a linear node's second and third input and returns their names. weight: w's values in the
    node's layout; axis: of its scales."""
    name = f"{y.name}/weight"
    spec = replace(w.spec(name, tuple(weight.shape)), channel_axis=axis if len(w.scale) > 1 else -1)
    name = builder.made(name, weight, spec)
    if bias is None:
        return [name, None]
    kind: type = np.float32 if bias.dtype == np.float32 else np.int64 if wide else np.int32
    return [name, builder.made(f"{y.name}/bias", bias.reshape(-1).astype(kind))]


def scaled_alike(x: QuantizedTensor, w: QuantizedTensor) -> bool:
    """Returns whether each sum of a Conv has one scale: x has one, or one a channel and each output reads one
    channel."""
    return len(x.scale) == 1 or (x.axis == 1 and w.value is not None and w.value.shape[1] == 1)


def by_output(x: QuantizedTensor, outputs: int) -> QuantizedTensor:
    """Returns x with the scale of each output channel of a Conv that reads one channel for each; x where it has one
    scale."""
    return x if len(x.scale) == 1 else replace(x, scale=np.repeat(x.scale, outputs // len(x.scale)))


def of_every_group(w: QuantizedTensor, group: int) -> QuantizedTensor:
    """Returns the weights of a ConvTranspose with a scale for each output channel: the same ones in every group."""
    return w if len(w.scale) == 1 else replace(w, scale=np.tile(w.scale, group))


def integer_kernel(x: QuantizedTensor, y: QuantizedTensor, *others: QuantizedTensor) -> bool:
    """Returns whether onnxruntime has an integer kernel: 8-bit types, one activation type and scale, no int8
    activation with uint8 weight."""
    if not all(q.eight_bit for q in (x, y, *others)) or x.dtype != y.dtype or len(x.scale) > 1:
        return False
    return not (x.dtype == "int8" and any(o.dtype == "uint8" for o in others))
