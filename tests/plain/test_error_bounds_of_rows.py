"""The error bounds of ops that sum rows are those of NUMERICS.md section 4, worked out here element by element."""

from __future__ import annotations

import math

import numpy as np
import pytest
from qverify.compare.error_bounds.bounded_values import NoBound
from qverify.tensors.spec import TensorSpec

from tests.plain.error_pages import FLUSHED, U, g, page, real, rounded, whole, word

ROW = [1.0, -2.0, 4.0]


def layer_norm_by_hand(x, d, epsilon, gammas=None, betas=None):
    """Value and error of each element of one row; every element is off by up to d."""
    n = len(x)
    mean, size = sum(x) / n, sum(map(abs, x)) / n
    dm = d + g(n + 1) * (size + d)
    moved = 2 * d
    var = sum((v - mean) ** 2 for v in x) / n
    carried = sum(2 * abs(v - mean) * moved + moved**2 for v in x) / n
    two_passes = dm**2 + g(n + 4) * (var + carried + dm**2)
    m = abs(mean) + dm
    one_pass = g(n + 3) * sum((abs(v) + d) ** 2 for v in x) / n + 2 * m * dm + 2 * U * m**2
    dv = carried + max(two_passes, one_pass)
    dv += 2 * U * (var + dv + epsilon) + FLUSHED
    s = math.sqrt(var + epsilon)
    high, low = math.sqrt(var + epsilon + dv), math.sqrt(max(var + epsilon - dv, 0))
    ds = max(high - s, s - low) + 2 * U * high
    for i, v in enumerate(x):
        y = (v - mean) / s
        off = (d + dm + 3 * U * (abs(v) + d + m) + abs(y) * ds) / (s - ds) if s > ds else math.inf
        off = rounded(y, off, 2)
        if gammas:
            y, off = y * gammas[i], rounded(y * gammas[i], off * abs(gammas[i]))
        if betas:
            off += U * (abs(betas[i]) + abs(y) + off) + FLUSHED
            y += betas[i]
        yield y, off


@pytest.mark.parametrize("d", [0.0, 0.125])
@pytest.mark.parametrize(
    ("gammas", "betas"), [(None, None), ([2.0, -0.5, 1.5], None), ([2.0, -0.5, 1.5], [0.25, 3, -9])]
)
@pytest.mark.parametrize("offset", [0.0, -1.0, 300.0])  # a mean of 1, of 0, of 301
def test_layer_norm(d, gammas, betas, offset):
    epsilon = float(np.float32(0.01))
    row = [v + offset for v in ROW]
    parts = [real([row, row], d), None if gammas is None else real(gammas), None if betas is None else real(betas)]
    (y,) = page("layer_norm", parts, (3, word(epsilon)), (2, 3))
    wanted = list(layer_norm_by_hand(row, d, epsilon, gammas, betas))
    for made in (0, 1):
        assert y.value[made].tolist() == pytest.approx([v for v, _ in wanted], rel=1e-12)
        assert y.error[made].tolist() == pytest.approx([e for _, e in wanted], rel=1e-8, abs=0)


def test_a_row_whose_deviation_may_be_zero_has_no_bound():
    (y,) = page("layer_norm", [real([ROW], 9.0), None, None], (3, word(0.01)), (1, 3))
    assert np.isinf(y.error).all()


@pytest.mark.parametrize("d", [0.0, 0.125])
def test_softmax_of_floats(d):
    x = [1.0, 2.0, -0.5]
    (y,) = page("softmax_float", [real([[[v] for v in x]], d)], (1, 3, 1), (1, 3, 1))
    shares = [math.exp(v - 2) for v in x]
    value = [s / sum(shares) for s in shares]
    h = [d + U * (abs(v - 2) + 2 * d) + 4 * U for v in x]
    least = sum(v * math.exp(-k) for v, k in zip(value, h, strict=True))
    off = [v * (math.exp(k) / least * (1 + g(7)) - 1) + 3 * FLUSHED for v, k in zip(value, h, strict=True)]
    assert y.value.ravel().tolist() == pytest.approx(value, rel=1e-12)
    assert y.error.ravel().tolist() == pytest.approx(off, rel=1e-8, abs=0)


def test_a_share_that_underflows_may_be_flushed_to_zero():
    (y,) = page("softmax_float", [real([[[0.0], [-2000.0]]])], (1, 2, 1), (1, 2, 1))
    assert y.value[0, 1, 0] == 0.0 and y.error[0, 1, 0] == 2 * FLUSHED


def test_softmax_of_floats_goes_along_its_own_axis():
    x = np.random.default_rng(1).normal(size=(2, 3, 4))
    (y,) = page("softmax_float", [real(x)], (2, 3, 4), (2, 3, 4))
    assert y.value.sum(1).ravel() == pytest.approx(np.ones(8)) and y.value.shape == y.error.shape == (2, 3, 4)


def test_softmax_of_8_bits():
    """A step of the input is a factor of 2 here: shares 1, 2 and 8 of 11, in steps of 1/100."""
    table = 2.0 ** np.arange(-255, 1)
    y = TensorSpec("y", "int8", (1, 3), scale=(0.01,), zero_point=(-128,))
    (found,) = page("softmax", [whole([[7, 8, 10]]), real(table)], (1, 3, 1, word(100)), y)
    exact = [100 / 11, 200 / 11, 800 / 11]
    assert found.low.tolist() == found.high.tolist() == [[round(v) - 128 for v in exact]]
    assert found.error.ravel().tolist() == pytest.approx([v * g(3 + 11) + 3 * FLUSHED for v in exact], rel=1e-9, abs=0)
    (ends,) = page(
        "softmax",
        [whole([[0, 255]]), real(table)],
        (1, 2, 1, word(300)),
        TensorSpec("y", "uint8", (1, 2), scale=(1 / 300,), zero_point=(0,)),
    )
    assert ends.low.tolist() == ends.high.tolist() == [[0, 255]]
    assert ends.error[0, 0] == pytest.approx(2 * FLUSHED, rel=1e-9, abs=0)


