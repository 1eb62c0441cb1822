"""acc[n,o, i*stride - pad + k*dilation] += (x-zx)(w-zw); y = clip(requantize(acc + b, S) + zy)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.linear import Output, along_axis, is_wide
from qverify.arithmetic.windows import as_planes, plane_shape
from qverify.model_bin.graph import Graph, Node
from qverify.ops.conv import WORDS as WORDS
from qverify.ops.conv import constant

Array = npt.NDArray[Any]


def prepare(node: Node, graph: Graph) -> tuple[Array, Output]:
    x, w, y = graph.spec(node.inputs[0] or ""), graph.spec(node.inputs[1] or ""), graph.spec(node.outputs[0])
    weight = (graph.constants[w.name].astype(np.int64) - along_axis(w.zero_point, 4, w.channel_axis)).astype(np.float64)
    rq = graph.constants[node.inputs[3] or ""]
    return weight, Output(
        rq, y.zero_point[0], node.words[-2], node.words[-1], y.dtype, graph.rounding, is_wide(x.dtype, w.dtype, y.dtype)
    )


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: tuple[Array, Output]) -> tuple[Array, ...]:
    weight, output = state
    kernel_h, kernel_w, stride_h, stride_w, top, left, _bottom, _right, dilation_h, dilation_w, group = node.words[:11]
    y, zero = graph.spec(node.outputs[0]), graph.spec(node.inputs[0] or "").zero_point[0]
    assert inputs[0] is not None
    x = as_planes(inputs[0]).astype(np.float64) - zero
    out_h, out_w = plane_shape(y.shape)
    n, channels, height, width = x.shape
    full = np.zeros(
        (
            n,
            y.shape[1],
            (height - 1) * stride_h + (kernel_h - 1) * dilation_h + 1 + out_h,
            (width - 1) * stride_w + (kernel_w - 1) * dilation_w + 1 + out_w,
        )
    )
    per_in, per_out = channels // group, y.shape[1] // group
    for g in range(group):
        part = x[:, g * per_in : (g + 1) * per_in].reshape(n, per_in, -1)
        for i in range(kernel_h):
            for j in range(kernel_w):
                product = np.matmul(weight[g * per_in : (g + 1) * per_in, :, i, j].T, part).reshape(
                    n, per_out, height, width
                )
                rows = slice(i * dilation_h, i * dilation_h + (height - 1) * stride_h + 1, stride_h)
                columns = slice(j * dilation_w, j * dilation_w + (width - 1) * stride_w + 1, stride_w)
                full[:, g * per_out : (g + 1) * per_out, rows, columns] += product
    acc = np.ascontiguousarray(full[:, :, top : top + out_h, left : left + out_w])
    bias = constant(graph, node.inputs[2])
    if bias is not None:
        acc += bias.astype(np.float64).reshape(1, -1, 1, 1)
    return (output.of(acc).reshape(y.shape),)
