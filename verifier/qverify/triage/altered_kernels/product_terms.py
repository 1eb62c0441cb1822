"""What each output element of a product of floats, or of stored integers, is summed from: conv_float,
conv_transpose_float, matmul_float, conv_integer, matmul_integer and matmul_integer_scaled; also of average_pool_float and of
the sums of reduce_float and variadic_float, as products by 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify import ops
from qverify.arithmetic.exact_matmul import wrapped_int32
from qverify.arithmetic.float32 import log64
from qverify.arithmetic.float_sums import round_once, sum_bound
from qverify.arithmetic.reduced_rows import reduced_rows
from qverify.arithmetic.windows import as_planes, plane_shape, taps_counted, window_of
from qverify.model_bin.float_functions import REDUCTIONS, VARIADIC
from qverify.ops import float_word
from qverify.ops.matmul_float import matrices
from qverify.triage.altered_kernels.inner_node import finished, inner_case
from qverify.triage.case import Case, bits
from qverify.triage.fault import DOES_NOT_FIT
from qverify.triage.hypotheses import FaultVariant

Array = npt.NDArray[Any]
FLOATS = ("conv_float", "conv_transpose_float", "matmul_float")
INTEGERS = ("conv_integer", "matmul_integer", "matmul_integer_scaled")
SUMS = ("average_pool_float", "reduce_float", "variadic_float")
SUMMED = ("sum", "mean", "l1", "l2", "sum_square", "log_sum")  # functions of these that add
WINDOWED = ("conv_float", "conv_transpose_float", "conv_integer", "average_pool_float")
SAMPLE = 24  # differing elements looked at first
CHUNK = 1 << 20  # terms at a time
MOST = 60_000_000  # terms of a whole output; more take too long
F = np.float32


@dataclass(slots=True)
class Terms:
    """Some output elements [E] with their terms [E, K] in the order of the kernel: channels, kernel rows, kernel columns.
    a: elements of the input, 0 in the padding. b: of the weights or of the second matrix. Of floats: float64. Of integers:
    int64 as stored; the zero points are zero_a and zero_b. c: what is added, beta included, or None. inside: False in the
    padding. shape: of K. places: of the elements, as indices of `outputs`: batch, channel (or row), pixel (or column).
    finish: of the exact sum, where the output is not the sum itself: its mean, its root, in float64. function: of the op."""

    case: Case
    a: Array
    b: Array
    c: Array | None
    inside: Array
    alpha: float
    zero_a: Array
    zero_b: Array
    shape: tuple[int, ...]
    places: tuple[Array, ...]
    outputs: tuple[int, ...]
    finish: Callable[[Array], Array] | None = None
    function: str = ""

    @property
    def products(self) -> Array:
        """The exact products [E, K]; of integers, centred."""
        if self.case.last.op not in INTEGERS:
            return self.a * self.b
        return np.where(self.inside, self.a - self.zero_a, 0) * (self.b - self.zero_b)

    def rounded(self, products: Array, c: Array | None = None) -> Array:
        """Returns the elements from these terms as a healthy node rounds their sum. c: what is added instead."""
        return self.summed(products, self.c if c is None else c)

    def summed(self, products: Array, c: Array | None) -> Array:
        if self.case.last.op in INTEGERS:
            return self.scaled(products.sum(1), c)
        if self.finish is not None:
            return self.finish(np.add.accumulate(products, 1)[:, -1]).astype(F)
        if self.alpha != 1.0:
            total = _once(products).astype(np.float64) * self.alpha
            return (total if c is None else total + c).astype(F) + F(0)
        return _once(products if c is None else np.column_stack([products, c]))

    def scaled(self, acc: Array, c: Array | None = None) -> Array:
        """Returns an integer node's elements from their sums."""
        acc = wrapped_int32(acc.astype(np.int64))
        if self.case.last.op != "matmul_integer_scaled":
            return acc
        scale_a, scale_b = (_operand(self.case, i).reshape(-1) for i in (4, 5))
        scale = np.broadcast_to(scale_a * scale_b, self.outputs[-1:])[self.places[-1]]
        y: Array = acc.astype(F) * scale
        return y if c is None else y + c.astype(F)


Fault = Callable[[Terms], Array]


def _once(products: Array) -> Array:
    total, size = products.sum(1), np.abs(products).sum(1)
    return round_once(total, sum_bound(products.shape[1], size), lambda at: products[at])


