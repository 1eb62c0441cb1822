"""Every float32 evaluation of a reduction, of inputs anywhere within their bounds, lies within the bound of the output, and the bound
is that of NUMERICS.md section 4, worked out here by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from qverify.compare.error_bounds import reductions
from qverify.compare.error_bounds.bounded_values import NoBound, Real
from qverify.model_bin.float_functions import REDUCTIONS, VARIADIC

from tests.plain.error_pages import FLUSHED, U, g, page, real, rounded

F = np.float32


def added(terms: list[np.float32]) -> np.float32:
    total = terms[0]
    for term in terms[1:]:
        total = F(total + term)
    return total


def log_sum_exp(x: list[np.float32]) -> np.float32:
    largest = max(x)
    return F(largest + np.log(added([np.exp(F(v - largest)) for v in x])))


IN_FLOAT32 = {
    "sum": added,
    "max": max,
    "min": min,
    "prod": lambda x: np.multiply.accumulate(np.array(x, F))[-1],
    "l1": lambda x: added([abs(v) for v in x]),
    "l2": lambda x: np.sqrt(added([F(v * v) for v in x])),
    "sum_square": lambda x: added([F(v * v) for v in x]),
    "log_sum": lambda x: np.log(added(x)),
    "log_sum_exp": log_sum_exp,
}


@pytest.mark.parametrize("d", [0.0, 0.01])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_any_order_of_any_inputs(name: str, d: float) -> None:
    rng, largest = np.random.default_rng(7), 0.0
    x = rng.uniform(0.5, 2.0, 31).astype(F).astype(np.float64) * (1 if name == "log_sum" else rng.choice([-1, 1], 31))
    (y,) = page("reduce_float", [real(x, d)], (REDUCTIONS.index(name), 1), ())
    for _ in range(200):
        moved = x + rng.choice([-1, 1, 0], 31) * d * 0.999
        made = IN_FLOAT32[name](list(rng.permutation(moved).astype(F)))
        off = abs(float(made) - float(y.value))
        assert off <= y.error
        largest = max(largest, off / max(float(y.error), 2.0**-126))
    assert largest > 0.001 or name in ("max", "min")


@pytest.mark.parametrize("name", VARIADIC)
def test_several_tensors_are_a_reduction_of_them(name: str) -> None:
    parts = [real([[1.0, -2.0]], 0.25), real([[0.5], [0.75]], 0.125), real(3.0)]
    (y,) = page("variadic_float", parts, (VARIADIC.index(name),), (2, 2))
    stacked = np.stack(np.broadcast_arrays(*(p.value for p in parts)), -1)
    errors = np.stack(np.broadcast_arrays(*(p.error for p in parts)), -1)
    of = "sum" if name == "mean" else name
    (wanted,) = page("reduce_float", [real(stacked, errors)], (REDUCTIONS.index(of), 4), (2, 2))
    if name == "mean":
        assert np.allclose(y.value, wanted.value / 3) and (y.error > wanted.error / 3).all()
    else:
        assert np.array_equal(y.value, wanted.value) and np.array_equal(y.error, wanted.error)


def sum_by_hand(x: list[float], d: list[float]) -> tuple[float, float]:
    moved = math.fsum(d)
    return math.fsum(x), moved + g(len(x) + 1) * (math.fsum(map(abs, x)) + moved) + FLUSHED


def squares_by_hand(x: list[float], d: list[float]) -> tuple[float, float]:
    value, moved = math.fsum(v * v for v in x), math.fsum(2 * abs(v) * e + e * e for v, e in zip(x, d, strict=True))
    return value, moved + g(len(x) + 2) * (value + moved) + len(x) * FLUSHED


def root_by_hand(value: float, error: float) -> tuple[float, float]:
    most = math.sqrt(value + error)
    moved = max(most - math.sqrt(value), math.sqrt(value) - math.sqrt(max(value - error, 0.0)))
    return math.sqrt(value), moved + 2 * U * most + FLUSHED


def product_by_hand(x: list[float], d: list[float]) -> tuple[float, float]:
    most = math.prod(abs(v) + e for v, e in zip(x, d, strict=True))
    return math.prod(x), most - math.prod(map(abs, x)) + g(len(x) + 1) * most + FLUSHED


def log_by_hand(value: float, error: float) -> tuple[float, float]:
    y = math.log(value)
    moved = y - math.log(value - error) if value > error else math.inf
    return y, moved + U * (3 + 3 * abs(y) + 10 * moved)


def log_sum_exp_by_hand(x: list[float], d: list[float]) -> tuple[float, float]:
    log = math.log(math.fsum(math.exp(v - max(x)) for v in x))
    farthest = max(max(x) - v + 2 * e for v, e in zip(x, d, strict=True))
    moved = max(d) + U * (farthest + 4) + g(len(x) + 2) + U * (3 + 2 * abs(log))
    return max(x) + log, rounded(max(x) + log, moved)


def largest_by_hand(x: list[float], d: list[float]) -> tuple[float, float]:
    high, low = (max(v + s * e for v, e in zip(x, d, strict=True)) for s in (1, -1))
    return max(x), max(high - max(x), max(x) - low)


def smallest_by_hand(x: list[float], d: list[float]) -> tuple[float, float]:
    value, error = largest_by_hand([-v for v in x], d)
    return -value, error


BY_HAND = {
    "sum": sum_by_hand,
    "max": largest_by_hand,
    "min": smallest_by_hand,
    "prod": product_by_hand,
    "l1": lambda x, d: sum_by_hand([abs(v) for v in x], d),
    "l2": lambda x, d: root_by_hand(*squares_by_hand(x, d)),
    "sum_square": squares_by_hand,
    "log_sum": lambda x, d: log_by_hand(*sum_by_hand(x, d)),
    "log_sum_exp": log_sum_exp_by_hand,
}
# where the exact errors of the inputs are 0, as small as a rounding, large, and larger than the values
INPUTS = [
    ([3.0, -2.0, 0.75], [0.0, 0.0, 0.0]),
    ([3.0, -2.0, 0.75], [2.0**-25, 2.0**-22, 2.0**-24]),
    ([3.0, -1.5, 0.75], [0.125, 0.25, 0.5]),
    ([3.0, 2.75, -1.5], [0.125, 0.75, 0.0]),
    ([0.5, 0.25, 0.125], [0.25, 0.5, 0.75]),
    ([0.5, 0.5], [0.0, 0.0]),
]


@pytest.mark.parametrize(("x", "d"), INPUTS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_the_bound_is_the_one_of_the_page(name: str, x: list[float], d: list[float]) -> None:
    (y,) = page("reduce_float", [real([x], [d])], (REDUCTIONS.index(name), 2), (1,))
    value, error = BY_HAND[name](x, d)
    assert y.value[0] == pytest.approx(value, rel=1e-12, abs=1e-15)
    assert y.error[0] == pytest.approx(error, rel=1e-9, abs=0) and y.lost is None


@pytest.mark.parametrize(
    ("name", "count"), [("sum", 1), ("l1", 1), ("prod", 1), ("sum_square", 3), ("max", 0), ("min", 0)]
)
def test_of_zeros_the_error_is_what_flushing_loses(name: str, count: int) -> None:
    (y,) = page("reduce_float", [real([[0.0, 0.0, 0.0]])], (REDUCTIONS.index(name), 2), (1,))
    assert (y.value[0], y.error[0]) == (0.0, pytest.approx(count * FLUSHED, rel=1e-6, abs=0))


@pytest.mark.parametrize(
    ("function", "x", "wanted"),
    [
        (reductions._root, (0.0, 0.0), (0.0, FLUSHED)),
        (reductions._root, (2.0**-250, 0.0), (2.0**-125, FLUSHED)),
        (reductions._log, (1.0, 0.0), (0.0, 3 * U)),
        (reductions._log, (2.0, 2.0), (math.log(2), math.inf)),
    ],
)
def test_the_ends_of_a_root_and_of_a_logarithm(
    function: Callable[[Real], Real], x: tuple[float, float], wanted: tuple[float, float]
) -> None:
    with np.errstate(all="ignore"):
        y = function(real([x[0]], [x[1]]))
    assert (y.value[0], y.error[0]) == pytest.approx(wanted, rel=1e-6, abs=0)


TOP, LOW = 2.0**127, 2.0**-126
LOST = {
    "a sum of 2^127": ("sum", [TOP / 2, -TOP / 2], [0, 0], True),
    "a sum below it": ("sum", [TOP / 2, -TOP / 2.001], [0, 0], False),
    "a sum with its error": ("sum", [TOP / 2, -TOP / 4], [TOP / 4, 0], True),
    "squares with their error": ("sum_square", [2.0**62, 0], [2.0**63, 0], True),
    "squares below it": ("sum_square", [2.0**62, 0], [2.0**62, 0], False),
    "a product of 2^127": ("prod", [2.0**100, 2.0**27], [0, 0], True),
    "a product below it": ("prod", [2.0**100, 2.0**26.9], [0, 0], False),
    "a product with its error": ("prod", [TOP / 2], [TOP / 2], True),
    "a partial product": ("prod", [2.0**100, 2.0**27, 2.0**-60], [0, 0, 0], True),
    "a small one and a large one": ("prod", [0.75 * LOW, 2.0], [0, 0], True),
    "small with its error": ("prod", [1.5 * LOW, 2.0], [LOW, 0], True),
    "small, exactly the least": ("prod", [LOW, 2.0], [0, 0], False),
    "small alone": ("prod", [0.75 * LOW, 1.0], [0, 0], False),
    "zero is exact": ("prod", [0.0, 2.0], [0, 0], False),
    "zero beside a small one": ("prod", [0.0, 0.75 * LOW, 2.0], [0, 0, 0], True),
}


@pytest.mark.parametrize("case", LOST)
def test_what_may_overflow_or_underflow_is_lost(case: str) -> None:
    name, x, d, lost = LOST[case]
    (y,) = page("reduce_float", [real([x], [d])], (REDUCTIONS.index(name), 2), (1,))
    assert (y.lost is not None) == lost
    for more in ("l2",) if name == "sum_square" else ("l1",) if name == "sum" else ():
        (y,) = page("reduce_float", [real([x], [d])], (REDUCTIONS.index(more), 2), (1,))
        assert (y.lost is not None) == lost


def test_a_logarithm_of_a_lost_sum_is_lost() -> None:
    (y,) = page("reduce_float", [real([[TOP, TOP], [1.0, 2.0]])], (REDUCTIONS.index("log_sum"), 2), (2,))
    assert y.lost.tolist() == [True, False]
    (y,) = page("variadic_float", [real([TOP, 1.0]), real([TOP, 2.0])], (VARIADIC.index("mean"),), (2,))
    assert y.lost.tolist() == [True, False]


def test_a_mean_is_a_sum_divided_and_rounded_twice() -> None:
    (y,) = page("variadic_float", [real([3.0]), real([-2.0]), real([0.75])], (VARIADIC.index("mean"),), (1,))
    value, error = sum_by_hand([3.0, -2.0, 0.75], [0.0] * 3)
    assert y.error[0] == pytest.approx(rounded(value / 3, error / 3, 2), rel=1e-9, abs=0)


@pytest.mark.parametrize(("op", "names"), [("reduce_float", REDUCTIONS), ("variadic_float", VARIADIC)])
def test_a_function_of_no_name_has_no_bound(op: str, names: tuple[str, ...]) -> None:
    for function in (-1, len(names)):
        with pytest.raises(NoBound, match=f"function {function}|reduction {function}"):
            page(op, [real([[1.0, 2.0]])], (function, 2), (1,))
