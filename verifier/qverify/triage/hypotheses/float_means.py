"""A mean, sum or norm of floats (average_pool_float, reduce_float, variadic_float) divides by another number, by a
rounded reciprocal, computes means of means, or does its steps in another order (the absolute value or the square of the
sum) or leaves out a root."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qverify import ops
from qverify.arithmetic import functions64
from qverify.arithmetic.float32 import log64
from qverify.arithmetic.reduced_rows import reduced_rows
from qverify.arithmetic.windows import plane_shape, taps_between
from qverify.triage.altered_kernels.product_layouts import SUMS, Layout, layout
from qverify.triage.altered_kernels.product_terms import (
    Array,
    ProductTerms,
    fault_variant,
    healthy_elements,
    product_case,
)
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.hypotheses.float_product_operands import narrows

NAME = "float-means"
OPS = SUMS
F = np.float32
COUNTS = {
    "as they should be": {},
    "as if the dilation were 1": {"dilation": 1},
    "without the padding": {"low": 0, "high": 0},
    "with the padding": {"low": 1, "high": 1},
    "with the padding before the input only": {"low": 1, "high": 0},
    "with the padding after the input only": {"low": 0, "high": 1},
    "all, also outside of the input and its padding": {"all": 1},
    "one too many": {"more": 1},
    "one too few": {"more": -1},
    "as those of the kernel times its dilation (its extent)": {"extent": 1},
}


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = product_case(case, OPS)
    if inner is None:
        return
    if inner.last.op == "average_pool_float":
        yield from _counts(case)
    matrices = case.compute_once("product layout", lambda: layout(inner))
    if matrices.function == "mean" or matrices.count is not None:
        yield from _means(case)
    if inner.last.op == "reduce_float":
        for text, way in ORDERS.get(matrices.function, {}).items():
            yield from fault_variant(case, text, partial(_other, way=way))
    if inner.last.op == "variadic_float":
        yield from _running(case, matrices.function)


def _counts(case: Case) -> Iterator[FaultVariant]:
    for rows in COUNTS:
        for columns in COUNTS:
            if rows != columns or rows != "as they should be":
                text = f"the taps by which the mean divides are counted in rows {rows} and in columns {columns}"
                yield from fault_variant(case, text, healthy_elements, partial(_counted, names=(rows, columns)))
    for text, way in (
        ("the mean divides by the count of the first output for all", lambda c: np.full_like(c, c.flat[0])),
        ("the mean divides by the largest count for all", lambda c: np.full_like(c, c.max())),
        ("the mean divides by the count of the output before", lambda c: np.roll(c, 1)),
        ("the mean divides by the count rounded up to a power of 2", lambda c: 2 ** np.ceil(functions64.log2(c))),
        ("the mean divides by the count rounded down to a power of 2", lambda c: 2 ** np.floor(functions64.log2(c))),
        ("the mean does not divide", np.ones_like),
    ):
        yield from fault_variant(case, text, healthy_elements, partial(_recounted, way=way))


def _recounted(case: Case, way: Callable[[Array], Array]) -> Layout:
    matrices = layout(case)
    assert matrices.count is not None
    return replace(matrices, count=way(matrices.count))


def _counted(case: Case, names: tuple[str, str]) -> Layout:
    size, out = plane_shape(case.graph.spec(case.last.inputs[0] or "").shape), plane_shape(case.spec.shape)
    words = ops.words(case.last)
    each = [_axis_count(words, axis, size[axis], out[axis], **COUNTS[name]) for axis, name in enumerate(names)]
    return replace(layout(case), count=np.maximum(np.multiply.outer(*each), 1).reshape(-1))


def _axis_count(words: dict[str, int], axis: int, size: int, out: int, **changed: int) -> Array:
    side, before, after = (("h", "pad_top", "pad_bottom"), ("w", "pad_left", "pad_right"))[axis]
    kernel, dilation = words[f"kernel_{side}"], changed.get("dilation", words[f"dilation_{side}"])
    if "all" in changed:
        return np.full(out, kernel)
    if "extent" in changed:
        return np.full(out, (kernel - 1) * dilation + 1)
    padded = words["count_include_pad"]
    starts = np.arange(out, dtype=np.int64) * words[f"stride_{side}"] - words[before]
    low = -words[before] * changed.get("low", padded)
    high = size + words[after] * changed.get("high", padded)
    first, end = taps_between(starts, kernel, dilation, low, high)
    return np.asarray(end - first + changed.get("more", 0))


def _means(case: Case) -> Iterator[FaultVariant]:
    yield from fault_variant(
        case, "the mean is float32: its sum is rounded to float32 before it is divided", _sum_first
    )
    yield from fault_variant(
        case, "the mean is multiplied by the reciprocal of the count, rounded to float32", _by_reciprocal
    )
    yield from fault_variant(
        case,
        "the sum, rounded to float32, is multiplied by the reciprocal of the count, rounded to float32",
        _sum_by_reciprocal,
    )
    for text, narrow in narrows():
        yield from fault_variant(
            case,
            f"the sum is multiplied by the reciprocal of the count, held in {text}",
            partial(_by_narrow, narrow=narrow),
        )
    yield from fault_variant(
        case, "every term is divided by the count by itself, rounded to float32, before it is added", _each
    )
    yield from fault_variant(case, "the mean is the mean of the means of the kernel's rows", partial(_of_means, axis=2))
    yield from fault_variant(
        case, "the mean is the mean of the means of the kernel's columns", partial(_of_means, axis=1)
    )


def _count(terms: ProductTerms) -> Array:
    assert terms.finish is not None
    return np.asarray(np.rint(1.0 / terms.finish(np.ones(len(terms.a)))))


def _total(terms: ProductTerms) -> Array:
    total: Array = np.add.accumulate(terms.products, 1)[:, -1]
    return total


def _sum_first(terms: ProductTerms) -> Array:
    return _total(terms).astype(F) / _count(terms).astype(F)


def _by_reciprocal(terms: ProductTerms) -> Array:
    return (_total(terms) * (F(1) / _count(terms).astype(F))).astype(F)


def _sum_by_reciprocal(terms: ProductTerms) -> Array:
    return _total(terms).astype(F) * (F(1) / _count(terms).astype(F))


def _by_narrow(terms: ProductTerms, narrow: Callable[[Array], Array]) -> Array:
    return (_total(terms) * narrow(1.0 / _count(terms))).astype(F)


def _each(terms: ProductTerms) -> Array:
    each = (terms.products / _count(terms)[:, None]).astype(F)
    return np.add.accumulate(each, 1, dtype=F)[:, -1]


def _of_means(terms: ProductTerms, axis: int) -> Array:
    if len(terms.shape) != 3:
        raise ValueError("no window")
    shape = (len(terms.a), *terms.shape[1:])
    values, inside = terms.products.reshape(shape), terms.inside.reshape(shape)
    count = inside.sum(axis)
    means = values.sum(axis) / np.maximum(count, 1)
    return (means.sum(1) / np.maximum((count > 0).sum(1), 1)).astype(F)


Order = Callable[[Array], Array]  # the sum of terms [E, K], to which no function was applied yet


def _sum(rows: Array) -> Array:
    total: Array = np.add.accumulate(rows, 1)[:, -1]
    return total


ORDERS: dict[str, dict[str, Order]] = {
    "l1": {
        "the absolute value of the sum is taken, instead of the sum of absolute values": lambda x: np.abs(_sum(x)),
        "no absolute values are taken": _sum,
        "the largest absolute value is taken, instead of their sum": lambda x: np.abs(x).max(1),
        "the root of the sum of squares is taken (L2)": lambda x: np.sqrt(_sum(x * x)),
        "the mean of the absolute values is taken": lambda x: _sum(np.abs(x)) / x.shape[1],
    },
    "l2": {
        "the root of the sum is not taken": lambda x: _sum(x * x),
        "the sum of absolute values is taken (L1)": lambda x: _sum(np.abs(x)),
        "the root of the mean of squares is taken": lambda x: np.sqrt(_sum(x * x) / x.shape[1]),
        "the absolute value of the sum is taken": lambda x: np.abs(_sum(x)),
        "the sum of squares is rounded to float32 before its root": lambda x: np.sqrt(_sum(x * x).astype(F)).astype(F),
        "the root is taken of float32 squares summed in float32": lambda x: np.sqrt(_float32(np.square(x.astype(F)))),
        "the largest absolute value is taken": lambda x: np.abs(x).max(1),
    },
    "sum_square": {
        "the square of the sum is taken, instead of the sum of squares": lambda x: _sum(x) ** 2,
        "the squares are not taken (the sum of the elements)": _sum,
        "the root of the sum of squares is taken": lambda x: np.sqrt(_sum(x * x)),
        "the absolute values are added, not the squares": lambda x: _sum(np.abs(x)),
        "the mean of squares is taken": lambda x: _sum(x * x) / x.shape[1],
    },
    "log_sum": {
        "the logarithm is not taken": _sum,
        "the sum of logarithms is taken": lambda x: _sum(log64(x)),
        "the logarithm to base 2 is taken": lambda x: functions64.log2(_sum(x)),
        "the sum is rounded to float32 before its logarithm": lambda x: log64(_sum(x).astype(F).astype(np.float64)),
        "the logarithm of the sum of absolute values is taken": lambda x: log64(_sum(np.abs(x))),
        "the logarithm of the sum of exponentials is taken": lambda x: functions64.log(_sum(functions64.exp(x))),
        "1 is added to the sum before its logarithm": lambda x: functions64.log1p(_sum(x)),
    },
    "sum": {
        "the mean is taken": lambda x: _sum(x) / x.shape[1],
        "the absolute values are added": lambda x: _sum(np.abs(x)),
    },
}


def _float32(rows: Array) -> Array:
    return np.add.accumulate(rows, 1, dtype=F)[:, -1]


def _other(terms: ProductTerms, way: Order) -> Array:
    return np.asarray(way(_rows(terms.case)[terms.places[2]])).astype(F)


def _rows(case: Case) -> Array:
    """Returns the rows of a reduction, [P, K]."""
    name = case.last.inputs[0] or ""
    x = case.inputs[name] if name in case.inputs else case.graph.constants[name]
    rows = reduced_rows(x.astype(np.float64), case.last.words[1])
    return rows.reshape(-1, rows.shape[-1])


def _running(case: Case, function: str) -> Iterator[FaultVariant]:
    if function == "mean":
        for text, narrow in (("", _as_it_is), (", rounded to float32 each time", _rounded)):
            yield from fault_variant(
                case,
                f"the mean is taken pair by pair: after each input the running result and the input are averaged with equal weights{text}",
                partial(_pairs, narrow=narrow),
            )
            yield from fault_variant(
                case,
                f"the mean is a running one, m + (x - m) / k for the k-th input{text}",
                partial(_moving, narrow=narrow),
            )
    for divisor, text in (
        (None, "does not divide"),
        (2, "divides by 2 whatever the number of inputs"),
        (1, "divides by one more than the number of inputs"),
        (-1, "divides by one less than the number of inputs"),
    ):
        if function == "mean":
            yield from fault_variant(case, f"the mean {text}", partial(_divides, divisor=divisor))
    if function == "sum":
        yield from fault_variant(case, "the sum is divided by the number of inputs (mean)", _mean_of_sum)


def _as_it_is(values: Array) -> Array:
    return values


def _rounded(values: Array) -> Array:
    return values.astype(F).astype(np.float64)


def _pairs(terms: ProductTerms, narrow: Callable[[Array], Array]) -> Array:
    total = terms.products[:, 0]
    for k in range(1, terms.products.shape[1]):
        total = narrow((total + terms.products[:, k]) / 2)
    return total.astype(F)


def _moving(terms: ProductTerms, narrow: Callable[[Array], Array]) -> Array:
    total = terms.products[:, 0]
    for k in range(1, terms.products.shape[1]):
        total = narrow(total + (terms.products[:, k] - total) / (k + 1))
    return total.astype(F)


def _divides(terms: ProductTerms, divisor: int | None) -> Array:
    count = terms.products.shape[1]
    by = 1 if divisor is None else divisor if divisor == 2 else count + divisor
    return (_total(terms) / by).astype(F)


def _mean_of_sum(terms: ProductTerms) -> Array:
    return (_total(terms) / terms.products.shape[1]).astype(F)
