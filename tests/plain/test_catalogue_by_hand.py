"""The catalogue of arithmetics and its parts, held against integers computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from qverify.compare.accumulators import accumulate
from qverify.compare.arithmetics import Rounded
from qverify.compare.catalogue import (
    CONVERT,
    MISTAKES,
    RULES,
    SINGLE,
    TWICE_HALF_UP,
    ZERO_INSIDE,
    describe,
)
from qverify.compare.documented_rounding import explain
from qverify.compare.error_bounds.bounded_values import Real
from qverify.compare.error_bounds.inner_tensors import NEAR_TIE, Steps, keep, keep_some, round_as_model, round_down
from qverify.compare.error_bounds.integer_sums import SumOperands
from qverify.compare.error_bounds.table_ranges import TableRanges
from qverify.compare.find_arithmetics import find_arithmetics
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.ops import simulate_node
from qverify.tensors.codes import NEAR, restore_codes
from qverify.tensors.spec import TensorSpec

from tests.plain.test_documented_rounding import REFERENCE, SH, SW, SX

X = np.random.default_rng(3).integers(-128, 128, (4, 64)).astype(np.int8)


def sums() -> list[list[int]]:
    """Returns the accumulators of the first layer, in Python's integers."""
    w, b = REFERENCE.constants["h/w"].tolist(), REFERENCE.constants["h/b"].tolist()
    return [
        [sum((x - 3) * v for x, v in zip(row, line, strict=True)) + c for line, c in zip(w, b, strict=True)]
        for row in X.tolist()
    ]


def rounded(x: np.ndarray = X, graph: Graph = REFERENCE) -> tuple[Rounded, np.ndarray]:
    return Rounded(units(graph)[0], "h", graph, {"x": x}), simulate_node(graph, graph.nodes[0], {"x": x})["h"]


def computed(name: str) -> list[list[int]]:
    found, made = rounded()
    values: list[list[int]] = found.formulas[name](np.arange(made.size)).reshape(made.shape).tolist()
    return values


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("half even", [-2, -2, 0, 0, 2, 2, 0, -1, 1]),
        ("half up", [-2, -1, 0, 1, 2, 3, 0, -1, 1]),
        ("half down", [-3, -2, -1, 0, 1, 2, 0, -1, 1]),
        ("half away from zero", [-3, -2, -1, 1, 2, 3, 0, -1, 1]),
        ("rounded down (floor)", [-3, -2, -1, 0, 1, 2, 0, -1, 0]),
        ("cut off (toward zero)", [-2, -1, 0, 0, 1, 2, 0, 0, 0]),
        ("rounded up (ceiling)", [-2, -1, 0, 1, 2, 3, 1, 0, 1]),
    ],
)
def test_rules(name: str, wanted: list[int]) -> None:
    values = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.25, -0.75, 0.75])
    assert (RULES | MISTAKES)[name](values).tolist() == wanted


def test_accumulators() -> None:
    acc = accumulate(REFERENCE.nodes[0], REFERENCE, {"x": X})
    assert acc is not None and acc.dtype == np.int32 and acc.tolist() == sums()
    floats = replace(REFERENCE, tensors={**REFERENCE.tensors, "h": TensorSpec("h", "float32", (4, 32))})
    assert accumulate(REFERENCE.nodes[0], floats, {"x": X}) is None
    assert accumulate(Node("s", "softmax", ("x",), ("h",)), REFERENCE, {"x": X}) is None


@pytest.mark.parametrize("name", [*RULES, *MISTAKES])
def test_the_exact_value_rounded_by_a_rule(name: str) -> None:
    rule, scale = (RULES | MISTAKES)[name], float(np.float32(SX * SW / SH))
    wanted = [[min(max(int(rule(np.float64(s * scale))) + 3, -128), 127) for s in row] for row in sums()]
    assert computed(name) == wanted


