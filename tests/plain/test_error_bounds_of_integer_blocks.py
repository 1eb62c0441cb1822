"""The error bounds of rows that are rounded to int8 in blocks, and of their products (NUMERICS.md section 4)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qverify.compare.error_bounds.bounded_values import NoBound
from qverify.model_bin.graph import Graph, Node
from qverify.ops.quantize_blocks import simulate
from qverify.tensors.spec import TensorSpec

from tests.plain.error_pages import U, page, real, whole

ROWS, DEPTH, SHAPE = 40, 27, (40, 2, 16)  # the last 5 elements of each row are filled in
Q = TensorSpec("y0", "int8", SHAPE)
F = np.float32


def rounded(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The integers and the scales that the simulator makes of the rows."""
    specs = {"a": TensorSpec("a", "float32", x.shape), "q": TensorSpec("q", "int8", (len(x), *SHAPE[1:]))}
    specs["s"] = TensorSpec("s", "float32", (len(x), 2, 1))
    node = Node("q", "quantize_blocks", ("a",), ("q", "s"))
    q, s = simulate(node, [x.astype(F)], Graph([node], specs, {}, ("a",), ("q", "s")), None)
    return q, s


def bounded(x: np.ndarray, error: Any = 0.0) -> list[Any]:
    return page("quantize_blocks", [real(x, error)], (), Q, (*SHAPE[:2], 1))


def rows(seed: int) -> np.ndarray:
    """Rows of many sizes, some of zeros."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, DEPTH)) * 10.0 ** rng.integers(-6, 6, (ROWS, 1))
    x[::7, :16] = 0
    return x.astype(F)


def test_rows_that_every_side_has_make_one_integer_and_one_scale() -> None:
    """Also where the row holds what is no number, which is 0, and where the scale is that of an infinity."""
    x = rows(0)
    x[3, 4], x[5, 20], x[6, 2] = np.nan, np.inf, -np.inf
    q, s = bounded(x)
    want_q, want_s = rounded(x)
    assert q.low is q.high and np.array_equal(q.low, want_q)
    assert not s.error.any() and np.array_equal(s.value, want_s)
    assert want_q[3, 0, 4] == 0 and np.isinf(want_s[5, 1, 0])


@pytest.mark.parametrize("share", [1e-7, 1e-4, 1e-2])
def test_rows_that_differ_within_their_error_are_inside(share: float) -> None:
    x = rows(1)
    error = np.abs(x.astype(np.float64)) * share
    q, s = bounded(x, error)
    rng = np.random.default_rng(2)
    for toward in (-1.0, 1.0, *(rng.choice([-1.0, 1.0], x.shape) for _ in range(20))):
        made = (x + toward * error).astype(F)
        beyond = np.abs(made - x.astype(np.float64)) > error
        made_q, made_s = rounded(np.where(beyond, np.nextafter(made, x), made))
        assert ((q.low <= made_q) & (made_q <= q.high)).all()
        assert (np.abs(s.value - made_s) <= s.error).all()
    assert (q.high - q.low).max() <= 1 + 2 * np.ceil(2 * 127 * share)  # and it is not much wider than it must be
    assert (q.low[..., -5:] == 0)[:, 1].all() and (q.high[..., -5:] == 0)[:, 1].all()


def test_the_bound_by_hand() -> None:
    """The largest is 4 +- 0.5: one step is 4 / 127 of 1, and the second element may be at 63.5 +- 127 * (0.25 + 0.25) / 3.5."""
    q, s = page(
        "quantize_blocks", [real([[4.0, 2.0]], [[0.5, 0.25]])], (), TensorSpec("y0", "int8", (1, 1, 2)), (1, 1, 1)
    )
    assert s.value.item() == 4 / 127
    assert s.error.item() == pytest.approx(0.5 / 127 + U * 4.5 / 127, rel=1e-9)
    far = 127 * (0.25 + 2 / 4 * 0.5) / 3.5
    assert q.error[0, 0, 1] == pytest.approx(far + 2 * U * (63.5 + far), rel=1e-9)
    assert q.low[0, 0].tolist() == [91, 45] and q.high[0, 0].tolist() == [127, 82]


def product(scales_error: float = 0.0, **changed: Any) -> list[Any]:
    """Two blocks of two by one column: 0.5 * (3 * (7 - 1) + 2 * (0 - 1)) + 2 * (-1 * (4 - 4) + 1 * (9 - 4))."""
    inputs = {
        "q": whole([[[3, 2], [-1, 1]]]),
        "s": real([[[0.5], [2.0]]], scales_error),
        "w": whole([[[7, 0], [4, 9]]]),
        "sw": real([[1.0, 1.0]]),
        "zw": whole([[1, 4]]),
        "bias": real([100.0]),
    }
    return page("matmul_blocks", list({**inputs, **changed}.values()), (), (1, 1))


def test_a_product_by_hand() -> None:
    (y,) = product()
    assert y.value.item() == 18.0 + 100.0
    size = 0.5 * (3 * 8 + 2 * 1) + 2 * (8 + 13) + 100
    assert size * U < y.error.item() < 20 * size * U and y.ours.item() < y.error.item()
    (without,) = product(bias=None)
    assert without.value.item() == 18.0


def test_scales_or_integers_that_depend_on_floats_have_no_bound() -> None:
    with pytest.raises(NoBound, match="matmul_blocks with scales that depend on floats"):
        product(2.0**-20)
    with pytest.raises(NoBound, match="matmul_blocks with scales that depend on floats"):
        product(sw=real([[1.0, 1.0]], 2.0**-20))
    with pytest.raises(NoBound, match="integers that depend on floats"):
        product(q=whole([[[3, 2], [-1, 1]]], [[[3, 2], [-1, 2]]]))
