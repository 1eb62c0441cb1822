"""The values that verdicts need: what is asked of a side, what cannot be had, and what the report says of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from qverify.arithmetic.recurrences import RECURRENT
from qverify.compare.combine_reports import combine
from qverify.compare.options import Options
from qverify.compare.values import Values, same_bytes
from qverify.compare.verdict import judge_all
from qverify.errors import BoardError, QVerifyError, UsageError
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Recording, Tensors
from qverify.tensors.spec import TensorSpec

from tests.plain.three_sides import (
    X,
    record,
    report_of,
    side,
    spec,
    step,
    three,
    two,
    without,
    wrong_at,
)


def test_a_nan_that_only_digests_tell_of_is_pulled_and_seen():
    wild = np.array([1.0, np.nan], np.float32)

    def lone(name):
        found = side(name, y=wild)
        found.digests, found.tensors = {"y": tensor_digest(wild)}, {}
        return found

    asked = []

    def pull(names):
        asked.extend(names)
        return {"y": wild}

    report = two_with(lone("reference"), lone("board"), pull)
    assert report.verdict == "INCONCLUSIVE" and asked == ["y"]
    assert report.pairs[0].why == "y: 1 element is NaN or Inf on both sides; --nan-equal accepts this"
    fine = np.array([1.0, 2.0], np.float32)

    def judged(sent):
        sides = [lone("reference"), lone("board")]
        for s in sides:
            s.digests["y"] = tensor_digest(fine)
        first = two_with(*sides, lambda names: sent)
        return first, two_with(*sides, lambda names: {})

    got, again = judged({"y": fine})
    assert got.verdict == again.verdict == "PASSED"  # what was pulled once is remembered
    nothing, _ = judged({})
    assert nothing.verdict == "INCONCLUSIVE" and "y: 1 " not in nothing.pairs[0].why


def two_with(a, b, pull, options=None):
    return judge_all({"reference": a, "board": b}, None, [], options or Options(dump_all=True), {}, pull)


def test_what_a_broken_link_left_whole_is_kept():
    class Torn(BoardError):
        def __init__(self):
            super().__init__("the link broke")
            self.matching, self.broken = {"n1": X}, {"n2": "its digest is another"}

    def pull(names):
        raise Torn

    values = Values(Recording("board", "test", missing={"n0": "lost"}), pull)
    values.fetch(["n0", "n1", "n2", "n3", "n1"])
    assert values.get_local("n1") is X and values.was_sent("n1") and not values.was_sent("n2")
    assert values.failed == {
        "n0": "lost",
        "n2": "could not be pulled: its digest is another",
        "n3": "could not be pulled: the link broke",
    }

    def bug(names):
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError):
        Values(Recording("board", "test"), bug).fetch(["n1"])


def test_a_value_is_asked_for_once_and_not_where_another_side_holds_its_bytes():
    asked = []

    def pull(names):
        asked.append(names)
        return {"a": X}

    values = Values(record("board"), pull)
    values.fetch([])
    values.fetch(["n1"])
    assert asked == []
    values.fetch(["a", "b", "a"])
    assert asked == [["a", "b"]] and values.failed == {"b": "declared, but not sent when pulled"}
    assert values.get("b") is None and values.get("a") is X and len(asked) == 1
    other = without(record("board"), "n1")
    assert Values(other).get_local("n1") is None
    mine = Values(other)
    mine.peers = [without(record("reference"), "n1"), record("reference", wrong_at("n1")), record("reference")]
    assert mine.get_local("n1") is mine.peers[2].tensors["n1"]
    mine.peers = mine.peers[:2]
    assert mine.get_local("n1") is None
    mine.peers = [record("reference")]
    other.specs["n1"] = spec("n1", shape=(20,))
    assert mine.get_local("n1") is None
    other.specs["n1"] = spec("n1", "uint8")
    assert mine.get_local("n1") is None
    del other.specs["n1"]
    assert mine.get_local("n1") is None
    borrowing = record("board", borrowed=frozenset({"n2"}))
    assert (
        Values(borrowing).was_sent("n1")
        and not Values(borrowing).was_sent("n2")
        and not Values(borrowing).was_sent("n9")
    )


def test_sameness_by_digest_by_value_or_not_known():
    a, b = Values(record("reference")), Values(record("board", wrong_at("n2")))
    assert same_bytes(a, b, "n1", "n1") is True and same_bytes(a, b, "n2", "n2") is False
    for values in (a, b):
        values.recording.digests = {}
    assert same_bytes(a, b, "n1", "n1") is True and same_bytes(a, b, "n2", "n2") is False
    without(b.recording, "n1", "n2")
    assert same_bytes(a, b, "n1", "n1") is None and same_bytes(b, a, "n2", "n2") is None


def test_two_recordings_of_one_side_are_refused():
    with pytest.raises(UsageError, match=r"two recordings of one side: first \(board\), second \(board\)"):
        judge_all({"first": record("board"), "second": record("board")}, None, [], Options(), {})
    with pytest.raises(
        UsageError, match="nothing to compare: got first, wanted two of reference, simulator, board, dump"
    ):
        judge_all({"first": record("board")}, None, [], Options(), {})
    with pytest.raises(UsageError, match="got none"):
        judge_all({}, None, [], Options(), {})
    both = judge_all(
        {"float": record("float"), "reference": record("reference"), "board": record("board")}, None, [], Options(), {}
    )
    assert [(p.a, p.b) for p in both.pairs] == [("reference", "board")]  # the float side is triage's
    with pytest.raises(QVerifyError):
        combine([])


def test_a_unit_with_two_outputs_of_which_one_differs():
    """The other is the same on both sides by its digest, and only the measuring side holds it."""
    tensors = {n: spec(n) for n in ("x", "y0", "y1")}
    graph = Graph([Node("y0", "split", ("x",), ("y0", "y1"))], tensors, {}, ("x",), ("y0", "y1"))
    good = lambda unit, given: {"y0": X, "y1": X}  # noqa: E731
    a = record("reference", good, graph=graph)
    b = record("board", lambda unit, given: {"y0": (X + 1).astype(np.int8), "y1": X}, graph=graph)
    del b.tensors["y1"], b.specs["y1"]
    report = judge_all(
        {"reference": a, "board": b}, graph, units(graph), Options(), {"reference": good}, None, {"x": X}
    )
    assert (report.verdict, report.blame.node) == ("FAILED", "y0")
    found = {r.name: r.forced.verdict for r in report.pairs[0].tensors}
    assert found == {"y0": "FAILED", "y1": "PASSED"}
    assert report.pairs[0].first_divergence.tensor == "y0"
    assert two(side("reference", y=[1]), side("board", y=[1])).verdict == three().verdict == "PASSED"


def test_an_output_that_no_side_has_to_give_is_not_asked_for():
    tensors = {n: spec(n) for n in ("x", "y0")} | {"y1": replace(spec("y1"), interior=True)}
    graph = Graph([Node("y0", "split", ("x",), ("y0", "y1"))], tensors, {}, ("x",), ("y0",))
    a = record("reference", lambda unit, given: {"y0": X, "y1": X}, graph=graph)
    b = record("board", lambda unit, given: {"y0": (X + 1).astype(np.int8), "y1": X}, graph=graph)
    for recording in (a, b):
        without(recording, "y1", digests=False).specs.pop("y1")
    report = judge_all(
        {"reference": a, "board": b},
        graph,
        units(graph),
        Options(),
        {"reference": lambda unit, given: {"y0": X}},
        None,
        {"x": X},
    )
    assert (report.verdict, report.blame.node) == ("FAILED", "y0")
    assert {r.name: r.forced.verdict for r in report.pairs[0].tensors} == {"y0": "FAILED"}


def test_a_tie_that_no_input_is_there_to_tell():
    """Equal digests of the input, no bytes of it: the outputs differ, and nothing can be evaluated."""
    graph = Graph(
        [Node("n1", "relu", ("x",), ("n1",)), Node("y", "softmax", ("n1",), ("y",), (), (), False)],
        {"x": spec("x"), "n1": spec("n1"), "y": spec("y")},
        {},
        ("x",),
        ("y",),
    )
    node = graph.nodes[1]
    graph.nodes[1] = Node("y", "reshape", node.inputs, node.outputs, (), (), False)
    a, b = (without(record(n, run, graph=graph), "n1") for n, run in (("reference", step), ("board", wrong_at("y"))))
    report = judge_all(
        {"reference": a, "board": b}, graph, units(graph), Options(), {"reference": step}, None, {"x": X}
    )
    found = report.pairs[0].tensors[0].forced
    assert (found.verdict, found.why) == ("INCONCLUSIVE", "its input n1 is missing on the board")
    assert report.verdict == "FAILED" and report.pairs[0].cause == "unlocated"


def test_tensors_that_are_loaded_when_asked_for_and_have_no_spec():
    values = {"y": np.array([1, 2], np.int32)}
    lazy = Recording(
        "board", "test", finals=("y",), tensors=Tensors({"y": lambda: values["y"]}), digests={"y": "0" * 16}
    )
    plain = Recording("reference", "test", finals=("y",), tensors=dict(values))
    assert two(plain, lazy).verdict == "PASSED"
    values["y"] = np.array([1, 3], np.int32)
    report = two(plain, lazy)
    assert report.verdict == "FAILED" and report.pairs[0].tensors[0].dtype == "int32"
    assert report.pairs[0].tensors[0].shape == [2]


def test_a_board_is_not_asked_for_what_it_does_not_offer():
    bad = wrong_at("n2")
    whole, asked = record("board", bad), []

    def pull(names):
        asked.extend(names)
        return {n: whole.tensors[n] for n in names}

    board = without(record("board", bad), "n1", digests=False)
    board.tensors.pop("n2")
    del without(board, "n1", digests=False).specs["n1"]
    report_of(record("reference"), board, pull=pull)
    assert asked == ["n2"]


def test_a_recurrence_whose_states_the_board_does_not_have_keeps_its_limit():
    """One step of an rnn: without every y of the board its last state cannot be evaluated step by step."""
    shapes = {"x": (1, 1, 1), "w": (1, 1, 1), "r": (1, 1, 1), "b": (1, 2), "y": (1, 1, 1, 1), "last": (1, 1, 1)}
    tensors = {n: TensorSpec(n, "float32", s) for n, s in shapes.items()}
    words = (0, 0, RECURRENT.index("tanh"), 0, 0)
    node = Node("y", "rnn", ("x", "w", "r", "b", None, None), ("y", "last"), words, (), False)
    held = {n: np.zeros(shapes[n], np.float32) for n in ("w", "r", "b")}
    graph = Graph([node], tensors, held, ("x",), ("y", "last"))
    first = np.full((1, 1, 1), 0.5, np.float32)

    def made(last):
        return {"y": first.reshape(1, 1, 1, 1), "last": np.asarray(last, np.float32)}

    a = record("reference", lambda unit, given: made(first), graph=graph)
    for last, verdict in ((np.nextafter(first, np.float32(1)), "PASSED"), (first + np.float32(1e-4), "FAILED")):
        b = record("board", lambda unit, given, last=last: made(last), graph=graph, runtime="qvrt")
        a.runtime = "qvrt"
        without(b, "y", digests=False).specs.pop("y")
        runs = {"reference": lambda unit, given: made(first)}
        x = {"x": np.zeros((1, 1, 1), np.float32)}
        report = judge_all({"reference": a, "board": b}, graph, units(graph), Options(), runs, None, x)
        found = next(r.forced for r in report.pairs[0].tensors if r.name == "last")
        assert (found.verdict, found.limit) == (
            verdict,
            "2^-18 of max|reference| (no float64 evaluation of rnn without its states)",
        )
