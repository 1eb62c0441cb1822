"""Where the magnitudes of what a recurrence adds or multiplies may overflow in float32, its steps are lost, and what has no bound
says so (NUMERICS.md section 4)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from qverify.arithmetic.recurrences import RECURRENT
from qverify.compare.error_bounds import recurrences
from qverify.compare.error_bounds.bounded_values import NoBound, Real, bound_exactly
from qverify.compare.error_bounds.recurrent_gates import GateKernel
from qverify.model_bin.graph import Graph, Node

from tests.plain.error_pages import FLUSHED, real, word
from tests.plain.test_error_bounds_of_steps import COUNTS, bounded, draw


def one(op: str, names: tuple[str, ...], y: list[float], flag: int = 0, **operands: Any) -> list[Any]:
    """A recurrence of one unit on one input, of which everything else is 0."""
    count, steps = COUNTS[op], len(y)
    shapes = {"x": (steps, 1, 1), "w": (1, count, 1), "r": (1, count, 1), "b": (1, 2 * count)}
    shapes |= {"h": (1, 1, 1), "c": (1, 1, 1), "p": (1, 3)}
    of = {n: np.reshape(np.array(operands.get(n, np.zeros(s)), np.float64), s) for n, s in shapes.items()}
    return bounded(op, of | {"y": np.reshape(np.array(y, np.float64), (steps, 1, 1, 1))}, names, flag=flag)


def lost(found: Real) -> list[bool]:
    return [False] * found.value.size if found.lost is None else found.lost.ravel().tolist()


TOP = 2.0**127


@pytest.mark.parametrize(
    ("operands", "wanted"),
    [
        ({"x": [0, TOP, 0], "w": [1.0]}, [False, True, False]),
        ({"x": [0, TOP / 1.01, 0], "w": [1.0]}, [False, False, False]),
        ({"x": [0, TOP / 2, 0], "w": [1.0], "b": [-TOP / 2, 0]}, [False, True, False]),
        ({"x": [0, TOP / 2, 0], "w": [1.0], "b": [0, -TOP / 2]}, [False, True, False]),
        ({"h": [TOP], "r": [-1.0]}, [True, False, False]),
        ({"h": [TOP / 2], "x": [TOP / 2, 0, 0], "r": [1.0], "w": [-1.0]}, [True, False, False]),
    ],
)
def test_a_gate_is_lost_where_the_magnitudes_of_its_terms_overflow(
    operands: dict[str, list[float]], wanted: list[bool]
) -> None:
    y, last = one("rnn", ("tanh",), [0.0, 0.0, 0.0], **operands)
    assert lost(y) == wanted and lost(last) == wanted[-1:]


@pytest.mark.parametrize("recorded", [math.inf, -math.inf, math.nan])
def test_the_step_after_a_state_that_is_not_finite_is_lost(recorded: float) -> None:
    weights = {"r": 1.0}
    y, last = one("rnn", ("tanh",), [0.0, recorded, 0.0, 0.0], **weights)
    assert lost(y) == [False, False, True, False] and lost(last) == [False]
    for flag in (0, 1):
        y, last = one("gru", ("sigmoid", "tanh"), [0.0, recorded, 0.0], flag, r=[1.0, 1.0, 1.0])
        assert lost(y) == [False, False, True] and lost(last) == [True]
    y, last, c = one("lstm", ("sigmoid", "tanh", "tanh"), [0.0, recorded, 0.0, 0.0], r=[1.0, 1.0, 1.0, 1.0])
    assert lost(y) == [False, False, True, True] and lost(last) == [True] and lost(c) == [True]


@pytest.mark.parametrize(
    ("operands", "wanted"),
    [
        ({"c": [TOP]}, [False, False]),  # half of it
        ({"c": [1.99 * TOP], "b": [0, 0, 9.0, 0] + [0] * 4}, [True, True]),
        ({"c": [TOP / 8], "p": [8.0, 0, 0]}, [True, True]),
        ({"c": [TOP / 8], "p": [7.9, 0, 0]}, [False, False]),
        ({"c": [TOP / 8], "p": [0, 0, 8.0]}, [True, True]),
        ({"c": [TOP], "p": [0, 2.0, 0]}, [True, False]),  # o reads the new c, a half and then a quarter
        ({"c": [TOP / 8], "p": [4.0, 0, 0], "b": [TOP / 2, 0, 0, 0] + [0] * 4}, [True, True]),
    ],
)
def test_what_a_lstm_computes_from_large_cells_is_lost(operands: dict[str, list[float]], wanted: list[bool]) -> None:
    y, _, c = one("lstm", ("sigmoid", "tanh", "tanh"), [0.0, 0.0], **operands)
    assert lost(y) == wanted and lost(c) == [wanted[1]]


def test_a_large_state_of_a_gru_is_lost() -> None:
    for h, wanted in ((TOP, True), (TOP / 1.5, True), (TOP / 1.6, False)):  # |z * h| + |h|, z of a half
        assert lost(one("gru", ("sigmoid", "tanh"), [0.0, 0.0], h=[h])[0]) == [wanted, False]
    y, _ = one("gru", ("sigmoid", "tanh"), [0.0, 0.0], 1, x=[0, TOP / 2], w=[0, 0, 1.0], b=[0, 0, 0, 0, 0, TOP])
    assert lost(y) == [True, True]
    for flag in (0, 1):
        y, _ = one("gru", ("sigmoid", "tanh"), [0.0, 0.0], flag, x=[0, TOP], w=[0, 1.0, 0])
        assert lost(y) == [False, True]  # by r


@pytest.mark.parametrize(("above", "wanted"), [(2.0**128 - 2.0**103, 1.0), (2.0**128 - 2.0**104, 0.0)])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_of_x_beyond_float32_is_infinite_whatever_is_added(sign: int, above: float, wanted: float) -> None:
    """It is also infinite in qverify's own sides, which round it before they add h."""
    y, _ = one("rnn", ("tanh",), [0.0], x=[sign * above], w=[1.0], h=[-sign * above], r=[1.0])
    assert y.value.ravel().tolist() == [sign * wanted] and lost(y) == [True]
    names = ("sigmoid", "tanh")
    y, _ = one(
        "gru", names, [0.0], x=[sign * above], w=[0, 0, 1.0], b=[0, 40, 0, 0, 0, 0], h=[-sign * above], r=[0, 0, 1.0]
    )
    assert lost(y) == [True] and bool(np.isfinite(y.value).all())


