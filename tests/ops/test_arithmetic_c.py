"""The runtime's arithmetic against exact fractions: every rounding mode, both saturation ends, ties; fma and float64 functions."""

from __future__ import annotations

import ctypes
import math
import re
from fractions import Fraction

import numpy as np
import pytest
from qverify.model_bin.graph import ROUNDINGS

from tests.ops.runtime_library import COMPILER, library
from tests.ops.runtime_library import HERE as RUNTIME

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")
SEED = 20261121
HEADER = RUNTIME / "src" / "arithmetic" / "requantize.h"


class Requantizer(ctypes.Structure):
    """qv_requantizer of arithmetic/requantize.h."""

    _fields_ = [
        ("values", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("channels", ctypes.c_int64), ("rows", ctypes.c_int32),
        ("rounding", ctypes.c_int), ("wide", ctypes.c_int), ("zero", ctypes.c_int32), ("low", ctypes.c_int32), ("high", ctypes.c_int32),
        ("real", ctypes.c_int), ("bias", ctypes.c_void_p),
    ]  # fmt: skip


def test_the_fields_are_those_of_the_header() -> None:
    """A field that is missing here would be read from what lies behind the structure."""
    body = HEADER.read_text().split("typedef struct {")[1].split("} qv_requantizer;")[0]
    declarations = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL).split(";")
    names = [re.findall(r"\w+", word)[-1] for one in declarations if one.strip() for word in one.split(",")]
    assert names == [name for name, *_ in Requantizer._fields_]


