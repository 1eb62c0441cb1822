"""A convolution or matrix product of floats adds the bias of another channel or row, or adds it wrongly; uses alpha or
beta wrongly; or reads the weights, zero points or input channels of another group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qverify.ops import float_word
from qverify.triage.altered_kernels.product_layouts import FLOATS, INTEGERS, QUANTIZED, Layout, layout, operand
from qverify.triage.altered_kernels.product_terms import (
    Array,
    ProductTerms,
    fault_variant,
    healthy_elements,
    product_case,
)
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant

NAME = "product-parameters"
OPS = (*FLOATS, *INTEGERS, *QUANTIZED)
F = np.float32
# Another channel, from the channel, the number of channels and that of channels in a group.
Index = Callable[[Array, int, int], Array]


def _indices() -> Iterator[tuple[str, Index]]:
    yield "of the channel's place within its group (every group has those of the first)", lambda o, n, g: o % g
    yield "of the first channel for all", lambda o, n, g: 0 * o
    yield "of the next channel", lambda o, n, g: np.minimum(o + 1, n - 1)
    yield "of the next channel (the last has the first's)", lambda o, n, g: (o + 1) % n
    yield "of the previous channel", lambda o, n, g: np.maximum(o - 1, 0)
    yield "of the channel before, the first one those of the last", lambda o, n, g: (o - 1) % n
    yield "of the last channel for all", lambda o, n, g: 0 * o + n - 1
    yield "in reverse order of the channels", lambda o, n, g: n - 1 - o
    yield "of the number of the channel's group", lambda o, n, g: o // g
    yield "of the first channel of the channel's group", lambda o, n, g: o // g * g
    yield "of the last channel of the channel's group", lambda o, n, g: o // g * g + g - 1
    yield "of the next group", lambda o, n, g: (o + g) % n
    for lanes in (4, 8, 2, 16, 32):
        yield f"of the channel modulo {lanes}", partial(_modulo, lanes=lanes)
        yield f"of the first channel of each block of {lanes}", partial(_block, lanes=lanes)


def _modulo(o: Array, n: int, g: int, lanes: int) -> Array:
    return o % lanes


def _block(o: Array, n: int, g: int, lanes: int) -> Array:
    return o // lanes * lanes


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = product_case(case, OPS)
    if inner is None:
        return
    if inner.last.op in QUANTIZED:
        yield from _yield_scale_faults(case, inner)
        return
    if inner.last.op in INTEGERS:
        yield from _yield_zero_point_faults(case, inner)
    elif inner.last.op == "matmul_float":
        yield from _yield_addend_faults(case, inner)
    elif operand(inner, 2) is not None:
        for text, index in _indices():
            yield from fault_variant(
                case, f"the bias added is that {text}", layout_bias(index), partial(_with_bias, index=index)
            )
    if operand(inner, 2) is not None and inner.last.op in FLOATS:
        for text, factor in (("left out", 0.0), ("added twice", 2.0), ("subtracted", -1.0)):
            yield from fault_variant(
                case, f"what is added to the sum (the bias) is {text}", partial(_factor, factor=factor)
            )
        yield from fault_variant(case, "the sum is rounded to float32 before the bias is added to it", _apart)
    if inner.last.op not in ("matmul_float", "matmul_integer", "matmul_integer_scaled"):
        yield from _yield_group_faults(case, inner)


def _yield_scale_faults(case: Case, inner: Case) -> Iterator[FaultVariant]:
    parts = [name for name in ("scale", "c", "whole") if getattr(layout(inner), name) is not None]
    for text, index in _indices():
        for name in parts:
            what = "the scale of the sum" if name == "scale" else "the bias"
            yield from fault_variant(
                case, f"{what} is that {text}", healthy_elements, partial(_with_channels, index=index, names=(name,))
            )
        if len(parts) > 1:
            yield from fault_variant(
                case,
                f"the scale of the sum and the bias are those {text}",
                healthy_elements,
                partial(_with_channels, index=index, names=tuple(parts)),
            )


def _with_channels(case: Case, index: Index, names: tuple[str, ...]) -> Layout:
    of = layout(case)
    group = case.last.words[10] if case.last.op in ("conv", "conv_transpose") else 0
    for name in names:
        values: Array = getattr(of, name)
        n = values.shape[1] * group if group else values.shape[2]
        at = np.clip(index(np.arange(n), n, n // max(group, 1)), 0, n - 1)
        moved = values.reshape(-1, n, values.shape[2])[:, at].reshape(values.shape) if group else values[:, :, at]
        of = replace(of, **{name: moved})  # type: ignore[arg-type]
    return of


def layout_bias(index: Index) -> Callable[[ProductTerms], Array]:
    """Returns the healthy sum, because the fault is in the matrices."""
    return healthy_elements


def _with_bias(case: Case, index: Index) -> Layout:
    matrices, bias, group = layout(case), operand(case, 2), case.last.words[10]
    assert matrices.c is not None and bias is not None
    n = bias.size
    chosen = bias.reshape(-1)[np.clip(index(np.arange(n), n, n // group), 0, n - 1)].astype(np.float64)
    batch = len(matrices.left) // group
    c = np.tile(chosen.reshape(1, group, -1), (batch, 1, 1)).reshape(len(matrices.left), -1, 1)
    return replace(matrices, c=np.broadcast_to(c, matrices.c.shape))


def _factor(terms: ProductTerms, factor: float) -> Array:
    assert terms.c is not None
    return terms.rounded(terms.products, terms.c * factor)


def _apart(terms: ProductTerms) -> Array:
    assert terms.c is not None
    total = replace(terms, alpha=1.0).summed(terms.products, None).astype(np.float64) * terms.alpha
    return (total + terms.c).astype(F) + F(0)


def _yield_group_faults(case: Case, inner: Case) -> Iterator[FaultVariant]:
    group = inner.last.words[10]
    if group == 1:
        return
    for text, of in (
        ("the weights of the first group are used in every group", lambda g, n: 0 * g),
        ("the weights of the next group are used", lambda g, n: (g + 1) % n),
        ("the weights of the groups are used in reverse order", lambda g, n: n - 1 - g),
    ):
        yield from fault_variant(case, text, healthy_elements, partial(_weights_of, index=of))
    for text, of in (
        ("every group reads the input channels of the first group", lambda g, n: 0 * g),
        ("every group reads the input channels of the next group", lambda g, n: (g + 1) % n),
        ("the groups read the input channels in reverse order of the groups", lambda g, n: n - 1 - g),
    ):
        yield from fault_variant(case, text, healthy_elements, partial(_channels_of, index=of))
    yield from fault_variant(
        case, "a group reads every n-th input channel (interleaved groups)", healthy_elements, _interleaved
    )


def _weights_of(case: Case, index: Callable[[Array, int], Array]) -> Layout:
    matrices, group = layout(case), case.last.words[10]
    left = matrices.left.reshape(-1, group, *matrices.left.shape[1:])[:, index(np.arange(group), group)]
    return replace(matrices, left=left.reshape(matrices.left.shape))


def _channel_table(case: Case) -> Array:
    channels, group = case.graph.spec(case.last.inputs[0] or "").shape[1], case.last.words[10]
    return np.arange(channels).reshape(group, -1)


def _channels_of(case: Case, index: Callable[[Array, int], Array]) -> Layout:
    table = _channel_table(case)
    return layout(case, channels=table[index(np.arange(len(table)), len(table))])


def _interleaved(case: Case) -> Layout:
    table = _channel_table(case)
    return layout(case, channels=table.reshape(table.shape[::-1]).T)


def _yield_addend_faults(case: Case, inner: Case) -> Iterator[FaultVariant]:
    c = operand(inner, 2)
    if c is None:
        return
    beta = float(float_word(inner.last.words[3]))
    yield from fault_variant(case, "alpha multiplies what is added, too: alpha * (sum + beta*c)", _all_by_alpha)
    yield from fault_variant(case, "alpha is ignored", _without_alpha)
    yield from fault_variant(
        case, "beta is ignored (c is added as it is)", partial(_factor, factor=1 / beta if beta else 1.0)
    )
    yield from fault_variant(
        case, "beta multiplies the sum, too: beta * (alpha * sum + c)", partial(_all_by_beta, beta=beta)
    )
    yield from fault_variant(case, "alpha and beta are exchanged", partial(_exchanged, beta=beta))
    for text, way in _MATRIX_BIASES.items():
        yield from fault_variant(case, text, healthy_elements, partial(_with_matrix, way=way))


def _all_by_alpha(terms: ProductTerms) -> Array:
    assert terms.c is not None
    if terms.alpha == 1.0:
        raise ValueError("no alpha")
    total = replace(terms, alpha=1.0).summed(terms.products, None).astype(np.float64)
    return (terms.alpha * (total + terms.c)).astype(F) + F(0)


def _without_alpha(terms: ProductTerms) -> Array:
    return replace(terms, alpha=1.0).rounded(terms.products)


def _all_by_beta(terms: ProductTerms, beta: float) -> Array:
    assert terms.c is not None
    total = replace(terms, alpha=1.0).summed(terms.products, None).astype(np.float64)
    return (beta * (terms.alpha * total + terms.c / beta)).astype(F) + F(0)


def _exchanged(terms: ProductTerms, beta: float) -> Array:
    assert terms.c is not None
    return replace(terms, alpha=beta, c=terms.c / beta * terms.alpha).rounded(terms.products)


def _first_column(c: Array, rows: int, columns: int) -> Array:
    return np.broadcast_to(c[..., :1], (rows, columns))


def _first_row(c: Array, rows: int, columns: int) -> Array:
    return np.broadcast_to(np.atleast_2d(c)[:1], (rows, columns))


def _row_as_column(c: Array, rows: int, columns: int) -> Array:
    flat = c.reshape(-1)
    return np.broadcast_to(flat[np.arange(rows) % len(flat)][:, None], (rows, columns))


def _column_as_row(c: Array, rows: int, columns: int) -> Array:
    flat = c.reshape(-1)
    return np.broadcast_to(flat[np.arange(columns) % len(flat)], (rows, columns))


def _moved(c: Array, rows: int, columns: int, by: int) -> Array:
    return np.broadcast_to(np.roll(np.atleast_2d(c), by, 1), (rows, columns))


def _lanes(c: Array, rows: int, columns: int, lanes: int) -> Array:
    whole = np.broadcast_to(c, (rows, columns))
    return whole[:, np.arange(columns) % lanes]


def _transposed(c: Array, rows: int, columns: int) -> Array:
    if c.ndim != 2 or c.shape != (rows, columns):
        raise ValueError("no matrix")
    return c.reshape(columns, rows).T


_MATRIX_BIASES: dict[str, Callable[[Array, int, int], Array]] = {
    "the first element of each row of what is added (the bias) belongs to all columns": _first_column,
    "the first row of what is added (the bias) belongs to all rows": _first_row,
    "what is added (the bias) is indexed by the row instead of the column": _row_as_column,
    "what is added (the bias) is indexed by the column instead of the row": _column_as_row,
    "what is added (the bias) is read transposed": _transposed,
    "what is added (the bias) is that of the next column": partial(_moved, by=-1),
    "what is added (the bias) is that of the previous column": partial(_moved, by=1),
    **{
        f"what is added (the bias) is that of the column modulo {n}": partial(_lanes, lanes=n)
        for n in (32, 8, 4, 16, 2)
    },
}


def _with_matrix(case: Case, way: Callable[[Array, int, int], Array]) -> Layout:
    matrices, c = layout(case), operand(case, 2)
    assert matrices.c is not None and c is not None
    beta = float(float_word(case.last.words[3]))
    return replace(
        matrices, c=np.broadcast_to(way(c.astype(np.float64) * beta, *matrices.c.shape[1:]), matrices.c.shape)
    )


def _yield_zero_point_faults(case: Case, inner: Case) -> Iterator[FaultVariant]:
    zeros = operand(inner, 3)
    if zeros is None or zeros.size < 2:
        return
    group = inner.last.words[10] if inner.last.op == "conv_integer" else 1
    for text, index in _indices():
        yield from fault_variant(
            case,
            f"the zero point of the weights is that {text}",
            healthy_elements,
            partial(_with_zeros, index=index, group=group),
        )


def _with_zeros(case: Case, index: Index, group: int) -> Layout:
    matrices = layout(case)
    zeros = operand(case, 3)
    assert zeros is not None
    n = zeros.size
    chosen = zeros.reshape(-1)[np.clip(index(np.arange(n), n, n // group), 0, n - 1)].astype(np.int64)
    if case.last.op != "conv_integer":
        return replace(matrices, zero_right=chosen)
    return replace(
        matrices,
        zero_left=np.tile(chosen.reshape(1, group, -1), (len(matrices.left) // group, 1, 1)).reshape(
            matrices.zero_left.shape
        ),
    )
