"""The error bounds of convolutions and matrix products of floats are those of NUMERICS.md section 4, worked out here term by term."""

from __future__ import annotations

import numpy as np
import pytest

from tests.plain.error_pages import FLUSHED, U, g, page, real, word

ONE = word(1.0)


def bound(terms, error=0.0, other=0.0, more=None):
    """Error of a sum of K products: terms are pairs, whose factors are off by `error` and `other`; more: what is added, and its error."""
    size = sum((abs(a) + error) * (abs(b) + other) for a, b in terms)
    carried = size - sum(abs(a * b) for a, b in terms)
    added, lacking = more or (0.0, 0.0)
    factor = g(len(terms) + 6)
    return carried + lacking + factor * (size + abs(added) + lacking) + (len(terms) + 2) * FLUSHED


@pytest.mark.parametrize("off", [0.0, 0.125])
def test_matmul_float(off):
    a, b, c = [[1.0, -2.0, 4.0]], [[3.0], [0.5], [-1.0]], [7.0]
    (y,) = page("matmul_float", [real(a, off), real(b, off), real(c, off)], (0, 0, ONE, word(-2.0)), (1, 1))
    terms = list(zip(a[0], [3.0, 0.5, -1.0], strict=True))
    assert y.value.tolist() == [[-2.0 - 14.0]]
    assert y.error[0, 0] == pytest.approx(bound(terms, off, off, (14.0, 2 * off)), rel=1e-9, abs=0)
    if off:
        assert y.ours is None
    else:  # the exact sum, rounded once
        assert y.ours[0, 0] == pytest.approx(U * 16 + 3 * 2.0**-52 * (3 + 1 + 4 + 14) + FLUSHED, rel=1e-9, abs=0)


def test_matmul_float_with_an_alpha_and_turned_operands():
    (y,) = page("matmul_float", [real([[1.0], [2.0]]), real([[3.0, 4.0]]), None], (1, 1, word(-0.5), ONE), (1, 1))
    assert y.value.tolist() == [[-5.5]]
    assert y.ours[0, 0] == pytest.approx(U * (5.5 + 5.5), rel=1e-6)  # rounded before and after alpha
    assert y.error[0, 0] == pytest.approx(0.5 * bound([(1, 3), (2, 4)]), rel=1e-9, abs=0)


def test_turned_operands_have_the_errors_of_the_same_product():
    a, b = np.array([[1.0, -2.0, 4.0], [0.5, 3.0, 8.0]]), np.array([[2.0, 1.0], [0.0, -1.0], [5.0, 7.0]])
    off_a, off_b = np.array([[0.25, 0.5, 1.0], [2.0, 4.0, 8.0]]), np.array([[0.5, 1.0], [4.0, 0.25], [2.0, 8.0]])
    (plain,) = page("matmul_float", [real(a, off_a), real(b, off_b), None], (0, 0, ONE, ONE), (2, 2))
    (turned,) = page("matmul_float", [real(a.T, off_a.T), real(b.T, off_b.T), None], (1, 1, ONE, ONE), (2, 2))
    assert turned.value.tolist() == plain.value.tolist()
    assert turned.error == pytest.approx(plain.error, rel=1e-14, abs=0)


@pytest.mark.parametrize("off", [0.0, 0.25])
def test_conv_float(off):
    x = [[[1.0, -2.0, 4.0]]]  # a channel of three
    words = (1, 2, 1, 1, 0, 1, 0, 0, 1, 1, 1)  # two taps, one column of padding before
    (y,) = page("conv_float", [real(x, off), real([[[[5.0, -3.0]]]]), real([2.0])], words, (1, 1, 3))
    assert y.value.tolist() == [[[-1.0, 13.0, -20.0]]]
    wanted = bound([(1.0, 5.0), (-2.0, -3.0)], off, 0.0, (2.0, 0.0))
    assert y.error[0, 0, 1] == pytest.approx(wanted, rel=1e-9, abs=0)


def test_conv_transpose_float():
    words = (1, 2, 1, 2, 0, 0, 0, 0, 1, 1, 1)  # two taps, stride 2: one product each
    (y,) = page("conv_transpose_float", [real([[[1.0, -2.0]]]), real([[[[5.0, -3.0]]]]), None], words, (1, 1, 4))
    assert y.value.tolist() == [[[5.0, -3.0, -10.0, 6.0]]]
    assert y.error[0, 0].tolist() == pytest.approx([g(2 + 6) * v + 4 * FLUSHED for v in (5, 3, 10, 6)], rel=1e-9, abs=0)


def test_of_zeros_only_what_is_flushed_remains():
    (y,) = page("matmul_float", [real([[0.0, 0.0]]), real([[0.0], [0.0]]), None], (0, 0, ONE, ONE), (1, 1))
    assert y.error.tolist() == [[4 * FLUSHED]] and y.ours.tolist() == [[FLUSHED]]
    (y,) = page("matmul_float", [real([[0.0]]), real([[0.0]]), real([[0.0]])], (0, 0, word(-0.5), ONE), (1, 1))
    assert y.error.tolist() == [[3 * FLUSHED]] and y.ours.tolist() == [[FLUSHED]]


def test_sums_of_which_a_term_is_beyond_float32_are_lost():
    """2^127 + 2^127 - 2^127 is 2^127; a kernel may add the first two first."""
    ones, large = real([[1.0, 1.0, 1.0]]), real([[2.0**127], [2.0**127], [-(2.0**127)]])
    for alpha, y in ((ONE, 2.0**127), (word(2.0**-10), 2.0**117)):
        (found,) = page("matmul_float", [ones, large, None], (0, 0, alpha, ONE), (1, 1))
        assert found.value.tolist() == [[y]] and found.lost.tolist() == [[True]]
    (found,) = page("matmul_float", [ones, real([[1.0], [1.0], [1.0]]), None], (0, 0, ONE, ONE), (1, 1))
    assert found.lost is None or not found.lost.any()
