"""Inputs drawn for experiments keep shape and type, differ by kind, and are the same again for the same seed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from qverify.tensors.spec import TensorSpec
from qverify.triage.experiment_inputs import KINDS, draw_inputs

from tests.plain.fault_units import small_case
from tests.plain.forensic_units import Small, generator

Array = Any
SHAPE = (2, 3, 40, 50)
NUMBERS = ("int8", "uint8", "int16", "uint16", "float32")


def case_with(x: Array, zero: int = 0, scale: float = 0.1) -> Any:
    return small_case(Small("reshape", (), (str(x.dtype), scale, zero), x.shape, x=(x, scale, zero)), x)


def recorded(dtype: str) -> Array:
    if dtype == "float32":
        return generator(50).normal(0, 2, SHAPE).astype(np.float32)
    info = np.iinfo(dtype)
    return generator(50).integers(info.min // 2, info.max // 2, SHAPE).astype(dtype)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_draw_keeps_shape_and_type_and_comes_again(kind: str, dtype: str):
    case = case_with(recorded(dtype))
    first, again, other = (draw_inputs(case, kind, seed)["x"] for seed in (1, 1, 2))
    assert (first.shape, str(first.dtype)) == (SHAPE, dtype) and first.flags.c_contiguous
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert not np.array_equal(first, case.inputs["x"])
    assert np.array_equal(case.inputs["x"], recorded(dtype))  # which stays


def test_kinds_and_inputs_are_drawn_apart():
    x = recorded("int8")
    small = Small("concat", (0,), ("int8", 0.1, 0), (4, *SHAPE[1:]), a=(x, 0.1, 0), b=(x, 0.1, 0))
    case = small_case(small, np.concatenate([x, x]))
    drawn = [draw_inputs(case, kind, 1)[name].tobytes() for kind in KINDS for name in ("a", "b")]
    assert len(set(drawn)) == 2 * len(KINDS)


@pytest.mark.parametrize("dtype", ["int32", "int64", "bool"])
@pytest.mark.parametrize("kind", KINDS)
def test_indices_and_conditions_stay(kind: str, dtype: str):
    x, index = recorded("int8"), generator(51).integers(0, 2, (5,)).astype(dtype)
    case = case_with(x)
    case.graph.tensors["i"] = TensorSpec("i", dtype, (5,))
    drawn = draw_inputs(replace(case, inputs={"x": x, "i": index}), kind, 1)
    assert np.array_equal(drawn["i"], index) and not np.array_equal(drawn["x"], x)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_an_input_of_no_elements_or_of_one_value(kind: str, dtype: str):
    empty = case_with(np.zeros((0, 3), dtype))
    assert draw_inputs(empty, kind, 1)["x"].shape == (0, 3)
    drawn = draw_inputs(case_with(np.full((4, 5), 3, dtype)), kind, 1)["x"]
    assert drawn.shape == (4, 5) and np.isfinite(drawn).all()
    if dtype == "float32":
        assert np.isfinite(draw_inputs(case_with(np.full((4, 5), np.nan, dtype)), "uniform", 1)["x"]).all()


def drawn_of(kind: str, dtype: str, zero: int = 0) -> tuple[Array, Array]:
    case = case_with(recorded(dtype), zero)
    return case.inputs["x"], draw_inputs(case, kind, 1)["x"]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_what_a_kind_is(dtype: str):
    x, uniform = drawn_of("uniform", dtype)
    low, high = (x.min(), x.max()) if dtype == "float32" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    assert low <= uniform.min() < low + (high - low) / 50 and high - (high - low) / 50 < uniform.max() <= high
    x, shuffled = drawn_of("shuffled", dtype)
    assert np.array_equal(np.sort(x, axis=None), np.sort(shuffled, axis=None))
    x, nearby = drawn_of("nearby", dtype)
    assert 0.05 < (x != nearby).mean() < 0.11 and np.isin(nearby, x).all()
    x, sparse = drawn_of("sparse", dtype, 5)
    assert 0 < (sparse != (0 if dtype == "float32" else 5)).mean() < 0.05
    x, level = drawn_of("level", dtype)
    assert float(level.max()) - float(level.min()) <= (float(high) - float(low)) / 10 * 1.001
    assert level.min() >= low and level.max() <= high and len(np.unique(level)) > 10


@pytest.mark.parametrize("dtype", ["int8", "uint16"])
def test_extremes_are_the_ends_the_zero_point_and_a_recorded_value(dtype: str):
    x, extremes = drawn_of("extremes", dtype, 5)
    info = np.iinfo(dtype)
    assert set(np.unique(extremes)) == {info.min, info.max, 5, int(x.flat[0])}


def test_extremes_of_floats_are_zeros_subnormal_numbers_and_ties():
    x, extremes = drawn_of("extremes", "float32")
    assert {x.min(), x.max()} <= set(np.unique(extremes)) and np.signbit(extremes[extremes == 0]).any()
    tiny = np.abs(extremes[extremes != 0]) < np.finfo(np.float32).tiny
    assert tiny.any()
    ties = extremes / np.float32(0.1)
    assert (np.abs(ties - np.floor(ties) - 0.5) < 1e-4).mean() > 0.3  # half way between two steps of the output


def test_a_tiny_input_differs_from_zero():
    """At least one element of a sparse draw is drawn."""
    x = np.zeros((1, 2), np.uint8)
    drawn = [draw_inputs(case_with(x), "sparse", seed)["x"] for seed in range(8)]
    assert sum(bool(d.any()) for d in drawn) >= 7


def gather_case(dtype: str, recorded_index: Array) -> Any:
    x = generator(2).integers(-9, 9, (2, 7, 3)).astype(np.int8)
    small = Small("gather", (1,), ("int8", 0.1, 0), (2, 30, 3), x=(x, 0.1, 0), index=(recorded_index.astype(dtype),))
    return small_case(small, x[:, recorded_index])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_indices_of_a_gather_are_drawn_within_its_axis(kind: str, dtype: str):
    case = gather_case(dtype, generator(3).integers(-7, 7, 30))
    drawn = [draw_inputs(case, kind, seed)["index"] for seed in range(6)]
    assert all(index.dtype == dtype and index.shape == (30,) for index in drawn)
    assert min(v.min() for v in drawn) >= -7 and max(v.max() for v in drawn) <= 6
    assert any((index < 0).any() for index in drawn) and any((index >= 0).any() for index in drawn)
    assert len({index.tobytes() for index in drawn}) > 3  # a level one may come twice
    assert case.on_inputs(draw_inputs(case, kind, 1)).healthy.shape == (2, 30, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_condition_is_drawn_true_and_false(kind: str):
    a, b = (generator(k).integers(-9, 9, (5, 40)).astype(np.int8) for k in (2, 3))
    c = generator(4).random((5, 40)) < 0.5
    case = small_case(Small("where", (), ("int8", 0.1, 0), a.shape, c=(c,), a=(a, 0.1, 0), b=(b, 0.1, 0)), a)
    drawn = [draw_inputs(case, kind, seed)["c"] for seed in range(4)]
    assert all(d.dtype == bool and d.shape == c.shape and d.any() and not d.all() for d in drawn)
    assert len({d.tobytes() for d in drawn}) == 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_dividends_are_drawn_of_both_signs_and_the_divisors_stay(kind: str, dtype: str):
    a, b = generator(2).integers(-50, 50, (6, 9)).astype(dtype), np.array([3, -5, 7] * 3, dtype)
    case = small_case(Small("mod", (), (dtype, 0, 0), (6, 9), a=(a,), c_b=(b,)), np.remainder(a, b))
    drawn = [draw_inputs(case, kind, seed) for seed in range(4)]
    assert all(set(d) == {"a"} and d["a"].dtype == dtype and (d["a"] < 0).any() and (d["a"] > 0).any() for d in drawn)
    assert np.array_equal(case.on_inputs(drawn[0]).healthy, np.remainder(drawn[0]["a"], b))


def test_random_inputs_tell_faults_of_the_index_apart():
    case = gather_case("int64", np.full(30, 2))
    assert not np.array_equal(case.on_noise(1).inputs["index"], case.on_noise(2).inputs["index"])


def test_an_index_that_is_computed_in_the_unit_stays():
    """No other values are drawn: which of them would give legal indices is not known."""
    case = gather_case("int64", np.full(30, 2))
    node = case.unit.nodes[0]
    twice = replace(case.unit, nodes=(node, replace(node, name="z", outputs=("z",))))
    assert np.array_equal(draw_inputs(replace(case, unit=twice), "uniform", 1)["index"], np.full(30, 2))
