"""Quantize (and a copy that requantizes) rounds by another rule, adds the zero point before it rounds, rounds values or
scales to a narrower format, multiplies by a reciprocal, or saturates in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np

from qverify.arithmetic import float32, functions64
from qverify.model_bin.graph import Graph, Node
from qverify.ops.quantize import parameters
from qverify.tensors.spec import TensorSpec
from qverify.triage.altered_kernels.approximate_roots import reciprocals
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.channel_choice import channel_choices
from qverify.triage.altered_kernels.float_formats import DECIMAL, FIXED, FORMATS, Format, flushed, rarity
from qverify.triage.altered_kernels.float_formats import float32 as to_float32
from qverify.triage.altered_kernels.replaced_kernels import LIKELY, UNLIKELY, kernel_variant, nodes_of
from qverify.triage.altered_kernels.row_sample import fitting_rows
from qverify.triage.case import Array, Case, UnitChange
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.hypotheses.rounding import RULES

NAME = "quantize-steps"
COPIES = ("concat", "where")
OPS = ("quantize", *COPIES)
Rule = Callable[[Array], Array]
LIMITS = (
    "at the type's limits",
    "by wrapping",
    "less the zero point at the type's limits, then wrapping",
    "at the type's limits less its smallest value",
    "to int8 less the zero point",
    "to 16 bits, then by wrapping",
    "one step below the upper limit",
)
MORE_RULES: dict[str, Rule] = {
    "by adding 0.5 and truncating toward zero": lambda v: np.trunc(
        (v.astype(np.float32) + np.float32(0.5)).astype(float)
    ),
    "by adding 0.5 and rounding down, in float32": lambda v: np.floor(
        (v.astype(np.float32) + np.float32(0.5)).astype(float)
    ),
    "by adding half of its sign and truncating": lambda v: np.trunc(v + np.copysign(0.5, v)),
    "by adding half of its sign and truncating, in float32": lambda v: np.trunc(
        (v.astype(np.float32) + np.copysign(np.float32(0.5), v.astype(np.float32))).astype(float)
    ),
    "by subtracting 0.5 and rounding up": lambda v: np.ceil(v - 0.5),
    "by adding 0.499999 and rounding down": lambda v: np.floor(v + 0.499999),
    "by adding 0.49999997 and rounding down": lambda v: np.floor(v + 0.49999997),
    "to the nearest, ties to odd": lambda v: np.where(
        np.abs(v - np.trunc(v)) == 0.5, np.floor(v / 2) * 2 + 1, np.rint(v)
    ),
    "to even numbers": lambda v: np.rint(v / 2) * 2,
}
ALL_RULES = {**{k: r for k, r in RULES.items() if r is not np.rint}, **MORE_RULES}


@dataclass(frozen=True, slots=True)
class Quantizer:
    """A way to quantize real values.

    Attributes:
        real: computes steps from values and scale.
        value: changes the steps before they are rounded.
        rule: rounds them.
        inside: whether the zero point is added before they are rounded.
        limits: one of LIMITS.
        zero: factor of the zero point.
    """

    real: Callable[[Array, Array], Array] = lambda x, s: x / s
    value: Format = lambda v: v
    rule: Rule = np.rint
    inside: bool = False
    limits: str = LIMITS[0]
    zero: int = 1
    scale: Format = lambda s: s

    def __call__(self, x: Array, scale: Array, zero_point: Array, dtype: str) -> Array:
        info = np.iinfo(dtype)
        zero = zero_point.astype(np.float64) * self.zero
        steps = self.real(x, self.scale(scale.astype(np.float64)).astype(np.float32)).astype(np.float64)
        absent, low, high = np.isnan(steps), float(info.min), float(info.max)
        if self.inside:
            total = self.rule(self.value((steps + zero).astype(np.float32).astype(np.float64)))
        elif self.limits == LIMITS[0]:
            total = self.rule(self.value(np.clip(steps, low - zero, high - zero))) + zero
        else:
            total = self.rule(self.value(steps)) + zero
        total = _limited(total, zero, self.limits, info)
        return np.where(absent, low, total).astype(np.int64).astype(dtype)


def _limited(total: Array, zero: Array, how: str, info: np.iinfo) -> Array:
    low, high, span = float(info.min), float(info.max), 2.0**info.bits
    if how == LIMITS[0]:
        return np.clip(total, low, high)
    if how == LIMITS[2]:
        total = np.clip(total - zero, low, high) + zero
    elif how == LIMITS[3]:
        return np.clip(total, low + 1, high)
    elif how == LIMITS[4]:
        return np.clip(np.clip(total - zero, -(span / 2), span / 2 - 1) + zero, low, high)
    elif how == LIMITS[5]:
        total = np.clip(total, -32768, 32767)
    elif how == LIMITS[6]:
        return np.clip(total, low, high - 1)
    total = np.nan_to_num(np.clip(total, -(2.0**40), 2.0**40))
    return np.mod(total - low, span) + low


def variants(case: Case) -> Iterator[FaultVariant]:
    nodes = nodes_of(case, "quantize")
    copied = case.last.op in COPIES and case.spec.quantized and len(case.unit.nodes) == 1
    if not nodes and not copied:
        return
    if nodes:
        title = _title(case)
        faults = (
            kernel_variant(f"{title}: {text}", {"quantize": partial(_kernel, quantizer=quantizer)}, bits)
            for text, quantizer, bits in chain(_shared(case), other_quantizers())
        )
        yield from fitting_rows(case, faults)
    else:
        for text, quantizer, bits in other_quantizers():
            yield FaultVariant(f"requantizing in {case.last.op}: {text}", partial(_copy, quantizer=quantizer), bits)
    for node in nodes[:1]:
        scales = len(case.graph.spec(node.outputs[0]).scale)
        for text, choice in (channel_choices(scales) if scales > 1 else {}).items():
            yield kernel_variant(
                f"quantize: scale and zero point are those of {text}",
                {"quantize": partial(_with_channel_choice, choice=choice)},
            )


def _title(case: Case) -> str:
    """Returns the subject of a sentence: "quantize", with the op whose result is quantized if that is part of the
    unit."""
    makers = {node.outputs[0]: node.op for node in case.unit.nodes}
    before = makers.get(nodes_of(case, "quantize")[-1].inputs[0] or "")
    return f"quantize (of the result of {before.replace('_', ' ')})" if before else "quantize"


def _shared(case: Case) -> Iterator[tuple[str, Quantizer, float]]:
    """Yields roundings of the value between an op and its quantize, which either of the two nodes may do."""
    makers = {node.outputs[0]: node.op for node in case.unit.nodes}
    before = makers.get(nodes_of(case, "quantize")[-1].inputs[0] or "")
    if not before:
        return
    titles = {"softmax_float": "softmax: the result is", "elementwise_float": "a float function's result is"}
    other = titles.get(before, f"{before.replace('_', ' ')}: the result is")
    for phrase, narrow in {**FORMATS, **FIXED}.items():
        if phrase != "float32":
            real = bind_last(lambda x, s, f: f(x.astype(float)).astype(np.float32) / s, narrow)
            text = f"the value is rounded to {phrase} before it is divided, or {other} rounded to {phrase}"
            yield text, Quantizer(real=real), 8.0 + rarity(phrase)
    for phrase, narrow in DECIMAL.items():
        yield f"the scale is rounded to {phrase}", Quantizer(scale=narrow), 8.5


def other_quantizers() -> Iterator[tuple[str, Quantizer, float]]:
    """Yields wrong ways to quantize values, each with its text and bits."""
    for text, rule in ALL_RULES.items():
        yield f"values are rounded {text}, before the zero point is added", Quantizer(rule=rule), LIKELY
    for text, rule in {**RULES, **MORE_RULES}.items():
        yield (
            f"the zero point is added before the rounding, which is {text}",
            Quantizer(rule=rule, inside=True),
            LIKELY + 1,
        )
    for text in LIMITS[1:]:
        yield f"the result is limited {text}", Quantizer(limits=text), LIKELY
    yield "the zero point is left out", Quantizer(zero=0), LIKELY
    yield "the zero point is subtracted", Quantizer(zero=-1), LIKELY
    for text, real in {
        "divided in float64": lambda x, s: x.astype(float) / s.astype(float),
        "multiplied by 1/scale in float32": lambda x, s: x * (np.float32(1) / s),
        "multiplied by 1/scale in float64": lambda x, s: x.astype(float) * (1.0 / s.astype(float)),
        "multiplied by the scale": lambda x, s: x * s,
        "flushed to zero where subnormal": lambda x, s: flushed(x).astype(np.float32) / s,
        "taken by their absolute value": lambda x, s: np.abs(x) / s,
    }.items():
        yield f"values are {text}", Quantizer(real=real), LIKELY + 1
        for name in (
            "to the nearest, ties away from zero",
            "to the nearest, ties up",
            "by adding 0.5 and truncating toward zero",
            "toward zero",
        ):
            yield (
                f"values are {text}, and rounded {name}",
                Quantizer(real=real, rule={**RULES, **MORE_RULES}[name]),
                12.0,
            )
    yield from _narrow_quantizers()


def _narrow_quantizers() -> Iterator[tuple[str, Quantizer, float]]:
    for text, narrow in {**FORMATS, **FIXED}.items():
        yield (
            f"x/scale + zero point is rounded to {text} before it is rounded to an integer",
            Quantizer(value=narrow, inside=True),
            10.0,
        )
        yield f"x/scale is rounded to {text} before it is rounded to an integer", Quantizer(value=narrow), 10.0
        yield (
            f"the value is rounded to {text} before it is divided",
            Quantizer(real=bind_last(lambda x, s, f: f(x.astype(float)).astype(np.float32) / s, narrow)),
            10.0,
        )
        yield f"the scale is rounded to {text}", Quantizer(scale=narrow), 8.5 + rarity(text)
        yield (
            f"1/scale is rounded to {text}, and multiplied",
            Quantizer(real=bind_last(lambda x, s, f: x * f(1.0 / s.astype(float)).astype(np.float32), narrow)),
            10.0,
        )
        yield (
            f"value and 1/scale are rounded to {text}, and multiplied to it",
            Quantizer(real=bind_last(lambda x, s, f: f(f(x.astype(float)) * f(1.0 / s.astype(float))), narrow)),
            12.0,
        )
    for text, rule in (("nearest", np.rint), ("below", np.floor), ("above", np.ceil)):
        yield (
            f"the scale is the power of two {text}",
            Quantizer(scale=bind_last(lambda s, r: 2.0 ** r(functions64.log2(s)), rule)),
            10.0,
        )
    for text, function in reciprocals().items():
        yield (
            f"1/scale is computed {text}, and multiplied",
            Quantizer(real=bind_last(lambda x, s, f: to_float32(x * f(s)), function)),
            UNLIKELY,
        )


def _kernel(node: Node, inputs: list[Array], graph: Graph, quantizer: Quantizer) -> Array:
    y = graph.spec(node.outputs[0])
    return quantizer(inputs[0], *parameters(y), y.dtype)


def _with_channel_choice(node: Node, inputs: list[Array], graph: Graph, choice: Array) -> Array:
    y = graph.spec(node.outputs[0])
    of = replace(y, scale=tuple(y.scale[i] for i in choice), zero_point=tuple(y.zero_point[i] for i in choice))
    return float32.quantize(inputs[0], *parameters(of), y.dtype)


def _copy(case: Case, quantizer: Quantizer) -> Array:
    """Returns the output of a copy whose inputs are requantized in this way to the output's format."""
    inputs, specs = dict[str, Array](), dict[str, TensorSpec]()
    y = case.spec
    for name in case.unit.inputs:
        x = case.graph.spec(name)
        if x.quantized and (x.scale, x.zero_point, x.dtype) != (y.scale, y.zero_point, y.dtype):
            real = float32.dequantize(case.inputs[name], *parameters(x))
            inputs[name] = quantizer(real, *parameters(y), y.dtype)
            specs[name] = replace(x, scale=y.scale, zero_point=y.zero_point, dtype=y.dtype, channel_axis=y.channel_axis)
    return case.recompute(UnitChange(inputs=inputs, specs=specs))
