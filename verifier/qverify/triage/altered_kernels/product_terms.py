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

from qverify.arithmetic.exact_matmul import wrap_int32
from qverify.arithmetic.float_sums import round_once, sum_bound
from qverify.triage.altered_kernels.inner_node import finished, inner_case
from qverify.triage.altered_kernels.product_layouts import (
    BEFORE as BEFORE,
)
from qverify.triage.altered_kernels.product_layouts import (
    FLOATS as FLOATS,
)
from qverify.triage.altered_kernels.product_layouts import (
    INTEGERS as INTEGERS,
)
from qverify.triage.altered_kernels.product_layouts import (
    QUANTIZED as QUANTIZED,
)
from qverify.triage.altered_kernels.product_layouts import (
    SUMMED as SUMMED,
)
from qverify.triage.altered_kernels.product_layouts import (
    SUMS as SUMS,
)
from qverify.triage.altered_kernels.product_layouts import (
    WINDOWED as WINDOWED,
)
from qverify.triage.altered_kernels.product_layouts import (
    Layout as Layout,
)
from qverify.triage.altered_kernels.product_layouts import (
    _divided as _divided,
)
from qverify.triage.altered_kernels.product_layouts import (
    function_of as function_of,
)
from qverify.triage.altered_kernels.product_layouts import (
    is_wide_product as is_wide_product,
)
from qverify.triage.altered_kernels.product_layouts import (
    layout as layout,
)
from qverify.triage.altered_kernels.product_layouts import (
    operand as operand,
)
from qverify.triage.altered_kernels.product_layouts import (
    window_reads as window_reads,
)
from qverify.triage.case import Case, bits
from qverify.triage.fault import DOES_NOT_FIT
from qverify.triage.hypotheses import FaultVariant

Array = npt.NDArray[Any]
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
    scale: Array | None = None
    whole: Array | None = None

    @property
    def products(self) -> Array:
        """The exact products [E, K]; of integers, centred."""
        if self.case.last.op not in (*INTEGERS, *QUANTIZED):
            return self.a * self.b
        return np.where(self.inside, self.a - self.zero_a, 0) * (self.b - self.zero_b)

    def rounded(self, products: Array, c: Array | None = None) -> Array:
        """Returns the elements from these terms as a healthy node rounds their sum. c: what is added instead."""
        return self.summed(products, self.c if c is None else c)

    def summed(self, products: Array, c: Array | None) -> Array:
        if self.case.last.op in (*INTEGERS, *QUANTIZED):
            return self.scaled(products.sum(1), c)
        if self.finish is not None:
            return self.finish(np.add.accumulate(products, 1)[:, -1]).astype(F)
        if self.alpha != 1.0:
            total = _once(products).astype(np.float64) * self.alpha
            return (total if c is None else total + c).astype(F) + F(0)
        return _once(products if c is None else np.column_stack([products, c]))

    def scaled(self, acc: Array, c: Array | None = None) -> Array:
        """Returns an integer node's elements from their sums."""
        acc = acc.astype(np.int64) + (0 if self.whole is None else self.whole)
        acc = acc if self.scale is not None and is_wide_product(self.case) else wrap_int32(acc)
        if self.scale is not None:
            value = acc.astype(np.float64) * self.scale
            return (value if c is None else value + c).astype(F)
        if self.case.last.op != "matmul_integer_scaled":
            return acc
        scale_a, scale_b = (operand(self.case, i) for i in (4, 5))
        assert scale_a is not None and scale_b is not None
        scale = np.broadcast_to(scale_a.reshape(-1) * scale_b.reshape(-1), self.outputs[-1:])[self.places[-1]]
        y: Array = acc.astype(F) * scale
        return y if c is None else y + c.astype(F)


Fault = Callable[[Terms], Array]


def _once(products: Array) -> Array:
    total, size = products.sum(1), np.abs(products).sum(1)
    return round_once(total, sum_bound(products.shape[1], size), lambda at: products[at])


def product_case(case: Case, wanted: tuple[str, ...]) -> Case | None:
    """Returns the case of the unit's product, where it has one of these ops, by itself; None also for a quantized input
    with a zero point for each channel."""
    inner = inner_case(case)
    if inner is None or inner.last.op not in wanted:
        return None
    if inner.last.op in QUANTIZED:
        of_input = inner.graph.spec(inner.last.inputs[0] or "").zero_point
        if inner.spec.dtype != "float32" or len(of_input) > 1:
            return None
    return inner if function_of(inner) in ("", *SUMMED) else None


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
    return Terms(
        case,
        values[0],
        values[1],
        c,
        inside,
        of.alpha,
        zeros[0],
        zeros[1],
        of.shape,
        (b, q, p),
        outputs,
        finish,
        of.function,
        None if of.scale is None else of.scale[b, q, p],
        None if of.whole is None else of.whole[b, q, p],
    )


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
