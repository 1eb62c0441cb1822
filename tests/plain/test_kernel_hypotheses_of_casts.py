"""Faults of casts and of the newer float functions, planted here in plain numpy: their families give the very bytes, and not
bytes near them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qverify.model_bin.float_functions import FUNCTIONS
from qverify.triage.case import Case, element_bits

from tests.plain.fault_units import PAGES, small_case
from tests.plain.forensic_units import Small

Array = Any
F = np.float32


def word(value: float) -> int:
    return int(np.array(value, F).view(np.int32))


def said_of(family: str, case: Case) -> list[str]:
    """What the family's faults that give the recorded bytes say."""
    with np.errstate(all="ignore"):
        made = [(v.text, v.make(case)) for v in PAGES[family].variants(case)]
    return [said for said, y in made if np.array_equal(element_bits(y), element_bits(case.recorded))]


# ---- casts and float functions

V = np.array([-3.7, -1.5, -0.5, -0.2, 0.0, 0.3, 0.5, 0.8, 1.5, 2.5, 2.6, 7.9], F)
CASTS = {
    "nearest": ("int32", np.rint(V), "to the nearest, ties to even, not truncated"),
    "down": ("int32", np.floor(V), "down (floor), not truncated"),
    "bool of whole numbers": ("bool", np.trunc(V) != 0, "truncated to an integer (values between -1 and 1 are false)"),
    "bool above a half": ("bool", np.abs(V) >= 0.5, "half away from zero"),
}


@pytest.mark.parametrize("name", CASTS)
def test_a_fault_of_a_cast_is_found(name: str) -> None:
    dtype, y, text = CASTS[name]
    unit = Small("cast", (), (dtype, 0, 0), V.shape, x=(V,))
    assert any(text in said for said in said_of("cast-rules", small_case(unit, y.astype(dtype))))
    assert not said_of("cast-rules", small_case(unit, np.roll(y.astype(dtype), 1)))


def sigmoid(x: Array) -> Array:
    return np.where(x >= 4, 1.0, np.where(x <= -4, 0.0, 1 / (1 + np.exp(-x))))


U = np.linspace(-7, 7, 96).astype(F)
NEAR = np.clip(U, -3, 3).astype(float)
FUNCTION_FAULTS: dict[str, tuple[str, tuple[float, float], Array, str, str]] = {
    "swish of a short sigmoid": (
        "swish",
        (1.702, 0.0),
        U.astype(float) * sigmoid(float(F(1.702)) * U.astype(float)),
        "float-functions",
        "sigmoid is computed as 0 or 1 from 4 on",
    ),
    "shrink without bias": (
        "shrink",
        (1.5, 0.5),
        np.where(np.abs(U) > 1.5, U, 0.0),
        "float-elements",
        "ignores its bias",
    ),
    "sine of a parabola": (
        "sin",
        (0.0, 0.0),
        4 / np.pi * NEAR - 4 / np.pi**2 * NEAR * np.abs(NEAR),
        "float-elements",
        "sin is a parabola",
    ),
}


def float_function(name: str, p: float, q: float, x: Array, y: Array) -> Case:
    unit = Small(
        "elementwise_float", (FUNCTIONS[name].number, word(p), word(q)), ("float32", 0, 0), x.shape, x=(x.astype(F),)
    )
    return small_case(unit, y.astype(F))


@pytest.mark.parametrize("name", FUNCTION_FAULTS)
def test_a_fault_of_a_float_function_is_found(name: str) -> None:
    function, (p, q), y, family, text = FUNCTION_FAULTS[name]
    x = NEAR if function == "sin" else U
    found = said_of(family, float_function(function, p, q, x, y))
    assert any(text in said for said in found), found
    near = y.copy()
    near[-3:] += 0.01
    assert not said_of(family, float_function(function, p, q, x, near))


def test_ties_rounded_away_from_zero_are_found() -> None:
    x = np.arange(-6, 7) / 2
    y = np.copysign(np.floor(np.abs(x) + 0.5), x)
    assert "round rounds ties away from zero" in said_of("float-elements", float_function("round", 0, 0, x, y))
