"""Tests of the bounds of lstm, gru and rnn: float32 in another order passes, a gate that is slightly wrong does not, over any number
of steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qverify.arithmetic.recurrences import RECURRENT
from qverify.compare.documented_rounding import explain
from qverify.compare.limits import limit_for
from qverify.compare.tie_aware import ExactUnit, TieAwareResult, check_both, choose_tie_aware_limit
from qverify.compiler.builder import float_word
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.ops import simulate_node
from qverify.tensors.spec import TensorSpec

STEPS, BATCH, INPUTS, HIDDEN = 60, 2, 9, 12
GATES = {"lstm": (4, ("sigmoid", "tanh", "tanh")), "gru": (3, ("sigmoid", "tanh")), "rnn": (1, ("tanh",))}
Array = np.ndarray[Any, Any]


def recurrence(op: str, spread: float = 0.4, **given: Array) -> Graph:
    """A graph of one node with constant weights; given: further constants by name."""
    gates, functions = GATES[op]
    rng = np.random.default_rng(3)
    shapes = {"w": (1, gates * HIDDEN, INPUTS), "r": (1, gates * HIDDEN, HIDDEN), "b": (1, 2 * gates * HIDDEN)}
    constants = {n: rng.normal(0, spread, s).astype(np.float32) for n, s in shapes.items()} | given
    state = (1, BATCH, HIDDEN)
    outputs = {"y": (STEPS, 1, BATCH, HIDDEN), "last_h": state} | ({"last_c": state} if op == "lstm" else {})
    specs = [TensorSpec("x", "float32", (STEPS, BATCH, INPUTS))]
    specs += [TensorSpec(n, "float32", s, integer_reference=False) for n, s in outputs.items()]
    specs += [TensorSpec(n, v.dtype.name, v.shape) for n, v in constants.items()]
    words = [0, float_word(0.0), *([] if op == "rnn" else [0])]
    words += [RECURRENT.index(f) for f in functions] + [float_word(0.0)] * (2 * len(functions))
    inputs = ("x", "w", "r", "b", *[n if n in given else None for n in ("lengths", "h", "c", "p")])
    node = Node("y", op, inputs[: 8 if op == "lstm" else 6], tuple(outputs), tuple(words), (), False)
    return Graph([node], {s.name: s for s in specs}, constants, ("x",), tuple(outputs), "ref-exact")


def simulated(graph: Graph, x: Array) -> dict[str, Array]:
    return simulate_node(graph, graph.nodes[0], {"x": x})


def in_float32(graph: Graph, x: Array) -> dict[str, Array]:
    """The lstm with every operation in float32, and the sums backwards."""
    w, r, b = (graph.constants[n][0] for n in "wrb")
    h, c = (np.zeros((BATCH, HIDDEN), np.float32) for _ in range(2))
    y = np.zeros((STEPS, 1, BATCH, HIDDEN), np.float32)
    for t in range(STEPS):
        terms = [h[:, None, ::-1] * r[None, :, ::-1], x[t][:, None, ::-1] * w[None, :, ::-1]]
        s = np.concatenate(terms, -1).cumsum(-1, dtype=np.float32)[..., -1] + (b[: len(w)] + b[len(w) :])
        i, o, f, g = np.split(s, 4, -1)
        i, o, f = (np.float32(1) / (np.float32(1) + np.exp(-v)) for v in (i, o, f))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        y[t, 0] = h
    return {"y": y, "last_h": h[None], "last_c": c[None]}


def judged(
    graph: Graph, x: Array, made: dict[str, Array], recorded: dict[str, Array], *outputs: str
) -> dict[str, bool]:
    """Returns whether each of these outputs passes; by default, of all."""
    (unit,) = units(graph)
    results = {}
    for name in outputs or unit.outputs:
        plain = limit_for(unit, name, graph)
        limit, by_ties = choose_tie_aware_limit(plain, unit, name, graph)
        assert by_ties
        exact = ExactUnit(unit, name, graph, {"x": x}, made, recorded)
        result = check_both(exact, made[name], recorded[name], limit, plain)
        assert isinstance(result, TieAwareResult)
        results[name] = result.holds
    return results


def x_of(seed: int) -> Array:
    return np.random.default_rng(seed).normal(0, 1, (STEPS, BATCH, INPUTS)).astype(np.float32)


@pytest.mark.parametrize("spread", [0.4, 2.0])
def test_float32_in_another_order_is_within_the_bound(spread: float) -> None:
    """With a spread of 2.0 an error grows from step to step, so that the two runs drift apart; each step of each is right."""
    graph, x = recurrence("lstm", spread), x_of(1)
    made, ours = in_float32(graph, x), simulated(graph, x)
    assert not np.array_equal(made["y"], ours["y"])
    assert judged(graph, x, made, ours) == {"y": True, "last_h": True, "last_c": True}


def test_a_board_of_another_runtime_is_held_to_its_own_steps_alone() -> None:
    """The simulator's run drifts away from a board's that is right; a board that is wrong at one step is found."""
    graph, x = recurrence("lstm", 2.0), x_of(1)
    made, recorded = simulated(graph, x), in_float32(graph, x)

    def unexplained(name: str, **changed: Array) -> int:
        outputs = {**recorded, **changed}
        found = explain(units(graph)[0], name, graph, {"x": x}, made[name], outputs[name], "", "", outputs, half=0.0)
        assert found.evaluated
        return found.unexplained

    assert [unexplained(name) for name in recorded] == [0, 0, 0]
    wrong = recorded["y"].copy()
    wrong[STEPS // 2, 0, 0, 1] += np.float32(0.01)
    assert unexplained("y", y=wrong) > 0


@pytest.mark.parametrize("spread", [0.4, 2.0])
@pytest.mark.parametrize("op", GATES)
def test_equal_sides_pass(op: str, spread: float) -> None:
    graph, x = recurrence(op, spread), x_of(2)
    right = simulated(graph, x)
    assert judged(graph, x, right, right) == dict.fromkeys(units(graph)[0].outputs, True)


@pytest.mark.parametrize("spread", [0.4, 2.0])
@pytest.mark.parametrize(("op", "gate"), [(op, g) for op, (count, _) in GATES.items() for g in range(count)])
def test_a_bias_that_is_off_by_2_to_the_minus_9_is_found(op: str, gate: int, spread: float) -> None:
    """In one unit of one gate, on either side."""
    graph, x = recurrence(op, spread), x_of(2)
    b = graph.constants["b"].copy()
    b[0, gate * HIDDEN + 5] += np.float32(2.0**-9 * np.abs(b).max())
    right, faulty = simulated(graph, x), simulated(recurrence(op, spread, b=b), x)
    for sides in ((right, faulty), (faulty, right)):
        assert judged(graph, x, *sides, "y") == {"y": False}


def test_a_last_state_that_is_not_the_last_step_is_found() -> None:
    graph, x = recurrence("lstm"), x_of(4)
    right = simulated(graph, x)
    late = right | {"last_h": right["y"][-2]}
    assert judged(graph, x, right, late) == {"y": True, "last_h": False, "last_c": True}


def test_a_last_cell_that_is_slightly_off_is_found() -> None:
    graph, x = recurrence("lstm"), x_of(4)
    right = simulated(graph, x)
    off = right | {"last_c": right["last_c"] * np.float32(1 + 2.0**-15)}
    assert judged(graph, x, right, off, "last_c") == {"last_c": False}


def test_states_from_which_a_sequence_begins() -> None:
    rng = np.random.default_rng(7)
    h, c = (rng.normal(0, 3, (1, BATCH, HIDDEN)).astype(np.float32) for _ in range(2))
    graph, x = recurrence("lstm", h=h, c=c), x_of(6)
    right, zero = simulated(graph, x), simulated(recurrence("lstm"), x)
    assert all(judged(graph, x, right, right).values())
    assert np.array_equal(graph.constants["c"], c)
    nearby = right | {"y": np.nextafter(right["y"], np.float32(2))}
    assert judged(graph, x, right, zero, "y") == {"y": False}
    assert judged(graph, x, nearby, right, "y") == {"y": True}


def test_sequences_of_their_own_lengths_are_zero_behind_their_ends() -> None:
    graph, x = recurrence("lstm", lengths=np.array([STEPS - 7, 0], np.int32)), x_of(5)
    right = simulated(graph, x)
    assert not right["y"][STEPS - 7 :].any() and not right["y"][:, 0, 1].any() and not right["last_h"][0, 1].any()
    wrong = right | {"y": right["y"].copy()}
    wrong["y"][STEPS - 1, 0, 0, 3] = 1e-6
    assert judged(graph, x, right, wrong, "y") == {"y": False}


def test_a_length_beyond_the_steps_is_refused() -> None:
    graph = recurrence("lstm", lengths=np.array([STEPS + 1, 0], np.int32))
    with pytest.raises(ValueError, match=f"a sequence length outside 0..{STEPS}"):
        simulated(graph, x_of(5))
