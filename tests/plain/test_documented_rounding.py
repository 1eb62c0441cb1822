"""A board whose kernels are documented may differ near a tie, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from unittest import mock

import numpy as np
import pytest
from qverify.arithmetic.multipliers import add_parameters, parameters
from qverify.compare.documented_rounding import RoundingExplanation, explain
from qverify.compare.error_bounds.bounded_values import Whole
from qverify.compare.error_bounds.documented_kernels import rounded_twice
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.model_bin.float_functions import FUNCTIONS
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.ops import simulate_node
from qverify.renderers import verdict_lines
from qverify.tensors.spec import TensorSpec

from tests.plain.three_sides import record

SHAPES = {"x": (4, 64), "h": (4, 32), "y": (4, 8)}
SX, SW, SH, SY = 0.04, 0.003, 0.06, 0.05


def network(rounding: str) -> Graph:
    """Returns two fully connected layers, x -> h -> y, whose multipliers are those of this rounding."""
    rng, tensors, constants, nodes = np.random.default_rng(0), {}, {}, []
    for name, scale in (("x", SX), ("h", SH), ("y", SY)):
        tensors[name] = TensorSpec(name, "int8", SHAPES[name], SHAPES[name], (scale,), (3,))
    for source, to, scale in (("x", "h", SX * SW / SH), ("h", "y", SH * SW / SY)):
        w, b, rq = (f"{to}/{part}" for part in ("w", "b", "rq"))
        shape = (SHAPES[to][1], SHAPES[source][1])
        constants[w] = rng.integers(-127, 128, shape).astype(np.int8)
        constants[b] = rng.integers(-2000, 2000, shape[0]).astype(np.int32)
        constants[rq] = np.array([scale], np.float32) if rounding == "ref-exact" else parameters(rounding, [scale])
        tensors[w] = TensorSpec(w, "int8", shape, shape, (SW,), (0,))
        for n in (b, rq):
            tensors[n] = TensorSpec(n, str(constants[n].dtype), constants[n].shape, constants[n].shape)
        nodes.append(Node(to, "fully_connected", (source, w, b, rq), (to,), (-128, 127)))
    return Graph(nodes, tensors, constants, ("x",), ("y",), rounding)


REFERENCE, BOARD = network("ref-exact"), network("gemmlowp")


def inputs() -> np.ndarray:
    """Returns four inputs at which both arithmetics differ."""
    x, made, recorded = many()
    return x[(made != recorded).any(1)][:4]


@cache
def many() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns 4,000 inputs of the first layer, and what both arithmetics make of them."""
    x = np.random.default_rng(1).integers(-128, 128, (4000, 64)).astype(np.int8)
    made = [simulate_node(_of_rows(g, 4000), g.nodes[0], {"x": x})["h"] for g in (REFERENCE, BOARD)]
    return x, made[0], made[1]


def _of_rows(graph: Graph, rows: int) -> Graph:
    return replace(
        graph,
        tensors={
            n: replace(s, shape=(rows, s.shape[1]), aligned_shape=(rows, s.shape[1])) if n in SHAPES else s
            for n, s in graph.tensors.items()
        },
    )


def explained(recorded: np.ndarray, kernels: str = "litert-optimized") -> RoundingExplanation:
    x, made, _ = many()
    graph = _of_rows(REFERENCE, 4000)
    return explain(units(graph)[0], "h", graph, {"x": x}, made, recorded, kernels, "1 LSB")


def test_two_roundings_differ_only_near_ties():
    _, made, recorded = many()
    assert 20 < np.count_nonzero(made != recorded) < 5000
    within = "1 LSB, within 0.002 LSB of a tie"  # h is 2^-8.97 of x * w; the first of two roundings is to 2^-8
    assert explained(recorded) == RoundingExplanation(0, within)
    assert explained(recorded, "onnxruntime").why == ""  # no add


