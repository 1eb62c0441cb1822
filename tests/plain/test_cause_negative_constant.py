"""A board that adds a constant to negative values of a PRelu or LeakyRelu."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from qverify.triage.plain_faults import negative_constant

from tests.ops.qdq import Qdq
from tests.plain.faulty_runners import Array, Board, Change
from tests.plain.mechanisms import check_named, check_silent, noise

SLOPES = np.array([0.1, 0.25, 0.05, 0.3, 0.2, 0.15], np.float32)


def prelu(slopes: Array = SLOPES) -> Qdq:
    m = Qdq("uint8", seed=3)
    m.op("PRelu", [m.input((1, 6, 8, 9), -3, 3.5), m.constant("slope", slopes.reshape(-1, 1, 1))], "y")
    m.output(m.quantize("y"))
    return m


def leaky() -> Qdq:
    m = Qdq("uint8", seed=3)
    m.op("LeakyRelu", [m.input((1, 6, 8, 9), -3, 3.5)], "y", alpha=0.2)
    m.output(m.quantize("y"))
    return m


def add(steps: object) -> Change:
    """Adds steps of the output where the input is negative. steps: of each channel, or what computes them from the board's
    slopes and zero points."""

    def change(board: Board) -> None:
        zero_x, zero_y = (float(board.constants[f"{n}_zp"]) for n in ("in0", "y"))
        added = steps(SLOPES.astype(float), zero_x, zero_y) if callable(steps) else np.asarray(steps)
        board.constants["added"] = np.float32(added * float(board.constants["y_scale"])).reshape(-1, 1, 1)
        board.constants["nothing"] = np.float32(0)
        made = [
            helper.make_node("Less", ["in0_dq", "nothing"], ["is_negative"]),
            helper.make_node("Where", ["is_negative", "added", "nothing"], ["constant"]),
            helper.make_node("Add", ["y", "constant"], ["moved"]),
        ]
        board.nodes["y_q"].input[0] = "moved"
        board.nodes = {
            name: node
            for own, last in board.nodes.items()
            for name, node in ([(n.output[0], n) for n in made] if own == "y_q" else []) + [(own, last)]
        }

    return change


FAULTS = {
    "both zero points": (
        prelu(),
        add(lambda slope, x, y: (1 - slope) * (x - y)),
        r"\(1 - slope\) \* \(zero point of the input - that of the output\) is added to negative values: gives",
    ),
    "input's": (
        prelu(),
        add(lambda slope, x, y: (1 - slope) * x),
        r"\(1 - slope\) \* the zero point of the input is added to negative values: gives",
    ),
    "any": (
        prelu(),
        add([7.0, 12.0, 3.0, -5.0, 9.0, 4.0]),
        r"a constant of each channel is added to negative values .*: \+7, \+12, \+3, -5 ... steps",
    ),
    "one for all": (prelu(), add([9.0]), r"a constant is added to negative values: \+9 steps"),
    "table": (leaky(), add([-6.0]), r"a constant is added to negative values: -6 steps"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_constant_of_negative_values_is_named(name: str) -> None:
    check_named(*FAULTS[name])


def other_slopes(board: Board) -> None:
    board.constants["slope"] = board.constants["slope"] * np.float32(1.3)


def test_other_faults_have_no_constant() -> None:
    check_silent(negative_constant, prelu(), {"noise": noise(9), "slopes": other_slopes})
