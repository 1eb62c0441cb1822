"""Sums of float products are the exact sums, rounded once: also where float64 does not decide, at ties, zeros and subnormals."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from qverify.arithmetic.float_convolution import convolve, convolve_transposed, list_terms, list_transposed_terms
from qverify.arithmetic.float_sums import round_once, sum_bound
from qverify.arithmetic.windows import Window
from qverify.compiler.builder import float_word
from qverify.model_bin.graph import Graph, Node
from qverify.ops import simulate_node
from qverify.tensors.spec import TensorSpec

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(7)
ONE = float_word(1.0)


def nearest(exact: Fraction) -> np.float32:
    """A fraction rounded to float32 by whole numbers alone: ties to even, subnormals, infinity; zero is +0."""
    if not exact:
        return np.float32(0)
    size, exponent = abs(exact), -149
    while size / Fraction(2) ** exponent >= 2**24:
        exponent += 1
    kept = round(size / Fraction(2) ** exponent)  # of fractions: ties to even
    with np.errstate(over="ignore"):
        value = np.float32(np.ldexp(float(kept), exponent))
    return value if exact > 0 else -value + np.float32(0)


def product(a: Array, b: Array, words: tuple[int, ...] = (0, 0, ONE, ONE), c: Array | None = None) -> Array:
    """Returns the output of the simulator's matmul_float, float32 [rows, columns]."""
    values = {"a": a, "b": b} | ({} if c is None else {"c": c})
    shape = (a.shape[words[0]], b.shape[1])
    specs = {n: TensorSpec(n, "float32", v.shape) for n, v in values.items()} | {"y": TensorSpec("y", "float32", shape)}
    node = Node("y", "matmul_float", ("a", "b", None if c is None else "c"), ("y",), words)
    return simulate_node(Graph([node], specs, {}, tuple(values), ("y",)), node, values)["y"]


def by_fractions(a: Array, b: Array, c: Array | None = None) -> Array:
    rows, columns = a.shape[0], b.shape[1]
    more = np.zeros((rows, columns), np.float32) if c is None else np.broadcast_to(c, (rows, columns))
    sums = [
        [
            sum(
                (Fraction(float(v)) * Fraction(float(w)) for v, w in zip(a[i], b[:, j], strict=True)),
                Fraction(float(more[i, j])),
            )
            for j in range(columns)
        ]
        for i in range(rows)
    ]
    return np.array([[nearest(s) for s in row] for row in sums], np.float32)


def same_bits(one: Array, other: Array) -> bool:
    return bool((one.view(np.int32) == other.view(np.int32)).all())


@pytest.mark.parametrize("spread", [0, 30, 70])
def test_sums_of_every_size(spread: int) -> None:
    a, b = (RNG.normal(size=s) * 2.0 ** RNG.integers(-spread, spread + 1, s) for s in ((5, 11), (11, 6)))
    a[:, 5:10] = a[:, :5]
    b[5:10] = -b[:5]  # all but the last product cancels
    a, b, c = a.astype(np.float32), b.astype(np.float32), RNG.normal(size=6).astype(np.float32)
    assert same_bits(product(a, b), by_fractions(a, b))
    assert same_bits(product(a, b, c=c), by_fractions(a, b, c))


TINY, EPS = 2.0**-149, 2.0**-24
CASES = {
    "a tie goes to even": ([1.0, EPS], 1.0),
    "a tie of an odd one": ([1 + 2 * EPS, EPS], 1 + 4 * EPS),
    "above a tie by less than float64 shows": ([1.0, EPS, 2.0**-100], 1 + 2 * EPS),
    "below it": ([1.0, EPS, -(2.0**-100)], 1.0),
    "what float64 loses": ([2.0**100, 1.0, -(2.0**100)], 1.0),
    "nothing is +0": ([-0.0, -0.0], 0.0),
    "what cancels is +0": ([-3.0, 3.0], 0.0),
    "half the smallest": ([TINY, -TINY / 2], 0.0),  # TINY / 2 is 2^-75 * 2^-75
    "more than half of it": ([TINY, -TINY / 2, 2.0**-200], TINY),
    "the largest": ([float(np.finfo(np.float32).max), 2.0**102], float(np.finfo(np.float32).max)),
    "beyond it": ([float(np.finfo(np.float32).max), 2.0**103], np.inf),
}


