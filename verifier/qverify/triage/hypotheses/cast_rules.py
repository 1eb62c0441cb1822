"""Cast rounds a float by another rule, treats NaN or numbers beyond the type in another way, converts other numbers to
bools, or goes through a narrower type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.model_bin.graph import Graph, Node
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.float_formats import FIXED, FORMATS, Format, flushed, rarity
from qverify.triage.altered_kernels.replaced_kernels import LIKELY, UNLIKELY, kernel_variant, nodes_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "cast-rules"
OPS = ("cast",)
Cast = Callable[[Array, np.dtype], Array]
RULES: dict[str, Format] = {
    "to the nearest, ties to even": np.rint,
    "to the nearest, ties away from zero": lambda v: np.copysign(np.floor(np.abs(v) + 0.5), v),
    "to the nearest, ties up": lambda v: np.floor(v + 0.5),
    "to the nearest, ties toward zero": lambda v: np.copysign(np.ceil(np.abs(v) - 0.5), v),
    "down (floor)": np.floor,
    "up (ceil)": np.ceil,
    "away from zero": lambda v: np.copysign(np.ceil(np.abs(v)), v),
    "by adding 0.5 and truncating toward zero": lambda v: np.trunc(v + 0.5),
    "by adding 0.5 in float32 and truncating toward zero": lambda v: np.trunc(
        (v.astype(np.float32) + np.float32(0.5)).astype(float)
    ),
    "to the nearest, ties to even, below 4000000 only": lambda v: np.where(np.abs(v) < 4e6, np.rint(v), np.trunc(v)),
}
TRUE: dict[str, Callable[[Array], Array]] = {
    "of the number truncated to an integer (values between -1 and 1 are false)": lambda v: np.trunc(v) != 0,
    "of the number rounded to the nearest integer, ties to even": lambda v: np.rint(v) != 0,
    "of the number rounded half away from zero (from 0.5 in size on)": lambda v: np.abs(v) >= 0.5,
    "of the number rounded down (values from 0 to 1 are false)": lambda v: np.floor(v) != 0,
    "of positive numbers only": lambda v: v > 0,
    "of negative numbers only": lambda v: v < 0,
    "of numbers from 1 on": lambda v: v >= 1,
    "of numbers above 0.5": lambda v: v > 0.5,
    "of numbers from 0.5 on": lambda v: v >= 0.5,
    "of numbers that are not negative": lambda v: v >= 0,
    "of every number": lambda v: np.ones(v.shape, bool),
    "of the number's lowest 8 bits as an integer": lambda v: _whole(np.trunc(v), np.dtype(np.int64)) % 256 != 0,
    "of the number's lowest bit as an integer": lambda v: _whole(np.trunc(v), np.dtype(np.int64)) % 2 != 0,
    "of the number 1 only": lambda v: v == 1,
    "of zeros (inverted)": lambda v: v == 0,
    "of a number above 1e-6 in size": lambda v: np.abs(v) > 1e-6,
    "of a number above the float32 epsilon in size": lambda v: np.abs(v) > 2.0**-23,
    "of a normal float32 (subnormals are false)": lambda v: np.abs(v) >= 2.0**-126,
    "of a number other than 0 and NaN": lambda v: (v != 0) & ~np.isnan(v),
    "also of -0.0 (its bits are not 0)": lambda v: (v != 0) | np.signbit(v),
}


def _whole(values: Array, dtype: np.dtype) -> Array:
    """Returns whole float64 values in an integer type; those beyond it become its smallest value."""
    limits = np.iinfo(dtype)
    inside = (values >= float(limits.min)) & (values < -float(limits.min) if limits.min else values <= limits.max)
    return np.where(inside, np.where(inside, values, 0).astype(dtype), np.array(limits.min, dtype))


def _saturated(values: Array, dtype: np.dtype, nan: int | None) -> Array:
    """Returns whole float64 values in an integer type; those beyond it saturate."""
    limits = np.iinfo(dtype)
    beyond, below = values >= -float(limits.min), values < float(limits.min)
    result = np.where(beyond | below | np.isnan(values), 0, values).astype(dtype)
    result = np.where(beyond, np.array(limits.max, dtype), np.where(below, np.array(limits.min, dtype), result))
    return np.where(np.isnan(values), np.array(limits.min if nan is None else nan, dtype), result)


def _wrapped(values: Array, dtype: np.dtype) -> Array:
    span = 2.0 ** np.iinfo(dtype).bits
    known = np.where(np.isfinite(values), values, 0.0)
    return (np.mod(known + span / 2, span) - span / 2).astype(dtype)


def variants(case: Case) -> Iterator[FaultVariant]:
    for node in nodes_of(case, "cast")[:1]:
        source, target = (case.graph.spec(n or "").numpy_dtype for n in (node.inputs[0], node.outputs[0]))
        for phrase, cast, bits in _ways(source, target):
            text = f"cast of {source.name} to {target.name}: {phrase}"
            yield kernel_variant(text, {"cast": partial(_kernel, cast=cast, source=source, target=target)}, bits)


def _kernel(node: Node, inputs: list[Array], graph: Graph, cast: Cast, source: np.dtype, target: np.dtype) -> Array:
    output_dtype = graph.spec(node.outputs[0]).numpy_dtype
    if (inputs[0].dtype, output_dtype) != (source, target):  # a cast of other types, to which the fault does not apply
        raise TypeError(f"a cast of {inputs[0].dtype} to {output_dtype}")
    return cast(inputs[0], target)


Way = tuple[str, Cast, float]


def _ways(source: np.dtype, target: np.dtype) -> Iterator[Way]:
    if target == np.dtype(bool):
        for text, true in TRUE.items():
            yield f"true {text}", bind_last(lambda x, t, f: f(x.astype(np.float64)), true), LIKELY
        return
    if source.kind == "f" and target.kind in "iu":
        yield from _to_integers()
    elif source.kind in "iu" and target.kind == "f":
        yield from _to_floats()
    elif target.kind in "iu" and source.kind in "iu":
        yield from _between()
    if source == np.dtype(bool):
        for value in (-1, 255, 127, 2, 0):
            yield f"true becomes {value}", bind_last(lambda x, t, v: np.where(x, v, 0).astype(t), value), LIKELY
        yield "the bool is inverted", lambda x, t: (~x).astype(t), LIKELY
    if source.kind == "f" and target.kind == "f":
        for text, narrow in {"flushed to zero where subnormal": flushed, **FORMATS}.items():
            yield text, bind_last(lambda x, t, f: f(x.astype(float)).astype(t), narrow), UNLIKELY


def _to_integers() -> Iterator[Way]:
    for phrase, rule in RULES.items():
        yield (
            f"numbers are rounded {phrase}, not truncated",
            bind_last(lambda x, t, f: _whole(f(x.astype(float)), t), rule),
            LIKELY,
        )
        text = f"numbers are rounded {phrase}, and saturate at the type's ends"
        yield text, bind_last(lambda x, t, f: _saturated(f(x.astype(float)), t, 0), rule), LIKELY + 2
    for nan, what in ((None, "the type's smallest value"), (0, "0")):
        text = f"numbers beyond the type saturate at its ends, and NaN gives {what}"
        yield text, bind_last(lambda x, t, n: _saturated(np.trunc(x.astype(float)), t, n), nan), LIKELY
    yield "numbers beyond the type wrap", lambda x, t: _wrapped(np.trunc(x.astype(float)), t), LIKELY
    beyond = lambda x, t: np.where(_outside(x, t), 0, _whole(np.trunc(x.astype(float)), t)).astype(t)  # noqa: E731
    yield "numbers beyond the type give 0", beyond, LIKELY
    for dtype in ("int32", "int16", "int8", "uint8", "uint16", "uint32"):
        narrow = np.dtype(dtype)
        text = f"numbers go through {dtype}"
        yield f"{text}, which wraps", bind_last(lambda x, t, d: _through(x, d).astype(t), narrow), 6.0
        ends = bind_last(
            lambda x, t, d: np.clip(np.nan_to_num(np.trunc(x.astype(float))), np.iinfo(d).min, np.iinfo(d).max).astype(
                t
            ),
            narrow,
        )
        yield f"{text}, which saturates", ends, 6.0
        least = bind_last(lambda x, t, d: _whole(np.trunc(x.astype(float)), d).astype(t), narrow)
        yield f"{text}, whose smallest value stands for what lies beyond", least, 6.0
    yield "the bits of the float32 are taken", lambda x, t: x.view(np.int32).astype(t), 6.0
    yield "negative numbers become 0", lambda x, t: _whole(np.maximum(np.trunc(x.astype(float)), 0), t), 6.0
    yield "the sign is lost", lambda x, t: _whole(np.abs(np.trunc(x.astype(float))), t), 6.0
    for phrase, narrow_to in {**FORMATS, **FIXED}.items():
        if phrase != "float32":
            text = f"numbers are rounded to {phrase} before they are truncated"
            yield (
                text,
                bind_last(lambda x, t, f: _whole(np.trunc(f(x.astype(float))), t), narrow_to),
                UNLIKELY - 6 + rarity(phrase),
            )


def _outside(x: Array, dtype: np.dtype) -> Array:
    whole, limits = np.trunc(x.astype(float)), np.iinfo(dtype)
    return ~((whole >= float(limits.min)) & (whole < -float(limits.min)))


def _through(x: Array, narrow: np.dtype) -> Array:
    whole = np.trunc(x.astype(float))
    known = np.where(np.isfinite(whole), whole, 0.0)
    span, low = 2.0 ** np.iinfo(narrow).bits, float(np.iinfo(narrow).min)
    return np.mod(known - low, span) + low


def _to_floats() -> Iterator[Way]:
    for name, narrow in FORMATS.items():
        yield (
            f"the result is rounded to {name}",
            bind_last(lambda x, t, f: f(x.astype(float)).astype(t), narrow),
            9.0 + rarity(name),
        )
    cut = lambda x, t: _cut(x)  # noqa: E731
    yield "numbers of more than 24 bits are truncated toward zero, not rounded", cut, LIKELY
    yield "the sign is lost", lambda x, t: np.abs(x.astype(np.float64)).astype(t), 6.0
    for dtype in ("int32", "int16", "int8", "uint8", "uint16", "uint32"):
        narrow_to = np.dtype(dtype)
        yield (
            f"numbers go through {dtype}, which wraps",
            bind_last(lambda x, t, d: x.astype(d).astype(t), narrow_to),
            6.0,
        )
        ends = bind_last(
            lambda x, t, d: np.clip(x.astype(np.float64), np.iinfo(d).min, np.iinfo(d).max).astype(t), narrow_to
        )
        yield f"numbers go through {dtype}, which saturates", ends, 6.0
    yield "the bytes are taken as those of the float", lambda x, t: np.resize(x.view(np.float32), x.shape), 7.0


def _cut(x: Array) -> Array:
    nearest = x.astype(np.float32)
    over = np.abs(nearest.astype(np.float64)) > np.abs(x.astype(np.float64))
    return np.where(over, np.nextafter(nearest, np.float32(0)), nearest)


def _between() -> Iterator[Way]:
    for dtype in ("int32", "int16", "int8", "uint8", "uint16", "uint32"):
        narrow = np.dtype(dtype)
        yield f"numbers go through {dtype}, which wraps", bind_last(lambda x, t, d: x.astype(d).astype(t), narrow), 6.0
        limits = np.iinfo(narrow)
        ends = bind_last(lambda x, t, a, b: np.clip(x.astype(np.int64), a, b).astype(t), limits.min, limits.max)
        yield f"numbers go through {dtype}, which saturates", ends, 6.0
    yield (
        "numbers beyond the type saturate at its ends",
        lambda x, t: np.clip(x.astype(np.int64), np.iinfo(t).min, np.iinfo(t).max).astype(t),
        LIKELY,
    )
    through = lambda x, t: x.astype(np.float32).astype(np.float64).astype(np.int64).astype(t)  # noqa: E731
    yield "numbers go through float32 (24 bits)", through, 6.0
    yield "the sign is lost", lambda x, t: np.abs(x.astype(np.int64)).astype(t), 6.0