def product_case(case: Case, wanted: tuple[str, ...]) -> Case | None:
    """Returns the case of the unit's product, where it has one of these ops, by itself."""
    inner = inner_case(case)
    if inner is None or inner.last.op not in wanted:
        return None
    return inner if function_of(inner) in ("", *SUMMED) else None


def function_of(case: Case) -> str:
    """Returns what a reduce_float or variadic_float computes, or an empty string."""
    names = {"reduce_float": REDUCTIONS, "variadic_float": VARIADIC}.get(case.last.op)
    return "" if names is None else names[case.last.words[0]]


def _operand(case: Case, at: int) -> Array:
    name = case.last.inputs[at] or ""
    return case.inputs[name] if name in case.inputs else case.graph.constants[name]


def operand(case: Case, at: int) -> Array | None:
    """Returns the elements of an input of the last node; None where it has none."""
    return None if len(case.last.inputs) <= at or case.last.inputs[at] is None else _operand(case, at)


@dataclass(slots=True)
class Layout:
    """left [B, Q, K] and right [B, P, K]: a product's matrices. c [B, Q, P] or None. inside: [P, K]."""

    left: Array
    right: Array
    c: Array | None
    inside: Array | None
    shape: tuple[int, ...]
    zero_left: Array  # [Q] or [1]
    zero_right: Array  # [P] or [1]
    alpha: float = 1.0
    weights_left: bool = True
    count: Array | None = None  # [P], by which a mean divides
    finish: Callable[[Array], Array] | None = None
    function: str = ""


def layout(case: Case, reads: tuple[Array, Array] | None = None, channels: Array | None = None) -> Layout:
    """Returns the product's matrices. reads: of a window, other elements than it reads, as `window_reads`. channels: the
    input channel of each group's ones, [group, I]."""
    if case.last.op in ("reduce_float", "variadic_float"):
        return _rows(case)
    if case.last.op == "average_pool_float":
        return _pool(case, reads)
    return _matrices(case) if case.last.op not in WINDOWED else _windows(case, reads, channels)


