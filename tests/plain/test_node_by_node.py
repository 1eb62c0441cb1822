"""What follows a node whose reference is float is judged by its nodes recomputed, and no fault hides behind that."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from qverify.compare.node_by_node import CHOICES, find_after_float, find_agreeing
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.islands import HostIsland, HostNode
from qverify.model_bin.units import units
from qverify.renderers import verdict_lines
from qverify.report.document import Forced

from tests.plain.three_sides import X, record, spec, step, wrong_at

NAMES = ("x", "n1", "n2", "n3", "y")


def chain_with_a_float_node(at="n2"):
    """x -> n1 -> n2 -> n3 -> y, each adding one; onnxruntime has no integer kernel for the node `at`."""
    nodes = [
        Node(b, "layer_norm" if b == at else "add", (a,), (b,), integer_reference=b != at)
        for a, b in itertools.pairwise(NAMES)
    ]
    return Graph(nodes, {n: spec(n) for n in NAMES}, {}, ("x",), ("y",))


def judged(sim, board=None, ref=step, options=None, run=None, graph=None, **caps):
    graph = graph or chain_with_a_float_node()
    sides = {
        "reference": record("reference", ref, graph=graph),
        "simulator": record("simulator", sim, graph=graph),
        "board": record("board", board or sim, graph=graph, **caps),
    }
    runs = {"reference": run or ref, "simulator": sim}
    return judge_all(sides, graph, units(graph), options or Options(dump_all=True), runs, None, {"x": X})


def test_tensors_after_a_float_node():
    graph = chain_with_a_float_node("n2")
    assert find_after_float(graph, units(graph)) == {"n2", "n3", "y"}
    passed = {n: Forced("PASSED", 0, 0) for n in ("n1", "n2", "n3", "y")}
    assert find_agreeing(graph, units(graph), passed, {}) == {*NAMES}
    for unknown in (
        {**passed, "n2": Forced("INCONCLUSIVE", None, None)},
        {n: f for n, f in passed.items() if n != "n2"},
    ):
        assert find_agreeing(graph, units(graph), unknown, {}) == {"x", "n1"}
        equal = dict.fromkeys(("n1", "n2"), True)
        assert find_agreeing(graph, units(graph), unknown, equal) == {*NAMES}
        assert find_agreeing(graph, units(graph), unknown, {"n1": True, "n2": False}) == {"x", "n1"}


def test_what_an_island_makes_of_equal_tensors_is_equal():
    """y need not be recomputed where the island's inputs, and y itself, are equal."""
    graph = chain_with_a_float_node("n2")
    nodes = [n for n in graph.nodes if n.name != "n3"]
    island = HostIsland(("n2",), (), ("n3",), (), (HostNode("h", "Det", ""),))
    graph = replace(graph, nodes=nodes, islands=(island,))
    passed = {n: Forced("PASSED", 0, 0) for n in ("n1", "n2")}
    for same, agreeing in (({"n2": True, "y": True}, {*NAMES}), ({"y": True}, {*NAMES} - {"y"})):
        assert find_agreeing(graph, units(graph), passed, same) == agreeing


@pytest.fixture
def one_step_allowed(monkeypatch):
    """A limit of 1 LSB at n2, as a node without an integer reference has one; 0 elsewhere."""
    from qverify.compare import forced, limits

    def limit(unit, output, graph):
        return replace(limits.limit_for(unit, output, graph), lsb=int(output == "n2"))

    monkeypatch.setattr(forced, "limit_for", limit)


@pytest.mark.usefixtures("one_step_allowed")
@pytest.mark.parametrize("dump_all", [False, True])
def test_a_step_of_a_float_node_that_is_carried_on_passes_and_is_said(dump_all):
    report = judged(wrong_at("n2"), options=Options(dump_all=dump_all))
    assert report.verdict == "PASSED"
    tensors = "3 tensors" if dump_all else "1 tensor"
    for line in verdict_lines.render(report).splitlines()[:2]:
        assert f"{tensors} after float nodes judged node by node; free-running up to 1 LSB" in line
    assert "PASSED" in verdict_lines.render(report).splitlines()[2] and report.pairs[2].node_by_node is None


@pytest.mark.usefixtures("one_step_allowed")
@pytest.mark.parametrize("op", CHOICES)
def test_another_choice_after_a_float_node_is_said_to_be_a_tie(op):
    graph = chain_with_a_float_node()
    graph.nodes[-1] = replace(graph.nodes[-1], op=op)
    report = judged(wrong_at("n2"), graph=graph)
    said = [n for n in report.pairs[0].notes if f"y ({op}) chooses other elements on the two sides" in n]
    assert report.verdict == "PASSED" and len(said) == 1
    assert not any("chooses other" in n for n in judged(wrong_at("n2")).pairs[0].notes)


@pytest.mark.usefixtures("one_step_allowed")
def test_strict_gives_the_literal_rule_back():
    report = judged(wrong_at("n2"), options=Options(dump_all=True, strict=True))
    assert report.verdict == "FAILED" and report.pairs[0].cause == "accumulated_rounding" and report.blame is None
    assert any(n.startswith("--strict would have FAILED") for n in judged(wrong_at("n2")).pairs[0].notes)


