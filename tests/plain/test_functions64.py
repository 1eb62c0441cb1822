"""qverify's own functions of float64 are accurate, and nothing of the verifier calls a function whose code numpy or the C
library chooses by the processor's features."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from qverify.arithmetic import functions64

VERIFIER = Path(functions64.__file__).parents[1]
RANDOM = np.random.Generator(np.random.PCG64(3))
WIDE = np.concatenate(
    [RANDOM.normal(size=4000) * 5, 10.0 ** RANDOM.uniform(-12, 2, 4000) * RANDOM.choice([-1, 1], 4000)]
)
POSITIVE, INSIDE = 10.0 ** RANDOM.uniform(-30, 30, 8000), RANDOM.uniform(-1, 1, 8000)
FUNCTIONS = {  # our name: numpy's, arguments
    "exp": ("exp", WIDE), "expm1": ("expm1", WIDE), "exp2": ("exp2", WIDE), "log": ("log", POSITIVE),
    "log1p": ("log1p", WIDE[WIDE > -1]), "log2": ("log2", POSITIVE), "log10": ("log10", POSITIVE),
    "tanh": ("tanh", WIDE), "sinh": ("sinh", WIDE), "cosh": ("cosh", WIDE), "asinh": ("arcsinh", WIDE),
    "acosh": ("arccosh", 1 + np.abs(WIDE)), "atanh": ("arctanh", INSIDE), "asin": ("arcsin", INSIDE),
    "acos": ("arccos", INSIDE), "atan": ("arctan", WIDE), "sin": ("sin", WIDE), "cos": ("cos", WIDE), "tan": ("tan", WIDE),
}  # fmt: skip
# Of these numpy or the C library have several implementations, whose last bits differ (numpy.__cpu_dispatch__, SVML, FMA).
DISPATCHED = {
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh", "sinh", "cosh", "hypot"),
    *("arcsin", "arccos", "arctan", "arctan2", "arcsinh", "arccosh", "arctanh", "cbrt", "power", "float_power"),
    *("logaddexp", "logaddexp2", "dot", "vdot", "inner", "norm", "einsum", "tensordot"),
    *("asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh", "erf", "erfc", "gamma", "pow"),
}
EXACT = {  # whole numbers or multiples of powers of two, of which every sum is exact
    "triage/hypotheses/colour_conversion.py", "triage/hypotheses/winograd.py",
}  # fmt: skip


def errors_of(name: str) -> tuple[float, int]:
    """The largest relative error in units of 2^-53, and the number of NaN that only one of both has."""
    theirs, x = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        mine, exact = getattr(functions64, name)(x), getattr(np, theirs)(x.astype(np.longdouble))
        known = np.isfinite(exact) & (exact != 0)
        relative = np.abs((mine[known] - exact[known]) / exact[known])
    return float(relative.max() * 2**53), int((np.isnan(mine) != np.isnan(exact)).sum())


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="long double is no wider than float64 here")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_accurate(name: str) -> None:
    error, apart = errors_of(name)
    assert error < (8 if name != "tan" else 16) and not apart


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="long double is no wider than float64 here")
@pytest.mark.parametrize("exponent", [3.0, -2.0, 0.5, -0.75, 2.7, 17.0, 0.0])
def test_powers(exponent: float) -> None:
    x, exact = np.abs(WIDE), np.abs(WIDE).astype(np.longdouble) ** np.longdouble(exponent)
    assert np.abs(functions64.power(x, exponent) / exact - 1).max() < 2.0**-44


def test_powers_of_negative_numbers_and_of_0() -> None:
    x = np.array([-2.0, -0.5, 0.0, 3.0])
    assert functions64.power(x, 3).tolist() == [-8.0, -0.125, 0.0, 27.0]
    assert functions64.power(x, 4000.5)[2] == 0 and np.isnan(functions64.power(x, 0.5)[:2]).all()
    assert functions64.power(x, -1)[2] == np.inf and functions64.power(x, 0).tolist() == [1.0] * 4
    assert functions64.power(-1.0, 4097) == -1 and functions64.power(-1.0, 4098) == 1


def test_exact_where_the_result_is_a_number_of_float64() -> None:
    n = np.arange(-1022, 1024)
    twos = np.ldexp(1.0, n)
    assert np.array_equal(functions64.exp2(n), twos) and np.array_equal(functions64.power(2.0, n), twos)
    assert np.array_equal(functions64.log2(twos), n)
    assert np.array_equal(functions64.log10([float(f"1e{k}") for k in range(-22, 23)]), np.arange(-22, 23))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_ends(name: str) -> None:
    """Infinities, zeros and NaN as numpy has them; sine and cosine have no value far out."""
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0])
    with np.errstate(all="ignore"):
        theirs = getattr(np, FUNCTIONS[name][0])(x)
    np.testing.assert_allclose(getattr(functions64, name)(x), theirs, rtol=1e-14, atol=1e-15)


def test_single_numbers() -> None:
    for number in (1, 3, 7.5, 1e-300, 2**70, 10**400):
        assert functions64.log2_of(number) == pytest.approx(math.log2(number), rel=1e-15, abs=1e-300)
    assert functions64.log2_of(2**5000) == 5000 and functions64.log2_of(0.25) == -2
    assert functions64.log10_of(1000) == 3 and functions64.log10_of(1e-5) == -5
    for n in (0, 1, 20, 31, 32, 100, 10**6, 10**9):
        assert functions64.log2_factorial(n) == pytest.approx(math.lgamma(n + 1) / math.log(2), rel=1e-13)


def calls(path: Path) -> Iterator[str]:
    """Yields the functions of numpy and math that this file names, and powers whose exponent is not 2."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in DISPATCHED:
            root = ast.unparse(node.value)
            if root in ("np", "numpy", "np.linalg", "math", "cmath"):
                yield f"{root}.{node.attr}"
        if isinstance(node, ast.ImportFrom) and node.module == "math":
            yield from (f"math.{alias.name}" for alias in node.names if alias.name in {*DISPATCHED, "lgamma"})
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and not is_exact_power(node):
            yield ast.unparse(node)


def is_exact_power(node: ast.BinOp) -> bool:
    """Whether this is a square, a power of a whole number or of 2.0, -1.0 or 0.5, or a root of a single number."""
    base, exponent = ast.unparse(node.left), ast.unparse(node.right)
    return exponent in ("2", "0.5") or base.lstrip("-(").rstrip(")").replace("_", "") in WHOLE


WHOLE = {"2", "10", "2.0", "1.0", "0.5", "256", "10.0"}


def test_the_verifier_computes_the_same_on_every_processor() -> None:
    found = {}
    for path in sorted(VERIFIER.rglob("*.py")):
        name = path.relative_to(VERIFIER).as_posix()
        seen = [c for c in calls(path) if not (name in EXACT and c == "np.einsum")]
        if seen:
            found[name] = seen
    assert not found, f"use qverify.arithmetic.functions64, or sums of products: {found}"


def test_the_quick_logarithm_of_a_number_has_the_bits_of_the_slow_one():
    rng = np.random.Generator(np.random.PCG64(5))
    drawn = rng.integers(1, 0x7FF0000000000000, 5000).view(np.float64)  # every positive number, subnormal ones, too
    numbers = np.concatenate([drawn, 10.0 ** np.arange(-30, 31), [5e-324, 1.0, np.inf, 0.0, -1.0, np.nan]])
    quick = np.array([functions64.log10_of(number) for number in numbers])
    assert quick.tobytes() == functions64.log10(numbers).tobytes()
