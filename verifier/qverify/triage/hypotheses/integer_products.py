"""A product of stored integers (conv_integer, matmul_integer, also scaled) leaves out a zero point or a part of its
correction, keeps operands, products or sums in too few bits, or rounds its scales in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.arithmetic.exact_matmul import wrap_int32
from qverify.triage.altered_kernels.narrow_floats import Narrow
from qverify.triage.altered_kernels.product_layouts import INTEGERS, QUANTIZED, operand
from qverify.triage.altered_kernels.product_terms import Array, ProductTerms, fault_variant, product_case
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.hypotheses.float_product_operands import narrows

NAME = "integer-products"
OPS = (*INTEGERS, *QUANTIZED)
F = np.float32
PARTS = {
    "the zero point of the first operand times the sum of the second": lambda t, a, b: -t.zero_a[:, 0] * b.sum(1),
    "the zero point of the second operand times the sum of the first": lambda t, a, b: -t.zero_b[:, 0] * a.sum(1),
    "the product of both zero points times the number of terms": lambda t, a, b: (
        t.zero_a[:, 0] * t.zero_b[:, 0] * t.inside.sum(1)
    ),
}
WIDTHS = (8, 12, 14, 15, 16, 17, 18, 20, 24)


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = product_case(case, OPS)
    if inner is None:
        return
    for part in PARTS:
        for text, factor in (("is left out", -1), ("is counted twice", 1), ("has the other sign", -2)):
            yield from fault_variant(case, f"{part} {text}", partial(_corrected, part=part, factor=factor))
    for text, pair in _zero_points():
        yield from fault_variant(case, text, pair)
    yield from _widths(case)
    if inner.last.op == "matmul_integer_scaled":
        yield from _scales(case, inner)


def _corrected(terms: ProductTerms, part: str, factor: int) -> Array:
    a, b = np.where(terms.inside, terms.a, 0), np.where(terms.inside, terms.b, 0)
    return terms.scaled(terms.products.sum(1) + factor * PARTS[part](terms, a, b), terms.c)


def _zero_points() -> Iterator[tuple[str, Callable[[ProductTerms], Array]]]:
    yield "the zero point of the first operand is not subtracted", partial(_with, a=_no_zero, b=lambda t: t.zero_b)
    yield "the zero point of the second operand is not subtracted", partial(_with, a=lambda t: t.zero_a, b=_no_zero)
    yield "neither zero point is subtracted", partial(_with, a=_no_zero, b=_no_zero)
    yield "the zero points are exchanged", partial(_with, a=lambda t: t.zero_b, b=lambda t: t.zero_a)
    yield "the zero point of the first operand is added", partial(_with, a=lambda t: -t.zero_a, b=lambda t: t.zero_b)
    yield "the zero point of the second operand is added", partial(_with, a=lambda t: t.zero_a, b=lambda t: -t.zero_b)
    for one, name in ((0, "first"), (1, "second")):
        for text, moved in (("128", 128), ("-128", -128), ("1", 1), ("-1", -1)):
            yield f"the zero point of the {name} operand is {text} too large", partial(_moved, one=one, by=moved)
        for text, value in (("0", 0), ("128", 128), ("-128", -128)):
            yield f"the zero point of the {name} operand is taken as {text}", partial(_fixed, one=one, value=value)
        for text, kind in (("unsigned", np.uint8), ("signed", np.int8)):
            yield (
                f"the zero point of the {name} operand is read as {text} 8 bits",
                partial(_read, one=one, kind=kind, zeros=True),
            )
            yield (
                f"the elements of the {name} operand are read as {text} 8 bits",
                partial(_read, one=one, kind=kind, zeros=False),
            )


def _no_zero(terms: ProductTerms) -> Array:
    return np.zeros(1, np.int64)


def _with(terms: ProductTerms, a: Callable[[ProductTerms], Array], b: Callable[[ProductTerms], Array]) -> Array:
    products = np.where(terms.inside, terms.a - a(terms), 0) * (terms.b - b(terms))
    return terms.rounded(products)


def _moved(terms: ProductTerms, one: int, by: int) -> Array:
    zeros = (terms.zero_a + by * (one == 0), terms.zero_b + by * (one == 1))
    return terms.rounded(np.where(terms.inside, terms.a - zeros[0], 0) * (terms.b - zeros[1]))


def _fixed(terms: ProductTerms, one: int, value: int) -> Array:
    zeros = (value if one == 0 else terms.zero_a, value if one == 1 else terms.zero_b)
    return terms.rounded(np.where(terms.inside, terms.a - zeros[0], 0) * (terms.b - zeros[1]))


def _read(terms: ProductTerms, one: int, kind: type, zeros: bool) -> Array:
    values = [terms.a, terms.b, terms.zero_a, terms.zero_b]
    at = one + 2 * zeros
    values[at] = values[at].astype(kind).astype(np.int64)
    return terms.rounded(np.where(terms.inside, values[0] - values[2], 0) * (values[1] - values[3]))


def _wrap(values: Array, width: int) -> Array:
    half = 1 << (width - 1)
    return ((values + half) & ((1 << width) - 1)) - half


def _clip(values: Array, width: int) -> Array:
    return np.clip(values, -(1 << (width - 1)), (1 << (width - 1)) - 1)


def _widths(case: Case) -> Iterator[FaultVariant]:
    yield from fault_variant(case, "the second operand is limited to -127..127", _symmetric)
    for width in WIDTHS:
        for text, limit in (("wraps", _wrap), ("saturates", _clip)):
            cut = partial(limit, width=width)
            if width <= 9:
                yield from fault_variant(
                    case, f"the first operand less its zero point {text} in {width} bits", partial(_cut, a=cut, b=None)
                )
                yield from fault_variant(
                    case, f"the second operand less its zero point {text} in {width} bits", partial(_cut, a=None, b=cut)
                )
                yield from fault_variant(
                    case, f"each operand less its zero point {text} in {width} bits", partial(_cut, a=cut, b=cut)
                )
            yield from fault_variant(case, f"each product {text} in {width} bits", partial(_products, cut=cut))
            yield from fault_variant(case, f"the sum {text} in {width} bits at its end", partial(_sums, cut=cut))
            for order in ("", "channels"):
                where = ", channels innermost" if order else ""
                if text == "saturates":
                    yield from fault_variant(
                        case, f"the running sum {text} in {width} bits{where}", partial(_running, cut=cut, order=order)
                    )
            for size in (2, 4, 8, 16, 32, 64, 128):
                yield from fault_variant(
                    case,
                    f"the sum of every {size} products {text} in {width} bits",
                    partial(_groups, cut=cut, size=size),
                )
            yield from fault_variant(
                case,
                f"the sum of the products of every kernel row {text} in {width} bits",
                partial(_groups, cut=cut, size=0),
            )
            yield from fault_variant(
                case,
                f"the sum of the products of every channel {text} in {width} bits",
                partial(_groups, cut=cut, size=-1),
            )
    for n in range(1, 9):
        yield from fault_variant(
            case,
            f"each product is shifted right by {n} bits, and the sum back left",
            partial(_products, cut=partial(_shifted, by=n)),
        )


def _shifted(values: Array, by: int) -> Array:
    return values >> by << by


def _symmetric(terms: ProductTerms) -> Array:
    return terms.rounded(np.where(terms.inside, terms.a - terms.zero_a, 0) * np.clip(terms.b - terms.zero_b, -127, 127))


def _cut(terms: ProductTerms, a: Narrow | None, b: Narrow | None) -> Array:
    left, right = terms.a - terms.zero_a, terms.b - terms.zero_b
    left, right = left if a is None else a(left), right if b is None else b(right)
    return terms.rounded(np.where(terms.inside, left, 0) * right)


def _products(terms: ProductTerms, cut: Narrow) -> Array:
    return terms.rounded(cut(terms.products))


def _sums(terms: ProductTerms, cut: Narrow) -> Array:
    return terms.scaled(cut(terms.products.sum(1)), terms.c)


def _running(terms: ProductTerms, cut: Narrow, order: str) -> Array:
    products = terms.products
    if order:
        if len(terms.shape) == 1:
            raise ValueError("no channels")
        products = products.reshape(len(products), terms.shape[0], -1).swapaxes(1, 2).reshape(products.shape)
    total = np.zeros(len(products), np.int64)
    for k in range(products.shape[1]):
        total = cut(total + products[:, k])
    return terms.scaled(total, terms.c)


def _groups(terms: ProductTerms, cut: Narrow, size: int) -> Array:
    if size < 1:
        if len(terms.shape) == 1:
            raise ValueError("no kernel")
        size = terms.shape[2] if size == 0 else terms.shape[1] * terms.shape[2]
    groups = np.add.reduceat(terms.products, np.arange(0, terms.products.shape[1], size), 1)
    return terms.rounded(cut(groups))


def _scales(case: Case, inner: Case) -> Iterator[FaultVariant]:
    for phrase, way in _SCALED.items():
        yield from fault_variant(case, phrase, partial(_rescaled, way=way))
    for phrase, index in (
        ("the scale of the second operand is that of the first column for all", lambda p, n: 0 * p),
        ("the scale of the second operand is that of the next column", lambda p, n: (p + 1) % n),
        ("the scale of the second operand is that of the previous column", lambda p, n: (p - 1) % n),
    ):
        yield from fault_variant(case, phrase, partial(_scale_of, index=index))
    if operand(inner, 6) is not None:
        for phrase, factor in (("is left out", 0.0), ("is added twice", 2.0), ("is subtracted", -1.0)):
            yield from fault_variant(case, f"the bias {phrase}", partial(_biased, factor=factor))
        for phrase, index in (
            ("of the first column for all", lambda p, n: 0 * p),
            ("of the next column", lambda p, n: (p + 1) % n),
            ("of the previous column", lambda p, n: (p - 1) % n),
        ):
            yield from fault_variant(case, f"the bias is that {phrase}", partial(_bias_of, index=index))
    for text, narrow in narrows():
        yield from fault_variant(case, f"the scale of the sum is held in {text}", partial(_scale_in, narrow=narrow))
        yield from fault_variant(
            case, f"the sum is held in {text} before it is scaled", partial(_sum_in, narrow=narrow)
        )
        yield from fault_variant(case, f"the scaled sum is held in {text}", partial(_product_in, narrow=narrow))
        yield from fault_variant(case, f"the result is held in {text}", partial(_result_in, narrow=narrow))


Scaled = Callable[[Array, Array, Array, Array], Array]  # the output, from the sum, both scales (float32) and the bias


def _exact(acc: Array, a: Array, b: Array, c: Array) -> Array:
    return acc.astype(np.float64) * (a.astype(np.float64) * b) + c


_SCALED: dict[str, Scaled] = {
    "the sum is multiplied by the scale of the first operand, then by that of the second, rounded to float32 twice": lambda s, a, b, c: (
        s.astype(F) * a * b + c
    ),
    "the sum is multiplied by the scale of the second operand, then by that of the first, rounded to float32 twice": lambda s, a, b, c: (
        s.astype(F) * b * a + c
    ),
    "sum, scales and bias are multiplied and added with one rounding at the end": _exact,
    "the bias is added with the product of sum and scale in one rounding (fused multiply-add)": lambda s, a, b, c: (
        s.astype(F).astype(np.float64) * (a * b) + c
    ),
    "the bias is added to the sum before it is scaled": lambda s, a, b, c: (s.astype(F) + c) * (a * b),
    "the scale of the first operand is left out": lambda s, a, b, c: s.astype(F) * b + c,
    "the scale of the second operand is left out": lambda s, a, b, c: s.astype(F) * a + c,
    "the bias is divided by the scale, rounded to an integer and added to the sum": lambda s, a, b, c: (
        (s + np.rint(c / (a * b)).astype(np.int64)).astype(F) * (a * b)
    ),
}


def _parts(terms: ProductTerms) -> tuple[Array, Array, Array, Array]:
    acc = wrap_int32(terms.products.sum(1))
    scales = [operand(terms.case, i) for i in (4, 5)]
    columns = terms.outputs[-1:]
    a, b = (np.broadcast_to(s.reshape(-1), columns)[terms.places[-1]] for s in scales if s is not None)
    c = np.zeros(len(acc), F) if terms.c is None else terms.c.astype(F)
    return acc, a, b, c


def _ended(values: Array) -> Array:
    return values.astype(F)


def _rescaled(terms: ProductTerms, way: Scaled) -> Array:
    return _ended(way(*_parts(terms)))


def _scale_of(terms: ProductTerms, index: Callable[[Array, int], Array]) -> Array:
    acc, a, _, c = _parts(terms)
    scale = operand(terms.case, 5)
    if scale is None or scale.size < 2:
        raise ValueError("one scale")
    return _ended(acc.astype(F) * (a * scale.reshape(-1)[index(terms.places[-1], scale.size)]) + c)


def _biased(terms: ProductTerms, factor: float) -> Array:
    acc, a, b, c = _parts(terms)
    return _ended(acc.astype(F) * (a * b) + c * F(factor))


def _bias_of(terms: ProductTerms, index: Callable[[Array, int], Array]) -> Array:
    acc, a, b, _ = _parts(terms)
    bias = operand(terms.case, 6)
    assert bias is not None
    return _ended(acc.astype(F) * (a * b) + bias.reshape(-1)[index(terms.places[-1], bias.size)])


def _scale_in(terms: ProductTerms, narrow: Narrow) -> Array:
    acc, a, b, c = _parts(terms)
    return _ended(acc.astype(F) * narrow(a * b) + c)


def _sum_in(terms: ProductTerms, narrow: Narrow) -> Array:
    acc, a, b, c = _parts(terms)
    return _ended(narrow(acc.astype(np.float64)).astype(F) * (a * b) + c)


def _product_in(terms: ProductTerms, narrow: Narrow) -> Array:
    acc, a, b, c = _parts(terms)
    return _ended(narrow(acc.astype(F) * (a * b)) + c)


def _result_in(terms: ProductTerms, narrow: Narrow) -> Array:
    acc, a, b, c = _parts(terms)
    return _ended(narrow(acc.astype(F) * (a * b) + c))
