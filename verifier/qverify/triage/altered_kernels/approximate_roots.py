"""Approximations of 1/sqrt, sqrt and 1/x that kernels use: bit tricks with Newton steps, tables, narrow formats."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64
from qverify.triage.altered_kernels.float_formats import FORMATS, Format, significant

Array = npt.NDArray[Any]
Function = Callable[[Array], Array]
RSQRT_TRICKS = (0x5F3759DF, 0x5F375A86, 0x5F1FFFF9, 0x5F3504F3, 0x5F400000, 0x5F37642F)
RECIPROCAL_TRICKS = (
    0x7EF311C7,
    0x7EF311C3,
    0x7EEEEBB3,
    0x7EF127EA,
    0x7F000000,
    0x7EF477D5,
    0x7EFFFFFF,
    0x7EF19FFF,
    0x7EEF370B,
    0x7EEF3210,
)
STEPS = (0, 1, 2, 3)


def _steps(count: int, of: str) -> str:
    newton = {0: "no Newton step", 1: "one Newton step"}.get(count, f"{count} Newton steps")
    return f"{of} and {newton}"


def rsqrt_trick(x: Array, magic: int, steps: int, dtype: type = np.float32) -> Array:
    """Returns 1/sqrt(x) computed from the bits of a float32 and Newton steps in this dtype."""
    v = np.asarray(x).astype(np.float32)
    y: Array = (np.uint32(magic) - (v.view(np.uint32) >> np.uint32(1))).view(np.float32).astype(dtype)
    v = v.astype(dtype)
    half = dtype(0.5) * v
    for _ in range(steps):
        y = y * (dtype(1.5) - (half * y) * y)
    return y.astype(np.float64)


def reciprocal_trick(x: Array, magic: int, steps: int, dtype: type = np.float32) -> Array:
    """Returns 1/x computed from the bits of a float32 and Newton steps in this dtype, with the sign of x."""
    v = np.abs(np.asarray(x)).astype(np.float32)
    y = (np.uint32(magic) - v.view(np.uint32)).view(np.float32).astype(dtype)
    v = v.astype(dtype)
    for _ in range(steps):
        y = y * (dtype(2.0) - v * y)
    return np.copysign(y.astype(np.float64), x)


def by_table(x: Array, entries: int, power: float, place: str) -> Array:
    """Returns x**power, in which the mantissa of x (1..2, for a root 1..4) is looked up in a table: the entry for the
    start or the middle of its interval, or interpolated between entries."""
    mantissa, exponent = np.frexp(np.abs(np.asarray(x, np.float64)))
    mantissa, exponent = mantissa * 2, exponent - 1
    span = 1.0
    if power in (0.5, -0.5):
        odd = exponent % 2 != 0
        mantissa, exponent, span = np.where(odd, mantissa * 2, mantissa), np.where(odd, exponent - 1, exponent), 3.0
    step = span / entries
    at = (mantissa - 1) / step
    low = 1 + np.floor(at) * step
    if place == "interpolated":
        part = at - np.floor(at)
        value = functions64.power(low, power) * (1 - part) + functions64.power(low + step, power) * part
    else:
        value = functions64.power(low + (step / 2 if place == "the middle" else 0.0), power)
    return np.copysign(value * functions64.exp2(exponent * power), x)


def _tricks(magics: tuple[int, ...], trick: Callable[..., Array]) -> dict[str, Function]:
    return {
        _steps(steps, f"from the bits of its float32 (0x{magic:08X})")
        + (" in float64" if dtype is np.float64 and steps else ""): partial(
            trick, magic=magic, steps=steps, dtype=dtype
        )
        for magic in magics
        for steps in STEPS
        for dtype in ((np.float32, np.float64) if steps else (np.float32,))
    }


def _tables(power: float) -> dict[str, Function]:
    return {
        f"from a table of {entries} entries a mantissa ({place})": partial(
            by_table, entries=entries, power=power, place=place
        )
        for entries in (8, 16, 32, 64, 128, 256, 512, 1024)
        for place in ("the start of its interval", "the middle", "interpolated")
    }


def _formats(exact: Function) -> dict[str, Function]:
    return {f"rounded to {name}": partial(_rounded, exact=exact, narrow=narrow) for name, narrow in FORMATS.items()}


def _rounded(x: Array, exact: Function, narrow: Format) -> Array:
    return narrow(exact(x))


def _newton_from(x: Array, power: float, bits: int, steps: int) -> Array:
    """Returns x**power computed from an estimate of so many bits, like that of an instruction, and Newton steps in
    float32."""
    v = np.asarray(x).astype(np.float32)
    y = significant(functions64.power(np.abs(v.astype(np.float64)), power), bits).astype(np.float32)
    for _ in range(steps):
        y = (
            y * (np.float32(1.5) - (np.float32(0.5) * np.abs(v) * y) * y)
            if power == -0.5
            else y * (np.float32(2) - np.abs(v) * y)
        )
    return np.copysign(y.astype(np.float64), x)


def _estimates(power: float) -> dict[str, Function]:
    return {
        _steps(steps, f"from an estimate of {bits} bits"): partial(_newton_from, power=power, bits=bits, steps=steps)
        for bits in (5, 7, 8, 12, 14)
        for steps in (0, 1, 2)
    }


def rsqrts() -> dict[str, Function]:
    """Returns approximations of 1/sqrt(x) by name, for x > 0."""
    return {
        **_tricks(RSQRT_TRICKS, rsqrt_trick),
        **_formats(lambda x: 1.0 / np.sqrt(x)),
        **_estimates(-0.5),
        **_tables(-0.5),
    }


def reciprocals() -> dict[str, Function]:
    """Returns approximations of 1/x by name."""
    return {
        **_tricks(RECIPROCAL_TRICKS, reciprocal_trick),
        **_formats(lambda x: 1.0 / x),
        **_estimates(-1.0),
        **_tables(-1.0),
    }


def sqrts() -> dict[str, Function]:
    """Returns approximations of sqrt(x) by name, for x >= 0."""
    by_text: dict[str, Function] = {
        f"from the bits of its float32 (0x{magic:08X}) and {steps} Newton steps": partial(
            sqrt_trick, magic=magic, steps=steps
        )
        for magic in (0x1FBD1DF5, 0x1FBB4F2E, 0x1FC00000, 0x1FBD3F7D, 0x1FBB67AE)
        for steps in (0, 1, 2)
    }
    by_text |= {
        f"by {count} step{'s' * (count > 1)} of the iteration r = (r + x/r)/2 from {text}{' in float32' * (dtype is np.float32)}": partial(
            heron, start=start, steps=count, dtype=dtype
        )
        for text, start in HERON_STARTS.items()
        for count in range(1, 13)
        for dtype in (np.float64, np.float32)
    }
    times = {f"as x times 1/sqrt(x), {text}": partial(_times, rsqrt=f) for text, f in rsqrts().items()}
    return {**by_text, **times, **_formats(np.sqrt), **_tables(0.5)}


HERON_STARTS: dict[str, Function] = {
    "(1 + x)/2": lambda v: (v + 1) / 2,
    "x": lambda v: v,
    "1": np.ones_like,
    "x/2": lambda v: v / 2,
    "1 + x": lambda v: v + 1,
    "the larger of x and 1": lambda v: np.maximum(v, np.ones_like(v)),
    "the power of two of half its exponent": lambda v: np.ldexp(np.ones_like(v), np.frexp(v)[1] // 2),
}


def heron(x: Array, start: Function, steps: int, dtype: type) -> Array:
    """Returns sqrt(x) after so many steps of Heron's (Newton's) iteration in dtype."""
    v: Array = np.asarray(x).astype(dtype)
    r = start(v)
    for _ in range(steps):
        r = dtype(0.5) * (r + v / r)
    return np.asarray(r).astype(np.float64)


def sqrt_trick(x: Array, magic: int, steps: int) -> Array:
    """Returns sqrt(x) computed from the bits of a float32 and Newton steps."""
    v = np.asarray(x).astype(np.float32)
    y = (np.uint32(magic) + (v.view(np.uint32) >> np.uint32(1))).view(np.float32)
    for _ in range(steps):
        y = np.float32(0.5) * (y + v / y)
    return y.astype(np.float64)


def _times(x: Array, rsqrt: Function) -> Array:
    return np.where(x == 0, 0.0, x * rsqrt(x))
