"""The element type of an integer product: no partial sum of it may be rounded."""

from __future__ import annotations

import numpy as np
import pytest
from qverify import ops
from qverify.arithmetic.exact_matmul import (
    centred,
    centred_limits,
    exact_dtype,
    largest_partial_sum,
    narrow_type,
    plan_exact_sums,
)
from qverify.model_bin.graph import Graph, Node
from qverify.tensors.spec import TensorSpec


def by_trying(limits: tuple[int, int], row: list[int], bias: int) -> int:
    """The largest magnitude over all choices of terms, of each term's x, and with the bias or without."""
    products = [{limits[0] * w, limits[1] * w, 0} for w in row]
    sums = {0, bias}
    for of_term in products:
        sums = {s + p for s in sums for p in of_term}
    return max(map(abs, sums))


@pytest.mark.parametrize("limits", [(-3, 4), (0, 5), (-6, 0), (-1, 7), (2, 3), (-3, -2)])
@pytest.mark.parametrize("row", [[1, 2, 3], [-1, -2, 3], [-5, 4, -3, 2], [0, 0], [7], []])
def test_no_partial_sum_is_beyond_the_bound(limits: tuple[int, int], row: list[int]) -> None:
    for bias in (0, 9, -9):
        found = largest_partial_sum(limits, np.array([row], np.int64).reshape(1, -1), np.array([bias]))
        tried = by_trying(limits, row, bias)
        assert tried <= found
        assert bias or found == tried
    assert largest_partial_sum(limits, np.array([row], np.int64).reshape(1, -1)) == by_trying(limits, row, 0)


def test_the_row_whose_sums_are_largest_counts_with_its_own_bias() -> None:
    weights, bias = np.array([[3, -1], [2, 2], [0, 0]], np.int8), np.array([-1, 1, 30], np.int32)
    assert [largest_partial_sum((0, 10), weights[:n], bias[:n]) for n in (1, 2, 3)] == [31, 41, 41]
    assert largest_partial_sum((0, 10), weights[:0]) == 0


def test_sums_of_int8_weights_do_not_wrap() -> None:
    assert largest_partial_sum((-128, 127), np.full((1, 1000), -128, np.int8)) == 128 * 128 * 1000


@pytest.mark.parametrize(("power", "fits", "next_type"), [(24, "float32", "float64"), (53, "float64", "int64")])
def test_the_edge_of_each_type(power: int, fits: str, next_type: str) -> None:
    assert exact_dtype(2**power - 1) == np.dtype(fits)
    assert exact_dtype(2**power) == np.dtype(next_type)


@pytest.mark.parametrize("terms", [258, 259])  # 255 * 255 * 258 = 2^24 - 766
def test_products_at_the_edge_are_exact_in_every_order(terms: int) -> None:
    """Sums of the largest products, and of those beside them, whose sums are odd."""
    rng = np.random.default_rng(terms)
    x = np.full((3, terms), 255)
    w = rng.integers(254, 256, (terms, 5))
    dtype = exact_dtype(largest_partial_sum((0, 255), np.full((1, terms), 255)))
    assert dtype == np.dtype(np.float32 if terms == 258 else np.float64)
    for _ in range(20):
        order = rng.permutation(terms)
        found = np.matmul(x[:, order].astype(dtype), w[order].astype(dtype))
        assert np.array_equal(found.astype(np.int64), x @ w)


def test_limits_of_several_zero_points() -> None:
    assert centred_limits("uint8", 0) == (0, 255)
    assert centred_limits("int8", 7) == (-135, 120)
    assert centred_limits("uint8", 3, 200) == (-200, 252)
    assert centred_limits("uint16", 32768) == (-32768, 32767)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64])
@pytest.mark.parametrize("terms", [3, 300, (1 << 15) + 3])
def test_the_bound_of_any_type_is_that_of_whole_numbers(dtype: type, terms: int) -> None:
    """The least and largest values are among them: no sum of them wraps."""
    ends = np.iinfo(dtype).min if np.dtype(dtype).itemsize < 8 else -(1 << 40), min(np.iinfo(dtype).max, 1 << 40)
    rng = np.random.default_rng(terms)
    weights = np.stack([np.full(terms, ends[0]), np.full(terms, ends[1]), rng.choice(ends, terms)]).astype(dtype)
    bias, (low, high) = np.array([-5, 7, 1 << 30], np.int32), (-255, 254)
    signs = [(sum(w for w in row if w > 0), sum(w for w in row if w < 0)) for row in weights.tolist()]
    sums = [max(high * p + low * n, -low * p - high * n) for p, n in signs]
    assert largest_partial_sum((low, high), weights) == max(sums)
    assert largest_partial_sum((low, high), weights, bias) == max(
        s + abs(b) for s, b in zip(sums, [5, 7, 1 << 30], strict=True)
    )
    turned = np.asfortranarray(weights)
    assert largest_partial_sum((low, high), turned) == max(sums)


