"""A board that reads operands with fewer bits than they have."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.triage.plain_faults import narrow_operands

from tests.ops.qdq import Qdq
from tests.plain.faulty_runners import Array, Board, Change
from tests.plain.mechanisms import check_named, check_silent, noise, shown


def two(kind: str = "Add", act: str = "int16", high: float = 1.5) -> Qdq:
    m = Qdq(act, seed=4)
    names = [m.input((1, 8, 9, 7), -2, 3), m.input((1, 8, 9, 7), -1, high)]
    m.output(m.quantize(m.op(kind, names, "y")))
    return m


def narrow(lost: int, verb: str, *names: str) -> Change:
    """Rounds operands whose zero point is 0, or any others from their zero point, to multiples of 2^lost."""

    def change(board: Board) -> None:
        for name in names:
            step = board.constants[f"{name}_scale"]
            board.insert(f"{name}_dq", "Add", step / np.float32(4))  # so that no float32 rounding decides
            board.insert(f"{name}_dq/Add", "Div", step * np.float32(1 << lost))
            board.insert(f"{name}_dq/Add/Div", verb)
            board.insert(f"{name}_dq/Add/Div/{verb}", "Mul", step * np.float32(1 << lost))

    return change


FAULTS = {
    "one bit": (
        two(),
        narrow(1, "Floor", "in0", "in1"),
        r"the lowest bit of both operands is dropped \(15 bits are left",
    ),
    "4 bits": (two(), narrow(4, "Floor", "in0", "in1"), "the lowest 4 bits of both operands are dropped"),
    "rounded": (two(), narrow(8, "Round", "in0", "in1"), "the lowest 8 bits of both operands are rounded off"),
    "one operand": (two(), narrow(3, "Floor", "in1"), "the lowest 3 bits of the operand in1_q are dropped"),
    "product": (two("Mul"), narrow(7, "Floor", "in0", "in1"), "the lowest 7 bits of both operands are dropped"),
    "of bytes": (
        two("Add", "uint8"),
        narrow(3, "Floor", "in0", "in1"),
        r"the lowest 3 bits of both operands are dropped after the zero point is subtracted \(5 bits",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_operands_of_fewer_bits_are_named(name: str) -> None:
    check_named(*FAULTS[name])


def floor(values: Array) -> Array:
    return np.asarray(values - (np.arange(values.size).reshape(values.shape) % 2), values.dtype)


def other_scale(board: Board) -> None:
    board.constants["other"] = board.constants["in1_scale"] * np.float32(1.001)
    board.nodes["in1_dq"].input[1] = "other"


def test_other_faults_have_no_narrow_operands() -> None:
    check_silent(narrow_operands, two(), {"noise": noise(9), "scale": other_scale, "rounding": shown(floor)})
