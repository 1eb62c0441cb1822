"""GlobalAveragePool, AveragePool -> QLinear pools; ReduceMean stays float in the integer ONNX and is an integer sum in model.bin."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.builder import Builder
from qverify.compiler.lowerings.conv import flat, window_pads
from qverify.compiler.unit import Activation, Unit, microsoft, operand, triple, with_activation
from qverify.errors import UnsupportedError
from qverify.onnx_model.view import Quantized, View, attributes

ONNX_TYPES = ("GlobalAveragePool", "AveragePool", "ReduceMean")


def match(view: View, node: Any, y: Quantized, act: Activation) -> Unit | None:
    x = view.dequantized(node.input[0])
    if x is None or x.value is not None or max(len(x.scale), len(y.scale)) > 1:
        return None
    kernel = node.op_type != "ReduceMean" and x.eight_bit and x.dtype == y.dtype and len(view.shape(x.name)) == 4
    unit = Unit(y.name, lambda b: lower(b, view, node, node.op_type, x, y, act, kernel))
    if kernel:
        keep = {k: v for k, v in attributes(node).items() if k != "auto_pad" or v != b"NOTSET"}
        unit.onnx = [microsoft(f"QLinear{node.op_type}", [*triple(x), y.scale_name, y.zero_name], [y.name], **keep)]
        with_activation(unit, y, act)
    return unit


def from_operator(view: View, node: Any) -> Unit:
    from qverify.compiler.qoperator import quantized_input, quantized_output

    if attributes(node).get("channels_last"):
        raise UnsupportedError(f"{node.name} ({node.op_type}): channels_last is not supported; export NCHW")
    x, y = quantized_input(view, node, 0), quantized_output(view, node, 0, 3)
    limits = np.iinfo(y.dtype)
    kind = node.op_type.removeprefix("QLinear")
    return Unit(
        y.name, lambda b: lower(b, view, node, kind, x, y, Activation(int(limits.min), int(limits.max)), True), [node]
    )


def lower(
    builder: Builder, view: View, node: Any, kind: str, x: Quantized, y: Quantized, act: Activation, kernel: bool
) -> None:
    shape, out, attrs = view.shape(x.name), view.shape(y.name), attributes(node)
    wide = x.sixteen_bit or y.sixteen_bit
    source = operand(builder, x, shape)
    builder.tensor(y.spec(y.name, out))
    if kind == "AveragePool":
        _average(builder, node, attrs, source, shape, out, x, y, act, kernel, wide)
        return
    axes = list(range(2, len(shape)))
    if kind == "ReduceMean":
        axes = reduced_axes(view, node, len(shape))
    count = int(np.prod([shape[a] for a in axes]))
    single = np.float32(x.scale[0]) / np.float32(np.float32(y.scale[0]) * np.float32(count))
    rq = builder.scales(
        y.name, np.array([single]), np.array([float(x.scale[0]) / (float(y.scale[0]) * count)]), kernel, wide
    )
    limits = [act.low, act.high]
    if kind == "ReduceMean":
        builder.node("reduce_mean", [source, rq], [y.name], [sum(1 << a for a in axes), *limits], (), False)
    else:
        builder.node("global_average_pool", [source, rq], [y.name], limits, (), kernel)


def reduced_axes(view: View, node: Any, rank: int) -> list[int]:
    """Of a ReduceMean: its second input (opset 18), its attribute, or all."""
    given: Any = attributes(node).get("axes", [])
    if len(node.input) > 1 and node.input[1]:
        if node.input[1] not in view.constants:
            raise UnsupportedError(
                f"{node.name} (ReduceMean): its axes are computed at run time; only constants can be compiled"
            )
        given = view.constants[node.input[1]].tolist()
    return sorted({int(a) % rank for a in given}) or list(range(rank))


def _average(
    builder: Builder,
    node: Any,
    attrs: dict[str, Any],
    source: str,
    shape: tuple[int, ...],
    out: tuple[int, ...],
    x: Quantized,
    y: Quantized,
    act: Activation,
    kernel: bool,
    wide: bool,
) -> None:
    window, spatial = attrs["kernel_shape"], len(attrs["kernel_shape"])
    if spatial > 2 or any(d != 1 for d in attrs.get("dilations", [1])):
        raise UnsupportedError(f"{node.name} (AveragePool): {spatial}-D or dilated windows are not supported")
    if attrs.get("ceil_mode", 0) and attrs.get("count_include_pad", 0):
        raise UnsupportedError(f"{node.name} (AveragePool): ceil_mode with count_include_pad is not supported")
    pads = window_pads(node, attrs, shape[2:], out[2:], tuple(window))
    height, width = flat(window, spatial)
    if builder.rounding == "ref-exact":
        value = (
            np.array([x.scale[0], y.scale[0]], np.float32)
            if kernel
            else np.array([float(x.scale[0]) / float(y.scale[0])])
        )
        rq = builder.made(f"{y.name}/rq", value)
    else:
        counts = np.arange(1, height * width + 1, dtype=np.float64)
        rq = builder.scales(y.name, counts, float(x.scale[0]) / float(y.scale[0]) / counts, kernel, wide)
    words = [
        height,
        width,
        *flat(attrs.get("strides", [1] * spatial), spatial),
        *pads,
        attrs.get("count_include_pad", 0),
        act.low,
        act.high,
    ]
    builder.node("average_pool", [source, rq], [y.name], words, (), kernel)
