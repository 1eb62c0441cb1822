"""Forced verdicts: which units are run, on what, how often, and how far both results may lie apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from qverify.compare.distance import measure_distance
from qverify.compare.limits import Limit
from qverify.compare.options import Options
from qverify.compare.values import Values
from qverify.compare.verdict import judge_all
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Tensors
from qverify.tensors.spec import TensorSpec

from tests.plain.three_sides import (
    X,
    chain,
    forced_of,
    record,
    report_of,
    spec,
    step,
    without,
    wrong_at,
)


def test_why_a_unit_could_not_be_forced():
    bad = wrong_at("n1")
    report = report_of(record("reference"), record("board", bad), run=None)
    assert (
        forced_of(report).verdict == "INCONCLUSIVE" and forced_of(report).why == "the reference cannot run a node alone"
    )
    assert report.pairs[0].cause == "node"  # n1: the reference's own run was on these very inputs
    assert (
        forced_of(report_of(record("reference"), record("board", bad), run=lambda u, g: {})).why
        == "the reference gave no n2"
    )

    def broken(unit, given):
        raise ValueError("no such kernel")

    assert (
        forced_of(report_of(record("reference"), record("board", bad), run=broken)).why
        == "the reference could not run it alone: no such kernel"
    )

    def bug(unit, given):
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        report_of(record("reference"), record("board", bad), run=bug)


def test_an_input_that_is_not_there():
    board = without(record("board", wrong_at("n1")), "n1")
    report = report_of(record("reference"), board)
    found = forced_of(report)
    assert (found.verdict, found.why) == ("INCONCLUSIVE", "its input n1 is missing on the board")
    assert (found.elements, found.max_lsb, found.mismatched, found.by, found.on) == (
        0,
        None,
        None,
        "reference",
        "board",
    )
    assert report.verdict == "FAILED" and report.pairs[0].cause == "unlocated"
    assert "n1 is missing on the board: declared, but not sent" in report.pairs[0].notes
    assert "2 of 3 nodes could not be forced: its output n1 is missing on the board" in report.pairs[0].notes


def test_another_shape_or_type_of_a_recorded_output_fails_forced():
    board = record("board", wrong_at("n1"))
    board.tensors["n2"] = board.tensors["n2"][:3]
    board.digests["n2"] = tensor_digest(board.tensors["n2"])
    found = forced_of(report_of(record("reference"), board))
    assert found.verdict == "FAILED" and found.why == "int8[3] recorded, int8[40] computed" and found.elements == 40
    report = report_of(record("reference"), board)
    assert report.blame.node == "n1" and "n2" in report.blame.also
    last = report_of(record("reference"), _only_shape("y"))
    assert (
        "the reference computes all of 40 elements differently, int8[3] recorded, int8[40] computed" in last.blame.why
    )


def _only_shape(name):
    board = record("board")
    board.tensors[name] = board.tensors[name][:3]
    board.digests[name] = tensor_digest(board.tensors[name])
    return board


def test_equal_inputs_and_outputs_need_no_run():
    def never(unit, given):
        pytest.fail("run")

    found = forced_of(report_of(record("reference"), record("board", wrong_at("y")), run=never), "n2")
    assert (found.verdict, found.max_lsb, found.mismatched, found.max_abs) == ("PASSED", 0, 0, 0.0)
    assert found.why == "inputs and outputs agree bit for bit" and found.limit == "0 LSB" and found.elements == 40


def test_the_inputs_given_are_those_that_were_recorded():
    seen = {}

    def run(unit, given):
        seen[unit.name] = {n: v.copy() for n, v in given.items()}
        return step(unit, given)

    report_of(record("reference"), record("board", wrong_at("n1", 5)), run=run)
    assert seen["n2"]["n1"][3] == X[3] + 6 and "n1" not in seen  # the reference's own run of n1 is known


def verdicts_of_three(simulator, board, run=step):
    """The forced verdicts of n2 and y in both pairs of the reference, and the units it was asked to run."""
    asked = []

    def counted(unit, given):
        asked.append(unit.name)
        return run(unit, given)

    graph, sides = chain(), {r.side: r for r in (record("reference"), simulator, board)}
    report = judge_all(sides, graph, units(graph), Options(dump_all=True), {"reference": counted}, None, {"x": X})
    assert [(p.a, p.b) for p in report.pairs[:2]] == [("reference", "simulator"), ("reference", "board")]
    return [{r.name: r.forced for r in p.tensors} for p in report.pairs[:2]], asked


def test_a_unit_is_run_once_on_what_two_sides_have_alike():
    (one, two), asked = verdicts_of_three(record("simulator", wrong_at("n1")), record("board", wrong_at("n1")))
    assert asked == ["n2", "y"]
    for name, verdict in (("n1", "FAILED"), ("n2", "PASSED"), ("y", "PASSED")):
        assert (one[name].verdict, one[name].by, one[name].on) == (verdict, "reference", "simulator")
        assert two[name] == replace(one[name], on="board")
        assert one[name].mismatched == (1 if name == "n1" else 0)


def test_a_unit_is_run_anew_where_an_input_or_what_is_compared_differs():
    board = record("board", lambda u, g: wrong_at(u.name, 2)(u, g) if u.name in ("n1", "n2") else step(u, g))
    (one, two), asked = verdicts_of_three(record("simulator", wrong_at("n1")), board)
    assert asked == ["n2", "y"] * 2
    assert (one["n2"].verdict, two["n2"].verdict, two["n2"].on, two["n2"].max_lsb) == ("PASSED", "FAILED", "board", 2)
    only_output = record("board", lambda u, g: wrong_at(u.name)(u, g) if u.name in ("n1", "y") else step(u, g))
    (one, two), asked = verdicts_of_three(record("simulator", wrong_at("n1")), only_output)
    assert asked == ["n2", "y", "y"]
    assert (one["y"].verdict, two["y"].verdict, two["n2"].verdict) == ("PASSED", "FAILED", "PASSED")


def test_what_could_not_be_run_is_tried_in_each_pair():
    def broken(unit, given):
        raise ValueError("no such kernel")

    (one, two), asked = verdicts_of_three(record("simulator", wrong_at("n1")), record("board", wrong_at("n1")), broken)
    assert asked == ["n2", "y"] * 2
    assert (one["n2"].verdict, two["n2"].verdict) == ("INCONCLUSIVE", "INCONCLUSIVE")


def test_arrays_that_are_loaded_anew_each_time_are_not_held_on_to():
    board = record("board", wrong_at("n1"))
    board.tensors = Tensors({n: v.copy for n, v in board.tensors.items()})
    (one, two), asked = verdicts_of_three(record("simulator", wrong_at("n1")), board)
    assert asked == ["n2", "y"] * 2 and two["y"] == replace(one["y"], on="board")


def test_histograms_are_shared_where_the_arrays_of_both_sides_stay_in_memory():
    kept, board = Values(record("reference")), record("board")
    board.tensors = Tensors({n: v.copy for n, v in board.tensors.items()})
    anew = Values(board)
    assert kept.share_histograms(Values(record("board"))) is kept.histograms
    assert kept.share_histograms(anew) is anew.share_histograms(kept) is None


def test_a_graph_input_that_only_the_sides_hold():
    """A folder of dumps beside the model: the values of x are the recorded ones, the measuring side's where only it has them."""
    a, b = without(record("reference"), "n1"), record("board", wrong_at("n1"))
    said = report_of(a, b, inputs=False).pairs[0].notes
    assert any("could not be forced: its input x is missing on the board" in note for note in said), said
    a.tensors["x"] = X
    found = report_of(a, b, inputs=False)
    assert (
        found.blame.node == "n1"
        and "computes 1 of 40 elements differently, up to 1 LSB (limit 0 LSB)" in found.blame.why
    )