def _in_two_steps(acc: int, scale: float) -> int:
    """Returns gemmlowp's product with halves up at both of its roundings, in Python's integers."""
    fraction, exponent = math.frexp(scale)
    multiplier = math.floor(fraction * 2**31 + 0.5)
    if multiplier == 2**31:
        multiplier, exponent = 2**30, exponent + 1
    high = ((min(max(acc << max(exponent, 0), -(2**31)), 2**31 - 1)) * multiplier + 2**30) >> 31
    right = max(-exponent, 0)
    return (high + (1 << right >> 1)) >> right


def test_two_steps_with_halves_up() -> None:
    scale = float(np.float32(SX * SW / SH))
    assert computed(TWICE_HALF_UP) == [
        [min(max(_in_two_steps(s, scale) + 3, -128), 127) for s in row] for row in sums()
    ]


@pytest.mark.parametrize("scale", [1.0, 3.0, 700.0])
def test_two_steps_of_a_scale_above_one_saturate_at_32_bits(scale: float) -> None:
    """The sum is shifted left before the product."""
    graph = replace(REFERENCE, constants={**REFERENCE.constants, "h/rq": np.array([scale], np.float32)})
    graph.constants["h/b"] = np.full(32, 2_000_000_000, np.int32) * np.where(np.arange(32) % 2, 1, -1).astype(np.int32)
    graph.tensors = {**graph.tensors, "h": replace(graph.tensors["h"], dtype="int32")}
    graph.nodes = [replace(graph.nodes[0], words=(-(2**31), 2**31 - 1)), *graph.nodes[1:]]
    small = np.full((4, 64), 3, np.int8)
    one = Rounded(units(graph)[0], "h", graph, {"x": small})
    sums_ = [2_000_000_000 if i % 2 else -2_000_000_000 for i in range(32)]
    wanted = [min(max(_in_two_steps(s, scale) + 3, -(2**31)), 2**31 - 1) for s in sums_]
    assert one.formulas[TWICE_HALF_UP](np.arange(32)).tolist() == wanted


def test_scales_multiplied_in_float32_are_a_way_of_their_own() -> None:
    found, _ = rounded()
    product = np.float32(SX) * np.float32(SW)
    for suffix, scale in zip(
        SINGLE, (float(product) / float(np.float32(SH)), float(product / np.float32(SH))), strict=True
    ):
        wanted = [[min(max(_in_two_steps(s, scale) + 3, -128), 127) for s in row] for row in sums()]
        assert f"{TWICE_HALF_UP}{suffix}" in found.formulas and computed(f"{TWICE_HALF_UP}{suffix}") == wanted


def test_a_change_of_quantization() -> None:
    """An 8-bit table that only changes the scale, as CMSIS-NN's and XNNPACK's converters compute it."""
    x, y = (
        TensorSpec("x", "int8", (256,), scale=(0.05,), zero_point=(3,)),
        TensorSpec("y", "int8", (256,), scale=(0.07,), zero_point=(-4,)),
    )
    every = np.arange(-128, 128).astype(np.int8)
    ratio = 0.05 / 0.07
    exact = (every.astype(np.int64) - 3) * ratio
    table = np.clip(np.rint(exact) - 4, -128, 127).astype(np.int8)
    node = Node("y", "lookup", ("x", "y/table"), ("y",))
    graph = Graph(
        [node], {"x": x, "y": y, "y/table": TensorSpec("y/table", "int8", (256,))}, {"y/table": table}, ("x",), ("y",)
    )
    found = Rounded(units(graph)[0], "y", graph, {"x": every})
    at = np.arange(256)
    wanted = [min(max(((q - 3) * round(256 * ratio) + 128 >> 8) - 4, -128), 127) for q in every.tolist()]
    assert found.formulas[CONVERT](at).tolist() == wanted
    wanted = [min(max(round((q - 3) * ratio + -4), -128), 127) for q in every.tolist()]
    assert found.formulas[ZERO_INSIDE](at).tolist() == wanted
    assert "half even" in find_arithmetics(found, table, table)


