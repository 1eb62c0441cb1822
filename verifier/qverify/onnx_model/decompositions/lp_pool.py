"""Writes LpPool as a power, a sum over windows (an average multiplied by their size) and a root."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx

from qverify.onnx_model.rewriter import Rewriter, attribute
from qverify.onnx_model.windows_beyond_pads import divides_by_part_inside

WINDOW = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")


def lp_pool(r: Rewriter, node: onnx.NodeProto) -> None:
    p = attribute(node, "p", 2)
    if attribute(node, "ceil_mode", 0) or (r.opset < 19 and any(d != 1 for d in attribute(node, "dilations", [1]))):
        raise r.refusal("ceil_mode, and dilations below opset 19, are not supported")
    if p < 1:
        raise r.refusal("p below 1 is no norm")
    if attribute(node, "auto_pad", b"NOTSET") not in (b"NOTSET", "NOTSET") and any(
        a.name == "pads" for a in node.attribute
    ):
        raise r.refusal("auto_pad beside pads contradict each other; export with one of them")
    if divides_by_part_inside(r.opset, 0) and _is_larger_than_padded(r, node):
        raise r.refusal("a kernel larger than the padded input is not supported; export with a smaller one")
    window = {n: v for n in WINDOW if (v := attribute(node, n, None)) is not None and n != "ceil_mode"}
    if all(d == 1 for d in window.get("dilations", [1])):
        window.pop("dilations", None)
    magnitudes = r.step("Abs", [node.input[0]], "magnitudes")
    if p != 1:
        magnitudes = r.step("Pow", [magnitudes, r.constant("power", np.float32(p))], "powers")
    means = r.step("AveragePool", [magnitudes], "means", **window, count_include_pad=1)
    count = r.constant("window_elements", np.float32(prod(window["kernel_shape"])))
    if p == 1:
        r.node("Mul", [means, count], node.output[0])
        return
    sums = r.step("Mul", [means, count], "sums")
    if p == 2:
        r.node("Sqrt", [sums], node.output[0])
    else:
        r.node("Pow", [sums, r.constant("root", np.float32(1 / p))], node.output[0])


def _is_larger_than_padded(r: Rewriter, node: onnx.NodeProto) -> bool:
    kernel, size = attribute(node, "kernel_shape", ()), r.dims(node.input[0])[2:]
    pads, dilations = attribute(node, "pads", [0] * 2 * len(kernel)), attribute(node, "dilations", [1] * len(kernel))
    if attribute(node, "auto_pad", b"NOTSET").startswith(b"SAME"):
        return False
    return any((k - 1) * dilations[i] + 1 > pads[i] + size[i] + pads[i + len(kernel)] for i, k in enumerate(kernel))


REPLACED = {("", "LpPool"): lp_pool}
