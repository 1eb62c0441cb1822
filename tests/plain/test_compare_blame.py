"""Who is to blame without any side: forced verdicts, the board that is asked for no more than it must."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.compare.blame import blame_sides, find_culprits
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.errors import QVerifyError
from qverify.model_bin.units import Unit, units
from qverify.renderers import verdict_lines
from qverify.report.document import Forced

from tests.plain.three_sides import X, chain, record, step, three, three_with, wrong_at


@pytest.mark.parametrize("node", ["n1", "n2", "y"])
def test_the_side_that_is_alone_is_blamed_at_its_node(node):
    for kwargs, culprit in (
        ({"board": wrong_at(node)}, "board"),
        ({"ref": wrong_at(node)}, "compiler"),
        ({"sim": wrong_at(node)}, "simulator"),
    ):
        report = three(**kwargs)
        assert report.verdict == "FAILED" and (report.blame.side, report.blame.node) == (culprit, node)
        assert "up to 1 LSB" in report.blame.why
        failing = [p for p in report.pairs if p.verdict == "FAILED"]
        assert len(failing) == 2 and all(p.first_divergence.node == node and p.cause == "node" for p in failing)


def test_several_culprits_each_with_its_first_node():
    report = three(ref=wrong_at("n1"), board=wrong_at("y", 5))
    assert {(b.side, b.node) for b in report.blamed} == {("compiler", "n1"), ("board", "y")}


@pytest.mark.parametrize(
    ("states", "culprits"),
    [
        ((True, True, True), []),
        ((None, None, None), []),
        ((True, False, False), ["board"]),
        ((False, False, True), ["compiler"]),
        ((False, True, False), ["simulator"]),
        ((False, False, False), ["compiler", "board"]),
        ((None, None, False), ["board"]),
        ((False, None, None), ["compiler"]),
        ((None, False, None), ["board"]),
        ((True, True, False), ["board"]),
        ((True, False, None), ["board"]),
        ((None, False, True), ["compiler"]),
        ((False, None, True), ["compiler"]),
    ],
)
def test_blame_matrix(states, culprits):
    assert blame_sides(*states) == culprits


def test_every_unit_within_one_lsb_is_accumulated_rounding():
    graph = chain()
    graph.rounding = "tflite-single"  # 1 LSB allowed against the reference
    off = lambda unit, inputs: {unit.outputs[0]: (step(unit, inputs)[unit.outputs[0]] + 1).astype(np.int8)}  # noqa: E731
    sides = {"reference": record("reference"), "simulator": record("simulator", off)}
    report = judge_all(sides, graph, units(graph), Options(dump_all=True), {"reference": step}, None, {"x": X})
    assert (report.verdict, report.blame, report.pairs[0].cause) == ("FAILED", None, "accumulated_rounding")
    assert [r.metrics["max_lsb"] for r in report.pairs[0].tensors] == [1, 2, 3]
    assert [r.forced.max_lsb for r in report.pairs[0].tensors] == [1, 1, 1]


def test_reference_alone_by_accumulated_rounding_is_no_hint():
    """Simulator and board agree, and every node passes when recomputed: nothing is wrong with the reference."""
    graph = chain()
    graph.rounding = "tflite-single"
    off = lambda unit, inputs: {unit.outputs[0]: (step(unit, inputs)[unit.outputs[0]] + 1).astype(np.int8)}  # noqa: E731
    sides = {
        "reference": record("reference"),
        "simulator": record("simulator", off),
        "board": record("board", off),
    }
    report = judge_all(sides, graph, units(graph), Options(), {"reference": step, "simulator": off}, None, {"x": X})
    assert [p.cause for p in report.pairs] == ["accumulated_rounding", "accumulated_rounding", None]
    assert report.blame is None and not any("differs from both" in note for note in report.notes)


def test_the_figures_of_a_blame_are_of_the_output_that_fails():
    good, bad = Forced("PASSED", 0, 0, elements=8), Forced("FAILED", 1, 3, elements=8, limit="bit equality")
    unit = Unit("a", "split", (), ("x",), ("a", "b"), True)
    matrix = {("simulator", "board"): {"a": good, "b": bad}}
    (blame,) = find_culprits([unit], matrix)
    assert (blame.side, blame.node) == ("board", "a") and "3 of 8 elements differently" in blame.why


def test_a_board_that_offers_finals_only():
    finals = frozenset({"finals"})
    report = three(board_caps=finals)
    pair = report.pairs[2]
    assert report.verdict == "PASSED" and [m.tensor for m in pair.coverage.not_offered] == ["n1", "n2"]
    assert (
        verdict_lines.verdict_line(pair)
        == "Sim and Arm result Strict check PASSED (final outputs only: the board offers no per-node dump)"
    )
    bad = three(board=wrong_at("n1"), board_caps=finals)
    assert bad.verdict == "FAILED" and bad.blame is None and bad.pairs[2].cause == "unlocated"
    assert "the board differs from both" in bad.notes[0]


def test_only_what_differs_is_pulled_and_what_comes_is_checked():
    good, whole = record("board"), record("board", wrong_at("n2"))
    asked = []

    def pull(names):
        asked.extend(names)
        return {n: whole.tensors[n] for n in names}

    board = record("board", wrong_at("n2"))
    board.tensors = {"y": board.tensors["y"]}
    report = three_with(board, pull)
    assert report.blame.node == "n2" and asked == ["n2"]
    lying = record("board", wrong_at("n2"))
    lying.tensors = {"y": good.tensors["y"]}
    lying.digests["y"] = good.digests["y"]
    report = three_with(lying, lambda names: {n: good.tensors[n] for n in names})
    assert report.verdict == "INCONCLUSIVE" and "digest" in report.pairs[1].why

    class LinkDown(QVerifyError):
        exit_status = 3

    def broken(names):
        raise LinkDown("the link broke")

    board = record("board", wrong_at("n2"))
    board.tensors = {}
    assert "the link broke" in three_with(board, broken).pairs[1].why


def test_what_another_side_holds_by_digest_is_not_pulled():
    board = record("board", wrong_at("n1"))
    board.tensors = {}
    graph, other = chain(), wrong_at("n1")
    sides = {"reference": record("reference"), "simulator": record("simulator", other), "board": board}
    runs = {"reference": step, "simulator": other}
    report = judge_all(
        sides, graph, units(graph), Options(dump_all=True), runs, lambda n: pytest.fail("pulled"), {"x": X}
    )
    assert (report.blame.side, report.blame.node) == ("compiler", "n1") and report.pairs[2].verdict == "PASSED"


def test_matching_digests_need_no_pull():
    board = record("board")
    board.tensors = {}
    assert three_with(board, lambda names: pytest.fail("pulled")).verdict == "PASSED"


def test_a_unit_that_cannot_be_run_alone_leaves_the_failure_unlocated():
    def unable(unit, inputs):
        raise QVerifyError("no kernel")

    graph = chain()
    sides = {"simulator": record("simulator"), "board": record("board", wrong_at("n1"))}
    sides["simulator"].tensors = {"y": sides["simulator"].tensors["y"]}
    report = judge_all(sides, graph, units(graph), Options(), {"simulator": unable}, None, {"x": X})
    assert report.verdict == "FAILED" and report.blame is None and report.pairs[0].cause == "unlocated"