def test_mean_of_floats():
    x = np.arange(24.0).reshape(2, 3, 4) - 7
    d = 0.125 * np.arange(24.0).reshape(2, 3, 4)
    for axes in ((1,), (0, 2), (0, 1, 2)):
        kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
        (y,) = page("reduce_mean", [real(x, d)], (sum(1 << a for a in axes), 0, 0), kept)
        count = math.prod(x.shape[a] for a in axes)
        moved = d.mean(axes, keepdims=True)
        assert np.allclose(y.value, x.mean(axes, keepdims=True), rtol=1e-12) and y.value.shape == kept
        assert np.allclose(
            y.error, moved + g(count + 2) * (np.abs(x).mean(axes, keepdims=True) + moved) + FLUSHED, rtol=1e-10, atol=0
        )


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_lrn(size):
    alpha, beta, bias, channels = 0.5, 0.75, 2.0, 4
    x = [1.0, -2.0, 3.0, 0.5]
    (y,) = page("lrn", [real(np.reshape(x, (1, 4, 1, 1)))], (size, word(alpha), word(beta), word(bias)), (1, 4, 1, 1))
    for c, v in enumerate(x):
        window = [x[i] ** 2 for i in range(channels) if c - (size - 1) // 2 <= i <= c + math.ceil((size - 1) / 2)]
        base = bias + alpha / size * sum(window)
        off = g(2 * channels + size + 4) * (alpha / size * sum(i * i for i in x) + base + bias)
        value = v / base**beta
        moved = max(abs(v / (base + s * off) ** beta - value) for s in (-1, 1))
        assert y.value[0, c, 0, 0] == pytest.approx(value, rel=1e-12)
        assert y.error[0, c, 0, 0] == pytest.approx(rounded(value, moved, 8), rel=1e-7, abs=0)


def test_lrn_takes_every_place_by_itself():
    x = np.random.default_rng(2).normal(size=(2, 5, 3, 4))
    words = (3, word(0.5), word(0.75), word(2.0))
    (whole_,) = page("lrn", [real(x)], words, x.shape)
    for image, row, column in ((0, 0, 0), (1, 2, 3)):
        (one,) = page("lrn", [real(x[image, :, row, column].reshape(1, 5, 1, 1))], words, (1, 5, 1, 1))
        assert np.allclose(whole_.value[image, :, row, column], one.value.ravel(), rtol=1e-12)
        assert np.allclose(whole_.error[image, :, row, column], one.error.ravel(), rtol=1e-9, atol=0)


def test_lrn_has_no_bound_over_a_base_near_zero_or_of_inexact_floats():
    words = (1, word(0.5), word(0.75), word(0.0))
    for x, why in ((real(np.zeros((1, 2, 1, 1))), "may be 0"), (real(np.ones((1, 2, 1, 1)), 0.1), "inexact")):
        with pytest.raises(NoBound, match=why):
            page("lrn", [x], words, (1, 2, 1, 1))
    page("lrn", [real(np.ones((1, 2, 1, 1)))], words, (1, 2, 1, 1))


def test_resize_linear():
    """2 x 2 to 1 x 3, the row a quarter down, columns at 0, 1/2 and 1."""
    x, d = [[[[1.0, -2.0], [3.0, 8.0]]]], [[[[0.0, 0.5], [1.0, 0.25]]]]
    index = whole([0, 1, 0, 0, 0, 1, 1, 1])  # rows i1, i2, columns i1 (3), i2 (3)
    weight = real([0.75, 0.25, 1.0, 0.5, 0.0, 0.0, 0.5, 1.0])
    (y,) = page("resize_linear", [real(x, d), index, weight], (0,), (1, 1, 1, 3))
    wanted = [
        (0.75 * 1 + 0.25 * 3, 0.75 * 1 + 0.25 * 3, 0.25),
        (
            0.5 * (0.75 * 1 + 0.25 * 3 - 0.75 * 2 + 0.25 * 8),
            0.5 * (0.75 * 3 + 0.25 * 11),
            0.5 * (0.75 * 0.5 + 0.25 * 1.25),
        ),
        (-0.75 * 2 + 0.25 * 8, 0.75 * 2 + 0.25 * 8, 0.75 * 0.5 + 0.25 * 0.25),
    ]
    assert y.value.ravel().tolist() == [v for v, _, _ in wanted]
    assert y.error.ravel().tolist() == pytest.approx(
        [m + g(6) * (s + m) + FLUSHED for _, s, m in wanted], rel=1e-10, abs=0
    )
    with pytest.raises(NoBound, match="resize_linear on integers"):
        page("resize_linear", [whole([[[[1]]]]), index, weight], (1,), (1, 1, 1, 3))


def test_normalize_rounds_three_times():
    x = whole(np.arange(8).reshape(1, 2, 2, 2))
    (y,) = page("normalize", [x], (word(1.0), word(2.0), word(0.5), word(-0.25)), (1, 2, 2, 2))
    value = [(v - 1) * 0.5 for v in range(4)] + [(v - 2) * -0.25 for v in range(4, 8)]
    assert y.value.ravel().tolist() == value
    assert y.error.ravel().tolist() == pytest.approx([rounded(v, 0, 3) for v in value], rel=1e-12, abs=0)
