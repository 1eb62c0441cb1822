"""Writes pools over three spatial dims as pools over two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from qverify.onnx_model.depth_slices import Volume, slices, volume_of
from qverify.onnx_model.rewriter import Rewriter, attribute, input_name
from qverify.onnx_model.windows_beyond_pads import divides_by_part_inside


def max_pool_of_volumes(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Writes the maximum of each plane's windows, then the maximum of these over the depth. Returns False for a pool over
    fewer dims."""
    window = _window(r, node)
    if window is None:
        return False
    n, c, depth, height, width = r.dims(node.input[0])
    _, _, out, rows, columns = r.dims(node.output[0])
    window = replace(window, pads=_reaching(window))
    if any(pad >= window.kernel[i % 3] for i, pad in enumerate(window.pads)):
        raise r.refusal(
            "3-D windows that reach further than a kernel beyond the volume are not supported; export without ceil_mode"
        )
    planes = r.step("Reshape", [node.input[0], r.ints("planes_dims", [n, c * depth, height, width])], "planes")
    pooled = r.step("MaxPool", [planes], "pooled_planes", **window.plane())
    lines = r.step("Reshape", [pooled, r.ints("lines_dims", [n, c, depth, rows * columns])], "lines")
    deep: dict[str, Any] = {
        "kernel_shape": [window.kernel[0], 1],
        "strides": [window.strides[0], 1],
        "dilations": [window.dilations[0], 1],
        "pads": [window.pads[0], 0, window.pads[3], 0],
    }
    flat = r.step("MaxPool", [lines], "pooled_lines", **deep)
    r.node("Reshape", [flat, r.ints("volume_dims", [n, c, out, rows, columns])], node.output[0])
    return None


def _reaching(window: Volume) -> tuple[int, ...]:
    """Returns the pads with the ends extended as far as the last windows reach, so that ceil_mode is not needed."""
    pads = list(window.pads)
    for i in range(3):
        reach = (window.out[i] - 1) * window.strides[i] + (window.kernel[i] - 1) * window.dilations[i] + 1
        pads[i + 3] = max(pads[i + 3], reach - window.size[i] - pads[i])
    return tuple(pads)


def average_pool(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Stacks the slices of one output depth row by row into one plane, with windows that are correspondingly higher. If
    some slices of a window do not count, the mean is scaled."""
    window = _window(r, node)
    if window is None:
        return False
    with_pads, quantized = attribute(node, "count_include_pad", 0), node.op_type == "QLinearAveragePool"
    if window.dilations[1] > 1:
        raise r.refusal("3-D windows with dilated rows are not supported; export without dilations")
    taps, low, high = window.taps(), 0, window.size[0]
    if with_pads:
        low, high = -window.pads[0], high + window.pads[3]
    if with_pads and not divides_by_part_inside(r.opset, attribute(node, "ceil_mode", 0)):
        high = int(taps.max()) + 1  # the whole kernel counts
    counts = ((taps >= low) & (taps < high)).sum(1)
    scaled = (counts != window.kernel[0]).any()
    if quantized and (scaled or ((taps < 0) | (taps >= window.size[0])).any()):
        raise r.refusal("3-D windows that reach beyond the depth are not supported in integers; export as QDQ")
    source, (n, c, out, kernel, height, width) = slices(r, node.input[0], taps, None)
    woven = r.step("Transpose", [source], "rows_of_slices", perm=[0, 1, 2, 4, 3, 5]) if kernel > 1 else source
    planes = r.step("Reshape", [woven, r.ints("planes_dims", [n, c * out, height * kernel, width])], "planes")
    plane = window.plane()
    plane["kernel_shape"], plane["strides"] = _woven(plane["kernel_shape"], kernel), _woven(plane["strides"], kernel)
    plane["pads"] = [p * kernel if i % 2 == 0 else p for i, p in enumerate(plane["pads"])]
    del plane["dilations"]
    if window.dilations[2] > 1:
        plane["dilations"] = [1, window.dilations[2]]
    more = {"ceil_mode": attribute(node, "ceil_mode", 0), "count_include_pad": with_pads}
    pooled = r.step(node.op_type, [planes, *node.input[1:]], "pooled_planes", node.domain, **plane, **more)
    dims = r.ints("volume_dims", r.dims(node.output[0]))
    if not scaled:
        r.node("Reshape", [pooled, dims], node.output[0])
        return None
    volume = r.step("Reshape", [pooled, dims], "pooled_volume")
    factors = np.divide(kernel, counts, out=np.zeros(out), where=counts > 0).astype(np.float32)
    r.node("Mul", [volume, r.constant("counts", factors.reshape(-1, 1, 1))], node.output[0])
    return None


def _woven(values: Any, kernel: int) -> list[int]:
    return [values[0] * kernel, values[1]]


def _window(r: Rewriter, node: onnx.NodeProto) -> Volume | None:
    """Returns the node's window, or None if it does not have three dims."""
    kernel = tuple(attribute(node, "kernel_shape", ()))
    if len(kernel) != 3 or not input_name(node, 0):
        return None
    auto, dilations = attribute(node, "auto_pad", b"NOTSET"), attribute(node, "dilations", [1])
    if auto.startswith(b"SAME") and any(d != 1 for d in dilations):
        raise r.refusal(
            "auto_pad with dilations is not supported, since ONNX and onnxruntime pad differently; export with pads"
        )
    window = volume_of(r, node, kernel, node.input[0], node.output[0])
    if auto.startswith(b"SAME") and any(
        (o - 1) * s + k < n - 1
        for o, s, k, n in zip(window.out, window.strides, window.kernel, window.size, strict=True)
    ):
        raise r.refusal(
            "auto_pad with a window that much smaller than its stride is not supported, since ONNX and onnxruntime pad differently; export with pads"
        )
    return window


REPLACED = {
    ("", "AveragePool"): average_pool,
}
