"""A few elements stand for all: sums that are computed one by one, the smallest and largest sum of each scale and recorded
integer, one element of each code."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any
from unittest import mock

import numpy as np
import pytest
from qverify.arithmetic.requantize import half_up, shifted
from qverify.compare import scaled_sums
from qverify.compare.accumulators import NodeSums, accumulate
from qverify.compare.arithmetics import Rounded
from qverify.compare.error_bounds.bounded_values import round_interval
from qverify.compare.find_arithmetics import find_arithmetics, find_nearest, find_reach
from qverify.compare.foreign import ForeignUnit
from qverify.compare.same_arrays import SameArrays
from qverify.compare.scaled_sums import ScaledSums, find_codes
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.ops import simulate_node
from qverify.report.document import Forced
from qverify.tensors.spec import TensorSpec

Array = Any
RNG = np.random.default_rng(29)
CONV = (3, 3, 2, 1, 1, 1, 1, 1, 1, 1)  # kernel, stride, pads, dilation


def sum_graph(op: str, scale: float = 0.01) -> tuple[Graph, dict[str, Array]]:
    """Returns one node that scales a sum, with zero points, and its input."""
    shapes: dict[str, tuple[tuple[int, ...], ...]] = {
        "conv": ((2, 4, 9, 8), (6, 2, 3, 3), (2, 6, 5, 8)),
        "depthwise": ((1, 5, 9, 8), (5, 1, 3, 3), (1, 5, 5, 8)),
        "conv_transpose": ((1, 4, 5, 4), (4, 3, 2, 2), (1, 3, 10, 8)),
        "fully_connected": ((7, 16), (9, 16), (7, 9)),
        "matmul": ((2, 7, 16), (16, 9), (2, 7, 9)),
        "global_average_pool": ((2, 5, 4, 4), (), (2, 5, 1, 1)),
    }
    x, w, y = shapes[op]
    kind = "conv" if op == "depthwise" else op
    specs = {
        "x": TensorSpec("x", "int8", x, scale=(0.02,), zero_point=(3,)),
        "y": TensorSpec("y", "int8", y, scale=(0.05,), zero_point=(-4,)),
    }
    constants, inputs = dict[str, Array](), ["x"]
    channels = {"conv": 0, "conv_transpose": 1, "fully_connected": 0, "matmul": 1}.get(kind)
    real = np.array([0.02 / 0.05 / prod(x[2:])])
    if channels is not None:
        many = w[channels]
        scales = tuple((scale * 0.05 / 0.02 * RNG.uniform(0.5, 2, many)).tolist())
        specs["w"] = TensorSpec("w", "int8", w, scale=scales, zero_point=(0,) * many, channel_axis=channels)
        constants["w"] = RNG.integers(-127, 128, w).astype(np.int8)
        inputs.append("w")
        real = np.array(scales) * 0.02 / 0.05
        if kind != "matmul":
            specs["b"] = TensorSpec("b", "int32", (y[1],))
            constants["b"] = RNG.integers(-900, 900, y[1]).astype(np.int32)
            inputs.append("b")
    specs["rq"] = TensorSpec("rq", "float32", real.shape)
    constants["rq"] = real.astype(np.float32)
    window = {"conv": (*CONV, 2 if op == "conv" else 5), "conv_transpose": (2, 2, 2, 2, 0, 0, 0, 0, 1, 1, 1)}
    node = Node("y", kind, (*inputs, "rq"), ("y",), (*window.get(kind, ()), -128, 127))
    return Graph([node], specs, constants, ("x",), ("y",)), {"x": RNG.integers(-128, 128, x).astype(np.int8)}


OPS = ("conv", "depthwise", "conv_transpose", "fully_connected", "matmul", "global_average_pool")


@pytest.mark.parametrize("op", OPS)
def test_sums_one_by_one_are_those_of_the_whole_accumulator(op: str) -> None:
    graph, given = sum_graph(op)
    whole = accumulate(graph.nodes[0], graph, given)
    assert whole is not None and whole.dtype == np.int32 and len(np.unique(whole)) > 8
    at = RNG.integers(0, whole.size, 40)
    sums = NodeSums(graph.nodes[0], graph, given)
    taken = sums.take(at)
    assert not sums.is_computed and taken.dtype == np.int64
    assert np.array_equal(taken, whole.reshape(-1)[at])
    many = np.arange(whole.size).repeat(9)
    assert np.array_equal(sums.take(many), whole.reshape(-1)[many]) and sums.is_computed


def test_an_accumulator_of_16_bit_operands_does_not_wrap() -> None:
    specs = {n: TensorSpec(n, "int16", (1, 40000), scale=(1.0,), zero_point=(0,)) for n in ("x", "w")}
    specs |= {
        "y": TensorSpec("y", "int16", (1, 1), scale=(1.0,), zero_point=(0,)),
        "rq": TensorSpec("rq", "float64", (1,)),
    }
    constants = {"w": np.full((1, 40000), 30000, np.int16), "rq": np.ones(1)}
    node = Node("y", "fully_connected", ("x", "w", None, "rq"), ("y",), (-32768, 32767))
    graph = Graph([node], specs, constants, ("x",), ("y",))
    whole = accumulate(node, graph, {"x": np.full((1, 40000), 30000, np.int16)})
    assert whole is not None and whole.tolist() == [[40000 * 30000 * 30000]]


def rounded_of(op: str, scale: float = 0.01, small: bool = False) -> tuple[Rounded, Array]:
    """Returns the node. small: whether operands are so small that nothing is clipped at large scales."""
    graph, given = sum_graph(op, scale)
    if small:
        given = {"x": RNG.integers(0, 9, given["x"].shape).astype(np.int8)}
        graph.constants["w"] = RNG.integers(-3, 4, graph.constants["w"].shape).astype(np.int8)
        graph.constants["b"] = graph.constants["b"] // 30
    unit = units(graph)[0]
    return Rounded(unit, "y", graph, given), simulate_node(graph, graph.nodes[0], given)["y"]


@pytest.mark.parametrize("op", OPS)
def test_every_element_counts(op: str) -> None:
    """An arithmetic is found in its own bytes, and not if any one of them is another."""
    rounded, made = rounded_of(op, 0.004)
    for name in ("gemmlowp", "half up", "pow2-floor", "mul8", "rounded down (floor)"):
        recorded = rounded.formulas[name](np.arange(made.size)).reshape(made.shape)
        assert name in find_arithmetics(rounded, made, recorded)
        for at in range(0, made.size, max(1, made.size // 60)):
            for by in (-1, 1):
                spoilt = recorded.astype(np.int64)
                spoilt.reshape(-1)[at] += by
                if abs(spoilt).max() < 128:
                    assert name not in find_arithmetics(rounded, made, spoilt.astype(np.int8)), (name, at, by)


@pytest.mark.parametrize("scale", [0.0005, 0.004, 0.03, 0.12, 0.3])
@pytest.mark.parametrize("op", OPS)
def test_no_arithmetic_differs_beyond_its_reach(op: str, scale: float) -> None:
    rounded, made = rounded_of(op, scale)
    assert rounded.exact is not None
    every = np.arange(made.size)
    steps = rounded.exact.steps(every)
    from_tie, nearest = 0.5 - np.abs(steps - np.rint(steps)), rounded.formulas["half even"](every)
    reaches = {name: find_reach(rounded, name) for name in rounded.formulas}
    assert min(reaches.values()) < 2.0**-19 and max(reaches.values()) == 0.5
    for name, reach in reaches.items():
        far = from_tie > reach
        assert np.array_equal(rounded.formulas[name](every[far]), nearest[far]), name


def test_noise_is_excluded_before_all_sums_are_computed() -> None:
    rounded, made = rounded_of("conv", 0.002)
    noise = np.clip(made.astype(np.int64) + RNG.choice([-1, 1], made.shape), -128, 127).astype(np.int8)
    assert find_arithmetics(rounded, made, noise) == [] and not rounded.sums.is_computed
    assert find_arithmetics(rounded, made, made) and rounded.sums.is_computed


def test_the_nearest_arithmetic_is_that_of_most_elements() -> None:
    rounded, made = rounded_of("conv", 0.2, small=True)
    recorded = rounded.formulas["gemmlowp with halves up at its second rounding"](np.arange(made.size))
    wrong = np.count_nonzero(recorded != made.reshape(-1))
    recorded[3] += 5 if recorded[3] < 100 else -5
    found = find_nearest(rounded, made, recorded.reshape(made.shape))
    assert wrong > 4 and found is not None
    assert found[0].startswith("gemmlowp with halves up") and np.count_nonzero(found[1].reshape(-1) != recorded) == 1


def test_an_arithmetic_that_gives_fewer_elements_in_all_is_not_the_nearest() -> None:
    """It gives the two that differ, and is wrong in more of those that do not."""
    rounded, made = rounded_of("conv", 0.2, small=True)
    given = rounded.formulas["gemmlowp with halves up at its second rounding"](np.arange(made.size))
    differing = np.flatnonzero(given != made.reshape(-1))
    recorded = made.reshape(-1).copy()
    recorded[differing[:2]] = given[differing[:2]]
    assert len(differing) > 4 and find_nearest(rounded, made, recorded.reshape(made.shape)) is None


@pytest.mark.parametrize(("scales", "inner"), [(1, 1), (5, 7), (5, 40), (5, 1), (20, 1)])
@pytest.mark.parametrize("run", [8, 1 << 16])
def test_the_extremes_of_each_scale_and_integer(scales: int, inner: int, run: int) -> None:
    elements = 3 * scales * inner * (100 if scales * inner == 1 else 1)
    acc = RNG.integers(-50, 50, elements).astype(np.int32)
    recorded = (acc // 17).astype(np.int8)
    number = [at // inner % scales for at in range(elements)]
    groups: dict[tuple[int, int], list[int]] = {}
    for key in zip(number, recorded.tolist(), acc.tolist(), strict=True):
        groups.setdefault(key[:2], []).append(key[2])
    with mock.patch.object(scaled_sums, "RUN", run), mock.patch.object(scaled_sums, "FEW_GROUPS", 1 << 16):
        sums = ScaledSums(lambda at: acc[at], lambda: acc, np.ones(scales), inner)
        assert [i for part in sums.cut(elements) for i in range(part.start, part.stop)] == [*range(elements)]
        found = sums.find_extremes(recorded)
    assert found is not None
    given = zip(found[0].number.tolist(), found[1].tolist(), found[0].acc.tolist(), strict=True)
    wanted = sorted((k, v, end) for (k, v), of in groups.items() for end in (min(of), max(of)))
    assert sorted(given) == wanted


def test_extremes_are_not_looked_for_among_more_groups_than_elements() -> None:
    acc = np.zeros(300_000, np.int32)
    assert ScaledSums(lambda at: acc[at], lambda: acc, np.ones(300_000)).find_extremes(acc.astype(np.int8)) is None


@pytest.mark.parametrize("run", [4, 1 << 16])
def test_codes_with_several_values_are_none(run: int) -> None:
    codes, recorded = np.array([7, 300, 7, 65535, 7, 300]), np.array([1, -2, 1, 3, 1, -2], np.int8)
    with mock.patch.object(scaled_sums, "RUN", run):
        found = find_codes(6, lambda part: codes[part], recorded)
        assert found is not None and [v.tolist() for v in found] == [[7, 300, 65535], [1, -2, 3]]
        for at in range(6):
            spoilt = recorded.copy()
            spoilt[at] += 1
            single = at == 3
            assert (find_codes(6, lambda part: codes[part], spoilt) is None) is not single


def test_multiplications_by_halves_of_any_sign() -> None:
    """The high half of gemmlowp and CMSIS rounds halves up; RoundingDivideByPOT rounds them away from zero."""
    acc = np.array([-6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 2**31 - 1, -(2**31)])
    half = np.full(acc.shape, 2**30)
    for mode in ("gemmlowp", "cmsis"):
        for right in (0, 1, 3, 40):
            high = [(v * 2**30 + 2**30) >> 31 for v in acc.tolist()]
            wanted = [0 if right > 31 else int(np.sign(h)) * ((abs(h) * 2 + 2**right) >> right + 1) for h in high]
            assert shifted(acc, half, np.full(acc.shape, -right), mode, False).tolist() == wanted
    assert half_up(np.array([5, 6, -5, -6]), np.array([1, 2, 1, 63])).tolist() == [3, 2, -2, 0]


def test_intervals_of_values_that_are_no_numbers_are_the_widest() -> None:
    value, error = np.array([np.nan, 1.0, np.inf, -np.inf, 2.5]), np.array([0.1, np.nan, 0.0, 0.0, 0.25])
    whole = round_interval(value, error, 3, (-128, 127))
    assert whole.low.tolist() == [-128, -128, 127, -128, 5] and whole.high.tolist() == [-128, 127, 127, -128, 6]


def test_a_verdict_that_is_kept_keeps_no_accumulator() -> None:
    rounded, made = rounded_of("conv", 0.2, small=True)
    recorded = rounded.formulas["gemmlowp"](np.arange(made.size)).reshape(made.shape)
    assert (recorded != made).any()
    foreign = ForeignUnit(rounded.unit, "y", rounded.graph, rounded.given, made, recorded, "", True)
    measured = Forced("FAILED", 1, 3, by="reference", on="board", elements=made.size)
    cache = SameArrays()
    verdict = cache.judge_once(foreign, measured)
    assert foreign.rounded.sums.is_computed and "gemmlowp" in verdict.arithmetics
    assert all("rounded" not in kept.__dict__ for kept, _, _ in cache._judged.values())
    assert cache.judge_once(replace(foreign), measured) == verdict