@pytest.mark.parametrize("many", [False, True])
def test_a_concatenation_in_integers(many: bool) -> None:
    """Each element is scaled by its own operand. Of more than 256 operands there are no codes of one byte."""
    rng, count = np.random.default_rng(8), 300 if many else 3
    values = [rng.integers(-128, 128, (2, 4)).astype(np.int8) for _ in range(count)]
    scales, zeros = [0.02 * (1 + at % 5) for at in range(count)], [at % 7 - 3 for at in range(count)]
    names = [f"x{at}" for at in range(count)]
    specs = {
        n: TensorSpec(n, "int8", (2, 4), scale=(s,), zero_point=(z,))
        for n, s, z in zip(names, scales, zeros, strict=True)
    }
    specs["y"] = TensorSpec("y", "int8", (2, 4 * count), scale=(0.07,), zero_point=(5,))
    given = dict(zip(names[1:], values[1:], strict=True))  # the first one is a constant
    graph = Graph([Node("y", "concat", (*names,), ("y",), (1,))], specs, {"x0": values[0]}, (*names[1:],), ("y",))
    found = Rounded(units(graph)[0], "y", graph, given)
    exact = [
        [
            (q - zero) * (scale / 0.07)
            for v, scale, zero in zip(values, scales, zeros, strict=True)
            for q in v[row].tolist()
        ]
        for row in range(2)
    ]
    at = np.arange(8 * count)
    assert found.exact is not None and np.allclose(found.exact.steps(at), np.concatenate(exact), rtol=1e-12, atol=0)
    assert (found.exact.zero, found.exact.limits, found.exact.codes is None) == (5, (-128, 127), many)
    nearest = np.array([[min(max(round(v) + 5, -128), 127) for v in row] for row in exact], np.int8)
    assert np.array_equal(found.formulas["half even"](at), nearest.reshape(-1))
    assert "half even" in find_arithmetics(found, nearest, nearest)
    for place in (0, nearest.size - 1):
        spoilt = nearest.copy()
        spoilt.flat[place] ^= 1
        assert "half even" not in find_arithmetics(found, nearest, spoilt)
    several = {**specs, "x1": replace(specs["x1"], scale=(0.1, 0.2), zero_point=(0, 0), channel_axis=0)}
    assert Rounded(units(graph)[0], "y", replace(graph, tensors=several), given).exact is None


def test_words_for_arithmetics() -> None:
    assert describe(TWICE_HALF_UP) == f"rounding {TWICE_HALF_UP}"
    assert describe("half up") == "the exact value, half up"
    assert describe("gemmlowp" + SINGLE[0]) == (
        "rounding gemmlowp (qverify compile --rounding gemmlowp; scales multiplied in float32)"
    )


def test_how_far_real_values_may_be_from_whole_steps() -> None:
    """2^-6 of a step, and the rounding of float32, which is 2^-22 of the value and so counts for large values only."""
    spec = TensorSpec("x", "int16", (4,), scale=(0.5,), zero_point=(0,))
    whole = np.array([0, -5, 3000, -32000])

    def read(parts: float) -> object:
        return restore_codes((whole + np.sign(whole) * parts * NEAR) * 0.5, spec)

    assert np.array_equal(read(0.99), whole.astype(np.int16))  # type: ignore[arg-type]
    assert read(1.4) == "2 elements are no whole step of its scale 0.5 within int16"  # -5 and 3000
    assert read(1.6) == "3 elements are no whole step of its scale 0.5 within int16"


def test_what_a_reference_of_other_kernels_computes_is_not_checked() -> None:
    found, made = rounded()
    arguments = (found.unit, "h", REFERENCE, {"x": X})
    far = np.clip(made.astype(np.int64) + 2, -128, 127).astype(np.int8)
    assert explain(*arguments, far, made, "", "1 LSB", check_made=False).unexplained == 0
    assert explain(*arguments, far, made, "", "1 LSB").unexplained == np.count_nonzero(far != made)
    other = replace(REFERENCE, rounding="pow2-half-up")  # model.bin rounds otherwise: only the recorded side counts
    assert explain(found.unit, "h", other, {"x": X}, far, made, "", "1 LSB").unexplained == 0
    assert explain(found.unit, "h", other, {"x": X}, made, far, "", "1 LSB").unexplained > 0


