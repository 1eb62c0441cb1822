"""The float64 evaluation of a cast to bfloat16 and back, and of products with vectors, by hand and against the bits."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.model_bin.float_functions import FUNCTIONS
from qverify.model_bin.graph import Graph, Node
from qverify.ops.elementwise_float import simulate
from qverify.tensors.spec import TensorSpec

from tests.plain.error_pages import page, real, word

WORDS = (FUNCTIONS["bfloat16"].number, 0, 0)
LARGEST = float(np.array(0x7F7F0000, np.uint32).view(np.float32))


def rounded(values: np.ndarray, error: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    (y,) = page("elementwise_float", [real(values, error)], WORDS, values.shape)
    return y.value, y.error


def simulated(values: np.ndarray) -> np.ndarray:
    specs = {n: TensorSpec(n, "float32", values.shape) for n in ("x", "y")}
    node = Node("y", "elementwise_float", ("x", None), ("y",), WORDS)
    with np.errstate(all="ignore"):
        (y,) = simulate(node, [values.astype(np.float32), None], Graph([node], specs, {}, ("x",), ("y",)), None)
    return y


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (1.0, 1.0),
        (1 + 2.0**-8, 1.0),  # a tie, to the even neighbour
        (1 + 3 * 2.0**-8, 1 + 2 * 2.0**-7),
        (1 + 2.0**-8 + 2.0**-20, 1 + 2.0**-7),
        (-3.14159, -3.140625),
        (2.0**-133, 2.0**-133),  # the smallest
        (2.0**-134, 0.0),
        (3 * 2.0**-134, 2.0**-132),
        (LARGEST, LARGEST),
        (LARGEST + 2.0**118, LARGEST),
        (LARGEST + 2.0**119, np.inf),
        (-LARGEST - 2.0**119, -np.inf),
        (-np.inf, -np.inf),
    ],
)
def test_by_hand(value: float, wanted: float) -> None:
    values = np.array([value])
    assert rounded(values)[0].item() == wanted
    assert simulated(values).item() == wanted


def test_it_is_what_the_simulator_computes_for_every_exponent() -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 20_000, np.uint32)
    bits[:2000] = (bits[:2000] & np.uint32(0xFFFF0000)) | np.uint32(0x8000)  # ties
    values = bits.view(np.float32)
    values[np.isnan(values)] = np.nan
    value, error = rounded(values.astype(np.float64))
    assert np.array_equal(value, simulated(values), equal_nan=True)
    finite = np.isfinite(values)
    assert finite.sum() > 19_000 and (error[finite] < 1e-6 * np.abs(values[finite]) + 2.0**-125).all()


def test_an_inexact_value_may_be_at_either_side_of_a_tie() -> None:
    value, error = rounded(np.array([1 + 2.0**-8]), 2.0**-20)
    for side in (1.0, 1 + 2.0**-7):
        assert abs(side - value.item()) <= error.item() < 2.0**-6


@pytest.mark.parametrize(
    ("a", "b", "shape"),
    [((3,), (3, 2), (2,)), ((2, 3), (3,), (2,)), ((3,), (3,), ()), ((3,), (4, 3, 2), (4, 2))],
)
def test_products_with_vectors(a: tuple[int, ...], b: tuple[int, ...], shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    left, right = rng.integers(-8, 9, a) / 4, rng.integers(-8, 9, b) / 4
    (y,) = page("matmul_float", [real(left), real(right), None], (0, 0, word(1.0), word(0.0)), shape)
    assert y.value.shape == y.error.shape == shape and np.array_equal(y.value, np.matmul(left, right))
    assert (y.error <= 2.0**-19 * np.abs(left).sum() * 2 + 2.0**-120).all()
    (moved,) = page("matmul_float", [real(left, 0.25), real(right), None], (0, 0, word(1.0), word(0.0)), shape)
    for toward in (left + 0.25, left - 0.25):
        assert (np.abs(np.matmul(toward, right) - moved.value) <= moved.error).all()
