"""Conv -> QLinearConv; ConvTranspose stays float in the integer ONNX. Both become integer nodes of model.bin."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.builder import Builder
from qverify.compiler.unit import (
    Activation,
    Array,
    Unit,
    integer_kernel,
    operand,
    standard,
    triple,
    weight_and_bias,
    with_activation,
)
from qverify.errors import UnsupportedError
from qverify.onnx_model.view import Quantized, View, attributes

ONNX_TYPES = ("Conv", "ConvTranspose")


def integer_bias(
    view: View, node: Any, name: str, x: Quantized, w: Quantized, wide: bool, kernel: bool
) -> tuple[Array | None, str, dict[str, Array]]:
    """The int32 bias of a unit, its name in the integer ONNX, and a new initializer when it had to be quantized here.
    kernel: an integer kernel reads it; without one the reference adds its real value, whatever scale it was stored with."""
    if not name:
        return None, "", {}
    steps = x.scale.astype(np.float64) * w.scale.astype(np.float64)
    stored = view.dequantized(name)
    if stored is not None and stored.value is not None and stored.dtype == "int32" and not stored.zero_point.any():
        relative, absolute = (1e-3, 1e-8) if kernel else (2.0**-20, 0.0)
        if np.allclose(stored.scale, steps, rtol=relative, atol=absolute):
            return stored.value.reshape(-1), stored.name, {}
    real = view.float_constant(name)
    if real is None:
        raise UnsupportedError(
            f"{node.name} ({node.op_type}): bias {name!r} is not a constant; only constant biases can be compiled"
        )
    if not np.isfinite(real).all():
        raise UnsupportedError(f"{node.name} ({node.op_type}): bias {name!r} holds infinite values")
    limit = 2**62 if wide else 2**31 - 1
    whole = np.clip(np.rint(real.reshape(-1).astype(np.float64) / steps), -limit, limit).astype(
        np.int64 if wide else np.int32
    )
    return whole, f"{name}/int32", {f"{name}/int32": whole}


def match(view: View, node: Any, y: Quantized, act: Activation) -> Unit | None:
    x, w = view.dequantized(node.input[0]), view.dequantized(node.input[1])
    if x is None or w is None or w.value is None or len(x.scale) > 1 or len(y.scale) > 1:
        return None
    transposed = node.op_type == "ConvTranspose"
    wide = x.sixteen_bit or w.sixteen_bit or y.sixteen_bit
    kernel = not transposed and integer_kernel(x, y, w) and not wide
    bias, bias_name, new = integer_bias(view, node, node.input[2] if len(node.input) > 2 else "", x, w, wide, kernel)
    unit = Unit(y.name, lambda b: lower(b, view, node, x, w, bias, y, act, kernel), constants=new)
    if kernel:
        inputs = [*triple(x), *triple(w), y.scale_name, y.zero_name] + ([bias_name] if bias_name else [])
        plain = {k: v for k, v in attributes(node).items()}
        unit.onnx = [standard("QLinearConv", inputs, [y.name], **plain)]
        with_activation(unit, y, act)
    else:
        unit.constants = {}
    return unit


def from_operator(view: View, node: Any) -> Unit:
    """A QLinearConv of a QOperator model."""
    from qverify.compiler.qoperator import constant_operand, quantized_input, quantized_output

    x, w = quantized_input(view, node, 0), quantized_input(view, node, 3)
    y = quantized_output(view, node, 0, 6)
    if w.value is None:
        raise UnsupportedError(
            f"{node.name} (QLinearConv): its weights are computed at run time; only constants can be compiled"
        )
    bias = constant_operand(view, node, 8, "bias")
    limits = np.iinfo(y.dtype)
    act = Activation(int(limits.min), int(limits.max))
    return Unit(y.name, lambda b: lower(b, view, node, x, w, bias, y, act, True), [node])


def lower(
    builder: Builder,
    view: View,
    node: Any,
    x: Quantized,
    w: Quantized,
    bias: Array | None,
    y: Quantized,
    act: Activation,
    kernel: bool,
) -> None:
    attrs, shape = attributes(node), view.shape(x.name)
    assert w.value is not None
    spatial = w.value.ndim - 2
    if spatial not in (1, 2):
        raise UnsupportedError(
            f"{node.name} ({node.op_type}): {spatial}-D convolution is not supported; 1-D and 2-D are"
        )
    group = attrs.get("group", 1)
    weight = w.value if spatial == 2 else w.value[:, :, None, :]
    out = view.shape(y.name)
    pads = window_pads(node, attrs, shape[2:], out[2:], w.value.shape[2:])
    words = [
        *flat(list(w.value.shape[2:]), spatial),
        *flat(attrs.get("strides", [1] * spatial), spatial),
        *pads,
        *flat(attrs.get("dilations", [1] * spatial), spatial),
        group,
        act.low,
        act.high,
    ]
    axis = 1 if node.op_type == "ConvTranspose" else 0
    if len(w.scale) > 1 and w.axis != axis:
        raise UnsupportedError(
            f"{node.name} ({node.op_type}): weights quantized along axis {w.axis}; wanted the output channels, axis {axis}"
        )
    if node.op_type == "ConvTranspose" and len(w.scale) > 1 and group > 1:
        raise UnsupportedError(
            f"{node.name} ({node.op_type}): per-channel weights with group {group} are not supported"
        )
    wide = x.sixteen_bit or w.sixteen_bit or y.sixteen_bit
    single = (np.float32(x.scale[0]) * w.scale).astype(np.float32) / np.float32(y.scale[0])
    real = x.scale.astype(np.float64)[0] * w.scale.astype(np.float64) / y.scale.astype(np.float64)[0]
    rq = builder.scales(y.name, single, real, kernel, wide)
    constants = weight_and_bias(builder, y, w, weight, axis, bias, wide)
    builder.tensor(y.spec(y.name, out, layout="NCHW" if len(out) == 4 else "NCW"))
    stem = "conv_transpose" if node.op_type == "ConvTranspose" else "conv"
    builder.node(stem, [operand(builder, x, shape), *constants, rq], [y.name], words, (), kernel)


def flat(values: list[int] | Any, spatial: int) -> list[int]:
    """One or two spatial values as (h, w)."""
    return [1, int(values[0])] if spatial == 1 else [int(v) for v in values]


def window_pads(
    node: Any, attrs: dict[str, Any], size: tuple[int, ...], out: tuple[int, ...], kernel: tuple[int, ...]
) -> list[int]:
    """top, left, bottom, right, with auto_pad resolved."""
    spatial = len(size)
    pads = [int(p) for p in attrs.get("pads", [0] * 2 * spatial)]
    auto = attrs.get("auto_pad", b"NOTSET").decode()
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        pads = [0] * 2 * spatial
        for i in range(spatial):
            stride, dilation = attrs.get("strides", [1] * spatial)[i], attrs.get("dilations", [1] * spatial)[i]
            if node.op_type == "ConvTranspose":
                total = max(0, (size[i] - 1) * stride + (kernel[i] - 1) * dilation + 1 - out[i])
            else:
                total = max(0, (out[i] - 1) * stride + (kernel[i] - 1) * dilation + 1 - size[i])
            small = total // 2
            pads[i], pads[i + spatial] = (small, total - small) if auto == "SAME_UPPER" else (total - small, small)
    if node.op_type == "ConvTranspose" and "output_shape" in attrs:
        raise UnsupportedError(f"{node.name} (ConvTranspose): output_shape is not supported; export with pads")
    return [0, pads[0], 0, pads[1]] if spatial == 1 else pads