def test_centred_weights_do_not_wrap_and_are_not_copied_for_nothing() -> None:
    values = np.array([[-128, 127], [0, 5]], np.int8)
    found = centred(values, np.array([[127], [-128]]), narrow_type("int8"))
    assert found.tolist() == [[-255, 0], [128, 133]]
    assert centred(values, np.array([[0], [0]]), narrow_type("int8")) is values


@pytest.mark.parametrize(
    ("terms", "bias", "runs"), [(258, 0, 1), (259, 0, 2), (516, 0, 2), (517, 0, 3), (774, 0, 3), (258, 1 << 24, 1)]
)
def test_long_sums_are_exact_in_runs_of_float32(terms: int, bias: int, runs: int) -> None:
    """The sums are those of the largest products, at the edge of float32, and of those beside them, which are odd."""
    rng = np.random.default_rng(terms)
    w, x = rng.integers(254, 256, (5, terms)), np.full((terms, 3), 255)
    limit = np.full((1, terms), 255)
    made = plan_exact_sums((0, 255), limit, None if not bias else np.array([bias]))
    one = runs == 1 and not bias
    assert (made.dtype, made.whole) == (np.dtype(np.float32), np.dtype(np.float32 if one else np.float64))
    assert len(made.runs) == runs and [i for run in made.runs for i in range(terms)[run]] == list(range(terms))
    found = made.product(w.astype(made.dtype), x.astype(made.dtype))
    assert found.dtype == made.whole and np.array_equal(found.astype(np.int64), w @ x)


@pytest.mark.parametrize(("terms", "limits", "wanted"), [(775, (0, 255), np.float64), (9, (-32768, 32767), np.float64)])
def test_sums_that_few_runs_cannot_hold_are_of_one_type(terms: int, limits: tuple[int, int], wanted: type) -> None:
    weights = np.full((2, terms), 255 if limits[1] == 255 else 32767)
    made = plan_exact_sums(limits, weights)
    assert made.dtype == made.whole == np.dtype(wanted) and made.runs == (slice(0, terms),)


@pytest.mark.parametrize("group", [1, 2])
def test_a_convolution_of_long_sums(group: int) -> None:
    """At the edge: in one run of float32 these sums would be rounded."""
    rng = np.random.default_rng(group)
    inputs, outputs = 60 * group, 4 * group
    x = rng.integers(250, 256, (1, inputs, 5, 6), np.uint8)
    w = rng.integers(120, 128, (outputs, 60, 3, 3)).astype(np.int8)
    specs = [TensorSpec("x", "uint8", x.shape, (), (0.5,), (0,)), TensorSpec("w", "int8", w.shape, (), (0.5,), (0,))]
    specs += [TensorSpec("r", "float32", (1,)), TensorSpec("y", "uint8", (1, outputs, 5, 6), (), (0.5,), (0,))]
    scale = np.array([2.0**-16.5], np.float32)
    words = (3, 3, 1, 1, 1, 1, 1, 1, 1, 1, group, 0, 255)
    node = Node("n", "conv", ("x", "w", None, "r"), ("y",), words)
    graph = Graph([node], {s.name: s for s in specs}, {"w": w, "r": scale}, ("x",), ("y",))
    assert len(ops.prepare(node, graph).terms.runs) == 2
    found = ops.simulate_node(graph, node, {"x": x})["y"]
    padded = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    wanted = np.zeros((outputs, 5, 6), np.int64)
    for o, i, j in np.ndindex(outputs, 3, 3):
        channels = slice(o // 4 * 60, o // 4 * 60 + 60)
        wanted[o] += (padded[0, channels, i : i + 5, j : j + 6] * w[o, :, i, j, None, None]).sum(0)
    assert np.array_equal(found[0], np.rint(wanted.astype(np.float32) * scale[0]).clip(0, 255))
