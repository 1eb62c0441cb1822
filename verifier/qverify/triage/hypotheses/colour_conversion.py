"""The conversion from YUV to RGB exchanges planes, uses other offsets or coefficients, keeps these in fewer bits, or
rounds and limits in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import permutations

import numpy as np

from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.inner_node import finished, inner_case
from qverify.triage.altered_kernels.rounding_rules import RULES, Rule, half_up
from qverify.triage.altered_kernels.variant_checks import check_where_it_differs, operand
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "colour-conversion"
OPS = ("yuv_to_rgb",)
IN, OUT = "YUV", "RGB"


def _clipped(values: Array) -> Array:
    return np.clip(values, 0, 255)


@dataclass(frozen=True, slots=True)
class Conversion:
    """Computes the conversion with changed parts.

    Attributes:
        planes: number of the input plane that is used in place of each.
        order: number of the output plane that is stored in place of each.
        words: changes (offsets, matrix).
        rule: rounds real results.
        limit: limits whole results.
        floor: whether luma is limited below.
        product: rounds each product.
    """

    planes: tuple[int, ...] = (0, 1, 2)
    order: tuple[int, ...] = (0, 1, 2)
    words: Callable[[Array, Array], tuple[Array, Array]] = lambda offsets, matrix: (offsets, matrix)
    rule: Rule = half_up
    limit: Callable[[Array], Array] = _clipped
    floor: bool = True
    product: Callable[[Array], Array] | None = None

    def __call__(self, case: Case) -> Array:
        inner = inner_case(case)
        assert inner is not None
        shift, floor, *words = inner.last.words
        offsets, matrix = self.words(np.array(words[:3], float), np.array(words[3:], float).reshape(3, 3) / 2.0**shift)
        x = operand(inner, inner.last.inputs[0] or "").astype(float)[:, list(self.planes)]
        d = x - offsets.reshape(1, 3, 1, 1)
        d[:, 0] = np.maximum(d[:, 0], floor) if self.floor else d[:, 0]
        if self.product is None:
            value = np.einsum("ck,nkhw->nchw", matrix, d)
        else:
            value = sum(self.product(matrix[:, k].reshape(1, 3, 1, 1) * d[:, k : k + 1]) for k in range(3))
        whole = self.limit(self.rule(value)).astype(np.int64)[:, list(self.order)]
        return finished(case, whole.astype(np.uint8)).reshape(case.spec.shape)


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = inner_case(case)
    if inner is None or inner.last.op != "yuv_to_rgb":
        return
    for text, conversion, cost in _conversions():
        yield from check_where_it_differs(case, f"yuv_to_rgb: {text}", conversion, cost)


def _conversions() -> Iterator[tuple[str, Conversion, float]]:
    for order in list(permutations(range(3)))[1:]:
        read, stored = "".join(IN[k] for k in order), "".join(OUT[k] for k in order)
        yield f"the input planes are read as {read} instead of YUV", Conversion(planes=order), 1.0
        yield f"the output planes are stored as {stored} instead of RGB", Conversion(order=order), 1.0
    yield "the lower limit of luma is left out", Conversion(floor=False), 2.0
    for phrase, rule in RULES.items():
        if rule is not half_up:
            yield f"the sum is rounded {phrase}", Conversion(rule=rule), 2.0
        text = f"each of the three products is rounded {phrase} before they are added"
        yield text, Conversion(product=rule), 3.0
    yield "the result wraps instead of saturating", Conversion(limit=lambda v: np.mod(v, 256)), 1.5
    for low, high in ((16, 235), (16, 240), (0, 235), (0, 254), (1, 254), (0, 127)):
        text = f"the result saturates at {low} and {high}"
        yield text, Conversion(limit=bind_last(lambda v, a, b: np.clip(v, a, b), low, high)), 2.0
    yield from _words()


def _words() -> Iterator[tuple[str, Conversion, float]]:
    for k, name in enumerate(IN):
        for value in (0, 16, 127, 128, 129):
            yield f"the offset of {name} is {value}", Conversion(words=partial(_offset, at=k, value=value)), 3.0
    for bits in range(4, 16):
        for phrase, rule in (("rounded", np.rint), ("cut off", np.floor), ("truncated toward zero", np.trunc)):
            text = f"the coefficients keep {bits} fraction bits, {phrase}"
            yield text, Conversion(words=partial(_fewer, bits=bits, rule=rule)), 3.0
    for c, row in enumerate(OUT):
        for k, column in enumerate(IN):
            text = f"the share of {column} in {row}"
            yield f"{text} is left out", Conversion(words=partial(_scaled, c=c, k=k, by=0.0)), 3.0
            yield f"{text} has the other sign", Conversion(words=partial(_scaled, c=c, k=k, by=-1.0)), 3.0
    yield "the coefficients are read transposed", Conversion(words=lambda o, m: (o, m.T)), 2.0
    for name, rows in STANDARDS.items():
        yield f"the coefficients are those of {name}", Conversion(words=partial(_standard, rows=rows)), 2.0


STANDARDS = {
    "BT.601, full range": ((1, 0, 1.402), (1, -0.344136, -0.714136), (1, 1.772, 0)),
    "BT.601, limited range": ((1.164384, 0, 1.596027), (1.164384, -0.391762, -0.812968), (1.164384, 2.017232, 0)),
    "BT.709, full range": ((1, 0, 1.5748), (1, -0.187324, -0.468124), (1, 1.8556, 0)),
    "BT.709, limited range": ((1.164384, 0, 1.792741), (1.164384, -0.213249, -0.532909), (1.164384, 2.112402, 0)),
}


def _offset(offsets: Array, matrix: Array, at: int, value: int) -> tuple[Array, Array]:
    return np.where(np.arange(3) == at, value, offsets), matrix


def _fewer(offsets: Array, matrix: Array, bits: int, rule: Rule) -> tuple[Array, Array]:
    return offsets, rule(matrix * 2.0**bits) / 2.0**bits


def _scaled(offsets: Array, matrix: Array, c: int, k: int, by: float) -> tuple[Array, Array]:
    changed = matrix.copy()
    changed[c, k] *= by
    return offsets, changed


def _standard(offsets: Array, matrix: Array, rows: tuple[tuple[float, ...], ...]) -> tuple[Array, Array]:
    return offsets, np.rint(np.array(rows) * 2.0**16) / 2.0**16
