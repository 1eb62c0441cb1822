"""Operators that the compiler writes as many others: sampled regions, places of maxima, steps of a loop, attention after a past."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.graphs.kinds.linear import weight
from tests.graphs.random_graph import MICROSOFT, RandomGraph, Unfit


def places_of_maxima(g: RandomGraph) -> None:
    """MaxPool with its Indices, and what it pooled back at these places."""
    x = g.tensor(rank=(3, 4, 5))
    dims = len(g.shape(x)) - 2
    window: dict[str, Any] = {"kernel_shape": [g.pick(1, 2) for _ in range(dims)], "strides": [g.pick(1, 2)] * dims}
    if g.chance(0.3):
        g.add("MaxPool", [x], 2, pads=[0] * dims + [g.pick(0, 1)] * dims, storage_order=1, **window)
        return
    pooled, places = g.add("MaxPool", [x], 2, **window)
    g.op("MaxUnpool", [pooled, places, g.whole(*g.shape(x))], **window)


def regions(g: RandomGraph) -> None:
    x = g.tensor("float32", rank=4)
    count = g.pick(1, 3)
    corners = g.constant(g.rng.uniform(-1, 7, (count, 4)), "float32")
    images = g.constant(g.rng.integers(0, g.shape(x)[0], count), "int64")
    g.op(
        "RoiAlign",
        [x, corners, images],
        mode=g.pick("avg", "max"),
        coordinate_transformation_mode=g.pick("half_pixel", "output_half_pixel"),
        output_height=g.pick(1, 3),
        output_width=g.pick(2, 3),
        sampling_ratio=g.pick(1, 2, 3),
        spatial_scale=g.pick(1.0, 0.6),
    )


def moved_taps(g: RandomGraph) -> None:
    """DeformConv; its offsets are inputs of the graph or constants."""
    x = g.tensor("float32", rank=4)
    images, channels, height, width = g.shape(x)
    group = channels if g.chance(0.3) else 1
    out = (height + 1, width + 1)  # a kernel of 2 x 2 with pads of 1
    drawn = g.rng.uniform(-2, 2, (images, 8 * group, *out)).astype(np.float32)
    offsets = g.input(drawn) if g.chance(0.5) else g.constant(drawn)
    names = [x, weight(g, 3, channels, 2, 2), offsets, g.reals(3) if g.chance(0.5) else ""]
    if g.chance(0.5):
        names.append(g.constant(g.rng.uniform(0, 1, (images, 4 * group, *out)), "float32"))
    g.op("DeformConv", names, kernel_shape=[2, 2], pads=[1, 1, 1, 1], offset_group=group)


def steps(g: RandomGraph) -> None:
    """A Scan over the first or second dim, forward or backward, or a Loop of a constant number of steps."""
    x = g.tensor("float32", rank=(2, 3))
    axis = g.pick(0, 1)
    slice_ = [n for at, n in enumerate(g.shape(x)) if at != axis]
    info, nodes = helper.make_tensor_value_info, [helper.make_node("Add", ["state", "part"], ["sum"])]
    nodes += [
        helper.make_node("Tanh", ["sum"], ["next"]),
        helper.make_node(g.pick("Mul", "Sub"), ["next", "part"], ["out"]),
    ]
    state, part, following, out = (info(n, TensorProto.FLOAT, slice_) for n in ("state", "part", "next", "out"))
    start = g.reals(*slice_)
    if g.chance(0.6):
        body = helper.make_graph(nodes, "step", [state, part], [following, out])
        more = {
            "scan_input_axes": [axis],
            "scan_input_directions": [g.pick(0, 1)],
            "scan_output_directions": [g.pick(0, 1)],
        }
        g.add("Scan", [start, x], 2, body=body, num_scan_inputs=1, **more)
        return
    counters = [info("number", TensorProto.INT64, []), info("go", TensorProto.BOOL, [])]
    first = g.add("Gather", [x, g.constant(0, "int64")], axis=axis)[0]
    nodes += [helper.make_node("Identity", [n], [o]) for n, o in (("go", "on"), ("part", "same"))]
    results = [info("on", TensorProto.BOOL, []), following, info("same", TensorProto.FLOAT, slice_), out]
    body = helper.make_graph(nodes, "step", [*counters, state, part], results)
    g.add("Loop", [g.constant(g.pick(1, 2, 4), "int64"), "", start, first], 3, body=body)


def attention_after_a_past(g: RandomGraph) -> None:
    x = g.tensor("float32", rank=3)
    batch, length, width = g.shape(x)
    heads = [n for n in (1, 2, 3) if width % n == 0][-1]
    past = [g.reals(batch, heads, 2, width // heads) for _ in range(2)]
    mask = g.constant(g.rng.integers(0, 2, (batch, length + 2)), "int32") if g.chance(0.4) else ""
    names = [g.add("Tanh", [x])[0], x, x, g.reals(3 * width) if g.chance(0.5) else "", mask, "", *past]
    g.add("MultiHeadAttention", names, 3, MICROSOFT, num_heads=heads, unidirectional=g.pick(0, 1))


def channels_last(g: RandomGraph) -> None:
    """A pool, or a Resize, of 8 bits with the channels last."""
    integers = [n for n in g.quantized if str(g.values[n].dtype) == "uint8" and g.values[n].ndim == 4]
    if not integers:
        raise Unfit
    x = g.pick(*integers)
    parameters = list(g.quantized[x])
    if not all(parameters):
        raise Unfit
    n, height, width, channels = g.shape(x)
    kind = g.pick("NhwcMaxPool", "QLinearAveragePool", "Resize")
    if kind == "Resize":
        sizes = g.whole(n, g.pick(height, 2 * height), g.pick(width, 3, 2 * width), channels)
        y = g.add("Resize", [x, "", "", sizes], mode="linear")[0]
    elif kind == "NhwcMaxPool":
        y = g.add(kind, [x], 1, MICROSOFT, kernel_shape=[2, 2], strides=[g.pick(1, 2)] * 2)[0]
    else:
        y = g.add(kind, [x, *parameters * 2], 1, MICROSOFT, kernel_shape=[2, 2], channels_last=1)[0]
    g.quantized[y] = (parameters[0], parameters[1])
    g.add("DequantizeLinear", [y, *parameters])


KINDS = (
    places_of_maxima, places_of_maxima, regions, moved_taps, steps, steps, attention_after_a_past, channels_last, channels_last,
)  # fmt: skip
