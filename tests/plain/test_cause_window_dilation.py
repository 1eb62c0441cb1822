"""A board whose window has another dilation, with the padding that keeps the size of its output."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.triage.plain_faults import window_dilation

from tests.ops.qdq import Qdq
from tests.plain.faulty_runners import Board, Change
from tests.plain.mechanisms import check_named, check_silent, constant, noise


def dilated(group: int = 2, dilations: tuple[int, int] = (2, 2), pads: tuple[int, int] = (2, 2)) -> Qdq:
    m = Qdq("uint8", seed=3)
    x = m.input((1, 4, 11, 12))
    w = m.weight((6, 4 // group, 3, 3), axis=0)
    m.op("Conv", [x, w, m.bias(x, w, 6)], "y", group=group, dilations=[*dilations], pads=[*pads] * 2)
    m.output(m.quantize("y"))
    return m


def other(dilations: tuple[int, int], pads: tuple[int, int]) -> Change:
    return lambda board: board.set(board.first("Conv"), dilations=[*dilations], pads=[*pads] * 2)


FAULTS = {
    "ignored": (dilated(), other((1, 1), (1, 1)), r"dilation 1 instead of 2, .* \(pad_top 1 instead of 2, pad_left 1"),
    "too large": (dilated(1, (1, 1), (1, 1)), other((3, 3), (3, 3)), "dilation 3 instead of 1, with the padding that"),
    "axes exchanged": (dilated(1, (2, 1), (2, 1)), other((1, 2), (1, 2)), "dilation 1x2 instead of 2x1"),
    "one axis": (dilated(1), other((2, 1), (2, 1)), "dilation 2x1 instead of 2, .*pad_left 1 instead of 2"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_another_dilation_is_named(name: str) -> None:
    check_named(*FAULTS[name])


def pads_only(board: Board) -> None:
    board.set(board.first("Conv"), pads=[0, 0, 4, 4])


def test_other_faults_have_no_other_dilation() -> None:
    others: dict[str, Change] = {"noise": noise(9), "bias": constant("_i32", np.zeros_like), "pads": pads_only}
    check_silent(window_dilation, dilated(), others)