@pytest.mark.parametrize("name", ["leaky_relu", "elu", "thresholded_relu"])
def test_a_gate_that_rises_and_falls_has_no_bound(name: str) -> None:
    of = draw("rnn", 1)
    bounded("rnn", of, (name,))
    words = (0, word(0.0), RECURRENT.index(name), word(-0.5), word(0.0))
    graph = Graph([], {}, {}, (), ())
    node = Node("y", "rnn", tuple("xwrb"), ("y", "h"), words)
    with pytest.raises(NoBound, match=f"{name} of a negative alpha"):
        recurrences.rnn(node, [bound_exactly(of[n]) for n in "xwrb"], graph, {"y": of["y"]})
    zero = Node("y", "rnn", tuple("xwrb"), ("y", "h"), (*words[:3], word(0.0), word(0.0)))
    recurrences.rnn(zero, [bound_exactly(of[n]) for n in "xwrb"], graph, {"y": of["y"]})


def test_a_recurrence_without_its_states_or_of_inexact_floats_has_no_bound() -> None:
    of, graph = draw("rnn", 1), Graph([], {}, {}, (), ())
    node = Node("y", "rnn", tuple("xwr"), ("y", "h"), (0, word(0.0), RECURRENT.index("tanh"), 0, 0))
    inputs: list[Any] = [bound_exactly(of[n]) for n in "xwr"]
    with pytest.raises(NoBound, match="rnn without its states"):
        recurrences.rnn(node, inputs, graph, {"h": of["y"]})
    with pytest.raises(NoBound, match="rnn of inexact floats"):
        recurrences.rnn(node, [real(of["x"], 0.1), *inputs[1:]], graph, {"y": of["y"]})


def test_one_large_state_of_a_gru_loses_every_unit_of_its_row_and_no_other_row() -> None:
    of = draw("gru", 1, rows=2, x=np.zeros((3, 2, 2)), lengths=np.array([1, 1], np.int32))
    of["h"], of["b"] = np.array([[[2.0**127, 0.0], [0.5, 0.25]]]), np.zeros_like(of["b"])
    of["b"][0, 2:4] = 40.0  # r is 1
    of["r"] = np.zeros_like(of["r"])
    found = bounded("gru", of, ("sigmoid", "tanh"))[0]
    assert found.lost is not None and found.lost[0, 0].tolist() == [[True, True], [False, False]]
    assert not found.lost[1:].any()


def test_of_zeros_each_term_and_both_sums_lose_what_flushing_does() -> None:
    zero = np.zeros(1)
    for own, flushed in ((False, 4 + 2), (True, 1)):  # qverify's own sum is rounded once
        assert GateKernel(own).sums(4, zero, zero, zero).error.tolist() == [flushed * FLUSHED]
