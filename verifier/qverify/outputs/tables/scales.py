"""Scales and zero points that were rounded, or replaced by a usual one; values that were cut, rounded or moved on their way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64
from qverify.decoders.parts.functions import sigmoid, softmax
from qverify.outputs.agreement import Wanted
from qverify.outputs.recipe import Output, OutputRecipe
from qverify.outputs.tables import Row

Array = npt.NDArray[Any]
ANY = ("boxes", "decoded", "arrays", "keypoints", "classes", "vector", "mask")


def _bfloat16(s: float) -> float:
    bits = int(np.array([s], np.float32).view(np.uint32)[0])
    return float(np.array([(bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000], np.uint32).view(np.float32)[0])


def _power(s: float, how: Callable[[float], float]) -> float:
    return float(2.0 ** int(how(float(functions64.log(np.float64(s))) / 0.6931471805599453)))


def _significant(s: float, digits: int) -> float:
    return float(f"{s:.{digits - 1}e}")


def _cut(s: float, unit: float) -> float:
    return int(s * unit) / unit


def _multiple(s: float, unit: float) -> float:
    return round(s * unit) / unit


def _round(v: Array, decimals: int) -> Array:
    return np.round(v, decimals)


def _cut_values(v: Array, unit: float) -> Array:
    return np.trunc(v * unit) / unit


SCALES: dict[str, Callable[[float], float]] = {
    "scale rounded to float16": lambda s: float(np.float16(s)),
    "scale rounded to bfloat16": _bfloat16,
    "scale rounded to the nearest power of two": lambda s: _power(s, np.rint),
    "scale rounded down to a power of two": lambda s: _power(s, np.floor),
    "scale rounded up to a power of two": lambda s: _power(s, np.ceil),
    "1 / scale rounded to a whole number": lambda s: 1 / max(round(1 / s), 1),
    "1 / scale cut to a whole number": lambda s: 1 / max(int(1 / s), 1),
    "scale of 1 / 128": lambda _: 1 / 128,
    "scale of 1 / 127": lambda _: 1 / 127,
    "scale of 1 / 256": lambda _: 1 / 256,
    "scale of 1 / 255": lambda _: 1 / 255,
    "scale times 127 / 128": lambda s: s * 127 / 128,
    "scale times 128 / 127": lambda s: s * 128 / 127,
    "scale times 255 / 256": lambda s: s * 255 / 256,
    "scale times 256 / 255": lambda s: s * 256 / 255,
    "scale twice as large": lambda s: s * 2,
    "scale half as large": lambda s: s / 2,
}
for _n in range(1, 8):
    SCALES[f"scale rounded to {_n} decimals"] = partial(round, ndigits=_n)
for _n in range(2, 7):
    SCALES[f"scale cut to {_n} decimals"] = partial(_cut, unit=10.0**_n)
for _n in range(1, 6):
    SCALES[f"scale rounded to {_n} significant digit{'s' * (_n > 1)}"] = partial(_significant, digits=_n)
for _n in (7, 8, 10, 12, 14, 15, 16, 20):
    SCALES[f"scale as a multiple of 2^-{_n}"] = partial(_multiple, unit=2.0**_n)
ZEROS = {"too large by 1": 1, "too small by 1": -1}
VALUES: dict[str, Callable[[Array], Array]] = {
    "negative values cut to 0": lambda v: np.maximum(v, 0.0),
    "cut to 0 and 1": lambda v: np.clip(v, 0.0, 1.0),
    "cut to -1 and 1": lambda v: np.clip(v, -1.0, 1.0),
    "cut to 0 and 6": lambda v: np.clip(v, 0.0, 6.0),
    "cut to -128 and 127": lambda v: np.clip(v, -128.0, 127.0),
    "without their signs": np.abs,
    "with the opposite signs": np.negative,
    "rounded to whole numbers": np.rint,
    "divided by 255": lambda v: v / 255.0,
    "times 255": lambda v: v * 255.0,
    "divided by 256": lambda v: v / 256.0,
    "the exponential function applied": lambda v: _quiet(functions64.exp, v),
    "the logarithm applied": lambda v: _quiet(functions64.log, v),
    "the logarithm of the softmax over the last axis": lambda v: _quiet(functions64.log, softmax(v)),
    "tanh applied": lambda v: 2 * sigmoid(2 * v) - 1,
    "the inverse of the sigmoid applied": lambda v: _quiet(functions64.log, v) - _quiet(functions64.log, 1.0 - v),
    "divided by the largest": lambda v: v / np.abs(v).max(),
    "spread to 0 and 1": lambda v: (v - v.min()) / (v.max() - v.min()),
    "doubled": lambda v: v * 2.0,
    "halved": lambda v: v / 2.0,
    "one softmax over all values": lambda v: softmax(v.reshape(-1)).reshape(v.shape),
}
for _n in range(1, 7):
    VALUES[f"rounded to {_n} decimal{'s' * (_n > 1)}"] = partial(_round, decimals=_n)
    VALUES[f"cut to {_n} decimal{'s' * (_n > 1)}"] = partial(_cut_values, unit=10.0**_n)


def _quiet(function: Callable[[Array], Array], values: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(function(np.asarray(values, np.float64)), np.float64)


def _with_scale(output: Output, change: Callable[[float], float]) -> Output:
    return replace(output, scale=tuple(change(s) for s in output.scale)) if output.scale else output


def _with_zero(output: Output, more: int) -> Output:
    return replace(output, zero=tuple(z + more for z in output.zero)) if output.scale else output


def _wrapped(output: Output, kind: type, to_range: bool) -> Output:
    """The difference q - zero_point in an integer type that is too narrow."""
    if not output.scale or output.values.dtype.itemsize > 1 or output.values.dtype.kind not in "iu":
        return output
    away = output.values.astype(np.int64) - np.array(output.zero[0])
    limits = np.iinfo(kind)
    away = np.clip(away, limits.min, limits.max) if to_range else away.astype(kind).astype(np.int64)
    return replace(output, values=away, zero=(0,) * len(output.zero))


def _is_quantized(recipe: OutputRecipe) -> bool:
    outputs, target = recipe.evidence.outputs, recipe.evidence.target
    return any(o.scale for n, o in outputs.items() if target in ("", n)) and not recipe.stored


def _make() -> Iterator[Row]:
    for said, change in SCALES.items():
        yield Row("dequantization", said, "stored", partial(_with_scale, change=change), ANY, when=_is_quantized)
    for said, more in ZEROS.items():
        yield Row("zero-point", said, "stored", partial(_with_zero, more=more), ANY, when=_is_quantized)
    for kind, name in ((np.int8, "int8"), (np.uint8, "uint8")):
        for to_range, how in ((False, "wraps around"), (True, "is cut")):
            said = f"the difference q - zero point {how} in {name}"
            step = partial(_wrapped, kind=kind, to_range=to_range)
            yield Row("zero-point", said, "stored", step, ANY, when=_is_quantized)
    for said, values in VALUES.items():
        yield Row("activation", f"values {said}", "real", values, ("arrays",))

    for digits in range(1, 6):
        said = f"probabilities rounded to {digits} decimal{'s' * (digits > 1)}"
        yield Row("writing", said, "rows", partial(_round_scores, decimals=digits), ("vector",))


def _round_scores(rows: Wanted, _: OutputRecipe, decimals: int) -> Wanted:
    return Wanted(rows.numbers, np.round(rows.scores, decimals), rows.classes, rows.unit)


ROWS = tuple(_make())
