"""Faults of scales where there are two channels, one input, or one that is no number; and of sums beyond 32 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.plain.fault_units import found, small_case
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