@pytest.mark.parametrize("fault", ["every", "one", "floor", "away"])
def test_a_step_that_is_at_no_tie_is_not_explained(fault):
    x, made, recorded = many()
    spoilt = recorded.astype(np.int64)
    exact = (x.astype(np.float64) - 3) @ REFERENCE.constants["h/w"].T.astype(np.float64)
    exact = (exact + REFERENCE.constants["h/b"]) * (SX * SW / SH)
    far = np.abs(exact - np.floor(exact) - 0.5) > 0.1
    at = tuple(np.argwhere(far)[7])
    if fault == "every":
        spoilt += 1
    elif fault == "one":
        spoilt[at] += 1
    else:
        spoilt = (np.floor(exact) if fault == "floor" else np.trunc(exact)).astype(np.int64) + 3
    spoilt = np.clip(spoilt, -128, 127).astype(np.int8)
    found = explained(spoilt)
    assert 0 < found.unexplained <= np.count_nonzero(spoilt != made)
    if fault == "one":
        where = f"1 element differs where LiteRT's optimised kernels have no tie, first {[int(i) for i in at]}"
        assert (found.unexplained, found.why) == (1, where)


def one_node(op: str, shape: tuple[int, ...] = (2, 4), words: tuple[int, ...] = (), **constants: np.ndarray) -> Graph:
    """Returns one node, x -> y, of this op."""
    tensors = {n: TensorSpec(n, "int8", shape, shape, (0.5,), (0,)) for n in ("x", "y")}
    tensors |= {n: TensorSpec(n, str(c.dtype), c.shape, c.shape) for n, c in constants.items()}
    return Graph([Node("y", op, ("x", *constants), ("y",), words)], tensors, constants, ("x",), ("y",))


def explained_in(graph: Graph, x: np.ndarray, made: np.ndarray, recorded: np.ndarray) -> RoundingExplanation:
    return explain(units(graph)[0], "y", graph, {"x": x}, made, recorded, "litert-xnnpack", "1 LSB")


def test_what_is_not_rounded_may_not_differ():
    graph, x = one_node("reshape"), np.arange(8, dtype=np.int8).reshape(2, 4)
    recorded = x.copy()
    recorded[1, 2:] += 1
    found = explained_in(graph, x, x, recorded)
    assert (found.unexplained, found.why) == (2, "2 elements differ where XNNPACK's kernels have no tie, first [1, 2]")
    assert explained_in(graph, x, recorded, x).unexplained == 2  # nor on the other side
    assert explained_in(graph, x, x, x).limit == "1 LSB, within 0 LSB of a tie"  # and the limit says so


def test_what_has_no_evaluation_is_not_explained():
    x = np.arange(8, dtype=np.int8).reshape(2, 4)
    table = (np.arange(256) * 7 % 251 - 125).astype(np.int8)
    found = explained_in(one_node("lookup", table=table), x, x, x + np.int8(1))
    assert (found.unexplained, found.limit, found.evaluated) == (8, "1 LSB", False)
    assert found.why == "no float64 evaluation of the table of a function"


def test_floats_have_a_bound_for_each_element():
    """A large value beside small ones excuses nothing."""
    x = np.array([[1e6, 0.25, -3.0, 2.0]], np.float32)
    tensors = {n: TensorSpec(n, "float32", x.shape) for n in ("x", "y")}
    root = Node("y", "elementwise_float", ("x",), ("y",), (FUNCTIONS["sqrt"].number, 0, 0))
    graph = Graph([root], tensors, {}, ("x",), ("y",))
    given = {"x": np.abs(x)}
    made = simulate_node(graph, root, given)["y"]

    def found(recorded: np.ndarray) -> RoundingExplanation:
        return explain(units(graph)[0], "y", graph, given, made, recorded.astype(np.float32), "", "limit")

    printed = np.array([0, 4e-6, 0, 0])  # as a text with five decimals has it
    assert found(made).limit == "within 0 of the exact value"  # nothing differs
    for by in (np.spacing(made) * np.array([1, 0, 0, 1]), 2.0**-19 * made, printed):
        assert (found(made + by).unexplained, found(made + by).evaluated) == (0, True)
    assert found(made + np.array([0, 1e-3, 0, 0])).unexplained == 1
    assert found(made + np.array([0, 1e-3, np.nan, 0])).why == "2 elements differ beyond that error, first [0, 1]"


def test_an_infinity_or_nan_is_right_on_the_side_that_has_the_exact_one() -> None:
    x = np.array([np.inf, -1.0, 4.0], np.float32)
    tensors = {n: TensorSpec(n, "float32", x.shape) for n in ("x", "y")}
    root = Node("y", "elementwise_float", ("x",), ("y",), (FUNCTIONS["sqrt"].number, 0, 0))
    graph = Graph([root], tensors, {}, ("x",), ("y",))
    right, wrong = np.array([np.inf, np.nan, 2.0], np.float32), np.array([1.0, -1.0, 2.0], np.float32)
    for made, recorded, fits in ((wrong, right, True), (right, wrong, False)):
        found = explain(units(graph)[0], "y", graph, {"x": x}, made, recorded, "", "limit")
        assert (found.unexplained, found.recorded_fits) == (2, fits)


