"""Approximations of exp that kernels use: bit tricks, polynomials, tables, narrow formats, a shorter range."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import factorial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64
from qverify.arithmetic.float32 import LN2_HIGH, LN2_LOW, exp64
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.float_formats import FORMATS, Format

Array = npt.NDArray[Any]
Function = Callable[[Array], Array]
LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453
SCHRAUDOLPH = {
    "12102203*x + 1064866805": (12102203.0, 1064866805),
    "12102203*x + 1065353216 (no correction)": (12102203.0, 1065353216),
    "12102203.16*x + 1064986823": (12102203.161561485, 1064986823),
    "12102203.16*x + 1064866805": (12102203.161561485, 1064866805),
    "12102203.16*x + 1065353216 (no correction)": (12102203.161561485, 1065353216),
    "12102203*x + 1064986823": (12102203.0, 1064986823),
    "12102203*x + 1064631197": (12102203.0, 1064631197),
    "12102203*x + 1065307417": (12102203.0, 1065307417),
    "12102203*x + 1064807160": (12102203.0, 1064807160),
    "12102203*x + 1065054451": (12102203.0, 1065054451),
    "12102203*x + 1064872507": (12102203.0, 1064872507),
}


def schraudolph(x: Array, factor: float, offset: int, dtype: type = np.float64) -> Array:
    """Returns the float32 whose bits are the whole part of factor*x plus offset; 0 if these bits are negative."""
    wide = np.trunc(np.clip(dtype(factor) * x.astype(dtype), -3e9, 3e9).astype(np.float64)) + offset
    bits = np.clip(wide, 0, 0x7F800000).astype(np.int32)
    return bits.view(np.float32).astype(np.float64).reshape(x.shape)


def schraudolph_at_once(x: Array, factor: float, offset: int) -> Array:
    """Returns the same as schraudolph with a single truncation, that of the sum."""
    bits = np.clip(np.trunc(factor * x + offset), 0, 0x7F800000).astype(np.int32)
    return bits.view(np.float32).astype(np.float64).reshape(x.shape)


def reduced(x: Array, fraction: Function, whole: Function = np.rint, base: float = LN2) -> Array:
    """Returns 2**n * fraction(r) with r = x - n*base. whole: rounds x*log2(e) to n."""
    safe = np.clip(x, -745.0, 709.0)
    n = whole(safe * LOG2E)
    return np.ldexp(fraction(safe - n * base), n.astype(np.int64))


def polynomial(r: Array, degree: int) -> Array:
    """Returns the Taylor polynomial of exp of this degree."""
    result = np.full_like(r, 1.0 / factorial(degree))
    for k in range(degree - 1, -1, -1):
        result = result * r + 1.0 / factorial(k)
    return result


def whole_power(x: Array, exponent: int) -> Array:
    """Returns x to a power of 1 or more by squarings and products, with the same bits on every processor."""
    result, square = np.ones_like(x), x
    while exponent:
        result = result * square if exponent & 1 else result
        exponent >>= 1
        square = square * square
    return result


def _stepped(x: Array, step: float, rule: Function) -> Array:
    return exp64(rule(x / step) * step)


def _interpolated(x: Array, step: float) -> Array:
    low = np.floor(x / step)
    part = x / step - low
    return exp64(low * step) * (1 - part) + exp64((low + 1) * step) * part


def _below(x: Array, end: float, value: float) -> Array:
    return np.where(x < end, value, exp64(x))


def _clamped(x: Array, low: float, high: float) -> Array:
    return exp64(np.clip(x, low, high))


def _limited(x: Array, power: int, positive: bool) -> Array:
    value = 1.0 + x / 2.0**power
    value = np.maximum(value, 0.0) if positive else value
    for _ in range(power):
        value = value * value
    return np.asarray(value)


def _pade(r: Array) -> Array:
    return (1.0 + r / 2 + r * r / 12) / (1.0 - r / 2 + r * r / 12)


def exponentials() -> dict[str, Function]:
    """Returns approximations of exp(x) by name, the likely ones first."""
    return dict(_named())


def _named() -> Iterator[tuple[str, Function]]:
    trick = "by the exponent-field trick of Schraudolph (the bits of a float32 are"
    for text, (factor, offset) in SCHRAUDOLPH.items():
        yield f"{trick} {text})", partial(_from_80, of=partial(schraudolph, factor=factor, offset=offset))
        yield (
            f"{trick} {text}), in float32",
            partial(_from_80, of=partial(schraudolph, factor=factor, offset=offset, dtype=np.float32)),
        )
        yield f"{trick} {text}), truncated after the sum", partial(schraudolph_at_once, factor=factor, offset=offset)
    for end in (
        -1,
        -2,
        -3,
        -4,
        -5,
        -6,
        -7,
        -8,
        -9,
        -10,
        -11,
        -12,
        -14,
        -15,
        -16,
        -18,
        -20,
        -24,
        -32,
        -40,
        -64,
        -80,
        -87,
        -88,
        -10 * LN2,
        -16 * LN2,
        -31 * LN2,
    ):
        yield f"as 0 for arguments below {end:g}", partial(_below, end=end, value=0.0)
        yield f"as exp({end:g}) for arguments below {end:g}", partial(_clamped, low=end, high=np.inf)
    for end in (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 16, 20, 32, 80, 87, 88):
        yield f"as exp({end}) for arguments above {end}", partial(_clamped, low=-np.inf, high=float(end))
    yield from _reduced()
    yield from _unreduced()
    yield from _yield_tables()


def _reduced() -> Iterator[tuple[str, Function]]:
    for base, text in (
        (0.693359375, "0.693359375 (the float16 nearest; the correction of -2.12e-4 left out)"),
        (0.6931471803691238, "its high part only"),
        (0.693, "0.693"),
        (0.69, "0.69"),
        (0.7, "0.7"),
        (0.6875, "0.6875"),
        (0.6931, "0.6931"),
        (0.69314, "0.69314"),
        (0.6931457519, "0.6931457519"),
        (float(np.float32(LN2)), "rounded to float32"),
        (0.69140625, "rounded down to bfloat16"),
        (0.6953125, "rounded up to bfloat16"),
    ):
        yield (
            f"with its argument reduced by ln 2 = {text}",
            partial(reduced, fraction=partial(polynomial, degree=13), base=base),
        )
    yield "with its argument reduced by the low part of ln 2 added, not subtracted", _low_part_added
    for whole, phrase in (
        (np.rint, "to the nearest power of two"),
        (np.floor, "to the power of two below"),
        (np.trunc, "by x*log2(e) truncated toward zero"),
        (np.ceil, "to the power of two above"),
    ):
        for degree in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10):
            yield (
                f"by a polynomial of degree {degree} (Taylor) after reduction {phrase}",
                partial(reduced, fraction=partial(polynomial, degree=degree), whole=whole),
            )
        yield (
            f"as 2^n (1 + f), linear between powers of two, n {phrase}",
            partial(reduced, fraction=lambda r: 1.0 + r * LOG2E, whole=whole),
        )
        yield (
            f"as a power of two, its exponent rounded {phrase}",
            partial(reduced, fraction=np.ones_like, whole=whole),
        )
        yield (
            f"by (1 + r/8)^8 after reduction {phrase}",
            partial(reduced, fraction=lambda r: whole_power(1.0 + r / 8, 8), whole=whole),
        )
        yield (
            f"by the Pade form (1 + r/2 + r^2/12)/(1 - r/2 + r^2/12) after reduction {phrase}",
            partial(reduced, fraction=_pade, whole=whole),
        )
        yield (
            f"by (2 + r)/(2 - r) after reduction {phrase}",
            partial(reduced, fraction=lambda r: (2.0 + r) / (2.0 - r), whole=whole),
        )
        yield (
            f"by 2^f = 1 + f*(0.6565 + 0.3435 f), {phrase}",
            partial(reduced, fraction=lambda r: 1 + r * LOG2E * (0.65653 + 0.34347 * r * LOG2E), whole=whole),
        )
        yield (
            f"by I-BERT's polynomial 0.3585(r + 1.353)^2 + 0.344, {phrase}",
            partial(reduced, fraction=lambda r: 0.3585 * (r + 1.353) ** 2 + 0.344, whole=whole),
        )
    yield "by I-BERT's polynomial 0.3585(r + 1.353)^2 + 0.344, to the power of two above", _ibert


def _unreduced() -> Iterator[tuple[str, Function]]:
    for degree in (1, 2, 3, 4, 5, 6, 8):
        yield f"by a polynomial of degree {degree} (Taylor) without reduction", partial(polynomial, degree=degree)
        yield (
            f"by a polynomial of degree {degree} (Taylor) without reduction, not below 0",
            partial(_positive, degree=degree),
        )
    for power in (3, 4, 5, 6, 7, 8, 9, 10, 12, 16):
        text = f"as (1 + x/{2**power})^{2**power} by {power} squarings"
        yield text, partial(_limited, power=power, positive=False)
        yield f"{text}, not below 0", partial(_limited, power=power, positive=True)
    for count in (100, 1000):
        yield f"as (1 + x/{count})^{count}", bind_last(lambda x, n: whole_power(np.maximum(1.0 + x / n, 0.0), n), count)
    for phrase, base in (
        ("2", LN2),
        ("4", 2 * LN2),
        ("10", float(functions64.log(10.0))),
        ("2.7", float(functions64.log(2.7))),
        ("2.718", float(functions64.log(2.718))),
        ("2.71828", float(functions64.log(2.71828))),
        ("sqrt(e)", 0.5),
        ("e*e", 2.0),
    ):
        yield f"to the base {phrase} instead of e", partial(_to_base, base=base)
    for phrase, narrow in FORMATS.items():
        yield f"rounded to {phrase}", partial(_after, narrow=narrow)
        yield f"of an argument rounded to {phrase}", partial(_before, narrow=narrow)
        yield f"of an argument rounded to {phrase}, and rounded to it", partial(_both, narrow=narrow)
        yield f"as 2^t with t = x*log2(e) rounded to {phrase}", partial(_power, narrow=narrow)


def _yield_tables() -> Iterator[tuple[str, Function]]:
    for count in (2, 4, 5, 6, 7, 8, 10, 12, 14, 16):
        step = 2.0**-count
        for text, rule in (("below", np.floor), ("nearest", np.rint), ("above", np.ceil), ("toward zero", np.trunc)):
            yield f"of its argument as the multiple of 2^-{count} {text}", partial(_stepped, step=step, rule=rule)
        yield f"linearly between multiples of 2^-{count}", partial(_interpolated, step=step)
    for entries in (8, 16, 32, 64, 128, 256, 512, 1024):
        for place in ("below", "nearest", "interpolated"):
            yield (
                f"as 2^n times a table of {entries} entries of 2^f ({place})",
                partial(_power_table, entries=entries, place=place),
            )
    for end in (4, 6, 8, 10, 12, 16, 20, 32):
        for entries in (16, 32, 64, 128, 256, 512, 1024):
            for place in ("below", "nearest", "interpolated"):
                yield (
                    f"from a table of {entries} entries over {-end}..0 ({place})",
                    partial(_range_table, entries=entries, end=end, place=place),
                )


def _from_80(x: Array, of: Function) -> Array:
    return np.where(x < -80.0, 0.0, of(np.maximum(x, -87.0)))


def _low_part_added(x: Array) -> Array:
    return reduced(x, partial(polynomial, degree=13), base=LN2_HIGH - LN2_LOW)


def _ibert(x: Array) -> Array:
    z = np.floor(-np.minimum(x, 0.0) / LN2)
    r = np.minimum(x, 0.0) + z * LN2
    return np.ldexp(0.3585 * (r + 1.353) ** 2 + 0.344, -np.minimum(z, 1000).astype(np.int64))


def _positive(x: Array, degree: int) -> Array:
    return np.maximum(polynomial(x, degree), 0.0)


def _to_base(x: Array, base: float) -> Array:
    return exp64(x * base)


def _after(x: Array, narrow: Format) -> Array:
    return narrow(exp64(x))


def _before(x: Array, narrow: Format) -> Array:
    return exp64(narrow(x))


def _both(x: Array, narrow: Format) -> Array:
    return narrow(exp64(narrow(x)))


def _power(x: Array, narrow: Format) -> Array:
    return exp64(narrow(x * LOG2E) * LN2)


def _power_table(x: Array, entries: int, place: str) -> Array:
    t = np.clip(x, -745.0, 709.0) * LOG2E
    if place == "nearest":
        return exp64(np.rint(t * entries) / entries * LN2)
    low = np.floor(t * entries) / entries
    if place == "below":
        return exp64(low * LN2)
    part = (t - low) * entries
    return exp64(low * LN2) * (1 - part) + exp64((low + 1 / entries) * LN2) * part


def _range_table(x: Array, entries: int, end: float, place: str) -> Array:
    """Returns exp(x) from a table of so many entries at -end..0, the last at 0; the first entry below -end."""
    step = end / (entries - 1)
    at = (np.clip(x, -end, 0.0) + end) / step
    low = np.rint(at) if place == "nearest" else np.floor(at)
    value = exp64(low * step - end)
    if place != "interpolated":
        return value
    part = at - low
    return value * (1 - part) + exp64(np.minimum(low + 1, entries - 1) * step - end) * part
