"""Finds the axis of the channels of every tensor of a compiled model, by following it from node to node."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from qverify.model_bin.graph import Graph, Node

FIRST_LAST = ("matmul", "matmul_integer", "matmul_integer_scaled", "matmul_float", "matmul_blocks")
OF_PICTURES = (  # ops whose outputs are NCHW or NCW
    *("conv", "conv_float", "conv_integer", "conv_transpose", "conv_transpose_float", "depth_to_space"),
    *("average_pool", "average_pool_float", "global_average_pool", "max_pool", "batch_norm", "group_norm", "lrn"),
    *("resize_linear", "resize_nearest", "resize_weighted", "resizer"),
)


def default_axis(shape: Sequence[int]) -> int:
    """Returns the axis of the channels of a tensor of which nothing but its shape is known: the second one; of one axis
    that one; -1 of a scalar."""
    return min(1, len(shape) - 1)


def find_channel_axes(graph: Graph) -> dict[str, int]:
    """Returns the axis of the channels of each tensor that is no constant, by name; -1 of a scalar. A convolution, a pool
    and a resize have them at axis 1, a matrix product at its last axis, a tensor with a scale for each channel at that of
    the scales; every other node keeps those of its first operand where their number and place in the stored order are
    kept. Else it is default_axis(), and of a network by the operators of a .tflite the last one."""
    axes: dict[str, int] = {}
    for name in graph.fed():
        spec = graph.spec(name)
        is_last = spec.layout == "NHWC" or graph.is_of_operators
        axes[name] = len(spec.shape) - 1 if is_last else default_axis(spec.shape)
    for node in graph.nodes:
        for name in node.outputs:
            axes[name] = _axis_of(graph, node, name, axes)
    return axes


def _axis_of(graph: Graph, node: Node, name: str, axes: dict[str, int]) -> int:
    spec = graph.spec(name)
    rank = len(spec.shape)
    if len(spec.scale) > 1 and 0 <= spec.channel_axis < rank:
        return spec.channel_axis
    if graph.is_of_operators or node.op in FIRST_LAST:
        return rank - 1
    if node.op in OF_PICTURES:
        return default_axis(spec.shape)
    operand = next((n for n in node.inputs if n in axes), None)
    if operand is None or axes[operand] < 0:
        return default_axis(spec.shape)
    at, shape = axes[operand], graph.spec(operand).shape
    if node.op == "transpose" and at in node.words:
        return node.words.index(at)
    if rank == len(shape):
        return at
    return _kept(shape, at, spec.shape)


def _kept(before: Sequence[int], at: int, after: Sequence[int]) -> int:
    """Returns the axis of `after` that has the same length, and as many elements before it, as axis `at` of `before`;
    default_axis() if there is none."""
    for axis, length in enumerate(after):
        if length == before[at] and prod(after[:axis]) == prod(before[:at]):
            return axis
    return default_axis(after)
