"""The verdict on the outputs of the unchanged model, added to that of the pair."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from qverify.compare.judge import Judge, Judged
from qverify.compare.options import Options
from qverify.compare.untapped import judge_untapped, name_optimization
from qverify.compare.values import Values
from qverify.tensors.recording import Recording, Untapped
from qverify.tensors.spec import TensorSpec

Array = Any
RIGHT = np.arange(8, dtype=np.float32)
WRONG = RIGHT + np.float32(3)


def record(side: str, value: Array, untapped: Untapped | None = None, **more: Any) -> Recording:
    specs = {"y": TensorSpec("y", "float32", (8,))}
    return Recording(side, side, specs=specs, finals=("y",), tensors={"y": value}, untapped=untapped, **more)


def judge(board: Recording, board_first: bool = False) -> Judged:
    sides = [Values(record("reference", RIGHT)), Values(board)]
    sides = sides[::-1] if board_first else sides
    judged = Judge(sides[0], sides[1], None, Options()).run(*(s.recording.side for s in sides))
    judge_untapped(judged, None, Options())
    return judged


def unchanged(value: Array) -> Untapped:
    return Untapped({"y": value}, level="basic", optimizers=("Fuses",))


@pytest.mark.parametrize("board_first", [False, True])
def test_wrong_outputs_of_the_unchanged_model_fail_a_pair_that_passed(board_first: bool) -> None:
    pair = judge(record("board", RIGHT, unchanged(WRONG)), board_first).pair
    assert (pair.verdict, pair.cause) == ("FAILED", "untapped") and pair.why.startswith("in the unchanged model ")
    assert pair.untapped is not None and (pair.untapped.changed, pair.untapped.elements) == (8, 8)
    assert len(pair.relaxed) == 1 and "yes (8 of 8)" in pair.relaxed[0] and pair.notes == []


def test_equal_outputs_leave_the_pair_as_it_is() -> None:
    pair = judge(record("board", RIGHT, unchanged(RIGHT))).pair
    assert (pair.verdict, pair.relaxed) == ("PASSED", []) and pair.cause != "untapped"
    assert pair.untapped is not None and (pair.untapped.changed, pair.untapped.why) == (0, "")


def test_right_outputs_of_the_unchanged_model_do_not_acquit_the_run_with_taps() -> None:
    pair = judge(record("board", WRONG, unchanged(RIGHT))).pair
    assert pair.verdict == "FAILED" and pair.cause != "untapped"
    assert pair.untapped is not None and (pair.untapped.verdict, pair.untapped.changed) == ("PASSED", 8)
    assert len(pair.relaxed) == 1


def test_a_pair_that_failed_keeps_its_own_cause() -> None:
    pair = judge(record("board", WRONG, unchanged(WRONG + np.float32(1)))).pair
    assert pair.verdict == "FAILED" and pair.cause != "untapped" and pair.untapped is not None
    assert pair.untapped.verdict == "FAILED" and not pair.why.startswith("in the unchanged model")


def test_an_open_pair_becomes_failed_and_keeps_its_reason_as_a_note() -> None:
    reference, board = record("reference", RIGHT), record("board", RIGHT, unchanged(WRONG))
    for side in (reference, board):
        side.specs["h"], side.capabilities = TensorSpec("h", "float32", (8,)), frozenset({"finals", "per_node"})
    reference.tensors = {"y": RIGHT, "h": RIGHT}
    board.missing = {"h": "no file of it"}
    options = Options(dump_all=True)
    judged = Judge(Values(reference), Values(board), None, options).run("reference", "board")
    before = judged.pair.why
    assert judged.pair.verdict == "INCONCLUSIVE" and before and before not in judged.pair.notes
    judge_untapped(judged, None, options)
    assert (judged.pair.verdict, judged.pair.cause) == ("FAILED", "untapped") and before in judged.pair.notes


def test_an_open_pair_stays_open_where_the_unchanged_model_is_not_known() -> None:
    board = record("board", RIGHT, unchanged(WRONG))
    board.specs["z"] = TensorSpec("z", "float32", (8,))
    board.finals, board.missing = ("y", "z"), {"z": "no file of it"}
    assert board.untapped is not None
    board.untapped.tensors["z"] = RIGHT
    reference = record("reference", RIGHT)
    reference.specs["z"], reference.finals = board.specs["z"], ("y", "z")
    reference.tensors = {"y": RIGHT, "z": RIGHT}
    judged = Judge(Values(reference), Values(board), None, Options()).run("reference", "board")
    assert judged.pair.verdict == "INCONCLUSIVE"
    judge_untapped(judged, None, Options())
    assert judged.pair.untapped is not None and judged.pair.untapped.why == "z of the run with taps is not known"
    assert judged.pair.verdict == "INCONCLUSIVE" and judged.pair.cause != "untapped"


@pytest.mark.parametrize(
    ("untapped", "why"),
    [
        (Untapped({}, why="the unchanged model did not run there"), "the unchanged model did not run there"),
        (Untapped({}), "the unchanged model gave no y"),
    ],
)
def test_outputs_that_are_not_known_leave_it_open(untapped: Untapped, why: str) -> None:
    pair = judge(record("board", RIGHT, untapped)).pair
    assert (pair.verdict, pair.cause, pair.why) == ("INCONCLUSIVE", "untapped", why)
    assert pair.untapped is not None and (pair.untapped.changed, pair.untapped.elements) == (None, 8)
    assert pair.relaxed == []


def test_nothing_is_added_without_taps_or_without_a_run() -> None:
    assert judge(record("board", RIGHT)).pair.untapped is None
    ended = judge(record("board", RIGHT, unchanged(WRONG), state="did not run", why="it broke")).pair
    assert (ended.verdict, ended.cause, ended.untapped) == ("INCONCLUSIVE", "does_not_run", None)


@pytest.mark.parametrize(
    ("value", "changed"),
    [
        (np.where(np.arange(8) % 4, RIGHT, WRONG), 2),
        (RIGHT.astype(np.float64), 8),
        (RIGHT.reshape(2, 4), 8),
        (np.zeros(0, np.float32), 1),
    ],
)
def test_changed_elements_are_counted_by_their_bytes(value: Array, changed: int) -> None:
    pair = judge(record("board", RIGHT, unchanged(value))).pair
    assert pair.untapped is not None and pair.untapped.changed == changed and pair.verdict == "FAILED"


@pytest.mark.parametrize(
    ("verdict", "cause", "setting", "named"),
    [
        ("FAILED", "unlocated", "by GeluFusion", True),
        ("FAILED", "node", "by GeluFusion", False),
        ("INCONCLUSIVE", "unlocated", "by GeluFusion", False),
        ("FAILED", "unlocated", 3, False),
        ("FAILED", "unlocated", "", False),
    ],
)
@pytest.mark.parametrize("board_first", [False, True])
def test_an_optimization_is_named_only_where_nothing_else_is(
    verdict: Any, cause: str, setting: Any, named: bool, board_first: bool
) -> None:
    judged = judge(record("board", WRONG, settings={"optimization": setting}), board_first)
    judged.pair = replace(judged.pair, verdict=verdict, cause=cause, notes=[])
    name_optimization(judged)
    assert judged.pair.cause == ("optimization" if named else cause)
    assert judged.pair.notes == ([setting] if named else [])