@pytest.mark.usefixtures("one_step_allowed")
@pytest.mark.parametrize("node", ["n1", "n3", "y"])
def test_a_fault_of_an_integer_node_does_not_hide_behind_a_float_one(node):
    def both(unit, inputs):
        made = wrong_at("n2")(unit, inputs)
        return wrong_at(node)(unit, inputs) if unit.name == node else made

    report = judged(both)
    assert report.verdict == "FAILED" and report.blame.node == node and report.blame.side == "compiler"


@pytest.mark.usefixtures("one_step_allowed")
@pytest.mark.parametrize("dump_all", [False, True])
def test_more_than_the_limit_of_the_float_node_fails(dump_all):
    report = judged(wrong_at("n2", by=2), options=Options(dump_all=dump_all))
    assert report.verdict == "FAILED" and report.blame.node == "n2"


@pytest.mark.usefixtures("one_step_allowed")
def test_where_forcing_is_not_possible_the_literal_rule_stays():
    finals = frozenset({"finals", "digests"})
    report = judged(wrong_at("n2"), capabilities=finals)
    rs, rb, _ = report.pairs
    assert (rs.verdict, rb.verdict, rb.cause) == ("PASSED", "FAILED", "unlocated")


@pytest.mark.usefixtures("one_step_allowed")
def test_another_gate_speaks_to_the_values_as_they_came_out():
    assert judged(wrong_at("n2"), options=Options(dump_all=True, max_lsb=0)).pairs[0].verdict == "FAILED"
    passed = judged(wrong_at("n2"), options=Options(dump_all=True, max_lsb=1))
    assert passed.verdict == "PASSED" and passed.pairs[0].node_by_node is None


@pytest.mark.usefixtures("one_step_allowed")
def test_nan_on_one_side_is_never_excused():
    graph = chain_with_a_float_node()
    graph.tensors["y"] = spec("y", "float32")

    def run(last):
        def made(unit, inputs):
            found = wrong_at("n2")(unit, inputs) if last is None else step(unit, inputs)
            return {"y": np.full(40, 1.0 if last is None else last, np.float32)} if unit.name == "y" else found

        return made

    sides = {
        "reference": record("reference", run(np.nan), graph=graph),
        "simulator": record("simulator", run(None), graph=graph),
    }
    report = judge_all(sides, graph, units(graph), Options(), {"reference": run(None)}, None, {"x": X})
    assert report.verdict == "FAILED"


def test_a_fault_inside_that_the_final_output_does_not_show_fails_without_a_simulator():
    """A board whose last node heals the difference, as max pooling can."""

    def healed(unit, inputs):
        made = wrong_at("n1")(unit, inputs)
        return step(unit, {unit.inputs[0]: (X + 1).astype(np.int8)}) if unit.name == "n2" else made

    graph = chain_with_a_float_node("none")
    sides = {"reference": record("reference", graph=graph), "board": record("board", healed, graph=graph)}
    report = judge_all(sides, graph, units(graph), Options(), {"reference": step}, None, {"x": X})
    assert report.verdict == "FAILED" and report.blame.node == "n1"
    assert "fails when recomputed" in verdict_lines.render(report)
    for milder in ({"digits": 0}, {"nan_equal": True}, {"max_lsb": 0}, {"atol": 99.0}, {"rule": "exact", "digits": 2}):
        again = judge_all(sides, graph, units(graph), Options(**milder), {"reference": step}, None, {"x": X})
        assert again.verdict == "FAILED" and again.blame.node == "n1", milder
    relaxed = judge_all(sides, graph, units(graph), Options(relax_board=True), {"reference": step}, None, {"x": X})
    assert relaxed.verdict == "PASSED" and "n1 fails when recomputed" in verdict_lines.render(relaxed)


@pytest.mark.usefixtures("one_step_allowed")
def test_where_model_bin_rounds_otherwise_the_literal_rule_stays():
    graph = replace(chain_with_a_float_node(), rounding="pow2-floor")
    sides = {
        n: record(n, wrong_at("n2") if n == "simulator" else step, graph=graph) for n in ("reference", "simulator")
    }
    report = judge_all(sides, graph, units(graph), Options(), {"reference": step}, None, {"x": X})
    assert report.verdict == "FAILED" and report.pairs[0].node_by_node is None


def test_an_output_that_no_side_shows_is_not_waited_for():
    """One half of a split feeds a quantizer only: the other half agrees by itself."""
    tensors = {n: spec(n) for n in ("x", "y0", "y1")}
    tensors["y1"] = replace(tensors["y1"], interior=True)
    graph = Graph([Node("y0", "split", ("x",), ("y0", "y1"))], tensors, {}, ("x",), ("y0",))
    assert find_agreeing(graph, units(graph), {"y0": Forced("PASSED", 0, 0)}, {}) == {"x", "y0"}
    assert find_agreeing(graph, units(graph), {}, {"y0": True}) == {"x", "y0"}
    assert find_agreeing(graph, units(graph), {}, {"y0": False}) == {"x"}
