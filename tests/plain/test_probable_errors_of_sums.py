"""Tests that what no float32 sum errs by is found, although the worst case allows it, and that any order of summation passes."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from qverify.compare.distance import measure_distance
from qverify.compare.error_bounds.bounded_values import gamma
from qverify.compare.error_bounds.probable import bound_sum, measure_orders, probable_errors, take_rows
from qverify.compare.foreign import ForeignUnit, judge_foreign
from qverify.compare.limits import Limit, choose_foreign_limit, limit_for
from qverify.compare.region_verdict import RecomputedRegion, judge_region
from qverify.compare.regions import Region
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.report.document import Forced
from qverify.tensors.spec import TensorSpec

from tests.plain.error_pages import word

Array = Any
ONE = word(1.0)
SCALE = np.float32(0.0204)


def in_order(terms: Array) -> Array:
    return np.add.accumulate(terms.astype(np.float32), -1, np.float32)[..., -1]


def side_by_side(terms: Array, lanes: int) -> Array:
    padded = np.pad(terms, ((0, 0), (0, -terms.shape[1] % lanes))).astype(np.float32)
    return in_order(np.add.accumulate(padded.reshape(len(terms), -1, lanes), 1, np.float32)[:, -1])


def in_blocks(terms: Array, size: int) -> Array:
    padded = np.pad(terms, ((0, 0), (0, -terms.shape[1] % size))).astype(np.float32)
    return in_order(np.add.accumulate(padded.reshape(len(terms), -1, size), 2, np.float32)[:, :, -1])


def strided(terms: Array, step: int) -> Array:
    """Returns the sums with the terms of a convolution whose taps come before its channels."""
    return in_order(terms.reshape(len(terms), -1, step).swapaxes(1, 2).reshape(len(terms), -1))


ORDERS = {  # of kernels; none is among those that are measured, but the first
    "in order": in_order,
    "6 lanes": lambda t: side_by_side(t, 6),
    "64 lanes": lambda t: side_by_side(t, 64),
    "blocks of 128": lambda t: in_blocks(t, 128),
    "blocks of 7": lambda t: in_blocks(t, 7),
    "taps first": lambda t: strided(t, 9),
    "in float64": lambda t: t.sum(1).astype(np.float32),
}


def terms_of(kind: str, count: int) -> Array:
    rng, rows = np.random.default_rng(5), 40
    x = np.clip(np.rint(rng.normal(size=count) * 40), -128, 127)
    w = rng.normal(size=(rows, count)).astype(np.float32) * np.float32(0.02)
    real = {
        "random": lambda: (x * SCALE) * w,
        "after a relu": lambda: (np.maximum(x, 0) * SCALE) * w,
        "all equal": lambda: np.full((rows, count), np.float32(0.1)),
        "few levels": lambda: np.maximum(np.rint(rng.normal(size=(rows, count)) * 1.2), 0) * SCALE,
        "rising": lambda: (np.rint(np.linspace(0, 255, count)) + rng.integers(0, 3, (rows, count))) * SCALE,
        "nearly constant": lambda: (180 + rng.integers(-1, 2, (rows, count))) * SCALE,
        "positive, then negative": lambda: np.abs(w) * np.where(np.arange(count) < count // 2, 1, -1),
        "heavy tails": lambda: rng.standard_cauchy((rows, count)),
        "one equal row": lambda: np.concatenate([np.full((1, count), 0.3), rng.normal(size=(rows - 1, count))]),
    }[kind]()
    return real.astype(np.float32).astype(np.float64)


KINDS = (
    "random",
    "after a relu",
    "all equal",
    "few levels",
    "rising",
    "nearly constant",
    "positive, then negative",
    "heavy tails",
    "one equal row",
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [72, 1152, 9216])
def test_every_order_of_a_kernel_is_within_the_probable_error(kind: str, count: int) -> None:
    terms = terms_of(kind, count)
    exact, size = terms.sum(1), np.abs(terms).sum(1)
    with probable_errors() as allowed:
        error = bound_sum(count + 6, size, exact, (terms**2).sum(1), lambda: take_rows(terms))
    assert allowed.used and (error <= gamma(count + 6) * size).all()
    for name, order in ORDERS.items():
        assert (np.abs(order(terms) - exact) <= error).all(), name


def test_the_probable_error_is_far_below_the_worst_case_where_signs_vary() -> None:
    terms = terms_of("random", 4096 * 2)
    with probable_errors():
        error = bound_sum(8192, np.abs(terms).sum(1), terms.sum(1), (terms**2).sum(1), lambda: take_rows(terms))
    assert (error < gamma(8192) * np.abs(terms).sum(1) / 300).all()


def test_the_worst_case_is_the_bound_where_no_probable_one_is_asked_for() -> None:
    terms = terms_of("random", 1152)
    size, squares = np.abs(terms).sum(1), (terms**2).sum(1)
    assert (bound_sum(1158, size, terms.sum(1), squares, lambda: terms) == gamma(1158) * size).all()
    with probable_errors() as allowed:
        assert (bound_sum(1158, size, terms.sum(1), None, None) == gamma(1158) * size).all()
    assert not allowed.used


def test_accumulators_that_cut_off_are_measured_where_they_count() -> None:
    terms = terms_of("after a relu", 4096)
    assert measure_orders(terms, True) > 5 * measure_orders(terms, False)
    assert measure_orders(np.full((2, 8), np.inf), True) == 0.0


def product(rows: int = 2, columns: int = 12, count: int = 4096) -> tuple[Graph, Array, Array]:
    """Returns a float product, its input, and the terms of each element of its result."""
    rng = np.random.default_rng(7)
    x = (np.rint(rng.normal(size=(rows, count)) * 40) * SCALE).astype(np.float32)
    w = rng.normal(size=(count, columns)).astype(np.float32) * np.float32(0.02)
    specs = {"x": TensorSpec("x", "float32", x.shape), "w": TensorSpec("w", "float32", w.shape)}
    specs["y"] = TensorSpec("y", "float32", (rows, columns))
    node = Node("y", "matmul_float", ("x", "w", None), ("y",), (0, 0, ONE, ONE))
    terms = x[:, None, :].astype(np.float64) * w.T[None].astype(np.float64)
    return Graph([node], specs, {"w": w}, ("x",), ("y",)), x, terms.reshape(-1, count)


def judged(graph: Graph, x: Array, recorded: Array, made: Array) -> Forced:
    unit = units(graph)[0]
    spec = graph.spec("y")
    limit = choose_foreign_limit(limit_for(unit, "y", graph), spec)
    measured = measure_distance(made, recorded, spec, limit, "simulator", "board")
    return judge_foreign(ForeignUnit(unit, "y", graph, {"x": x}, made, recorded, "", True), measured)


def judged_product(sums: Array) -> Forced:
    graph, x, terms = product()
    made = terms.sum(1).astype(np.float32).reshape(2, 12)
    return judged(graph, x, np.asarray(sums, np.float32).reshape(2, 12), made)


@pytest.mark.parametrize("order", ORDERS)
def test_a_product_in_any_order_is_right(order: str) -> None:
    _, _, terms = product()
    terms = terms if order != "taps first" else np.pad(terms, ((0, 0), (0, -terms.shape[1] % 9)))
    assert judged_product(ORDERS[order](terms)).verdict == "PASSED"


@pytest.mark.parametrize("off", [0.004, -0.004, 0.0005])
def test_what_is_too_high_everywhere_is_a_finding_however_wide_the_worst_case_is(off: float) -> None:
    _, _, terms = product()
    found = judged_product(terms.sum(1) + off)
    assert (found.verdict, found.at_fault, found.unexplained) == ("FAILED", "board", 24)
    assert "24 elements differ by more than float32 sums err, in any of the usual orders" in found.why
    assert f"all 24 too {'high' if off > 0 else 'low'} by" in found.why


def test_what_differs_to_both_sides_is_not_right_and_nobody_is_blamed() -> None:
    _, _, terms = product()
    found = judged_product(terms.sum(1) + np.where(np.arange(24) % 2, 0.004, -0.004))
    assert (found.verdict, found.at_fault) == ("INCONCLUSIVE", "") and "in any of the usual orders" in found.why


def test_without_a_probable_error_the_worst_case_acquits_nothing() -> None:
    _, _, terms = product()
    with mock.patch("qverify.compare.error_bounds.probable.measure_orders", side_effect=MemoryError):
        found = judged_product(terms.sum(1) + 0.004)
    assert (found.verdict, found.at_fault) == ("INCONCLUSIVE", "")
    assert "their probable error could not be computed" in found.why


def test_one_element_may_be_of_a_lower_precision() -> None:
    _, _, terms = product()
    found = judged_product(terms.sum(1) + np.where(np.arange(24) == 5, 0.004, 0.0))
    assert (found.verdict, found.unexplained) == ("INCONCLUSIVE", 1)


def test_an_accumulator_that_cuts_off_is_named() -> None:
    _, _, terms = product()
    total = np.zeros(24, np.float32)
    for term in terms.T:
        exact = total.astype(np.float64) + term
        rounded = exact.astype(np.float32)
        total = np.where(np.abs(rounded) > np.abs(exact), np.nextafter(rounded, np.float32(0)), rounded)
    found = judged_product(total)
    assert found.verdict == "INCONCLUSIVE" and "accumulators that cut off instead of rounding" in found.why


def test_a_channel_of_a_float_convolution() -> None:
    rng = np.random.default_rng(3)
    x = (np.rint(rng.normal(size=(1, 64, 9, 9)) * 40) * SCALE).astype(np.float32)
    w = rng.normal(size=(6, 64, 3, 3)).astype(np.float32) * np.float32(0.05)
    specs = {"x": TensorSpec("x", "float32", x.shape), "w": TensorSpec("w", "float32", w.shape)}
    specs["y"] = TensorSpec("y", "float32", (1, 6, 7, 7))
    words = (3, 3, 1, 1, 0, 0, 0, 0, 1, 1, 1)
    graph = Graph([Node("y", "conv_float", ("x", "w", None), ("y",), words)], specs, {"w": w}, ("x",), ("y",))
    patches = np.lib.stride_tricks.sliding_window_view(x[0].astype(np.float64), (3, 3), (1, 2))
    terms = np.einsum("cyxij,ocij->oyxcij", patches, w.astype(np.float64)).reshape(294, -1)
    made = terms.sum(1).astype(np.float32).reshape(1, 6, 7, 7)
    assert judged(graph, x, strided(terms, 9).reshape(made.shape), made).verdict == "PASSED"
    shifted = in_order(terms).reshape(made.shape)
    shifted[:, 2] += np.float32(0.0008)
    found = judged(graph, x, shifted, made)
    assert (found.verdict, found.unexplained) == ("FAILED", 49) and "all in 1 of 6 channels: 2" in found.why


@pytest.mark.parametrize(("off", "verdict"), [(0.0, "PASSED"), (5e-5, "FAILED")])
def test_a_normalization_of_many(off: float, verdict: str) -> None:
    rng = np.random.default_rng(4)
    x = (np.rint(rng.normal(size=(4, 2048)) * 40) * SCALE).astype(np.float32)
    ones = np.ones(2048, np.float32)
    specs = {n: TensorSpec(n, "float32", x.shape) for n in ("x", "y")}
    specs |= {n: TensorSpec(n, "float32", (2048,)) for n in ("g", "b")}
    node = Node("y", "layer_norm", ("x", "g", "b"), ("y",), (2048, word(1e-5)))
    graph = Graph([node], specs, {"g": ones, "b": 0 * ones}, ("x",), ("y",))
    exact = (x - x.mean(1, keepdims=True, dtype=np.float64)) / np.sqrt(x.var(1, keepdims=True, dtype=np.float64) + 1e-5)
    mean = (in_order(x) / np.float32(2048))[:, None]  # in one pass, in order, in float32
    square = (in_order(x**2) / np.float32(2048))[:, None]
    recorded = (x - mean) / np.sqrt(square - mean * mean + np.float32(1e-5)) + np.float32(off)
    assert judged(graph, x, recorded.astype(np.float32), exact.astype(np.float32)).verdict == verdict


def gemm_of_16_bits() -> tuple[Graph, Array, Array]:
    rng = np.random.default_rng(9)
    x = rng.integers(-9000, 9000, (4, 1024)).astype(np.int16)
    w = rng.integers(-9000, 9000, (12, 1024)).astype(np.int16)
    specs = {
        "x": TensorSpec("x", "int16", x.shape, scale=(0.0001,), zero_point=(0,)),
        "w": TensorSpec("w", "int16", w.shape, scale=(0.0001,), zero_point=(0,)),
        "y": TensorSpec("y", "int16", (4, 12), scale=(0.0005,), zero_point=(0,)),
        "rq": TensorSpec("rq", "float64", (1,)),
    }
    node = Node("y", "fully_connected", ("x", "w", None, "rq"), ("y",), (-32768, 32767), integer_reference=False)
    constants = {"w": w, "rq": np.array([0.0001 * 0.0001 / 0.0005])}
    return Graph([node], specs, constants, ("x",), ("y",)), x, (x[:, None].astype(np.float64) * w[None]) * 2e-5


@pytest.mark.parametrize(("off", "verdict"), [(0, "PASSED"), (1, "FAILED"), (2, "FAILED"), (-12, "FAILED")])
def test_a_product_of_16_bits(off: int, verdict: str) -> None:
    graph, x, terms = gemm_of_16_bits()
    made = np.rint(terms.sum(-1)).astype(np.int16)
    sums = in_order(terms.reshape(48, -1)).reshape(4, 12)
    found = judged(graph, x, (np.rint(sums) + off).astype(np.int16), made)
    assert found.verdict == verdict
    assert not off or f"too {'high' if off > 0 else 'low'} by" in found.why


@pytest.mark.parametrize(("off", "verdict"), [(0.0, "PASSED"), (0.3, "FAILED"), (-0.3, "FAILED")])
def test_a_quantization_behind_a_product_is_held_to_ties_of_the_probable_error(off: float, verdict: str) -> None:
    graph, x, terms = product(8, 24)
    specs = {n: s for n, s in graph.tensors.items() if n != "y"} | {"m": TensorSpec("m", "float32", (8, 24))}
    specs |= {n: TensorSpec(n, "int8", (8, 24), scale=(0.0208,), zero_point=(-1,)) for n in ("q", "y")}
    nodes = [
        Node("m", "matmul_float", ("x", "w", None), ("m",), (0, 0, ONE, ONE)),
        Node("q", "quantize", ("m",), ("q",)),
        Node("y", "reshape", ("q",), ("y",)),
    ]
    whole = Graph(nodes, specs, graph.constants, ("x",), ("y",))
    members = tuple(units(whole))
    region = Region("y", "region", tuple(nodes), ("x",), ("y",), True, members, ("m", "q"))
    steps = (terms.sum(1) / float(np.float32(0.0208))).reshape(8, 24)
    made, recorded = (np.clip(np.rint(v) - 1, -128, 127).astype(np.int8) for v in (steps, steps + off))
    measured = measure_distance(made, recorded, whole.spec("y"), Limit(1, 0.0, "1 LSB"), "simulator", "board")
    measured = measured if off else Forced("PASSED", 0, 0, 0.0, 192, "1 LSB", "simulator", "board", "")
    found = judge_region(RecomputedRegion(region, "y", whole, {"x": x}, made, recorded, 0.5e-5), measured)
    assert found.verdict == verdict
    assert not off or "float32 sums err in any of the usual orders" in found.why
