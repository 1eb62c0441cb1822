"""log_softmax, lp_norm, rms_norm, group_norm and average_pool_float: float32 evaluations of inputs anywhere within their bounds lie
within the bounds of the outputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.plain.error_pages import page, real, word

F = np.float32
SCALE = np.linspace(-2, 2, 8, dtype=F)
GAMMA, BETA = np.array([0.5, -2.0], F), np.array([3.0, 0.25], F)


def log_softmax(x: np.ndarray) -> np.ndarray:
    below = x - x.max()
    return below - np.log(np.exp(below).sum(dtype=F))


def by_the_whole_logarithm(x: np.ndarray) -> np.ndarray:
    return x - (x.max() + np.log(np.exp(x - x.max()).sum(dtype=F)))


def group_norm(x: np.ndarray) -> np.ndarray:
    """Folded into one factor and one summand per channel."""
    rows = x.reshape(2, -1)
    mean = rows.mean(1, dtype=F)
    factor = GAMMA / np.sqrt(((rows - mean[:, None]) ** 2).mean(1, dtype=F) + F(1e-3))
    return rows * factor[:, None] + (BETA - mean * factor)[:, None]


def rms_norm(x: np.ndarray) -> np.ndarray:
    return x * (F(1) / np.sqrt((x * x).mean(dtype=F) + F(1e-3))) * SCALE


def average_pool(x: np.ndarray) -> np.ndarray:
    """Four windows of three, the last one a column of padding away from the end."""
    padded = np.concatenate([x, np.zeros(1, F)])
    sums = [F(F(a + b) + c) for a, b, c in (padded[0:3], padded[2:5], padded[4:7], padded[6:9])]
    return np.array(sums) * F(1 / 3)


PAGES: dict[str, tuple[str, Callable[..., np.ndarray], tuple[int, ...], tuple[int, ...]]] = {
    "log_softmax": ("log_softmax", log_softmax, (1, 8, 1), (1, 8, 1)),
    "log_softmax at once": ("log_softmax", by_the_whole_logarithm, (1, 8, 1), (1, 8, 1)),
    "lp_norm 1": ("lp_norm", lambda x: x / np.abs(x).sum(dtype=F), (1, 8, 1, 1), (1, 8, 1)),
    "lp_norm 2": ("lp_norm", lambda x: x / np.sqrt((x * x).sum(dtype=F)), (1, 8, 1, 2), (1, 8, 1)),
    "group_norm": ("group_norm", group_norm, (2, word(1e-3)), (1, 2, 4)),
    "rms_norm": ("rms_norm", rms_norm, (8, word(1e-3)), (1, 8)),
    "average_pool": ("average_pool_float", average_pool, (1, 3, 1, 2, 0, 0, 0, 1, 1, 1, 1), (1, 1, 4)),
}


@pytest.mark.parametrize("d", [0.0, 0.01])
@pytest.mark.parametrize("name", PAGES)
def test_float32_of_any_inputs(name: str, d: float) -> None:
    op, evaluate, words, shape = PAGES[name]
    rng, largest = np.random.default_rng(5), 0.0
    x = rng.normal(0, 3, 8).astype(F).astype(np.float64)
    given = x.reshape((1, 1, 8) if op == "average_pool_float" else shape)
    more = {"group_norm": [real(GAMMA), real(BETA)], "rms_norm": [real(SCALE)]}.get(op, [])
    (y,) = page(op, [real(given, d), *more], words, shape)
    for _ in range(200):
        made = evaluate((x + rng.choice([-1, 1, 0], 8) * d * 0.999).astype(F)).reshape(shape)
        off = np.abs(made - y.value)
        assert (off <= y.error).all()
        largest = max(largest, float((off / y.error).max()))
    assert largest > 0.01


def test_a_row_that_may_be_of_zeros_has_no_bound() -> None:
    (y,) = page("lp_norm", [real(np.array([[[0.5], [0.0]], [[0.0], [0.0]]]), 0.5)], (2, 2, 1, 2), (2, 2, 1))
    assert np.isinf(y.error).all()
    (y,) = page("lp_norm", [real(np.zeros((1, 2, 1)))], (1, 2, 1, 2), (1, 2, 1))
    assert not y.value.any() and (y.error < 1e-30).all()
