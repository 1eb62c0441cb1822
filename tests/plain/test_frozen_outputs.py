"""Outputs that do not change with the input are recognised over several runs."""

from __future__ import annotations

import numpy as np
from qverify.compare.frozen import OutputHistory
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec


def record(side: str, value: list[int]) -> Recording:
    array = np.array(value, np.int8)
    specs = {"y": TensorSpec("y", "int8", array.shape)}
    return Recording(side, side, specs=specs, finals=("y",), tensors={"y": array})


def history(board: list[list[int]], host: list[list[int]]) -> OutputHistory:
    runs = OutputHistory()
    for given, wanted in zip(board, host, strict=True):
        runs.add({"reference": record("reference", wanted), "board": record("board", given)})
    return runs


def test_the_same_bytes_in_all_frames_are_said_where_the_reference_changes() -> None:
    found = history([[1, 2]] * 3, [[1, 2], [3, 4], [5, 6]]).find_frozen("FAILED")
    assert [f.tensor for f in found] == ["y"]
    assert found[0].text == (
        "y has the same bytes in all 3 frames, the reference's differ: the board's output does not depend on its input"
    )


def test_nothing_is_said_where_the_board_changes_or_the_reference_does_not() -> None:
    assert history([[1, 2], [1, 3]], [[1, 2], [3, 4]]).find_frozen("FAILED") == []
    assert history([[9, 9]] * 2, [[1, 2]] * 2).find_frozen("FAILED") == []
    assert history([[1, 2]] * 2, [[1, 2], [3, 4]]).find_frozen("PASSED") == []
    assert history([[1, 2]], [[3, 4]]).find_frozen("FAILED") == []


def test_one_small_value_shows_no_more_than_the_fact() -> None:
    found = history([[1], [1]], [[1], [2]]).find_frozen("FAILED")
    assert found[0].text == "y has the same bytes in all 2 frames, the reference's differ"
