"""concat or where requantizes an operand in another arithmetic: a ratio of few bits, another rounding, the zero point
folded in, or with the parameters of another operand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qverify.arithmetic import float32
from qverify.ops.quantize import as_quantized, parameters
from qverify.tensors.spec import TensorSpec
from qverify.triage.altered_kernels.narrow_steps import NARROW, TO_INTEGER, half_up, places, significant
from qverify.triage.case import Array, Case, element_bits, limits
from qverify.triage.hypotheses import FaultVariant

NAME = "requantized-copy"
F = np.float32
Requantized = Callable[[Array, TensorSpec, TensorSpec], Array]  # from elements, their spec and the output's spec
OPS = ("concat", "where")


def variants(case: Case) -> Iterator[FaultVariant]:
    if case.last.op not in OPS or len(case.unit.nodes) > 1 or not case.spec.quantized:
        return
    names = _operands(case)
    changed = [n for n in names if _differs(case.graph.spec(n), case.spec)]
    if not changed:
        return
    for cost, phrase, way in _ways():
        text = f"{case.last.op}: an operand of another scale is requantized {phrase}"
        yield from _judged(case, text, partial(_by_way, way=way, only=None), cost)
    for name in changed if len(changed) > 1 else []:
        for cost, phrase, way in _ways():
            text = f"{case.last.op}: {_place(names, name)} is requantized {phrase}"
            yield from _judged(case, text, partial(_by_way, way=way, only=name), cost + 2)
    yield from _yield_parameters_of_others(case, names, changed)


def _operands(case: Case) -> list[str]:
    return [n for n in (case.last.inputs if case.last.op == "concat" else case.last.inputs[1:]) if n is not None]


def _place(names: list[str], name: str) -> str:
    ordinal = ("first", "second", "third", "fourth")
    at = names.index(name)
    return f"the {ordinal[at] if at < 4 else f'{at + 1}th'} operand"


def _differs(x: TensorSpec, y: TensorSpec) -> bool:
    return (x.scale, x.zero_point, x.dtype) != (y.scale, y.zero_point, y.dtype)


def _judged(case: Case, text: str, make: Callable[[Case], Array], cost: float) -> list[FaultVariant]:
    fits = (element_bits(make(case))[case.differing] == element_bits(case.recorded)[case.differing]).all()
    return [FaultVariant(text, make, cost)] if fits else []


def _by_way(case: Case, way: Requantized, only: str | None) -> Array:
    return combined(case, {n: way for n in _operands(case) if only in (None, n)})


def combined(case: Case, ways: dict[str, Requantized]) -> Array:
    """Returns the output with some operands requantized in these ways, by operand."""
    parts = []
    for name in _operands(case):
        x = case.inputs[name] if name in case.inputs else case.graph.constants[name]
        spec = case.graph.spec(name)
        way = ways.get(name)
        parts.append(
            as_quantized(x, spec, case.spec)
            if way is None or not _differs(spec, case.spec)
            else way(x, spec, case.spec)
        )
    if case.last.op == "concat":
        return np.concatenate(parts, case.last.words[0])
    name = case.last.inputs[0] or ""
    cond = case.inputs[name] if name in case.inputs else case.graph.constants[name]
    return np.broadcast_to(np.where(cond, *parts), case.spec.shape).astype(case.spec.numpy_dtype)


def _finish(steps: Array, y: TensorSpec) -> Array:
    return np.clip(steps, *limits(y)).astype(y.dtype)


def _ways() -> Iterator[tuple[float, str, Requantized]]:
    yield 1.0, "not at all: its bytes are copied", _copied
    yield 1.5, "by its scale alone, the zero points left out", partial(_by_ratio, zero_in=False, zero_out=False)
    yield 1.5, "without subtracting its own zero point", partial(_by_ratio, zero_in=False)
    yield 1.5, "without adding the output's zero point", partial(_by_ratio, zero_out=False)
    yield 1.5, "by its zero point alone, the scales left out", _shifted_only
    yield 1.5, "with wrapping instead of clipping", _wrapped
    yield 2.0, "with one float32 ratio sx / sy", partial(_by_ratio, dtype=F)
    yield 2.0, "with the ratio upside down (sy / sx)", partial(_by_ratio, inverted=True)
    yield 2.0, "with a multiplication by the float32 reciprocal of the output's scale", _reciprocal
    yield 1.5, "as fl32(q * s) - fl32(z * s), both products rounded, instead of (q - z) * s", _two_products
    yield 2.0, "with the zero points folded into one float32 constant: q * ratio + (zy - zx * ratio)", _folded
    for name, narrow in NARROW.items():
        yield 2.0, f"with the ratio sx / sy kept in {name}", partial(_by_ratio, narrow=narrow)
        yield 2.0, f"through real values in {name}", partial(_through, narrow=narrow)
    for phrase, rounded in TO_INTEGER.items():
        yield 1.5, f"and {phrase}", partial(_by_ratio, rounded=rounded)
        yield 2.0, f"and {phrase}, the zero point already added", partial(_by_ratio, rounded=rounded, zero_first=True)
    for rare, k in enumerate((8, 16, 15, 7, 10, 12, 14, 6, 5, 4, 3, 2, 1, 9, 11, 13, 18, 20, 24)):
        for word, scale in (("rounded", half_up), ("cut down", np.floor)):
            narrow = partial(places, count=k, rounded=scale)
            for phrase, rounded in TO_INTEGER.items():
                text = f"in fixed point: the ratio sx / sy is {word} to a multiple of 1/{1 << k}, the product {phrase}"
                cost = 2.0 if phrase.endswith(("ties up)", "(floor)")) else 2.5
                yield cost + 0.05 * rare, text, partial(_by_ratio, narrow=narrow, rounded=rounded)
    for k in range(2, 24):
        for word, scale in (("rounded", half_up), ("cut", np.floor)):
            fewer = partial(significant, count=k, rounded=scale)
            yield 3.0, f"with the ratio sx / sy {word} to {k} significant bits", partial(_by_ratio, narrow=fewer)


def _copied(x: Array, spec: TensorSpec, y: TensorSpec) -> Array:
    return x.astype(y.dtype)


def _shifted_only(x: Array, spec: TensorSpec, y: TensorSpec) -> Array:
    return _finish(x.astype(np.int64) - spec.zero_point[0] + y.zero_point[0], y)


def _by_ratio(
    x: Array,
    spec: TensorSpec,
    y: TensorSpec,
    narrow: Callable[[Array], Array] | None = None,
    rounded: Callable[[Array], Array] = np.rint,
    zero_in: bool = True,
    zero_out: bool = True,
    zero_first: bool = False,
    inverted: bool = False,
    dtype: type = np.float64,
) -> Array:
    ratio = np.asarray(np.float64(spec.scale[0]) / np.float64(y.scale[0]))
    ratio = 1 / ratio if inverted else ratio
    ratio = ratio if narrow is None else narrow(ratio)
    real: Array = (x.astype(np.int64) - (spec.zero_point[0] if zero_in else 0)).astype(dtype) * np.asarray(ratio, dtype)
    zero = y.zero_point[0] if zero_out else 0
    return _finish(rounded(real + zero) if zero_first else rounded(real) + zero, y)


def _wrapped(x: Array, spec: TensorSpec, y: TensorSpec) -> Array:
    real: Array = (x.astype(np.int64) - spec.zero_point[0]) * (spec.scale[0] / y.scale[0])
    return (np.rint(real).astype(np.int64) + y.zero_point[0]).astype(y.dtype)


def _real(x: Array, spec: TensorSpec) -> Array:
    return (x.astype(np.int64) - spec.zero_point[0]).astype(F) * F(spec.scale[0])


def _reciprocal(x: Array, spec: TensorSpec, y: TensorSpec) -> Array:
    return _finish(np.rint(_real(x, spec) * (F(1) / F(y.scale[0]))) + y.zero_point[0], y)


def _two_products(x: Array, spec: TensorSpec, y: TensorSpec) -> Array:
    real = x.astype(F) * F(spec.scale[0]) - F(spec.zero_point[0]) * F(spec.scale[0])
    return _finish(np.rint(real / F(y.scale[0])) + y.zero_point[0], y)


def _folded(x: Array, spec: TensorSpec, y: TensorSpec) -> Array:
    ratio = F(spec.scale[0]) / F(y.scale[0])
    return _finish(np.rint(x.astype(F) * ratio + (F(y.zero_point[0]) - F(spec.zero_point[0]) * ratio)), y)


def _through(x: Array, spec: TensorSpec, y: TensorSpec, narrow: Callable[[Array], Array]) -> Array:
    return _finish(np.rint(np.asarray(narrow(_real(x, spec)), F) / F(y.scale[0])) + y.zero_point[0], y)


def _yield_parameters_of_others(case: Case, names: list[str], changed: list[str]) -> Iterator[FaultVariant]:
    """Yields faults in which operands are requantized with the scale or zero point of another operand."""
    by = {
        f"of the {phrase} operand": [names[at]] * len(names)
        for at, phrase in ((0, "first"), (-1, "last"), (1, "second"))
    }
    by["of the operand before it"] = [names[0], *names[:-1]]
    by["of the operand after it"] = [*names[1:], names[-1]]
    by["of the other operand" if len(names) == 2 else "of the operand at the other end"] = names[::-1]
    for phrase, others in by.items():
        for what, scale, zero in (
            ("scale and zero point", True, True),
            ("scale", True, False),
            ("zero point", False, True),
        ):
            text = f"{case.last.op}: every operand that needs requantization is dequantized with the {what} {phrase}"
            make = partial(_as_others, others=dict(zip(names, others, strict=True)), scale=scale, zero=zero)
            yield from _judged(case, text, make, 1.0 + (not (scale and zero)))


def _as_others(case: Case, others: dict[str, str], scale: bool, zero: bool) -> Array:
    def way(x: Array, spec: TensorSpec, y: TensorSpec, other: TensorSpec) -> Array:
        changed_spec = replace(
            spec, scale=other.scale if scale else spec.scale, zero_point=other.zero_point if zero else spec.zero_point
        )
        return float32.quantize(float32.dequantize(x, *parameters(changed_spec)), *parameters(y), y.dtype)

    return combined(case, {n: partial(way, other=case.graph.spec(o)) for n, o in others.items()})
