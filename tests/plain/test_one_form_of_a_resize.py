"""A side that is not qvrt resizes in one form: what another form would excuse is a finding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qverify.compare.arithmetics import Rounded
from qverify.compare.catalogue import XNNPACK_RESIZE
from qverify.compare.documented_rounding import RoundingExplanation, explain
from qverify.compare.find_arithmetics import find_arithmetics
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.tensors.spec import TensorSpec

Array = Any
SIZE, WIDE = 9, 31


def network() -> tuple[Graph, Array, Array]:
    """Returns a resize of uint8 from 9x9 to 31x31 at half-pixel places, its input, and the exact values."""
    place = np.clip((np.arange(WIDE) + 0.5) * SIZE / WIDE - 0.5, 0, SIZE - 1)
    first = np.floor(place).astype(np.int32)
    second, part = np.minimum(first + 1, SIZE - 1), (place - first).astype(np.float32)
    index = np.concatenate([first, second] * 2).astype(np.int32)
    weight = np.concatenate([1 - part, part] * 2).astype(np.float32)
    x = np.random.default_rng(2).integers(0, 256, (1, 3, SIZE, SIZE)).astype(np.uint8)
    specs = {"x": TensorSpec("x", "uint8", x.shape, scale=(0.1,), zero_point=(7,))}
    specs["y"] = TensorSpec("y", "uint8", (1, 3, WIDE, WIDE), scale=(0.1,), zero_point=(7,))
    specs |= {"i": TensorSpec("i", "int32", index.shape), "w": TensorSpec("w", "float32", weight.shape)}
    graph = Graph(
        [Node("y", "resize_linear", ("x", "i", "w"), ("y",), (0,))], specs, {"i": index, "w": weight}, ("x",), ("y",)
    )
    rows = x[:, :, first] * (1 - part.astype(float))[:, None] + x[:, :, second] * part.astype(float)[:, None]
    return graph, x, rows[..., first] * (1 - part.astype(float)) + rows[..., second] * part.astype(float)


def explained(recorded: Array) -> RoundingExplanation:
    graph, x, exact = network()
    made = np.rint(exact).astype(np.uint8)
    return explain(units(graph)[0], "y", graph, {"x": x}, made, recorded.astype(np.uint8), "", "1 LSB")


def count_away_from_ties(recorded: Array, exact: Array) -> int:
    """Returns the number of elements that are not the nearest integer, by more than places in float32 move a value."""
    return int(np.count_nonzero(np.abs(recorded - exact) > 0.5 + 255 * 2.0**-21 * WIDE))


@pytest.mark.parametrize("rule", [np.rint, np.trunc, lambda v: np.floor(v + 0.5), lambda v: np.ceil(v - 0.5)])
def test_a_form_is_right_throughout(rule: Any) -> None:
    _, _, exact = network()
    assert explained(rule(exact)).unexplained == 0


@pytest.mark.parametrize("off", [0.1, -0.1, 0.05])
def test_what_is_added_before_the_rounding_is_a_finding(off: float) -> None:
    _, _, exact = network()
    recorded = np.clip(np.rint(exact + off), 0, 255)
    found = explained(recorded)
    assert found.unexplained == count_away_from_ties(recorded, exact) > 99 and found.recorded_fits is False


def test_one_plane_that_is_cut_off_is_another_form() -> None:
    _, _, exact = network()
    recorded = np.rint(exact)
    recorded[:, 1] = np.trunc(exact[:, 1])
    assert explained(recorded).unexplained == count_away_from_ties(recorded, exact) > 99


def test_the_weights_of_xnnpack_excuse_by_their_bytes_alone() -> None:
    graph, x, exact = network()
    unit = units(graph)[0]
    made = np.rint(exact).astype(np.uint8)
    rounded = Rounded(unit, "y", graph, {"x": x})
    bytes_of = rounded.formulas[XNNPACK_RESIZE](np.arange(made.size)).reshape(made.shape)
    assert (bytes_of != made).any() and explained(bytes_of).unexplained
    assert XNNPACK_RESIZE in find_arithmetics(rounded, made, bytes_of)
