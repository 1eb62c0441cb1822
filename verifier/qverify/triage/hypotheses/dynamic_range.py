"""Dynamic quantization uses another range of its data (without 0, of one sign, of a part), divides it by another number
of levels, or rounds scale, zero point or values by other rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from qverify.arithmetic import functions64
from qverify.model_bin.graph import Graph, Node
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.float_formats import DECIMAL, FIXED, FORMATS, Format, exactly, rarity
from qverify.triage.altered_kernels.replaced_kernels import LIKELY, UNLIKELY, kernel_variant, nodes_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.hypotheses.quantize_steps import ALL_RULES, Quantizer, other_quantizers
from qverify.triage.hypotheses.rounding import RULES

NAME = "dynamic-range"
OPS = ("dynamic_quantize",)
F32 = np.float32
ONE = F32(1)
HEALTHY = Quantizer()
Range = Callable[[Array], tuple[float, float]]


def _whole(x: Array) -> tuple[float, float]:
    return float(x.min(initial=F32(0))), float(x.max(initial=F32(0)))


def _levels(low: float, high: float, levels: float = 255.0) -> np.float32:
    return F32((F32(high) - F32(low)) / F32(levels))


def _quotient(low: float, high: float, scale: np.float32) -> float:
    return float(-F32(low) / scale)


@dataclass(frozen=True, slots=True)
class DynamicQuantizer:
    """A kernel for dynamic_quantize nodes.

    Attributes:
        part: selects the data from which the range is computed.
        reach: computes the range of these data.
        step: computes the scale from the range.
        used: changes the scale by which the values are divided.
        at: computes the zero point, before it is rounded, from range and scale.
        rule: rounds it.
        beyond: computes the zero point if `at` lies outside of 0..255.
        values: converts values to integers.
        none: the scale of an empty range.
    """

    part: Callable[[Array], Array] = lambda x: x
    reach: Range = _whole
    step: Callable[[float, float], np.float32] = _levels
    used: Format = exactly
    at: Callable[[float, float, np.float32], float] = _quotient
    rule: Format = np.rint
    beyond: Callable[[float], float] = lambda at: 255.0
    values: Quantizer = HEALTHY
    none: np.float32 | None = ONE

    def __call__(self, node: Node, inputs: list[Array], graph: Graph) -> tuple[Array, ...]:
        x = inputs[0]
        values = self.part(x.reshape(-1))
        low, high = self.reach(values[~np.isnan(values)])
        scale = self.none if low == high and self.none is not None else F32(self.step(low, high))
        at = self.at(low, high, scale)
        zero = np.array(self.rule(np.array(at)) if 0 <= at <= 255 else self.beyond(at)).astype(np.int64)
        used = np.asarray(self.used(np.full(1, scale, np.float64))).astype(F32)
        y = self.values(x, used, zero.reshape(1), "uint8")
        return y, np.array(scale, F32), np.array(zero % 256, np.uint8)


def variants(case: Case) -> Iterator[FaultVariant]:
    for node in nodes_of(case, "dynamic_quantize")[:1]:
        shape = case.graph.spec(node.inputs[0] or "").shape
        for text, kernel, cost in (*_ranges(), *_scales(), *_zeros(), *_parts(shape), *_values()):
            yield kernel_variant(f"dynamic quantization: {text}", {"dynamic_quantize": kernel}, cost)


Way = tuple[str, DynamicQuantizer, float]
CLAMPED: dict[str, Callable[[float], float]] = {
    "the zero point limited to 0..255": lambda at: float(np.clip(np.nan_to_num(at), 0, 255)),
    "a zero point outside 0..255 taken as 255": lambda at: 255.0,
    "a zero point outside 0..255 taken as 0": lambda at: 0.0,
    "the zero point wrapping": lambda at: float(np.rint(np.nan_to_num(at)) % 256),
}
SIGNED: dict[str, Range] = {
    "the range is that of the data alone, not widened to include 0": lambda x: (float(x.min()), float(x.max())),
    "the range is not widened to include 0 at the low end (low is the smallest element even where all are positive)": lambda x: (
        float(x.min()),
        float(x.max(initial=F32(0))),
    ),
    "the range is not widened to include 0 at the high end (high is the largest element even where all are negative)": lambda x: (
        float(x.min(initial=F32(0))),
        float(x.max()),
    ),
}
REACHES: dict[str, Range] = {
    "the range is symmetric, from minus the largest absolute value to the largest absolute value": lambda x: (
        -float(np.abs(x).max(initial=0)),
        float(np.abs(x).max(initial=0)),
    ),
    "the range goes from 0 to the largest absolute value": lambda x: (0.0, float(np.abs(x).max(initial=0))),
    "the range goes from 0 to the largest element (negative values are not counted)": lambda x: (
        0.0,
        float(x.max(initial=F32(0))),
    ),
    "the range goes from the smallest element to 0 (positive values are not counted)": lambda x: (
        float(x.min(initial=F32(0))),
        0.0,
    ),
    "the range goes from the smallest element to the largest absolute value": lambda x: (
        float(x.min(initial=F32(0))),
        float(np.abs(x).max(initial=0)),
    ),
    "the search for the largest element starts at 1": lambda x: (
        float(x.min(initial=F32(0))),
        float(x.max(initial=ONE)),
    ),
    "the search for the smallest element starts at -1": lambda x: (
        float(x.min(initial=-ONE)),
        float(x.max(initial=F32(0))),
    ),
    "the range is at least -1..1": lambda x: (float(x.min(initial=-ONE)), float(x.max(initial=ONE))),
    "low end: an element that is a new largest is not compared with the smallest (else if)": lambda x: (
        _else_if(x)[0],
        _else_if(x)[1],
    ),
    "high end: an element that is a new smallest is not compared with the largest (else if)": lambda x: (
        -_else_if(-x)[1],
        -_else_if(-x)[0],
    ),
}


def _else_if(x: Array) -> tuple[float, float]:
    """Returns the range if an element that is a new maximum is not compared with the minimum. Both start at the first
    element and are widened to 0."""
    if not x.size:
        return 0.0, 0.0
    before = np.concatenate([x[:1], np.maximum.accumulate(x)[:-1]])
    low = x[:1].min() if not (left := x[x <= before]).size else min(left.min(), x[0])
    return min(float(low), 0.0), max(float(x.max()), 0.0)


def _ranges() -> Iterator[Way]:
    for text, reach in SIGNED.items():
        for how, beyond in CLAMPED.items():
            yield f"{text}; {how}", DynamicQuantizer(reach=reach, beyond=beyond), LIKELY
    for text, reach in REACHES.items():
        yield text, DynamicQuantizer(reach=reach), LIKELY + 1
    for text, narrow in FORMATS.items():
        if text != "float32":
            yield (
                f"the ends of the range are rounded to {text}",
                DynamicQuantizer(reach=bind_last(_narrowed, narrow)),
                UNLIKELY - 6 + rarity(text),
            )


def _narrowed(x: Array, narrow: Format) -> tuple[float, float]:
    low, high = _whole(x)
    return float(narrow(np.array(low))), float(narrow(np.array(high)))


def _parts(shape: tuple[int, ...]) -> Iterator[Way]:
    """Yields quantizers that use the range of only a part of the data."""
    count = int(np.prod(shape))
    rests = dict[int, int]()
    for n in (2, 4, 8, 16, 32, 64):
        if count % n and count > n:
            rests.setdefault(count % n, n)
            yield f"the range is that of one element of {n}", _seen(slice(None, None, n)), 9.0
    for rest, n in rests.items():
        text = f"the range misses the last {rest} elements (their number mod {n})"
        yield text, _seen(slice(None, count - rest)), LIKELY + 1
    for k in (1, 2, 3, 4, 8, 16):
        if count > k:
            yield f"the range misses the first {k} element{'s' * (k > 1)}", _seen(slice(k, None)), LIKELY + 1
            yield f"the range misses the last {k} element{'s' * (k > 1)}", _seen(slice(None, -k)), LIKELY + 1
    if len(shape) > 1:
        for axis in range(len(shape)):
            inner = int(np.prod(shape[axis:]))
            if 1 < inner < count:
                yield (
                    f"the range is that of the first {inner} elements (the first of dim {axis - 1})",
                    _seen(slice(inner)),
                    7.0,
                )
                yield (
                    f"the range is that of the last {inner} elements (the last of dim {axis - 1})",
                    _seen(slice(-inner, None)),
                    7.0,
                )
                yield (
                    f"the range misses the last {inner} elements (the last of dim {axis - 1})",
                    _seen(slice(-inner)),
                    7.0,
                )
    yield "the range is that of the first half of the elements", _seen(slice(count // 2)), 7.0
    yield "the range is that of every second element", _seen(slice(None, None, 2)), 7.0
    yield "the range is that of every second element, from the second", _seen(slice(1, None, 2)), 8.0


def _seen(part: slice) -> DynamicQuantizer:
    return DynamicQuantizer(part=bind_last(lambda x, p: x[p], part))


def _scales() -> Iterator[Way]:
    for levels in (256.0, 254.0, 127.0, 128.0, 127.5, 510.0, 512.0, 252.0, 65535.0):
        text = f"the range is divided by {levels:g} instead of 255 for the scale"
        yield text, DynamicQuantizer(step=partial(_levels, levels=levels)), LIKELY
        quantizer = DynamicQuantizer(step=partial(_levels, levels=levels), at=_of_255)
        yield f"{text}, while the zero point is that of the right scale", quantizer, LIKELY + 1
    texts: dict[str, Callable[[float, float], np.float32]] = {
        "the range is multiplied by the float32 1/255 instead of divided by 255": lambda a, b: (
            (F32(b) - F32(a)) * F32(1 / 255)
        ),
        "the scale is the difference of the ends, each divided by 255": lambda a, b: (
            F32(b) / F32(255) - F32(a) / F32(255)
        ),
        "the scale is the range divided by 255 in float64": lambda a, b: F32((b - a) / 255),
        "the scale is the larger of the largest element/127 and the smallest/-128": lambda a, b: F32(
            max(b / 127, -a / 128)
        ),
        "the scale is the largest absolute value/127": lambda a, b: F32(max(b, -a) / 127),
        "the scale is the largest absolute value/255": lambda a, b: F32(max(b, -a) / 255),
        "the scale is the next power of two": lambda a, b: F32(2.0 ** np.ceil(functions64.log2((b - a) / 255))),
        "the scale is the power of two below": lambda a, b: F32(2.0 ** np.floor(functions64.log2((b - a) / 255))),
        "the scale is the nearest power of two": lambda a, b: F32(2.0 ** np.rint(functions64.log2((b - a) / 255))),
        "the scale is always 1": lambda a, b: ONE,
    }
    for text, step in texts.items():
        yield text, DynamicQuantizer(step=step), LIKELY + 1
    for least in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 2.0**-7, 2.0**-10, 2.0**-16, 2.0**-23, 0.01, 0.1):
        small = bind_last(lambda a, b, m: max(_levels(a, b), F32(m)), least)
        yield f"the scale is at least {least:g}", DynamicQuantizer(step=small), 9.0
        more = bind_last(lambda a, b, m: F32(_levels(a, b) + F32(m)), least)
        yield f"{least:g} is added to the scale", DynamicQuantizer(step=more), 9.0
    for phrase, narrow in {**FORMATS, **FIXED, **DECIMAL}.items():
        if phrase != "float32":
            step = bind_last(lambda a, b, f: F32(f(np.array(_levels(a, b), np.float64))), narrow)
            yield f"the scale is rounded to {phrase}", DynamicQuantizer(step=step), UNLIKELY - 6 + rarity(phrase)
            text = f"the values are divided by the scale rounded to {phrase}; the scale that is output is right"
            yield text, DynamicQuantizer(used=narrow), UNLIKELY - 6 + rarity(phrase)
    for phrase, value in {"0": 0.0, "1/255": 1 / 255, "epsilon": 2.0**-23}.items():
        yield f"the scale of an empty range is {phrase}", DynamicQuantizer(none=F32(value)), 7.0
    yield "the scale of an empty range is not taken as 1", DynamicQuantizer(none=None), 7.0


def _of_255(low: float, high: float, scale: np.float32) -> float:
    return _quotient(low, high, _levels(low, high))


ATS: dict[str, Callable[[float, float, np.float32], float]] = {
    "is always 128": lambda a, b, s: 128.0,
    "is always 0": lambda a, b, s: 0.0,
    "is always 127": lambda a, b, s: 127.0,
    "is 255 less the largest element/scale": lambda a, b, s: float(F32(255) - F32(b) / s),
    "is 256 less the largest element/scale": lambda a, b, s: float(F32(256) - F32(b) / s),
    "is -low times the reciprocal of the scale in float32": lambda a, b, s: float(-F32(a) * (ONE / s)),
    "is -low * 255 / (high - low), not of the rounded scale": lambda a, b, s: -a * 255 / (b - a),
    "is -low/scale in float64": lambda a, b, s: -a / float(s),
    "is -low/scale plus 1": lambda a, b, s: float(-F32(a) / s) + 1,
    "is the middle of the range/scale from 128": lambda a, b, s: 128 - (a + b) / 2 / float(s),
    "is the absolute value of low/scale": lambda a, b, s: abs(a / float(s)),
    "is low/scale": lambda a, b, s: a / float(s),
    "is high/scale": lambda a, b, s: b / float(s),
}


def _zeros() -> Iterator[Way]:
    for phrase, rule in ALL_RULES.items():
        yield f"the zero point is rounded {phrase}", DynamicQuantizer(rule=rule), LIKELY
    for phrase, at in ATS.items():
        yield (
            f"the zero point {phrase}",
            DynamicQuantizer(at=at, beyond=CLAMPED["the zero point limited to 0..255"]),
            LIKELY,
        )
        for how, rule in RULES.items():
            if rule is not np.rint:
                text = f"the zero point {phrase}, rounded {how}"
                yield text, DynamicQuantizer(at=at, rule=rule, beyond=CLAMPED["the zero point limited to 0..255"]), 9.0
    for phrase, narrow in FORMATS.items():
        at = bind_last(lambda a, b, s, f: float(f(np.array(_quotient(a, b, s)))), narrow)
        yield (
            f"-low/scale is rounded to {phrase} before it becomes the zero point",
            DynamicQuantizer(at=at),
            UNLIKELY - 6,
        )


def _values() -> Iterator[Way]:
    for text, quantizer, cost in other_quantizers():
        yield f"the values: {text}", DynamicQuantizer(values=quantizer), cost
