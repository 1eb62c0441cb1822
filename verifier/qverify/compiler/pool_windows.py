"""Kernel sizes, strides and pads of convolutions and pools, in the two spatial dims that model.bin has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qverify.compiler.builder import Builder
from qverify.compiler.unit import Activation, LoweredUnit, microsoft, qlinear_operands, with_activation
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import GraphView, QuantizedTensor, attributes

Pool = Callable[[Builder, GraphView, Any, QuantizedTensor, QuantizedTensor, Activation, bool], None]


def flat(values: list[int] | Any, spatial: int) -> list[int]:
    """Returns one or two spatial values as [h, w]."""
    return [1, int(values[0])] if spatial == 1 else [int(v) for v in values]


def window_pads(
    node: Any, attrs: dict[str, Any], size: tuple[int, ...], out: tuple[int, ...], kernel: tuple[int, ...]
) -> list[int]:
    """Returns the pads [top, left, bottom, right], with auto_pad and a ConvTranspose's output_shape resolved.

    size, out: spatial dims of input and output. Raises UnsupportedError for auto_pad with output_padding, for which
    ONNX and onnxruntime compute different shapes."""
    spatial = len(size)
    auto, transposed = attrs.get("auto_pad", b"NOTSET").decode(errors="replace"), node.op_type == "ConvTranspose"
    pads = [int(p) for p in attrs.get("pads", [0] * 2 * spatial)] if auto != "VALID" else [0] * 2 * spatial
    if len(out) != spatial or len(attrs.get("output_shape", out)) not in (spatial, spatial + 2):
        raise UnsupportedError(
            f"{node.name} ({node.op_type}): output_shape={attrs.get('output_shape')} of {spatial} spatial dims is not supported"
        )
    if auto.startswith("SAME") and any(attrs.get("output_padding", ())) and "output_shape" not in attrs:
        raise UnsupportedError(
            f"{node.name} ({node.op_type}): output_padding with auto_pad={auto} is not supported; export with pads"
        )
    if auto in ("SAME_UPPER", "SAME_LOWER") or (transposed and "output_shape" in attrs):
        pads = [0] * 2 * spatial
        for i in range(spatial):
            stride, dilation = attrs.get("strides", [1] * spatial)[i], attrs.get("dilations", [1] * spatial)[i]
            reach = (kernel[i] - 1) * dilation + 1
            if transposed:
                further = attrs.get("output_padding", [0] * spatial)[i]
                total = max(0, (size[i] - 1) * stride + further + reach - out[i])
            else:
                total = max(0, (out[i] - 1) * stride + reach - size[i])
            small = total // 2
            pads[i], pads[i + spatial] = (small, total - small) if auto == "SAME_UPPER" else (total - small, small)
    return [0, pads[0], 0, pads[1]] if spatial == 1 else pads


def beyond_pads(view: GraphView, node: Any) -> list[int]:
    """Returns how far the last window of a pool ends beyond the padded input, in each spatial dim."""
    attrs, size, out = attributes(node), view.shape(node.input[0])[2:], view.shape(node.output[0])[2:]
    kernel, spatial = attrs["kernel_shape"], len(attrs["kernel_shape"])
    strides, dilations = (attrs.get(n, [1] * spatial) for n in ("strides", "dilations"))
    pads = window_pads(node, attrs, size, out, tuple(kernel))
    before, after = pads[len(pads) // 2 - spatial :], pads[-spatial:]
    ends = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(out, strides, kernel, dilations, strict=True)]
    return [max(0, end - before[i] - size[i] - after[i]) for i, end in enumerate(ends)]


def match_pool(view: GraphView, node: Any, y: QuantizedTensor, act: Activation, lower: Pool) -> LoweredUnit | None:
    """Returns the unit of an average pool between DequantizeLinear and QuantizeLinear, with its QLinear form if
    onnxruntime has one, or None if the node is not such a pool."""
    x = view.dequantized(node.input[0])
    if x is None or x.value is not None or max(len(x.scale), len(y.scale)) > 1:
        return None
    kernel = x.eight_bit and x.dtype == y.dtype and len(view.shape(x.name)) == 4
    unit = LoweredUnit(y.name, lambda b: lower(b, view, node, x, y, act, kernel))
    if kernel:
        # the QLinear form has no dilations; all dilations are 1 here
        keep = {k: v for k, v in attributes(node).items() if k != "dilations" and (k, v) != ("auto_pad", b"NOTSET")}
        unit.onnx = [
            microsoft(f"QLinear{node.op_type}", [*qlinear_operands(x), y.scale_name, y.zero_name], [y.name], **keep)
        ]
        with_activation(unit, y, act)
    return unit


def pool_words(view: GraphView, node: Any) -> list[int]:
    """Returns the words of a pool's window: kernel, strides, pads, dilations. Raises UnsupportedError for three or more
    spatial dims, and if onnxruntime pads differently from ONNX."""
    attrs, shape, out = attributes(node), view.shape(node.input[0]), view.shape(node.output[0])
    window, spatial = attrs["kernel_shape"], len(attrs["kernel_shape"])
    if spatial > 2:
        raise UnsupportedError(f"{node.name} ({node.op_type}): {spatial}-D windows are not supported; 1-D and 2-D are")
    strides = attrs.get("strides", [1] * spatial)
    if attrs.get("auto_pad", b"").startswith(b"SAME"):
        _check_same(
            node, attrs, [(o - 1) * s + k - n for o, s, k, n in zip(out[2:], strides, window, shape[2:], strict=True)]
        )
    return [
        *flat(window, spatial),
        *flat(strides, spatial),
        *window_pads(node, attrs, shape[2:], out[2:], tuple(window)),
        *flat(attrs.get("dilations", [1] * spatial), spatial),
    ]


def _check_same(node: Any, attrs: dict[str, Any], needed: list[int]) -> None:
    """Raises UnsupportedError for a pool with auto_pad=SAME that onnxruntime pads differently from ONNX: it ignores
    dilations, and uses negative pads if a window is smaller than its stride."""
    if any(d != 1 for d in attrs.get("dilations", [])) or min(needed) < -1:
        raise UnsupportedError(
            f"{node.name} ({node.op_type}): auto_pad with dilations, or with a window that much smaller than its stride, is not supported, since ONNX and onnxruntime pad differently; export with pads"
        )
