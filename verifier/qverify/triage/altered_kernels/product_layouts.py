"""Matrices whose product is the output of a node: of convolutions, matrix products, means and sums of floats or of
stored integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify import ops
from qverify.arithmetic.float32 import log64
from qverify.arithmetic.linear import is_wide
from qverify.arithmetic.reduced_rows import reduced_rows
from qverify.arithmetic.windows import as_planes, plane_shape, taps_counted, window_of
from qverify.model_bin.float_functions import REDUCTIONS, VARIADIC
from qverify.ops import float_word
from qverify.ops.matmul_float import matrices
from qverify.triage.case import Case

Array = npt.NDArray[Any]
FLOATS = ("conv_float", "conv_transpose_float", "matmul_float")
INTEGERS = ("conv_integer", "matmul_integer", "matmul_integer_scaled")
SUMS = ("average_pool_float", "reduce_float", "variadic_float")
SUMMED = ("sum", "mean", "l1", "l2", "sum_square", "log_sum")  # functions of reduce_float and variadic_float that add
WINDOWED = ("conv_float", "conv_transpose_float", "conv_integer", "average_pool_float")
TRANSPOSED = ("conv_transpose_float", "conv_transpose")
# Ops of quantized products; here with a float32 output, which is the integer sum times a scale.
QUANTIZED = (
    "conv",
    "conv_transpose",
    "matmul",
    "fully_connected",
)


def function_of(case: Case) -> str:
    """Returns the name of the function of a reduce_float or variadic_float, or "" for another op."""
    names = {"reduce_float": REDUCTIONS, "variadic_float": VARIADIC}.get(case.last.op)
    return "" if names is None else names[case.last.words[0]]


def _operand(case: Case, at: int) -> Array:
    name = case.last.inputs[at] or ""
    return case.inputs[name] if name in case.inputs else case.graph.constants[name]


def operand(case: Case, at: int) -> Array | None:
    """Returns the elements of an input of the last node, or None if it does not have this input."""
    return None if len(case.last.inputs) <= at or case.last.inputs[at] is None else _operand(case, at)


@dataclass(slots=True)
class Layout:
    """The matrices of a product, for B batches (or groups of these), Q rows, P columns and K terms.

    Attributes:
        left: [B, Q, K].
        right: [B, P, K].
        c: the addend [B, Q, P], or None.
        inside: False where a term is in the padding, [P, K], or None if there is no padding.
        shape: shape of the K terms.
        zero_left: zero points of left, [Q] or [1].
        zero_right: zero points of right, [P] or [1].
        alpha: factor of the sum.
        weights_left: whether left contains the weights.
        count: [P], the divisors of a mean.
        finish: computes the output from the sum, if it is not the sum itself.
        function: name of the function of a reduce_float or variadic_float.
        scale: [B, Q, P], the factor of the sum of quantized operands for a float32 output.
        whole: [B, Q, P], the integer bias.
    """

    left: Array
    right: Array
    c: Array | None
    inside: Array | None
    shape: tuple[int, ...]
    zero_left: Array
    zero_right: Array
    alpha: float = 1.0
    weights_left: bool = True
    count: Array | None = None
    finish: Callable[[Array], Array] | None = None
    function: str = ""
    scale: Array | None = None
    whole: Array | None = None


def layout(case: Case, reads: tuple[Array, Array] | None = None, channels: Array | None = None) -> Layout:
    """Returns the matrices of the node's product.

    Args:
        reads: which elements a window reads, as returned by window_reads, if they are not its own.
        channels: which input channels each group reads, [group, I], if they are not its own.
    """
    if case.last.op in ("reduce_float", "variadic_float"):
        return _rows(case)
    if case.last.op == "average_pool_float":
        return _pool(case, reads)
    if case.last.op in QUANTIZED:
        return _quantized(case, reads, channels)
    return _matrices(case) if case.last.op not in WINDOWED else _windows(case, reads, channels)


def window_reads(case: Case, **changed: int) -> tuple[Array, Array]:
    """Returns the rows and the columns that the taps of each output read, [out, kernel] each; in the padding they lie
    outside of the axis. changed: other words of the node."""
    words = ops.words(case.last) | changed
    size = plane_shape(case.graph.spec(case.last.inputs[0] or "").shape)
    out = plane_shape(case.spec.shape)
    reads = []
    for axis, (side, before) in enumerate((("h", "pad_top"), ("w", "pad_left"))):
        taps = np.arange(words[f"kernel_{side}"]) * words[f"dilation_{side}"]
        step, place = words[f"stride_{side}"], np.arange(out[axis])[:, None]
        if case.last.op not in TRANSPOSED:
            reads.append(place * step + taps - words[before])
            continue
        far = place + words[before] - taps
        reads.append(np.where(far % step == 0, far // step, -size[axis] - out[axis] - 1))
    return reads[0], reads[1]


def _windows(case: Case, reads: tuple[Array, Array] | None, channels: Array | None) -> Layout:
    x, w = as_planes(_operand(case, 0)), _operand(case, 1)
    group, integers = case.last.words[10], case.last.op not in FLOATS
    rows, columns = window_reads(case) if reads is None else reads
    inside = ((rows >= 0) & (rows < x.shape[2]))[:, None, :, None] & ((columns >= 0) & (columns < x.shape[3]))[:, None]
    kind = np.dtype(np.int64 if integers else np.float64)
    near = x[:, :, rows.clip(0, x.shape[2] - 1)][..., columns.clip(0, x.shape[3] - 1)].astype(kind)
    near = np.where(inside.transpose(0, 2, 1, 3), near, 0)  # [N, C, oh, kh, ow, kw]
    near = near.transpose(0, 2, 4, 1, 3, 5)  # [N, oh, ow, C, kh, kw]
    each = x.shape[1] // group
    members = np.arange(x.shape[1]).reshape(group, each) if channels is None else channels
    near = near[:, :, :, members].transpose(0, 3, 1, 2, 4, 5, 6)  # [N, group, oh, ow, I, kh, kw]
    kernel = w.shape[2:]
    if case.last.op in TRANSPOSED:
        weights = w.reshape(group, each, -1, *kernel).swapaxes(1, 2)
    else:
        weights = w.reshape(group, -1, each, *kernel)
    per_out, area = weights.shape[1], near.shape[2] * near.shape[3]
    k = each * kernel[0] * kernel[1]
    left = np.broadcast_to(weights.reshape(1, group, per_out, k), (len(x), group, per_out, k)).astype(kind)
    bias = operand(case, 2) if not integers else None
    c = (
        None
        if bias is None
        else np.broadcast_to(bias.astype(np.float64).reshape(1, group, per_out, 1), (len(x), group, per_out, area))
    )
    zero_x, zero_w = (operand(case, 2), operand(case, 3)) if case.last.op in INTEGERS else (None, None)
    weight_zeros: Array = np.zeros(1) if zero_w is None else zero_w.reshape(-1)
    if len(weight_zeros) > 1:
        weight_zeros = np.tile(weight_zeros.reshape(1, group, per_out), (len(x), 1, 1)).reshape(-1, per_out)
    flat_inside = _flat_inside(inside, each)
    return Layout(
        left.reshape(-1, per_out, k),
        near.reshape(-1, area, k),
        None if c is None else c.reshape(-1, per_out, area),
        flat_inside,
        (each, *kernel),
        weight_zeros.astype(np.int64),
        (np.zeros(1) if zero_x is None else zero_x.reshape(-1)).astype(np.int64),
    )


def _quantized(case: Case, reads: tuple[Array, Array] | None, channels: Array | None) -> Layout:
    """Returns the matrices of stored integers of a conv, matmul or fully_connected with a float32 output."""
    node, graph = case.last, case.graph
    specs = [graph.spec(n or "") for n in node.inputs[:2]]
    zeros = [np.array(spec.zero_point or (0,), np.int64) for spec in specs]
    if len(zeros[0]) > 1:
        raise ValueError("zero points of channels")
    rq, bias = _operand(case, len(node.inputs) - 1), operand(case, 2) if len(node.inputs) == 4 else None
    if node.op in ("conv", "conv_transpose"):
        of, group = _windows(case, reads, channels), node.words[10]
        shape = (len(of.left), of.left.shape[1], of.right.shape[1])
        each = partial(_along_channels, shape=shape, group=group)
        zero = (
            zeros[1]
            if len(zeros[1]) == 1
            else np.tile(np.resize(zeros[1], group * shape[1]).reshape(group, -1), (len(of.left) // group, 1))
        )
        of = replace(of, zero_left=zero, zero_right=zeros[0])
    else:
        a, b = (_operand(case, i).astype(np.int64) for i in (0, 1))
        b = b if node.op == "fully_connected" else b.swapaxes(-1, -2)
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        left, right = (np.broadcast_to(v, (*lead, *v.shape[-2:])).reshape(-1, *v.shape[-2:]) for v in (a, b))
        shape = (len(left), left.shape[1], right.shape[1])
        each = partial(np.broadcast_to, shape=shape)
        of = Layout(left, right, None, None, left.shape[2:], zeros[0], zeros[1], weights_left=False)
    added = None if bias is None else each(bias)
    real = bias is not None and bias.dtype.kind == "f"
    return replace(
        of,
        scale=each(rq),
        c=added.astype(np.float64) if added is not None and real else None,
        whole=None if real else added,
    )


def is_wide_product(case: Case) -> bool:
    """Returns whether the sums of a quantized product have 64 bits."""
    return is_wide(*(case.graph.spec(n or "").dtype for n in case.last.inputs[:2]))


def _along_channels(values: Array, shape: tuple[int, ...], group: int) -> Array:
    """Returns values [C] or [1] in the shape [batch * group, C / group, P]."""
    values = np.broadcast_to(values.reshape(-1), (shape[1] * group,)).reshape(group, -1, 1)
    return np.broadcast_to(np.tile(values, (shape[0] // group, 1, 1)), shape)


BEFORE: dict[str, Callable[[Array], Array]] = {"l1": np.abs, "l2": np.square, "sum_square": np.square}
AFTER: dict[str, Callable[[Array], Array]] = {"l2": np.sqrt, "log_sum": log64}


def _rows(case: Case) -> Layout:
    """Returns the rows of a reduction, or the elements of several tensors at each place, as products by 1."""
    function, shape = function_of(case), case.spec.shape
    if case.last.op == "reduce_float":
        rows = reduced_rows(_operand(case, 0).astype(np.float64), case.last.words[1])
        rows = rows.reshape(-1, rows.shape[-1])
    else:
        inputs = [_operand(case, i) for i in range(len(case.last.inputs))]
        rows = np.stack([np.broadcast_to(x, shape).astype(np.float64).reshape(-1) for x in inputs], 1)
    depth = rows.shape[1]
    finish = AFTER.get(function, _same) if function != "mean" else partial(divide_sum, count=depth)
    right = BEFORE.get(function, _same)(rows)[None]
    none = np.zeros(1, np.int64)
    return Layout(np.ones((1, 1, depth)), right, None, None, (depth,), none, none, finish=finish, function=function)


def _same(values: Array) -> Array:
    return values


def divide_sum(total: Array, count: Array | int) -> Array:
    return total / count


def _pool(case: Case, reads: tuple[Array, Array] | None) -> Layout:
    x = as_planes(_operand(case, 0)).astype(np.float64)
    rows, columns = window_reads(case) if reads is None else reads
    inside = ((rows >= 0) & (rows < x.shape[2]))[:, None, :, None] & ((columns >= 0) & (columns < x.shape[3]))[:, None]
    near = x[:, :, rows.clip(0, x.shape[2] - 1)][..., columns.clip(0, x.shape[3] - 1)]
    near = np.where(inside.transpose(0, 2, 1, 3), near, 0).transpose(0, 1, 2, 4, 3, 5)
    size, out = plane_shape(x.shape), plane_shape(case.spec.shape)
    count = np.maximum(taps_counted(window_of(case.last.words), size, out, bool(case.last.words[10])), 1).reshape(-1)
    kernel, k = inside.shape[2:], inside.shape[2] * inside.shape[3]
    planes, none = x.shape[0] * x.shape[1], np.zeros(1, np.int64)
    ones = np.ones((planes, 1, k))
    right = near.reshape(planes, -1, k)
    return Layout(ones, right, None, _flat_inside(inside, 1), (1, *kernel), none, none, count=count, finish=_same)


def _flat_inside(inside: Array, channels: int) -> Array:
    """Returns the mask [oh, ow, kh, kw] in the shape [oh * ow, I * kh * kw]."""
    oh, ow, kh, kw = inside.shape
    return np.repeat(inside.reshape(oh * ow, 1, kh * kw), channels, 1).reshape(oh * ow, -1)


def _matrices(case: Case) -> Layout:
    a, b, node = _operand(case, 0), _operand(case, 1), case.last
    c, alpha = None, 1.0
    zeros = [np.zeros(1, np.int64)] * 2
    if node.op == "matmul_float":
        rows, columns = matrices(a, b, node)
        alpha, beta = (float(float_word(w)) for w in node.words[2:])
        added = operand(case, 2)
        c = None if added is None else added.astype(np.float64) * beta
    else:
        rows, columns = a.astype(np.int64), b.astype(np.int64)
        zeros = [
            z if (v := operand(case, i)) is None else v.reshape(-1).astype(np.int64)
            for i, z in ((2, zeros[0]), (3, zeros[1]))
        ]
        added = operand(case, 6)
        c = None if added is None else added.reshape(-1).astype(np.float64)
    lead = np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
    columns = columns.swapaxes(-1, -2)
    left = np.broadcast_to(rows, (*lead, *rows.shape[-2:])).reshape(-1, *rows.shape[-2:])
    right = np.broadcast_to(columns, (*lead, *columns.shape[-2:])).reshape(-1, *columns.shape[-2:])
    if c is not None:
        c = np.broadcast_to(c, (len(left), left.shape[1], right.shape[1]))
    return Layout(left, right, c, None, (left.shape[2],), zeros[0], zeros[1], alpha, False)
