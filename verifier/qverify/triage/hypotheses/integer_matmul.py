"""A product of 8-bit matrices with zero points subtracts these wrongly, sums only a part of the depth, has a narrow
accumulator, reads its operands in another order, or scales its sum and adds the bias in other steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from qverify.model_bin.graph import Graph, Node
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.channel_choice import channel_choices
from qverify.triage.altered_kernels.float_formats import FORMATS, Format, rarity
from qverify.triage.altered_kernels.integer_products import accumulators, as_it_is, centrings, narrow_accumulations
from qverify.triage.altered_kernels.replaced_kernels import LIKELY, UNLIKELY, kernel_variant, nodes_of, operands
from qverify.triage.altered_kernels.row_sums import partial_sums
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "integer-matmul"
OPS = ("matmul_integer", "matmul_integer_scaled")
MAX_PRODUCTS = 1 << 18  # that are summed one by one
LARGE = 1 << 23  # products of a node from which on only the most likely faults are tried, because each takes long
F32 = np.float32
Centre = Callable[[Array, Array], Array]
Scaled = Callable[[Array, Array, Array, Array], Array]


def _centred(values: Array, zero: Array) -> Array:
    return values - zero


def _scaled(acc: Array, a: Array, b: Array, bias: Array) -> Array:
    y = acc.astype(F32) * (a * b)
    return y + bias if bias.size else y


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """A kernel for matmul_integer and matmul_integer_scaled nodes.

    Attributes:
        a, b: compute factors from stored elements and zero points.
        read_a, read_b: exchange stored elements.
        zeros: exchanges the zero points.
        total: sums the products of the factors a and b, int64; None for the exact product.
        more: returns an addend of the sum, given stored a, b and the zero points.
        acc: changes the sum.
        scale: computes the output from the int32 sum, the scales and the bias.
    """

    a: Centre = _centred
    b: Centre = _centred
    read_a: Callable[[Array], Array] = as_it_is
    read_b: Callable[[Array], Array] = as_it_is
    zeros: Callable[[Array, Array], tuple[Array, Array]] = lambda za, zb: (za, zb)
    total: Callable[[Array, Array], Array] | None = None
    more: Callable[[Array, Array, Array, Array], Array] | None = None
    acc: Callable[[Array], Array] = as_it_is
    scale: Scaled = _scaled

    def __call__(self, node: Node, inputs: list[Array], graph: Graph) -> Array:
        za, zb = self.zeros(*(_zero(v) for v in inputs[2:4]))
        a, b = self.read_a(inputs[0].astype(np.int64)), self.read_b(inputs[1].astype(np.int64))
        left, right = self.a(a, za), self.b(b, zb)
        acc = _exact(left, right) if self.total is None else self.total(left, right)
        if self.more is not None:
            acc = acc + self.more(a, b, za, zb)
        acc = self.acc(acc).astype(np.int64).astype(np.int32)
        if node.op == "matmul_integer":
            return acc
        with np.errstate(all="ignore"):
            return self.scale(acc, *(v.reshape(-1) for v in inputs[4:7]))


def _zero(values: Array) -> Array:
    return values.reshape(-1).astype(np.int64) if values.size else np.zeros(1, np.int64)


def _exact(a: Array, b: Array) -> Array:
    return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)


def variants(case: Case) -> Iterator[FaultVariant]:
    for node in nodes_of(case, *OPS)[:1]:
        a, b, *_ = values = operands(case, node)
        ways = [*_corrections(), *_zero_points(values)]
        if case.recorded.size * a.shape[-1] <= LARGE:
            ways += [*_depths(a.shape[-1]), *_orders(a, b), *_sums(a, b)]
        if node.op == "matmul_integer_scaled":
            ways += [*_scales(values[5].size, values[6].size), *_biases(values[6].size)]
        title = "product of integers" if node.op == "matmul_integer" else "scaled product of integers"
        for text, kernel, bits in ways:
            yield kernel_variant(f"{title}: {text}", {node.op: kernel}, bits)


Way = tuple[str, MatrixProduct, float]


def _with(part: str, value: Callable[..., Array]) -> MatrixProduct:
    parts: dict[str, Any] = {part: value}
    return MatrixProduct(**parts)


def _sum_a(a: Array) -> Array:
    return a.sum(-1, keepdims=True)


def _sum_b(b: Array) -> Array:
    return b.sum(-2, keepdims=True)


MORE: dict[str, Callable[[Array, Array, Array, Array], Array]] = {
    "the zero point of b is taken off times the sum of the stored a, not of a - za (wrong by depth * za * zb)": lambda a, b, za, zb: (
        -a.shape[-1] * za * zb + 0 * _sum_a(a)
    ),
    "the term depth * za * zb is subtracted instead of added": lambda a, b, za, zb: (
        -2 * a.shape[-1] * za * zb + 0 * _sum_a(a)
    ),
    "the term depth * za * zb is added twice": lambda a, b, za, zb: a.shape[-1] * za * zb + 0 * _sum_a(a),
    "the term za * zb is added once, not times the depth": lambda a, b, za, zb: (
        (1 - a.shape[-1]) * za * zb + 0 * _sum_a(a)
    ),
    "the term za * zb is added depth + 1 times": lambda a, b, za, zb: za * zb + 0 * _sum_a(a),
    "zb times the sum of a - za is added instead of taken off": lambda a, b, za, zb: 2 * zb * _sum_a(a - za),
    "za times the sum of b is added instead of taken off": lambda a, b, za, zb: 2 * za * _sum_b(b),
    "za times the sum of b - zb is added instead of taken off": lambda a, b, za, zb: 2 * za * _sum_b(b - zb),
    "the correction zb * sum of stored a is left out, while depth * za * zb is added": lambda a, b, za, zb: (
        zb * _sum_a(a)
    ),
    "the correction za * sum of stored b is left out, while depth * za * zb is added": lambda a, b, za, zb: (
        za * _sum_b(b)
    ),
    "both corrections by sums are left out, while depth * za * zb is added": lambda a, b, za, zb: (
        za * _sum_b(b) + zb * _sum_a(a)
    ),
    "the sum of the first row of a is taken for the correction of all rows": lambda a, b, za, zb: (
        zb * (_sum_a(a) - _sum_a(a)[..., :1, :])
    ),
    "the sum of the first row of a - za is carried from row to row (not reset)": lambda a, b, za, zb: (
        zb * (_sum_a(a - za) - np.cumsum(_sum_a(a - za), -2))
    ),
    "the sum of the first column of b is taken for the correction of all columns": lambda a, b, za, zb: (
        za * (_sum_b(b) - _sum_b(b)[..., :1])
    ),
    "the sum of the row before is taken for the correction by zb, the first its own": lambda a, b, za, zb: (
        zb * (_sum_a(a - za) - _before(_sum_a(a - za)))
    ),
}


def _before(rows: Array) -> Array:
    return np.concatenate([rows[..., :1, :], rows[..., :-1, :]], -2)


def _corrections() -> Iterator[Way]:
    for name in ("a", "b"):
        for way in centrings(name):
            yield way.text, _with(name, way.centre), way.bits
    yield "no zero point is taken off", MatrixProduct(zeros=lambda za, zb: (0 * za, 0 * zb)), LIKELY
    yield "the zero points are exchanged", MatrixProduct(zeros=lambda za, zb: (zb[:1], za)), LIKELY
    yield "the zero point of a is taken for b, too", MatrixProduct(zeros=lambda za, zb: (za, za)), LIKELY
    yield "the zero point of b is taken for a, too", MatrixProduct(zeros=lambda za, zb: (zb[:1], zb)), LIKELY
    for text, more in MORE.items():
        yield text, MatrixProduct(more=more), LIKELY


def _zero_points(values: list[Array]) -> Iterator[Way]:
    if values[3].size > 1:
        for text, choice in channel_choices(values[3].size).items():
            chosen = bind_last(lambda za, zb, c: (za, zb[c]), choice)
            yield (
                f"the zero point of b for a column is that of {text}".replace("channel", "column"),
                MatrixProduct(zeros=chosen),
                6.0,
            )


def _depths(depth: int) -> Iterator[Way]:
    for part in partial_sums(depth):
        weights = (
            np.asarray([float(part.total(row)) for row in np.eye(depth)]).astype(np.int64) if depth <= 512 else None
        )
        if weights is None:
            return
        left = bind_last(lambda a, b, w: _exact(a * w, b), weights)
        yield f"the sum takes part of the depth: {part.text}", MatrixProduct(total=left), part.bits
        for name, more in (
            ("b", lambda a, b, za, zb, w: zb * (_sum_a(a - za) - _sum_a((a - za) * w))),
            ("a", lambda a, b, za, zb, w: za * (_sum_b(b - zb) - _sum_b((b - zb) * w[:, None]))),
        ):
            text = f"the sum for the zero point of {name} takes part of the depth: {part.text}"
            yield text, MatrixProduct(more=bind_last(more, weights)), part.bits + 2
        text = f"the products of stored a and b take part of the depth, the corrections all of it: {part.text}"
        stored = bind_last(lambda a, b, za, zb, w: _exact(a * (w - 1), b) + 0 * zb, weights)
        yield text, MatrixProduct(more=stored), part.bits + 2
        centred_a = bind_last(lambda a, b, za, zb, w: _exact((a - za) * (w - 1), b) + 0 * zb, weights)
        text = (
            f"the products of a - za and stored b take part of the depth, the correction by zb all of it: {part.text}"
        )
        yield text, MatrixProduct(more=centred_a), part.bits + 3


def _orders(a: Array, b: Array) -> Iterator[Way]:
    yield "b is read transposed", MatrixProduct(read_b=lambda b: b.swapaxes(-1, -2).reshape(b.shape)), LIKELY
    yield "a is read transposed", MatrixProduct(read_a=lambda a: a.swapaxes(-1, -2).reshape(a.shape)), LIKELY
    for name, shape in (("a", a.shape), ("b", b.shape)):
        if len(shape) > 2 and int(np.prod(shape[:-2])) > 1:
            first = lambda v: np.broadcast_to(v.reshape(-1, *v.shape[-2:])[0], v.shape)  # noqa: E731
            yield f"the matrix of the first batch of {name} is used for all", _with(f"read_{name}", first), LIKELY
            last = lambda v: np.broadcast_to(v.reshape(-1, *v.shape[-2:])[-1], v.shape)  # noqa: E731
            yield f"the matrix of the last batch of {name} is used for all", _with(f"read_{name}", last), 7.0
        for axis, what in ((-2, "row"), (-1, "column")):
            size = shape[axis]
            for phrase, choice in channel_choices(size).items() if size <= 1024 else ():
                text = f"for a {what} of {name} the kernel reads {phrase}".replace("channel", what)
                yield text, _with(f"read_{name}", partial(np.take, indices=choice, axis=axis)), 8.0


def _sums(a: Array, b: Array) -> Iterator[Way]:
    for phrase, change in accumulators():
        yield f"the sum {phrase}", MatrixProduct(acc=change), 7.0
    if a.size // max(a.shape[-1], 1) * b.shape[-1] * a.shape[-1] > MAX_PRODUCTS:
        return
    for phrase, total in narrow_accumulations():
        yield phrase, MatrixProduct(total=partial(_by_products, total=total)), 9.0
        text = f"{phrase}, of stored elements of both, the zero points taken off at the end"
        yield text, MatrixProduct(total=partial(_by_products, total=total), a=_raw, b=_raw, more=_late), 11.0
        text = f"{phrase}, of stored a and b - zb, that of a taken off at the end"
        yield text, MatrixProduct(total=partial(_by_products, total=total), a=_raw, more=_late_a), 11.0
        text = f"{phrase}, of a - za and stored b, that of b taken off at the end"
        yield text, MatrixProduct(total=partial(_by_products, total=total), b=_raw, more=_late_b), 11.0


def _raw(values: Array, zero: Array) -> Array:
    return values


def _late(a: Array, b: Array, za: Array, zb: Array) -> Array:
    return a.shape[-1] * za * zb - za * _sum_b(b) - zb * _sum_a(a)


def _late_a(a: Array, b: Array, za: Array, zb: Array) -> Array:
    return -za * _sum_b(b - zb)


def _late_b(a: Array, b: Array, za: Array, zb: Array) -> Array:
    return -zb * _sum_a(a - za)


def _by_products(a: Array, b: Array, total: Callable[[Array], Array]) -> Array:
    return total(np.moveaxis(a[..., :, :, None] * b[..., None, :, :], -2, 0))


def _plus(y: Array, bias: Array) -> Array:
    return y + bias if bias.size else y


SCALES: dict[str, Scaled] = {
    "the scale of a is left out": lambda v, a, b, c: _plus(v.astype(F32) * b, c),
    "the scale of b is left out": lambda v, a, b, c: _plus(v.astype(F32) * a, c),
    "both scales are left out": lambda v, a, b, c: _plus(v.astype(F32) + 0 * b, c),
    "the sum is multiplied by the scale of a first, then by that of b": lambda v, a, b, c: _plus(
        (v.astype(F32) * a) * b, c
    ),
    "the sum is multiplied by the scale of b first, then by that of a": lambda v, a, b, c: _plus(
        (v.astype(F32) * b) * a, c
    ),
    "sum, scales and bias are computed in float64 and rounded once": lambda v, a, b, c: _plus(
        v.astype(float) * (a.astype(float) * b.astype(float)), c.astype(float)
    ),
    "the sum times the scales is computed in float64 and rounded before the bias": lambda v, a, b, c: _plus(
        (v.astype(float) * (a.astype(float) * b.astype(float))).astype(F32), c
    ),
    "the product of the scales is not rounded before it multiplies (fused multiply-add with the bias)": lambda v, a, b, c: (
        _plus(v.astype(F32).astype(float) * (a.astype(float) * b.astype(float)), c.astype(float))
    ),
    "the sum times the rounded scale plus the bias is rounded once (fused multiply-add)": lambda v, a, b, c: _plus(
        v.astype(F32).astype(float) * (a * b).astype(float), c.astype(float)
    ),
    "the sum is divided by the scales": lambda v, a, b, c: _plus(v.astype(F32) / (a * b), c),
    "the scale of a is taken for b, too": lambda v, a, b, c: _plus(v.astype(F32) * (a * a) + 0 * b, c),
    "the scale of b is taken for a, too": lambda v, a, b, c: _plus(v.astype(F32) * (b * b), c),
    "the scales are added, not multiplied": lambda v, a, b, c: _plus(v.astype(F32) * (a + b), c),
}
BIASES: dict[str, Scaled] = {
    "the bias is left out": lambda v, a, b, c: v.astype(F32) * (a * b),
    "the bias is added twice": lambda v, a, b, c: v.astype(F32) * (a * b) + c + c,
    "the bias is subtracted": lambda v, a, b, c: v.astype(F32) * (a * b) - c,
    "the bias is added before the scales multiply": lambda v, a, b, c: (v.astype(F32) + c) * (a * b),
    "the bias is multiplied by the scale of a": lambda v, a, b, c: v.astype(F32) * (a * b) + c * a,
    "the bias is rounded to a whole number of scale_a * scale_b and added to the integer sum": lambda v, a, b, c: (
        (v + np.rint(c / (a * b)).astype(np.int64)).astype(F32) * (a * b)
    ),
    "the bias is cut off to a whole number of scale_a * scale_b and added to the integer sum": lambda v, a, b, c: (
        (v + np.trunc(c / (a * b)).astype(np.int64)).astype(F32) * (a * b)
    ),
    "the bias divided by the scales is added to the sum in float32": lambda v, a, b, c: (
        (v.astype(F32) + c / (a * b)) * (a * b)
    ),
    "the bias is cut off to a whole number": lambda v, a, b, c: v.astype(F32) * (a * b) + np.trunc(c),
    "negative results are 0 (relu)": lambda v, a, b, c: np.maximum(_scaled(v, a, b, c), F32(0)),
}
ROUNDED: dict[str, Callable[[Array, Array, Array, Array, Format], Array]] = {
    "the integer sum is rounded to {}": lambda v, a, b, c, f: _plus(_f32(f, v) * (a * b), c),
    "the scale of b is rounded to {}": lambda v, a, b, c, f: _plus(v.astype(F32) * (a * _f32(f, b)), c),
    "the scale of a is rounded to {}": lambda v, a, b, c, f: _plus(v.astype(F32) * (_f32(f, a) * b), c),
    "both scales are rounded to {}": lambda v, a, b, c, f: _plus(v.astype(F32) * (_f32(f, a) * _f32(f, b)), c),
    "the product of the scales is rounded to {}": lambda v, a, b, c, f: _plus(v.astype(F32) * _f32(f, a * b), c),
    "the scaled sum is rounded to {} before the bias": lambda v, a, b, c, f: _plus(_f32(f, v.astype(F32) * (a * b)), c),
    "the bias is rounded to {}": lambda v, a, b, c, f: _plus(v.astype(F32) * (a * b), _f32(f, c)),
    "the result is rounded to {}": lambda v, a, b, c, f: _f32(f, _scaled(v, a, b, c)),
    "the scaled sum, the bias and the result are rounded to {}": lambda v, a, b, c, f: _f32(
        f, _plus(_f32(f, v.astype(F32) * (a * b)), _f32(f, c))
    ),
}


def _f32(narrow: Format, values: Array) -> Array:
    return narrow(values.astype(np.float64)).astype(F32)


def _scales(columns: int, biases: int) -> Iterator[Way]:
    for phrase, scale in SCALES.items():
        yield phrase, MatrixProduct(scale=scale), LIKELY
    if columns > 1:
        for phrase, choice in channel_choices(columns).items():
            chosen = bind_last(lambda v, a, b, c, k: _scaled(v, a, b[k], c), choice)
            yield (
                f"the scale of b for a column is that of {phrase}".replace("channel", "column"),
                MatrixProduct(scale=chosen),
                6.0,
            )
    for text, way in ROUNDED.items():
        if "bias" not in text or biases:
            for phrase, narrow in FORMATS.items():
                if phrase != "float32":
                    yield (
                        text.format(phrase),
                        MatrixProduct(scale=bind_last(way, narrow)),
                        UNLIKELY - 6 + rarity(phrase),
                    )


def _biases(count: int) -> Iterator[Way]:
    if not count:
        return
    for text, scale in BIASES.items():
        yield text, MatrixProduct(scale=scale), LIKELY
    for text, choice in channel_choices(count).items() if count > 1 else ():
        chosen = bind_last(lambda v, a, b, c, k: _scaled(v, a, b, c[k]), choice)
        yield f"the bias of a column is that of {text}".replace("channel", "column"), MatrixProduct(scale=chosen), 6.0
    by_row = MatrixProduct(
        scale=lambda v, a, b, c: v.astype(F32) * (a * b) + c[np.arange(v.shape[-2]) % c.size][:, None]
    )
    yield "the bias is that of the row's number", by_row, 6.0