def window_reads(case: Case, **changed: int) -> tuple[Array, Array]:
    """Returns for rows and columns which element each output's taps read, [out, kernel]; outside of the axis where the
    padding is."""
    words = ops.words(case.last) | changed
    size = plane_shape(case.graph.spec(case.last.inputs[0] or "").shape)
    out = plane_shape(case.spec.shape)
    made = []
    for axis, (side, before) in enumerate((("h", "pad_top"), ("w", "pad_left"))):
        taps = np.arange(words[f"kernel_{side}"]) * words[f"dilation_{side}"]
        step, place = words[f"stride_{side}"], np.arange(out[axis])[:, None]
        if case.last.op != "conv_transpose_float":
            made.append(place * step + taps - words[before])
            continue
        far = place + words[before] - taps
        made.append(np.where(far % step == 0, far // step, -size[axis] - out[axis] - 1))
    return made[0], made[1]


def _windows(case: Case, reads: tuple[Array, Array] | None, channels: Array | None) -> Layout:
    x, w = as_planes(_operand(case, 0)), _operand(case, 1)
    group, integers = case.last.words[10], case.last.op in INTEGERS
    rows, columns = window_reads(case) if reads is None else reads
    inside = ((rows >= 0) & (rows < x.shape[2]))[:, None, :, None] & ((columns >= 0) & (columns < x.shape[3]))[:, None]
    kind = np.dtype(np.int64 if integers else np.float64)
    near = x[:, :, rows.clip(0, x.shape[2] - 1)][..., columns.clip(0, x.shape[3] - 1)].astype(kind)
    near = np.where(inside.transpose(0, 2, 1, 3), near, 0)  # [N, C, oh, kh, ow, kw]
    near = near.transpose(0, 2, 4, 1, 3, 5)  # [N, oh, ow, C, kh, kw]
    each = x.shape[1] // group
    of = np.arange(x.shape[1]).reshape(group, each) if channels is None else channels
    near = near[:, :, :, of].transpose(0, 3, 1, 2, 4, 5, 6)  # [N, group, oh, ow, I, kh, kw]
    kernel = w.shape[2:]
    if case.last.op == "conv_transpose_float":
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
    zero_x, zero_w = (operand(case, 2), operand(case, 3)) if integers else (None, None)
    of_weights: Array = np.zeros(1) if zero_w is None else zero_w.reshape(-1)
    if len(of_weights) > 1:
        of_weights = np.tile(of_weights.reshape(1, group, per_out), (len(x), 1, 1)).reshape(-1, per_out)
    there = _flat_inside(inside, each)
    return Layout(
        left.reshape(-1, per_out, k),
        near.reshape(-1, area, k),
        None if c is None else c.reshape(-1, per_out, area),
        there,
        (each, *kernel),
        of_weights.astype(np.int64),
        (np.zeros(1) if zero_x is None else zero_x.reshape(-1)).astype(np.int64),
    )


BEFORE: dict[str, Callable[[Array], Array]] = {"l1": np.abs, "l2": np.square, "sum_square": np.square}
AFTER: dict[str, Callable[[Array], Array]] = {"l2": np.sqrt, "log_sum": log64}


def _rows(case: Case) -> Layout:
    """Returns the rows of a reduction, or each place's elements of several tensors, as products by 1."""
    function, shape = function_of(case), case.spec.shape
    if case.last.op == "reduce_float":
        rows = reduced_rows(_operand(case, 0).astype(np.float64), case.last.words[1])
        rows = rows.reshape(-1, rows.shape[-1])
    else:
        inputs = [_operand(case, i) for i in range(len(case.last.inputs))]
        rows = np.stack([np.broadcast_to(x, shape).astype(np.float64).reshape(-1) for x in inputs], 1)
    depth = rows.shape[1]
    finish = AFTER.get(function, _same) if function != "mean" else partial(_divided, count=depth)
    right = BEFORE.get(function, _same)(rows)[None]
    none = np.zeros(1, np.int64)
    return Layout(np.ones((1, 1, depth)), right, None, None, (depth,), none, none, finish=finish, function=function)


def _same(values: Array) -> Array:
    return values


def _divided(total: Array, count: Array | int) -> Array:
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
    """Returns [oh * ow, I * kh * kw] of [oh, ow, kh, kw]."""
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


def terms_at(case: Case, of: Layout, at: Array) -> Terms:
    """Returns the output elements at these flat places with their terms."""
    outputs = (len(of.left), of.left.shape[1], of.right.shape[1])
    b, q, p = np.unravel_index(at, outputs)
    left, right = of.left[b, q], of.right[b, p]
    inside = np.ones(left.shape, bool) if of.inside is None else of.inside[p]
    zeros = [_of_rows(of.zero_left, b, q), _of_rows(of.zero_right, b, p)]
    values = [left, right]
    if of.weights_left:
        values, zeros = values[::-1], zeros[::-1]
    c = None if of.c is None else of.c[b, q, p]
    finish = of.finish if of.count is None else partial(_divided, count=of.count[p])
    return Terms(case, values[0], values[1], c, inside, of.alpha, zeros[0], zeros[1], of.shape, (b, q, p), outputs, finish, of.function)


def _of_rows(zeros: Array, batch: Array, row: Array) -> Array:
    if zeros.ndim == 2:
        return zeros[batch, row][:, None]
    return zeros[row if len(zeros) > 1 else 0 * row][:, None]


def fault_variant(
    case: Case, said: str, fault: Fault, of: Callable[[Case], Layout] = layout, cost: float = 0.0
) -> Iterator[FaultVariant]:
    """Yields the fault unless it fails on a few elements that differ. of: the matrices it has."""
    case.count_tried(1, (said,))
    inner = inner_case(case)
    assert inner is not None
    sample = case.once("product sample", lambda: _sample(case))
    if not len(sample):
        yield FaultVariant(said, partial(_make, fault=fault, of=of), cost)
        return
    try:
        matrices = case.once("product layout", lambda: layout(inner)) if of is layout else of(inner)
        made = finished(case, fault(terms_at(inner, matrices, sample)))
    except DOES_NOT_FIT:
        return
    if made.dtype != case.recorded.dtype:
        return
    same = bits(made) == bits(case.recorded)[sample]
    if same.mean() > 0.7:
        yield FaultVariant(said, partial(_make, fault=fault, of=of), cost)


def _sample(case: Case) -> Array:
    if len(case.differing) <= SAMPLE:
        return case.differing
    return case.differing[np.linspace(0, len(case.differing) - 1, SAMPLE).astype(int)]


def _make(case: Case, fault: Fault, of: Callable[[Case], Layout]) -> Array:
    inner = inner_case(case)
    if inner is None:
        raise ValueError("no product by itself")
    matrices = of(inner)
    size, depth = inner.spec.shape, matrices.left.shape[-1]
    count = int(np.prod(size))
    step = max(1, CHUNK // max(1, depth))
    if count * depth > MOST:
        raise ValueError("too many products")
    made = [fault(terms_at(inner, matrices, np.arange(at, min(count, at + step)))) for at in range(0, count, step)]
    return finished(case, np.concatenate(made)).reshape(case.spec.shape)
