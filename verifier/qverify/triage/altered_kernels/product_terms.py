"""The terms from which each output element of a product of floats or of stored integers is summed: of conv_float,
conv_transpose_float, matmul_float, conv_integer, matmul_integer and matmul_integer_scaled; also of average_pool_float
and the sums of reduce_float and variadic_float, as products by 1."""

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
    INTEGERS,
    QUANTIZED,
    SUMMED,
    Layout,
    divide_sum,
    function_of,
    is_wide_product,
    layout,
    operand,
)
from qverify.triage.case import Case, element_bits
from qverify.triage.fault import DOES_NOT_FIT
from qverify.triage.hypotheses import FaultVariant

Array = npt.NDArray[Any]
SAMPLE_SIZE = 24  # differing elements at which a fault is tried first
CHUNK_TERMS = 1 << 20  # computed at a time
MAX_TERMS = 60_000_000  # of a whole output; more take too long
F = np.float32


@dataclass(slots=True)
class ProductTerms:
    """Some output elements [E] with their terms [E, K] in the order of the kernel: channels, kernel rows, kernel
    columns.

    Attributes:
        case: the case of the product alone.
        a: elements of the input or the first matrix, 0 in the padding: float64, or int64 as stored.
        b: elements of the weights or the second matrix, likewise.
        c: the addend (the bias, or c times beta), or None.
        inside: False in the padding.
        alpha: factor of the sum.
        zero_a, zero_b: zero points of stored integers.
        shape: shape of the K terms.
        places: indices of the elements in `outputs`: batch, channel (or row), pixel (or column).
        outputs: shape of the whole output.
        finish: computes the output in float64 from the exact sum, if it is not the sum itself (a mean, a root).
        function: name of the function of a reduce_float or variadic_float.
        scale: factor of the integer sum for a float32 output.
        whole: the integer bias.
    """

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
        """The exact products [E, K]; those of integers without zero points."""
        if self.case.last.op not in (*INTEGERS, *QUANTIZED):
            return self.a * self.b
        return np.where(self.inside, self.a - self.zero_a, 0) * (self.b - self.zero_b)

    def rounded(self, products: Array, c: Array | None = None) -> Array:
        """Returns the elements computed from these products as by a healthy node. c: another addend, if given."""
        return self.summed(products, self.c if c is None else c)

    def summed(self, products: Array, c: Array | None) -> Array:
        """Returns the elements computed from these products and this addend."""
        if self.case.last.op in (*INTEGERS, *QUANTIZED):
            return self.scaled(products.sum(1), c)
        if self.finish is not None:
            return self.finish(np.add.accumulate(products, 1)[:, -1]).astype(F)
        if self.alpha != 1.0:
            total = _round_sum(products).astype(np.float64) * self.alpha
            return (total if c is None else total + c).astype(F) + F(0)
        return _round_sum(products if c is None else np.column_stack([products, c]))

    def scaled(self, acc: Array, c: Array | None = None) -> Array:
        """Returns an integer node's elements computed from their sums."""
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


def healthy_elements(terms: ProductTerms) -> Array:
    """Returns the elements computed without a fault, for faults that are in the matrices."""
    return terms.rounded(terms.products)


ComputeTerms = Callable[[ProductTerms], Array]  # computes the elements with a fault


def _round_sum(products: Array) -> Array:
    """Returns the exact sums rounded to float32 once."""
    total, size = products.sum(1), np.abs(products).sum(1)
    return round_once(total, sum_bound(products.shape[1], size), lambda at: products[at])


def product_case(case: Case, wanted_ops: tuple[str, ...]) -> Case | None:
    """Returns the case of the unit's product alone, or None if it has none of these ops, or a quantized input with a
    zero point for each channel."""
    inner = inner_case(case)
    if inner is None or inner.last.op not in wanted_ops:
        return None
    if inner.last.op in QUANTIZED:
        zero_point = inner.graph.spec(inner.last.inputs[0] or "").zero_point
        if inner.spec.dtype != "float32" or len(zero_point) > 1:
            return None
    return inner if function_of(inner) in ("", *SUMMED) else None


def terms_at(case: Case, matrices: Layout, at: Array) -> ProductTerms:
    """Returns the output elements at these flat indices with their terms."""
    outputs = (len(matrices.left), matrices.left.shape[1], matrices.right.shape[1])
    b, q, p = np.unravel_index(at, outputs)
    left, right = matrices.left[b, q], matrices.right[b, p]
    inside = np.ones(left.shape, bool) if matrices.inside is None else matrices.inside[p]
    zeros = [_zeros_at(matrices.zero_left, b, q), _zeros_at(matrices.zero_right, b, p)]
    values = [left, right]
    if matrices.weights_left:
        values, zeros = values[::-1], zeros[::-1]
    c = None if matrices.c is None else matrices.c[b, q, p]
    finish = matrices.finish if matrices.count is None else partial(divide_sum, count=matrices.count[p])
    return ProductTerms(
        case,
        values[0],
        values[1],
        c,
        inside,
        matrices.alpha,
        zeros[0],
        zeros[1],
        matrices.shape,
        (b, q, p),
        outputs,
        finish,
        matrices.function,
        None if matrices.scale is None else matrices.scale[b, q, p],
        None if matrices.whole is None else matrices.whole[b, q, p],
    )


def _zeros_at(zeros: Array, batch: Array, row: Array) -> Array:
    if zeros.ndim == 2:
        return zeros[batch, row][:, None]
    return zeros[row if len(zeros) > 1 else 0 * row][:, None]


def fault_variant(
    case: Case, text: str, fault: ComputeTerms, of: Callable[[Case], Layout] = layout, cost: float = 0.0
) -> Iterator[FaultVariant]:
    """Yields the fault unless it fails on a sample of the elements that differ.

    Args:
        fault: computes elements from their terms.
        of: returns the matrices of the product, which the fault may change.
        cost: bits of the choice.
    """
    case.count_tried(1, (text,))
    inner = inner_case(case)
    assert inner is not None
    sample = case.compute_once("product sample", lambda: _sample_places(case))
    if not len(sample):
        yield FaultVariant(text, partial(_compute_output, fault=fault, of=of), cost)
        return
    try:
        matrices = case.compute_once("product layout", lambda: layout(inner)) if of is layout else of(inner)
        computed = finished(case, fault(terms_at(inner, matrices, sample)))
    except DOES_NOT_FIT:
        return
    if computed.dtype != case.recorded.dtype:
        return
    same = element_bits(computed) == element_bits(case.recorded)[sample]
    if same.mean() > 0.7:
        yield FaultVariant(text, partial(_compute_output, fault=fault, of=of), cost)


def _sample_places(case: Case) -> Array:
    if len(case.differing) <= SAMPLE_SIZE:
        return case.differing
    return case.differing[np.linspace(0, len(case.differing) - 1, SAMPLE_SIZE).astype(int)]


def _compute_output(case: Case, fault: ComputeTerms, of: Callable[[Case], Layout]) -> Array:
    inner = inner_case(case)
    if inner is None:
        raise ValueError("no product by itself")
    matrices = of(inner)
    size, depth = inner.spec.shape, matrices.left.shape[-1]
    count = int(np.prod(size))
    step = max(1, CHUNK_TERMS // max(1, depth))
    if count * depth > MAX_TERMS:
        raise ValueError("too many products")
    chunks = [fault(terms_at(inner, matrices, np.arange(at, min(count, at + step)))) for at in range(0, count, step)]
    return finished(case, np.concatenate(chunks)).reshape(case.spec.shape)
