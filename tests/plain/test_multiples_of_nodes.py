"""The reason of a finding says whether one factor makes what a side recorded of what the other one computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qverify.compare.multiples import describe_multiple
from qverify.model_bin.graph import Node
from qverify.model_bin.units import Unit
from qverify.tensors.spec import TensorSpec

Array = Any
REAL = np.random.default_rng(4).normal(size=(12, 16)) * 40
SPEC = TensorSpec("y", "int8", REAL.shape, scale=(0.02,), zero_point=(-5,))
FLOATS = TensorSpec("y", "float32", REAL.shape)


def unit(op: str = "add", depth: int = 16) -> Unit:
    node = Node("y", op, ("x",), ("y",), (depth,))
    return Unit("y", op, (node,), ("x",), ("y",), True)


def stored(real: Array) -> Array:
    return np.clip(np.rint(real) - 5, -128, 127).astype(np.int8)


def said(recorded: Array, op: str = "add") -> str:
    return describe_multiple(stored(REAL), stored(recorded), SPEC, unit(op))


@pytest.mark.parametrize("factor", [0.9, 1.1, 0.5])
def test_a_factor_is_said(factor: float) -> None:
    text = said(REAL * factor)
    assert text.startswith("every value is ") and text.endswith(", within the rounding of both: a scale")
    assert abs(float(text.split()[3]) - factor) < 0.01
    made = REAL.astype(np.float32)
    exactly = describe_multiple(made, (made * np.float32(factor)).astype(np.float32), FLOATS, unit())
    assert exactly == f"every value is {factor:g} times the computed one, within the rounding of both: a scale"


def test_a_variance_of_one_element_less() -> None:
    factor = float(np.sqrt(15 / 16))
    assert said(REAL * factor, "layer_norm").endswith(": a variance divided by n - 1")
    assert said(REAL * 0.9, "layer_norm").endswith(": a scale")
    assert said(REAL * factor, "rms_norm").endswith(": a scale")


def test_the_negative_is_said() -> None:
    assert (
        said(-REAL)
        == "every value is the negative of the computed one: a sign, or the operands of a subtraction exchanged"
    )


@pytest.mark.parametrize(
    "recorded",
    [REAL, REAL + 1, REAL + 9, np.floor(REAL), REAL[::-1], 0 * REAL, np.where(np.arange(16) % 4, REAL, 1.3 * REAL)],
    ids=["equal", "one more", "an offset", "rounded down", "another order", "zeros", "some channels"],
)
def test_nothing_else_is_a_multiple(recorded: Array) -> None:
    assert said(recorded) == ""


def test_other_shapes_types_and_values_say_nothing() -> None:
    made = REAL.astype(np.float32)
    assert describe_multiple(made, made[:4], FLOATS, unit()) == ""
    assert describe_multiple(0 * made, made, FLOATS, unit()) == ""
    assert describe_multiple(made, np.full_like(made, np.nan), FLOATS, unit()) == ""
    assert describe_multiple(stored(REAL), stored(REAL).astype(np.int16), SPEC, unit()) == ""