def test_where_nothing_can_be_evaluated_nothing_is_explained():
    x, made = many()[:2]
    graph = _of_rows(REFERENCE, 4000)
    recorded = made + np.int8(1)
    found = explain(units(graph)[0], "h", graph, {"x": x[:9]}, made, recorded, "litert-xnnpack", "1 LSB")
    assert (found.unexplained, found.limit, found.evaluated) == (made.size, "1 LSB", False) and found.why


def test_the_bound_of_a_double_rounding():
    """S = q * 2^k is first rounded to a multiple of 2^k."""
    assert rounded_twice(0.25).tolist() == 0.25 and rounded_twice(0.2).tolist() == 0.125
    assert rounded_twice(0.5).tolist() == rounded_twice(1.7).tolist() == 0.0


def run(graph: Graph, change=None):
    """Returns a function that runs one unit in the graph's arithmetic. change: what is done to h."""

    def made(unit, given):
        values = simulate_node(graph, unit.nodes[0], dict(given))
        return {**values, "h": change(values["h"])} if change is not None and "h" in values else values

    return made


def judged(board, kernels="litert-optimized", options=None, lacking="", x=None):
    x = inputs() if x is None else x
    sides = {"reference": run(REFERENCE), "simulator": run(REFERENCE), "board": board}
    recordings = {}
    for name, made in sides.items():
        recording = recordings[name] = record(name, made, graph=REFERENCE, x=x)
        if name == "board":
            recording.runtime, recording.kernels = "litert", kernels
        recording.tensors.pop(lacking, None)
    runs = {n: sides[n] for n in ("reference", "simulator")}
    return judge_all(recordings, REFERENCE, units(REFERENCE), options or Options(dump_all=True), runs, None, {"x": x})


def test_a_board_that_rounds_otherwise_at_a_tie_passes_and_the_line_says_so():
    report = judged(run(BOARD))
    assert report.verdict == "PASSED" and report.blame is None
    for line in verdict_lines.render(report).splitlines()[1:3]:
        assert "judged node by node, as LiteRT's optimised kernels round in their own way; free-running up to " in line
    assert any(n.startswith("--strict would have FAILED") for n in report.pairs[1].notes)


@pytest.mark.parametrize(
    "how", [{"kernels": ""}, {"options": Options(dump_all=True, strict=True)}, {"options": Options(max_lsb=0)}]
)
def test_where_nothing_is_known_of_its_kernels_or_strict_is_given_the_literal_rule_stays(how):
    report = judged(run(BOARD), **how)
    assert report.verdict == "FAILED" and report.blame is None and report.pairs[1].node_by_node is None


def test_a_fault_of_one_step_is_not_excused():
    def shifted(h):
        return np.clip(h.astype(np.int64) + 1, -128, 127).astype(np.int8)

    report = judged(run(REFERENCE, shifted))
    assert report.verdict == "FAILED" and report.pairs[1].cause == "node"
    assert (report.blame.side, report.blame.node) == ("board", "h")
    assert "all 116 too high by 1 LSB; 3 of them near a tie; the inputs of both sides are equal" in report.blame.why
    assert report.pairs[1].tensors[0].forced.unexplained > 50


def test_what_was_recorded_of_no_input_is_not_excused():
    """h is the same on every side by its digest, and its bytes are on none."""

    def last(unit, given):
        return run(BOARD if unit.name == "y" else REFERENCE)(unit, given)

    x, h, _ = many()
    y = [simulate_node(_of_rows(g, 4000), g.nodes[1], {"h": h})["y"] for g in (REFERENCE, BOARD)]
    x = x[(y[0] != y[1]).any(1)][:4]
    assert judged(last, x=x).verdict == "PASSED"
    pair = judged(last, lacking="h", x=x).pairs[1]
    assert pair.verdict == "FAILED" and pair.cause == "unlocated"
    forced = next(row.forced for row in pair.tensors if row.name == "y")
    assert forced.verdict == "INCONCLUSIVE" and forced.why == "its input h is missing on the board"


