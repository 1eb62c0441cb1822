"""Every float32 evaluation of a reduction, of inputs anywhere within their bounds, lies within the bound of the output."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.model_bin.float_functions import REDUCTIONS, VARIADIC

from tests.plain.error_pages import page, real

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