@pytest.mark.parametrize("name", CASES)
def test_single_sums(name: str) -> None:
    terms, wanted = CASES[name]
    halves = [np.ldexp(1.0, int(np.frexp(t)[1]) // 2) if t else 1.0 for t in terms]
    a = np.array([[t / h for t, h in zip(terms, halves, strict=True)]], np.float32)
    b = np.array(halves, np.float32)[:, None]
    assert [float(v) * float(w) for v, w in zip(a[0], b[:, 0], strict=True)] == terms
    assert same_bits(product(a, b), np.array([[wanted]], np.float32))


def test_exact_terms_are_asked_for_only_where_they_decide() -> None:
    a, b = RNG.normal(size=(64, 300)), RNG.normal(size=(300, 64))
    asked: list[int] = []

    def terms(at: Array) -> Array:
        asked.extend(at.tolist())
        return a[at // 64] * b[:, at % 64].T

    size = np.sqrt((a * a).sum(1))[:, None] * np.sqrt((b * b).sum(0))
    round_once(a @ b, sum_bound(300, size), terms)
    assert len(set(asked)) < 64  # of 4096


def test_not_a_number_and_infinities() -> None:
    inf, nan = np.float32(np.inf), np.float32(np.nan)
    a = np.array([[inf, 1, 1], [inf, -inf, 1], [nan, 1, 1], [0, 1, 1], [-inf, 1, 1]], np.float32)
    y = product(a, np.array([[1], [1], [1]], np.float32))
    assert y.view(np.uint32)[:, 0].tolist() == [0x7F800000, 0x7FC00000, 0x7FC00000, 0x40000000, 0xFF800000]
    assert product(np.zeros((1, 1), np.float32), np.array([[inf]])).view(np.uint32) == 0x7FC00000


@pytest.mark.parametrize(
    "kind", ["plain", "depthwise", "two outputs a group", "grouped", "transposed", "transposed in groups"]
)
def test_convolutions_of_many_blocks_are_the_sums_of_their_terms(kind: str) -> None:
    group = {"plain": 1, "grouped": 3, "transposed": 1, "transposed in groups": 2}.get(kind, 24)
    per_in, per_out = (1, 2 if "two" in kind else 1) if group == 24 else (8, 5)
    x = RNG.normal(size=(2, group * per_in, 67, 83)).astype(np.float32)
    back = kind.startswith("transposed")
    w = RNG.normal(size=(group * per_in, per_out, 3, 2) if back else (group * per_out, per_in, 3, 2)).astype(np.float32)
    window = Window((3, 2), (2, 1), (1, 0, 1, 0), (1, 2))
    out = (66 * 2 + 3 - 2, 82 + 3) if back else (34, 81)
    y = (convolve_transposed if back else convolve)(x, w, window, group, out)
    assert y.shape == (2, group * per_out, *out)
    at = RNG.choice(y.size, 500, replace=False)
    products = (list_transposed_terms if back else list_terms)(x, w, window, group, y.shape, at)
    assert np.allclose(products.sum(1), y.reshape(-1)[at], rtol=1e-12, atol=1e-12)


def test_infinities_in_a_convolution_of_many_blocks() -> None:
    """Without a warning of numpy, whatever thread computes them."""
    x = RNG.normal(size=(1, 4, 64, 300)).astype(np.float32)
    x[0, 0, 3, 5], x[0, 0, 3, 6] = np.inf, -np.inf
    window = Window((1, 2), (1, 1), (0, 0, 0, 0))
    y = convolve(x, np.ones((2, 4, 1, 2), np.float32), window, 1, (64, 299))
    assert np.isnan(y[0, :, 3, 5]).all() and np.isposinf(y[0, :, 3, 4]).all() and np.isneginf(y[0, :, 3, 6]).all()
    assert np.isfinite(y).sum() == y.size - 6


def test_an_alpha_is_applied_to_the_rounded_sum() -> None:
    a, b, c = (RNG.normal(size=s).astype(np.float32) for s in ((7, 5), (7, 4), (5, 1)))
    words = (1, 0, float_word(0.3), float_word(-1.7))
    alpha, beta = (np.float64(np.float32(v)) for v in (0.3, -1.7))
    wanted = (alpha * by_fractions(a.T, b).astype(np.float64) + beta * c.astype(np.float64)).astype(np.float32)
    assert same_bits(product(a, b, words, c), wanted)
