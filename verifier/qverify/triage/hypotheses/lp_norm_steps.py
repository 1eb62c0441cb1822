"""The normalization of rows to length one sums only a part of a row, sums in another format, uses another norm, divides
by an approximation, or runs over another axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from qverify.model_bin.graph import Graph, Node
from qverify.triage.altered_kernels.approximate_roots import reciprocals, rsqrts, sqrts
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.float_formats import FIXED, FORMATS, Format, exactly, rarity
from qverify.triage.altered_kernels.replaced_kernels import LIKELY, UNLIKELY, kernel_variant, nodes_of
from qverify.triage.altered_kernels.row_choice import row_choices
from qverify.triage.altered_kernels.row_sample import fitting_rows
from qverify.triage.altered_kernels.row_sums import narrow_sums, partial_sums, sums_on, whole
from qverify.triage.altered_kernels.softmax_kernels import from_rows, rows_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "lp-norm-steps"
OPS = ("lp_norm",)
Total = Callable[[Array], Array]


def _sum(values: Array) -> Array:
    return whole(values)[:, None]


def _quotient(rows: Array, norm: Array) -> Array:
    return np.where(norm == 0, 0.0, rows / norm)


@dataclass(frozen=True, slots=True)
class LpNorm:
    """A kernel for lp_norm nodes.

    Attributes:
        terms: compute the summands from the elements, for order 1 and order 2.
        total: sums rows to [rows, 1].
        root: computes the norm of order 2 from the sum.
        norm: changes the norm of either order.
        divide: divides rows by norms.
        rows: index of the row whose norm is used for each row.
        dtype: dtype of all arithmetic.
    """

    terms: tuple[Format, Format] = (np.abs, np.square)
    total: Total = _sum
    root: Format = np.sqrt
    norm: Format = exactly
    divide: Callable[[Array, Array], Array] = _quotient
    at: Array | None = None
    order: int = 0
    dtype: type = np.float64

    def __call__(self, node: Node, inputs: list[Array], graph: Graph) -> Array:
        rows, order = rows_of(inputs[0].astype(self.dtype), node), self.order or node.words[3]
        total = self.total(self.terms[order - 1](rows))
        norm = self.norm(total if order == 1 else self.root(total))
        return from_rows(self.divide(rows, norm if self.at is None else norm[self.at]), node)


def variants(case: Case) -> Iterator[FaultVariant]:
    for node in nodes_of(case, "lp_norm")[:1]:
        outer, depth, inner = node.words[:3]
        for text, row in row_choices(outer * inner, inner).items():
            yield _variant(f"a row is divided by the norm of {text}", LpNorm(at=row), 7.0)
        yield _variant("the sum of a row begins with that of the row before (not reset)", LpNorm(total=sums_on), LIKELY)
        everything: Total = lambda v: np.full((len(v), 1), v.sum())  # noqa: E731
        yield _variant("one norm of the whole tensor", LpNorm(total=everything), LIKELY)
        for text, words in _axes(node.words[:3], case.graph.spec(node.inputs[0] or "").shape).items():
            yield _variant(f"the norm runs over {text}", partial(_over, words=words), LIKELY)
        yield from fitting_rows(case, (_variant(*way) for way in _ways(depth)))


def _variant(text: str, kernel: Callable[..., Array], bits: float) -> FaultVariant:
    return kernel_variant(f"norm to length one: {text}", {"lp_norm": kernel}, bits)


def _over(node: Node, inputs: list[Array], graph: Graph, words: tuple[int, int, int]) -> Array:
    return LpNorm()(replace(node, words=(*words, node.words[3])), inputs, graph)


def _axes(own_words: tuple[int, ...], shape: tuple[int, ...]) -> dict[str, tuple[int, int, int]]:
    words_by_text = {
        f"axis {k} instead of its own": (int(np.prod(shape[:k])), shape[k], int(np.prod(shape[k + 1 :])))
        for k in range(len(shape))
    }
    words_by_text["as many neighbours in memory as its axis is long"] = (own_words[0] * own_words[2], own_words[1], 1)
    return {text: words for text, words in words_by_text.items() if words != tuple(own_words)}


Way = tuple[str, LpNorm, float]
NORMS: dict[str, LpNorm] = {
    "the sum of absolute values (order 1) instead of its own order": LpNorm(order=1),
    "the root of the sum of squares (order 2) instead of its own order": LpNorm(order=2),
    "the largest absolute value is taken for the norm": LpNorm(
        terms=(np.abs, np.abs), total=lambda v: v.max(1, keepdims=True), root=exactly
    ),
    "the absolute value of the sum instead of the sum of absolute values": LpNorm(
        terms=(exactly, np.square), norm=np.abs
    ),
    "the sum of the values, without their absolute values": LpNorm(terms=(exactly, np.square)),
    "the root of the sum of squares is not taken": LpNorm(root=exactly),
    "the norm is divided by the number of elements (mean of the absolute values or of the squares)": LpNorm(
        total=lambda v: _sum(v) / v.shape[1]
    ),
    "a row of norm 0 is not divided (0 / 0)": LpNorm(divide=lambda r, n: r / n),
    "the rows are multiplied by the norm": LpNorm(divide=lambda r, n: r * n),
    "the rows are not divided": LpNorm(divide=lambda r, n: r + 0 * n),
    "all of it is computed in float32": LpNorm(dtype=np.float32),
    "all of it is computed in float32, by 1/norm": LpNorm(dtype=np.float32, divide=lambda r, n: r * (1 / n)),
    "all of it is computed in float16": LpNorm(dtype=np.float16),
    "the rows are multiplied by the float32 1/norm, in float32": LpNorm(
        divide=lambda r, n: r.astype(np.float32) * (1 / n).astype(np.float32)
    ),
    "the rows are multiplied by 1/norm": LpNorm(divide=lambda r, n: np.where(n == 0, 0.0, r * (1 / n))),
}
SMALL = (1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 2.0**-126, 2.0**-23)


def _ways(depth: int) -> Iterator[Way]:
    for text, kernel in NORMS.items():
        yield text, kernel, LIKELY
    for small in SMALL:
        yield f"{small:g} is added to the norm", LpNorm(norm=bind_last(lambda n, e: n + e, small)), 7.0
        yield (
            f"{small:g} is added to the sum of squares",
            LpNorm(root=bind_last(lambda t, e: np.sqrt(t + e), small)),
            7.0,
        )
        yield f"the norm is at least {small:g}", LpNorm(norm=bind_last(lambda n, e: np.maximum(n, e), small)), 7.0
        yield (
            f"the sum of squares is at least {small:g}",
            LpNorm(root=bind_last(lambda t, e: np.sqrt(np.maximum(t, e)), small)),
            7.0,
        )
        below = bind_last(lambda r, n, e: np.where(n < e, 0.0, r / n), small)
        yield f"a row whose norm is below {small:g} gives 0", LpNorm(divide=below), 7.0
    for power in range(-16, 3):
        cut = bind_last(lambda v, e: np.where(v < e, 0.0, v), 2.0**power)
        yield f"squares below 2^{power} count as 0", LpNorm(terms=(np.abs, bind_last(lambda v, f: f(v * v), cut))), 8.0
        yield (
            f"absolute values below 2^{power} count as 0",
            LpNorm(terms=(bind_last(lambda v, f: f(np.abs(v)), cut), np.square)),
            8.0,
        )
        square = bind_last(lambda v, f: f(np.abs(v)) ** 2, cut)
        yield (
            f"elements whose absolute value is below 2^{power} are not squared (0)",
            LpNorm(terms=(np.abs, square)),
            8.0,
        )
    for part in partial_sums(depth):
        yield (
            f"the sum takes part of a row: {part.text}",
            LpNorm(total=bind_last(lambda v, f: f(v)[:, None], part.total)),
            part.bits,
        )
    for of in narrow_sums(depth):
        total = bind_last(lambda v, f: np.asarray(f(v), np.float64)[:, None], of.total)
        yield f"a row is summed {of.text}", LpNorm(total=total), of.bits
        squares = bind_last(lambda v: (v.astype(np.float32) * v.astype(np.float32)).astype(np.float64))
        yield (
            f"a row is summed {of.text}, of squares rounded to float32",
            LpNorm(total=total, terms=(np.abs, squares)),
            of.bits + 2,
        )
    for text, narrow in {**FORMATS, **FIXED}.items():
        yield from _rounded(text, narrow)
    for text, rsqrt in rsqrts().items():
        yield (
            f"1/sqrt(sum of squares) is computed {text}",
            LpNorm(root=rsqrt, divide=lambda r, n: np.where(np.isfinite(n), r * n, 0.0)),
            UNLIKELY - 4,
        )
    for text, sqrt in sqrts().items():
        yield f"sqrt(sum of squares) is computed {text}", LpNorm(root=sqrt), UNLIKELY - 3
    for text, reciprocal in reciprocals().items():
        divide = bind_last(lambda r, n, f: np.where(n == 0, 0.0, r * f(n)), reciprocal)
        yield f"1/norm is computed {text}", LpNorm(divide=divide), UNLIKELY - 4


def _rounded(text: str, narrow: Format) -> Iterator[Way]:
    cost = UNLIKELY - 6 + rarity(text)
    terms = (bind_last(lambda v, f: f(np.abs(v)), narrow), bind_last(lambda v, f: f(v * v), narrow))
    before = (bind_last(lambda v, f: np.abs(f(v)), narrow), bind_last(lambda v, f: f(v) ** 2, narrow))
    for what, kernel in {
        "the summands (squares or absolute values) are": LpNorm(terms=terms),
        "the elements, for the norm, are": LpNorm(terms=before),
        "the sum is": LpNorm(total=bind_last(lambda v, f: f(_sum(v)), narrow)),
        "the norm is": LpNorm(norm=narrow),
        "1/norm is": LpNorm(divide=bind_last(lambda r, n, f: np.where(n == 0, 0.0, r * f(1 / n)), narrow)),
        "the result is": LpNorm(divide=bind_last(lambda r, n, f: f(_quotient(r, n)), narrow)),
    }.items():
        yield f"{what} rounded to {text}", kernel, cost