def requantize(
    values: np.ndarray, dtype: int, rounding: str, wide: bool, acc: int, zero: int, low: int, high: int
) -> int:
    of = library().qv_requantize
    of.restype, of.argtypes = ctypes.c_int32, [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    rows = len(values) if values.ndim == 2 else 1
    r = Requantizer(values.ctypes.data, dtype, values.shape[-1], rows, ROUNDINGS.index(rounding), wide, zero, low, high)
    return int(of(ctypes.byref(r), acc, 0))


def half_up(v: Fraction) -> int:
    return math.floor(v + Fraction(1, 2))


def half_away(v: Fraction) -> int:
    return half_up(v) if v >= 0 else -half_up(-v)


def fl32(v: Fraction) -> Fraction:
    """Nearest binary32, ties to even, for normal results."""
    if v == 0:
        return v
    size, e = abs(v), 0
    e = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** e > size:
        e -= 1
    unit = Fraction(2) ** (e - 23)
    return Fraction(round(v / unit)) * unit


def clip(v: int, low: int, high: int) -> int:
    return min(max(v, low), high)


def integer_mode(rounding: str, wide: bool, acc: int, multiplier: int, shift: int) -> int:
    """NUMERICS.md section 1 by exact fractions."""
    if rounding.startswith("pow2"):
        if shift < 1:
            return acc * 2**-shift
        value = Fraction(acc, 2**shift)
        if shift > 62:
            return -1 if rounding == "pow2-floor" and acc < 0 else 0
        return {"pow2-floor": math.floor, "pow2-half-up": half_up, "pow2-half-away": half_away}[rounding](value)
    if rounding in ("gemmlowp", "cmsis") and not wide:
        lifted = clip(acc * 2 ** max(shift, 0), -(2**31), 2**31 - 1)
        product = Fraction(lifted * multiplier, 2**31)
        if rounding == "cmsis":
            high = half_up(product)
        else:  # round half up, except that a negative tie goes away from zero by trunc((p + 1 - 2^30) / 2^31)
            p = lifted * multiplier
            nudged = p + (2**30 if p >= 0 else 1 - 2**30)
            high = nudged // 2**31 if nudged >= 0 else -(-nudged // 2**31)
        right = max(-shift, 0)
        return 0 if right > 31 else half_away(Fraction(high, 2**right))
    return 0 if shift > 62 else half_up(Fraction(acc * multiplier, 2**shift))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("rounding", ROUNDINGS[1:])
def test_integer_modes(rounding: str, wide: bool) -> None:
    rng = np.random.default_rng(SEED)
    limit = 2**47 - 1 if wide else 2**31 - 1
    accs = [0, 1, -1, 2, -2, 3, -3, limit, -limit, 5 << 10, -(5 << 10)] + [
        int(rng.integers(-limit, limit) >> int(rng.integers(0, 31))) for _ in range(300)
    ]
    for acc in accs:
        n = 15 if wide else 31
        bits = min(n, int(rounding[3:])) if rounding.startswith("mul") else n
        multiplier = 1 if rounding.startswith("pow2") else int(rng.integers(2 ** (bits - 1), 2**bits))
        if rng.random() < 0.3 and not rounding.startswith("pow2"):
            multiplier = 2 ** (bits - 1)
        narrow_e = rounding in ("gemmlowp", "cmsis") and not wide
        low_shift = -40 if narrow_e else -8 if rounding.startswith("pow2") else 1
        shift = int(rng.integers(low_shift, 8 if narrow_e else 70))
        field = np.array([[multiplier], [shift]], np.int32)
        got = requantize(field, 6, rounding, wide, acc, -7, -128, 127)
        assert got == clip(integer_mode(rounding, wide, acc, multiplier, shift) - 7, -128, 127), (
            acc,
            multiplier,
            shift,
        )


@pytest.mark.parametrize("double", [False, True])
def test_ref_exact(double: bool) -> None:
    rng = np.random.default_rng(SEED + 1)
    for i in range(3000):
        acc = int(rng.integers(-(2**31), 2**31) >> int(rng.integers(0, 30)))
        scale = 2.0 ** int(rng.integers(-20, 0)) * (1 if i % 3 == 0 else float(rng.uniform(0.5, 1)))
        values = np.array([scale], np.float64 if double else np.float32)
        zero = int(rng.integers(0, 256))
        if double:
            product = float(acc) * float(values[0])
            want = round(Fraction(product)) + zero
        else:
            want = round(fl32(fl32(Fraction(acc)) * Fraction(float(values[0])))) + zero
        assert requantize(values, 8 if double else 1, "ref-exact", double, acc, zero, 3, 251) == clip(want, 3, 251), (
            acc,
            scale,
        )


def test_fma32_is_rounded_once() -> None:
    of = library().qv_fma32
    of.restype, of.argtypes = ctypes.c_float, [ctypes.c_float] * 3
    rng = np.random.default_rng(SEED + 2)
    for i in range(20000):
        a, b, c = (float(np.float32(rng.uniform(-1, 1) * 2.0 ** int(rng.integers(-12, 12)))) for _ in range(3))
        if i % 4 == 0:  # close to a tie of the sum
            a, b = float(rng.integers(-255, 256)), float(np.float32(1 + 2.0**-23 * int(rng.integers(0, 9))))
            c = float(np.float32(2.0 ** int(rng.integers(20, 34)) * (1 if i % 8 else -1)))
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        assert Fraction(float(of(a, b, c))) == fl32(exact), (a, b, c)


@pytest.mark.parametrize(
    "name, low, high, exact, ulps",
    [
        ("exp64", -700, 700, math.exp, 4),
        ("tanh64", -22, 22, math.tanh, 2e6),
        ("log64", 1e-300, 1e3, math.log, 4),
        ("erf64", -6.5, 6.5, math.erf, 100),
    ],
)
def test_float64_functions_are_the_functions(name: str, low: float, high: float, exact: object, ulps: float) -> None:
    """Their bits are NUMERICS.md's and held by L1; here: they are the functions they are named after."""
    of = getattr(library(), f"qv_{name}")
    of.restype, of.argtypes = ctypes.c_double, [ctypes.c_double]
    for x in np.random.default_rng(SEED + 3).uniform(low, high, 3000):
        want = exact(float(x))  # type: ignore[operator]
        assert abs(of(float(x)) - want) <= ulps * 2.3e-16 * abs(want), x


@pytest.mark.parametrize("depth", [1, 7, 192])
@pytest.mark.parametrize("rows", [1, 4, 5, 8])
def test_every_kernel_of_float_sums(depth: int, rows: int) -> None:
    """On whole numbers, whose float64 sums are exact in any order: what was in the sums, plus the products of 8 columns."""
    rng, of = np.random.default_rng(SEED), library().qv_float_kernel_of_cpu
    of.restype, of.argtypes = ctypes.c_void_p, [ctypes.c_int]
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3, ctypes.c_void_p)
    a = rng.integers(-999, 999, (depth, 8)).astype(np.float64)
    b = rng.integers(-999, 999, (depth, 11)).astype(np.float32)
    before = rng.integers(-9, 9, (8, 8)).astype(np.float64)
    places = 0
    while kernel := of(places):
        sums = before.copy()
        call(kernel)(a.ctypes.data, b.ctypes.data, 11, depth, rows, sums.ctypes.data)
        assert (sums[:rows] == (before + a.T @ b[:, :8])[:rows]).all()
        places += 1
    assert places  # the portable one is always there