def test_a_fault_beyond_one_step_is_blamed():
    report = judged(run(REFERENCE, lambda h: np.clip(h.astype(np.int64) + 2, -128, 127).astype(np.int8)))
    assert report.verdict == "FAILED" and (report.blame.side, report.blame.node) == ("board", "h")


def test_the_add_of_onnxruntime_on_arm_is_recognised():
    shape, rng = (20000,), np.random.default_rng(3)
    specs = {
        n: TensorSpec(n, "int8", shape, shape, (s,), (z,))
        for n, s, z in (("a", 0.05, 3), ("b", 0.05, -7), ("y", 0.1, 9))
    }
    r1, r2 = np.float32(0.5), np.float32(0.5)
    rq = np.array([r1, r2, 9 - (3 * r1 - 7 * r2)], np.float32)
    node = Node("y", "add", ("a", "b", "rq"), ("y",), (0, -128, 127))
    graph = Graph([node], {**specs, "rq": TensorSpec("rq", "float32", (3,), (3,))}, {"rq": rq}, ("a", "b"), ("y",))
    given = {n: rng.integers(-128, 128, shape).astype(np.int8) for n in ("a", "b")}
    made = simulate_node(graph, node, given)["y"]
    arm = replace(graph, constants={"rq": add_parameters("mul22", 0.5, 0.5)}, rounding="mul22")
    arm = replace(arm, tensors={**specs, "rq": TensorSpec("rq", "int32", (3,), (3,))})
    recorded = simulate_node(arm, node, given)["y"]
    found = explain(units(graph)[0], "y", graph, given, made, recorded, "onnxruntime", "1 LSB")
    assert np.count_nonzero(made != recorded) > 0 and found.unexplained == 0 and "22 bits" in found.why
    recorded[np.argmin(recorded)] += 1
    assert "22 bits" not in explain(units(graph)[0], "y", graph, given, made, recorded, "onnxruntime", "1 LSB").why


def test_an_error_without_a_limit_explains_no_integer() -> None:
    x, made, recorded = many()
    graph = _of_rows(REFERENCE, 4000)
    at = np.flatnonzero(made != recorded)

    def evaluate(*_: object) -> list[tuple[np.ndarray, Whole]]:
        value = made.reshape(-1)[at].astype(np.int64)
        return [(at, Whole(value - 99, value + 99, np.full(len(at), np.inf)))]

    with mock.patch("qverify.compare.error_bounds.documented_kernels.evaluate_documented", evaluate):
        found = explain(units(graph)[0], "h", graph, {"x": x}, made, recorded, "", "1 LSB")
    assert not found.evaluated and "whose error has no limit" in found.why


def test_an_error_without_a_limit_does_not_hide_an_element_beyond_its_own() -> None:
    x, made, recorded = (v.copy() for v in many())
    graph = _of_rows(REFERENCE, 4000)
    recorded.reshape(-1)[5] = made.reshape(-1)[5] ^ 64
    at = np.flatnonzero(made != recorded)

    def evaluate(*_: object) -> list[tuple[np.ndarray, Whole]]:
        value = made.reshape(-1)[at].astype(np.int64)
        return [(at, Whole(value - 1, value + 1, np.where(at == 5, 0.1, np.inf)))]

    with mock.patch("qverify.compare.error_bounds.documented_kernels.evaluate_documented", evaluate):
        found = explain(units(graph)[0], "h", graph, {"x": x}, made, recorded, "", "1 LSB")
    assert found.evaluated and found.unexplained == 1 and "within 0.1 LSB" in found.limit


def test_the_limit_is_not_that_of_elements_whose_error_decides_nothing() -> None:
    """An element that is saturated at any error of its own does not widen what is said of the others."""
    x, made, _ = (v.copy() for v in many())
    graph, at = _of_rows(REFERENCE, 4000), np.arange(2)
    made.reshape(-1)[:2] = 5, 127
    recorded = made.copy()
    recorded.reshape(-1)[:2] = 6, 126
    saturated_at = Whole(np.array([5, 127]), np.array([6, 127]), np.array([0.3, 1.5]))
    with mock.patch(
        "qverify.compare.error_bounds.documented_kernels.evaluate_documented", lambda *_: [(at, saturated_at)]
    ):
        found = explain(units(graph)[0], "h", graph, {"x": x}, made, recorded, "", "1 LSB")
    assert (found.unexplained, found.limit) == (1, "1 LSB, within 0.3 LSB of a tie")
    assert found.why == "1 element differs where the exact value has no tie, first [0, 1]"
