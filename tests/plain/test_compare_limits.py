"""How far a forced unit may be off, by its multipliers and by the runtime that ran it."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.compare.limits import BITS, Limit, choose_foreign_limit, float_inside, limit_for
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.tensors.spec import TensorSpec


@pytest.mark.parametrize("words", [[140, 90, 7], [0, 0, 0], [0, 0, 1]], ids=str)
@pytest.mark.parametrize(
    ("rounding", "scale", "lsb"),
    [("mul8", 0.1, 2), ("mul15", 0.1, 1), ("mul8", 0.02, 1), ("mul8", 0.2, 4), ("ref-exact", 0.2, 0)],
)
def test_the_limit_of_an_add_follows_its_scales(rounding, scale, lsb, words):
    """8-bit multipliers have a shift of 7 for equal scales, so 255/128 LSB apart at most and 2 after rounding; 10 for a fifth,
    6 for twice. Whatever multipliers model.bin holds."""
    specs = {n: TensorSpec(n, "uint8", (4,), scale=(scale,), zero_point=(0,)) for n in ("a", "b")}
    specs["y"] = TensorSpec("y", "uint8", (4,), scale=(0.1,), zero_point=(0,))
    node = Node("y", "add", ("a", "b", "y/rq"), ("y",), (0, 0, 255))
    held = {**specs, "y/rq": TensorSpec("y/rq", "int32", (3,))}
    graph = Graph([node], held, {"y/rq": np.array(words, np.int32)}, ("a", "b"), ("y",), rounding)
    assert limit_for(units(graph)[0], "y", graph).lsb == lsb


def test_another_runtime_is_held_to_one_step_before_it_is_evaluated():
    """At least 1 LSB of what is quantized; what is not must be equal."""
    quantized = TensorSpec("y", "int8", (1, 4), scale=(0.5,), zero_point=(0,))
    assert choose_foreign_limit(BITS, quantized) == Limit(1, 0.0, "1 LSB")
    assert choose_foreign_limit(BITS, TensorSpec("y", "int64", (1, 4))) == BITS
    wide = Limit(16, 0.0, "16 LSB (why)")
    assert choose_foreign_limit(wide, quantized) is wide


def one_node(op, y, integer_reference=True, rounding="ref-exact", weights=None, x_scale=0.5):
    """The one unit of a graph x -> y, and the graph."""
    specs = {"x": TensorSpec("x", "int16", (1, 4), scale=(x_scale,), zero_point=(0,)), "y": y}
    if weights is not None:
        specs["w"] = TensorSpec("w", "int8", weights.shape, scale=(0.25,), zero_point=(1,))
    inputs = ("x",) if weights is None else ("x", "w")
    node = Node("y", op, inputs, ("y",), (), (), integer_reference)
    graph = Graph([node], specs, {} if weights is None else {"w": weights}, ("x",), ("y",), rounding)
    return units(graph)[0], graph


Y16 = TensorSpec("y", "int16", (1, 4), scale=(0.5,), zero_point=(0,))


def test_what_is_exact_what_is_float_and_what_is_neither():
    assert limit_for(*one_node("conv", Y16)[:1], "y", one_node("conv", Y16)[1]) == Limit(0, 0.0, "0 LSB")
    for y, lsb, share, text in (
        (TensorSpec("y", "float32", (1, 4)), 0, 2.0**-18, "2^-18 of max|reference|"),
        (TensorSpec("y", "int64", (1, 4)), 0, 0.0, "0 (not quantized)"),
        (TensorSpec("y", "int8", (1, 4), scale=(0.5,), zero_point=(0,)), 1, 0.0, "1 LSB"),
    ):
        unit, graph = one_node("layer_norm", y, integer_reference=False)
        assert limit_for(unit, "y", graph) == Limit(lsb, share, text)
        assert float_inside(unit)
    assert not float_inside(one_node("conv", Y16)[0]) and float_inside(one_node("softmax", Y16)[0])


@pytest.mark.parametrize(
    ("rounding", "lsb"),
    [
        ("ref-exact", 2),  # 1 for the rounding, 2^17 * 12 * 2^-24 = 0.09 for 8 float32 terms
        ("mul15", 3),  # a multiplier of 15 bits: off by 2^-16 of 2^16 steps
        ("mul31", 3),
        ("tflite-single", 3),
        ("gemmlowp", 3),
        ("cmsis", 3),
        ("mul16", 3),
        ("mul24", 3),
        ("mul8", 130),  # 2^-9 of 2^16 steps
        ("pow2-floor", 27148),  # the scale becomes a power of two, sqrt(2) off at most: 0.41421 * 65536 = 27145.9
    ],
)
def test_sixteen_bits_without_weights(rounding, lsb):
    unit, graph = one_node("relu", Y16, integer_reference=False, rounding=rounding)
    assert limit_for(unit, "y", graph) == Limit(lsb, 0.0, f"{lsb} LSB (16 bit, derived)")


def test_sixteen_bit_sums_by_their_largest_output():
    """Real weights of the larger output: (1 + 2 + 3 + 4) / 4 * 32 = 80, 65536 steps of 0.5 in and out, 4 terms:
    80 * 65536 * 8 * 2^-24 = 2.5, up to 3; 1 for the rounding."""
    rows = np.array([[32, -64, 96, -128], [1, 1, 1, 1]], np.int8) + np.array(1, np.int8)
    rows[0, 3] = -127
    by_axis = {
        "fully_connected": rows,
        "conv": rows.reshape(2, 2, 1, 2),
        "conv_transpose": rows.reshape(2, 2, 2).swapaxes(0, 1).reshape(2, 2, 1, 2),
        "matmul": rows.T,
    }
    for op, weights in by_axis.items():
        unit, graph = one_node(op, Y16, integer_reference=False, weights=np.ascontiguousarray(weights))
        assert limit_for(unit, "y", graph).lsb == 4, op
        unit, graph = one_node(op, Y16, False, weights=np.ascontiguousarray(weights), x_scale=2.0)
        assert limit_for(unit, "y", graph).lsb == 11, op
    unit, graph = one_node("mul", Y16, integer_reference=False, weights=rows)
    assert limit_for(unit, "y", graph).lsb == 2


@pytest.mark.parametrize(("weights", "lsb"), [([[2]], 4), (np.zeros((0, 1)), 1)])
def test_sixteen_bit_limits_of_small_and_of_no_weights(weights, lsb):
    """A real weight of 1/4: 2^14 * 2^10 * 5 * 2^-25 = 2.5 steps of 2^-10, up to 3; 1 for the rounding."""
    y = TensorSpec("y", "int16", (1, 4), scale=(2.0**-10,), zero_point=(0,))
    unit, graph = one_node("fully_connected", y, integer_reference=False, weights=np.asarray(weights, np.int8))
    assert limit_for(unit, "y", graph).lsb == lsb


def test_sixteen_bit_limits_follow_the_width_of_the_input_and_the_step_of_the_output():
    weights = np.array([[81, 1]], np.int8)  # 80 / 4 = 20, 2 terms: 20 * 65536 * 6 * 2^-24 = 0.47 a step
    for x, y_scale, lsb in (("int16", 0.5, 2), ("int16", 0.0625, 1 + 4), ("int8", 0.0625, 2), ("float", 0.5, 2)):
        unit, graph = one_node(
            "conv", TensorSpec("y", "int16", (1, 4), scale=(y_scale,), zero_point=(0,)), False, weights=weights
        )
        graph.tensors["x"] = TensorSpec(
            "x", "int16" if x == "float" else x, (1, 4), scale=() if x == "float" else (0.5,), zero_point=(0,)
        )
        assert limit_for(unit, "y", graph).lsb == lsb, x