def renamed(recording, name, held=True):
    """The recording with one of its tensors under the name of the ONNX node that it covers. held: its bytes, too, not its
    digest alone."""
    for of in (recording.tensors, recording.specs, recording.digests):
        of[f"onnx_{name}"] = of.pop(name)
    recording.specs[f"onnx_{name}"] = replace(recording.specs[f"onnx_{name}"], name=f"onnx_{name}")
    return recording if held else without(recording, f"onnx_{name}")


def test_a_tensor_that_the_board_calls_by_another_name_is_forced():
    report = report_of(record("reference"), renamed(record("board", wrong_at("n1")), "n1"), run=None)
    assert report.pairs[0].cause == "node"  # the reference's own run was on these very inputs
    assert (report.blame.node, report.blame.side) == ("n1", "board")


def test_what_the_board_calls_by_another_name_is_read_from_the_side_that_holds_it():
    seen = {}

    def run(unit, given):
        seen[unit.name] = {n: v.tolist() for n, v in given.items()}
        return step(unit, given)

    board = renamed(record("board", wrong_at("n2")), "n1", held=False)
    report = report_of(without(record("reference"), "n2"), board, run=run)
    assert seen["n2"] == {"n1": (X + 1).tolist()} and report.pairs[0].first_divergence.tensor == "n2"
    assert report.pairs[0].cause == "node" and report.blame.node == "n2"


