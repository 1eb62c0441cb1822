"""Faults of scales where there are two channels, one input, or one that is no number; and of sums beyond 32 bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from qverify.arithmetic.multipliers import parameters
from qverify.triage.linear_sums import linear

from tests.plain.fault_units import Table, found, small_case
from tests.plain.forensic_units import SX, SY, ZY, Small, generator

Array = Any


def test_scales_of_two_channels() -> None:
    x, w = np.array([[3, -4]], np.int8), np.array([[5, 60], [-70, 8]], np.int8)
    rq = np.array([0.5, 0.25], np.float32)
    small = Small("fully_connected", (-128, 127), ("int8", SY, ZY), (1, 2),
                  x=(x, SX, 0), c_w=(w, 0.01, 0), c_b=(np.zeros(2, np.int32),), c_rq=(rq,))  # fmt: skip
    case = small_case(small, np.zeros((1, 2), np.int8))
    acc = x.astype(int) @ w.T.astype(int)
    wanted = np.clip(np.rint(acc * [0.25, 0.5]) + ZY, -128, 127)
    assert np.array_equal(found("scales", case)["scales of the next channel"].make(case), wanted)


def test_an_input_alone_is_requantized() -> None:
    """Or one of three, where the first is a condition: no input is left as it is."""
    x = generator(3).integers(-100, 100, (1, 1, 2, 2)).astype(np.int8)
    index = np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int32)
    small = Small("resize_linear", (0,), ("int8", 0.5, 4), (1, 1, 2, 2), x=(x, 0.25, 9), c_index=(index,),
                  c_weight=(np.full(8, 0.5, np.float32),))  # fmt: skip
    assert list(found("scales", small_case(small, x))) == [
        "scales: x is taken as if it had the scale and zero point of y", "scales: x with the scale of y"
    ]  # fmt: skip
    flags, a, b = np.array([True, False]), np.array([8, 20], np.int8), np.array([-6, 10], np.int8)
    small = Small("where", (), ("int8", 1.0, 3), (2,), c=(flags,), a=(a, 0.25, 4), b=(b, 0.5, -6))
    said = found("scales", small_case(small, a))
    assert len(said) == 8 and not [s for s in said if " c " in s or s.endswith(" c") or "no input" in s]


def test_an_output_that_wraps_is_computed_in_32_bits() -> None:
    """Beyond them it is the largest or the smallest of these."""
    x, w = np.array([[1]], np.int8), np.array([[1], [1], [1]], np.int8)
    bias = np.array([1 << 30, -(1 << 30), 300], np.int32)
    small = Small("fully_connected", (-128, 127), ("int8", SY, 0), (1, 3),
                  x=(x, SX, 0), c_w=(w, 0.01, 0), c_b=(bias,), c_rq=(np.full(3, 4.0),))  # fmt: skip
    case = small_case(small, np.zeros((1, 3), np.int8))
    said = "signedness: the output is wrapped, not clipped"
    assert found("signedness", case)[said].make(case).tolist() == [[-1, 0, 1204 % 256 - 256]]


@pytest.mark.parametrize("mode", ["gemmlowp", "cmsis", "mul31"])
@pytest.mark.parametrize("factor", [1.0, 0.125])
@pytest.mark.parametrize(("x_type", "y_type"), [("int16", "int8"), ("int8", "int16"), ("int8", "int8")])
def test_the_real_scale_of_multipliers_of_sums_of_64_bits(mode: str, factor: float, x_type: str, y_type: str) -> None:
    """Where an operand or the output has 16 bits; its multipliers have fewer bits."""
    wide, real = "16" in x_type + y_type, np.array([SX * 0.01 / SY * factor, SX * 0.02 / SY * factor])
    x, w = np.array([[3, -4]], x_type), np.array([[5, 60], [-70, 8]], np.int8)
    small = Small("fully_connected", (-128, 127), (y_type, SY, ZY), (1, 2), x=(x, SX, 0), c_w=(w, 0.01, 0),
                  c_b=(np.zeros(2, np.int32),), c_rq=(parameters(mode, real, wide),))  # fmt: skip
    spec = small.graph.tensors["c_w"]
    small.graph.tensors["c_w"] = replace(spec, scale=(0.01, 0.02), zero_point=(0, 0), channel_axis=0)
    small.graph.rounding = mode
    of = linear(small_case(small, np.zeros((1, 2), y_type)))
    assert of is not None and (of.wide, of.dtype, of.axis) == (wide, y_type, 1)
    assert of.real == pytest.approx(real, rel=1e-4 if wide else 1e-6, abs=0)
    assert of.acc.tolist() == [[-225, -242]] and of.acc.dtype == np.int64


def test_a_matrix_product_of_one_scale_for_many() -> None:
    """Its second operand has a scale for each of four columns, its multiplier is one: of the first."""
    x, w = np.ones((2, 3), np.int8), np.ones((3, 4), np.int8)
    small = Small("matmul", (-128, 127), ("int8", SY, ZY), (2, 4), x=(x, SX, 0), c_w=(w, 0.01, 0),
                  c_rq=(np.float32([SX * 0.01 / SY]),))  # fmt: skip
    spec = small.graph.tensors["c_w"]
    small.graph.tensors["c_w"] = replace(spec, scale=(0.01, 0.5, 0.6, 0.7), zero_point=(0,) * 4, channel_axis=1)
    of = linear(small_case(small, np.zeros((2, 4), np.int8)))
    assert of is not None and of.real == pytest.approx([SX * 0.01 / SY], rel=1e-12)


def test_what_has_no_sum_of_its_own() -> None:
    unit = Table(4, 10)
    assert linear(unit.case(unit.y)) is None
    x, w = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    small = Small("matmul", (), ("float32", 0, 0), (2, 4), x=(x,), c_w=(w,))
    assert linear(small_case(small, np.zeros((2, 4), np.float32))) is None
    x, rq = np.ones((2, 3), np.int8), np.ones(1, np.float32)
    small = Small("mul", (-128, 127), ("int8", SY, ZY), (2, 3), x=(x, SX, 0), z=(x, SX, 0), rq=(rq,))
    assert linear(small_case(small, x)) is None  # what it is multiplied with is no constant