def test_ranges_of_a_table() -> None:
    table = np.random.default_rng(1).normal(0, 1, 256)
    pairs = [(a, b) for a in range(0, 256, 7) for b in range(a, 256, 5)] + [(0, 255), (255, 255)]
    first, last = (np.array(v) for v in zip(*pairs, strict=True))
    low, high = TableRanges(table).between(first, last)
    assert low.tolist() == [table[a : b + 1].min() for a, b in pairs]
    assert high.tolist() == [table[a : b + 1].max() for a, b in pairs]


def _steps(limits: tuple[int, int] | None = (-128, 127), zero: int = 0) -> Steps:
    spec = TensorSpec("t", "int8", (1,), scale=(1.0,), zero_point=(zero,))
    return Steps(Real(np.array([0.0]), np.array([0.0])), limits, spec)


@pytest.mark.parametrize(("away", "both"), [(0.9, True), (1.1, False)])
def test_near_a_tie_an_inner_tensor_is_rounded_to_either_side(away: float, both: bool) -> None:
    value = np.array([3.5 - away * NEAR_TIE])
    assert NEAR_TIE == 1 / 256
    low, high = round_as_model(value, value, _steps())
    assert (low[0], high[0]) == (3, 4 if both else 3)
    value = np.array([3.5 + away * NEAR_TIE])
    low, high = round_as_model(value, value, _steps())
    assert (low[0], high[0]) == (3 if both else 4, 4)
    value = np.array([3 + away * NEAR_TIE])
    assert round_down(value, value, _steps())[0][0] == (2 if both else 3)


def test_what_is_kept_is_clipped_by_an_activation_only() -> None:
    low, high = np.array([-200.0, -3.25, 200.0]), np.array([-199.0, -3.0, 201.0])
    assert [v.tolist() for v in keep(low, high, _steps())] == [low.tolist(), high.tolist()]
    assert [v.tolist() for v in keep(low, high, _steps((0, 127)))] == [[0, 0, 200], [0, 0, 201]]
    assert [v.tolist() for v in keep(low, high, _steps((-128, 6)))] == [[-200, -3.25, 6], [-199, -3, 6]]
    some = keep_some(["t"])(low, high, _steps())
    assert [v.tolist() for v in some] == [[-128, -3.25, 127], [-128, -3, 127]]
    others = keep_some(["u"])(low, high, _steps())
    assert [v.tolist() for v in others] == [[-128, -3, 127], [-128, -3, 127]]


def test_settled_values_are_read_as_they_are() -> None:
    real = Real(np.array([0.25]), np.array([0.5]))
    assert replace(_steps(None), real=real).settled(keep) is real
    kept = replace(_steps(), real=real).settled(keep)
    assert (kept.value[0], kept.error[0]) == (0.25, 0.5)


@pytest.mark.parametrize("axis", [0, 1])
def test_operands_are_centred_along_their_own_axis(axis: int) -> None:
    w = np.arange(9, dtype=np.int8).reshape(3, 3)
    spec = TensorSpec("w", "int8", (3, 3), scale=(1.0, 1.0, 1.0), zero_point=(1, -2, 5), channel_axis=axis)
    node = Node("y", "fully_connected", ("x", "w", "rq"), ("y",), (-128, 127))
    graph = Graph([node], {"w": spec}, {"w": w}, ("x",), ("y",))
    zero = np.array([1, -2, 5]).reshape((3, 1) if axis == 0 else (1, 3))
    assert SumOperands(node, graph, {}).centred(1).tolist() == (w - zero).tolist()
