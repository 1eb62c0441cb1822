"""Rows of a pair: what equal digests stand for, what differs outside the rows, and rows judged by their nodes."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.compare.error_bounds.bounded_values import Real
from qverify.compare.node_by_node import _find_largest_abs, _find_largest_lsb
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.report.document import OtherDifferences, TensorRow
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec

from tests.plain.error_pages import page, real
from tests.plain.three_sides import ALL, record, side, three, two, wrong_at


def integers(name, value, scale=(0.5,), shape=None, dtype="int8"):
    array = np.asarray(value, dtype).reshape(shape or np.shape(value))
    about = TensorSpec("y", dtype, array.shape, scale=scale, zero_point=(0,) * len(scale))
    return Recording(
        name,
        "t",
        specs={"y": about},
        finals=("y",),
        tensors={"y": array},
        digests={"y": tensor_digest(array)},
        capabilities=ALL,
    )


def test_equal_bytes_of_another_scale_or_shape_are_not_equal_values():
    assert two(integers("reference", [1, 2]), integers("board", [1, 2])).verdict == "PASSED"
    (pair,) = two(integers("reference", [1, 2]), integers("board", [1, 2], (0.25,))).pairs
    assert pair.verdict == "FAILED" and pair.tensors[0].digests_equal and pair.tensors[0].metrics["max_abs"] == 0.5
    (pair,) = two(integers("reference", [1, 2]), integers("board", [1, 2], shape=(2, 1))).pairs
    assert pair.why == "y: shape [2] in the reference, [2, 1] on the board"
    (pair,) = two(integers("reference", [1, 2]), integers("board", [1, 2], dtype="uint8")).pairs
    assert pair.verdict == "PASSED" and pair.tensors[0].metrics["max_lsb"] is None  # other types: by their real values


def test_bytes_that_are_equal_under_another_digest_keep_that_on_record():
    board = integers("board", [1, 2])
    for digests, equal in (({"y": "0" * 16}, False), ({}, None)):
        board.digests = digests
        (pair,) = two(integers("reference", [1, 2]), board).pairs
        assert (pair.tensors[0].digests_equal, pair.tensors[0].bit_equal) == (equal, True)


def test_a_side_whose_bytes_are_not_of_its_own_model_fails():
    board = integers("board", [1, 2])
    board.tensors["y"] = np.array([1, 2], np.int16)
    board.digests = {}
    (pair,) = two(integers("reference", [1, 2]), board).pairs
    assert pair.why == "y: the board gave int16[2], wanted int8[2] by its model" and pair.tensors[0].metrics == {}
    (pair,) = two(board_as("reference", board), integers("board", [1, 2])).pairs
    assert pair.why == "y: the reference gave int16[2], wanted int8[2] by its model"


def board_as(name, recording):
    recording.side = name
    return recording


def test_a_row_says_what_it_is():
    (pair,) = two(integers("reference", [[1, 2]]), integers("board", [[1, 2]])).pairs
    row = pair.tensors[0]
    assert (row.name, row.node, row.op, row.covers, row.dtype, row.shape) == ("y", "", "", [], "int8", [1, 2])
    assert (row.digests_equal, row.bit_equal, row.elements, row.final, row.failing) == (True, True, 2, True, 0)
    assert row.integer_reference and row.metrics["max_lsb"] == 0 and row.metrics["mismatched"] == 0
    made = three().pairs[0].tensors[0]
    assert (made.node, made.op, made.covers, made.final) == ("n1", "add", ["onnx_n1"], False)
    (pair,) = two(side("reference", y=[1.5]), side("board", y=[1.5])).pairs
    assert (pair.tensors[0].digests_equal, pair.tensors[0].bit_equal) == (None, True)
    assert pair.tensors[0].metrics["max_lsb"] is None and pair.bit_equal


@pytest.mark.parametrize("digests", ["both", "one", "none"])
def test_what_differs_outside_the_scope_is_said(digests):
    a, b = record("reference"), record("board", wrong_at("n1"))
    b.tensors["y"], b.digests["y"] = a.tensors["y"], a.digests["y"]
    for of in {"both": (), "one": (a,), "none": (a, b)}[digests]:
        of.digests = {}
    assert two(a, b, Options()).pairs[0].others == OtherDifferences(2, "n1", False)
    assert two(a, b).pairs[0].others is None
    a.tensors = b.tensors = {"y": a.tensors["y"]}
    found = two(a, b, Options()).pairs[0].others
    assert found == (OtherDifferences(2, "n1", False) if digests == "both" else None)


def row(**metrics):
    return TensorRow("y", "", "", [], "int8", [1], "PASSED", None, False, 1, True, True, metrics=metrics)


def test_the_largest_distance_of_rows_judged_by_their_nodes():
    rows = [row(max_lsb=1, max_abs=0.5), row(max_lsb=3, max_abs=0.25), row(max_lsb=None, max_abs=2.0)]
    assert (_find_largest_lsb(rows), _find_largest_abs(rows)) == (3, 2.0)
    assert (_find_largest_lsb(rows[2:]), _find_largest_abs([])) == (None, None)


def test_one_branch_alone_is_joined_to_itself():
    (y,) = page("concat", [real([1.0, 2.0], 0.5)], (0,), (2,))
    assert isinstance(y, Real) and y.value.tolist() == [1.0, 2.0] and y.error.tolist() == [0.5, 0.5]


def test_frames_and_boards_are_named_in_the_pair():
    a, b = side("reference", y=[1]), side("board", y=[1])
    b.host = "bench 3"
    (pair,) = two(a, b, Options(frame=7)).pairs
    assert (pair.frame, pair.board) == (7, "bench 3")
    sides = {"one": side("A", y=[1]), "other": side("B", y=[1])}
    (pair,) = judge_all(sides, None, [], Options(), {}).pairs
    assert (pair.a, pair.b, pair.board) == ("A", "B", None)
    dumps = {"reference": side("reference", y=[1]), "folder/x": side("dump", y=[1])}
    (pair,) = judge_all(dumps, None, [], Options(), {}).pairs
    assert (pair.a, pair.b) == ("reference", "folder/x")