def test_an_output_that_the_board_calls_by_another_name_is_read_from_the_side_that_holds_it():
    tensors = {n: spec(n) for n in ("x", "y0", "y1")}
    node = Node("y0", "split", ("x",), ("y0", "y1"), covers=("onnx_y0",))
    graph = Graph([node], tensors, {}, ("x",), ("y0", "y1"))
    good = lambda unit, given: {"y0": X, "y1": X}  # noqa: E731
    a = record("reference", good, graph=graph)
    b = record("board", lambda unit, given: {"y0": X, "y1": (X + 1).astype(np.int8)}, graph=graph)
    b = renamed(replace(b, finals=("onnx_y0", "y1")), "y0", held=False)
    report = judge_all({"reference": a, "board": b}, graph, units(graph), Options(), {}, None, {"x": X})
    found = {r.name: (r.forced.verdict, r.forced.mismatched) for r in report.pairs[0].tensors}
    assert found == {"y0": ("PASSED", 0), "y1": ("FAILED", 40)}


def numbers(made, recorded, limit=None, **more):
    made, recorded = np.asarray(made), np.asarray(recorded)
    about = TensorSpec("t", made.dtype.name, made.shape, **more)
    f = measure_distance(made, recorded, about, limit or Limit(1, 0.0, "1 LSB"), "reference", "board")
    return f.verdict, f.max_lsb, f.mismatched, f.max_abs, f.why


def test_the_distance_of_two_arrays():
    a = np.array([10, 20, 30], np.int8)
    scaled = {"scale": (0.5,), "zero_point": (0,)}
    assert numbers(a, a, **scaled) == ("PASSED", 0, 0, 0.0, "")
    assert numbers(a, a + np.array([0, 1, -1], np.int8), **scaled) == ("PASSED", 1, 2, 0.5, "")
    assert numbers(a, a - np.array([0, 2, 1], np.int8), **scaled) == ("FAILED", 2, 2, 1.0, "beyond 1 LSB")
    f = np.array([1.0, -8.0, np.inf], np.float32)
    g = f.copy()
    share = Limit(0, 0.125, "a share")
    g[0] += 1.0
    assert numbers(f, g, share) == ("PASSED", None, 1, 1.0, "")
    g[0] += 0.25
    assert numbers(f, g, share) == ("FAILED", None, 1, 1.25, "beyond a share")
    assert numbers(f[:1], np.nextafter(f[:1], 9), Limit(0, 0.0, "0"))[0] == "FAILED"
    zeros = np.array([0.0], np.float32)
    assert numbers(zeros, -zeros, Limit(0, 0.0, "0")) == (
        "FAILED",
        None,
        0,
        0.0,
        "the same values in other bytes (-0.0, or NaN)",
    )
    assert numbers(zeros, zeros, Limit(0, 0.0, "0")) == ("PASSED", None, 0, 0.0, "")
    assert numbers(zeros, -zeros, share)[0] == "PASSED"
    small = np.array([0.25], np.float32)  # an eighth of the largest, however small that is
    assert [numbers(small, small + by, share)[0] for by in (2.0**-5, 2.0**-4)] == ["PASSED", "FAILED"]
