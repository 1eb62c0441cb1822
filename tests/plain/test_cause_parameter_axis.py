"""A board that reads the scales or zero points of weights along another axis than that of the output channels."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.triage.plain_faults import parameter_axis

from tests.ops.qdq import Qdq
from tests.plain.faulty_runners import Array, Board, Change
from tests.plain.mechanisms import check_named, check_silent, constant, noise


def transposed() -> Qdq:
    m = Qdq("int8", seed=3)
    x = m.input((1, 6, 7, 5))
    w = m.weight((6, 6, 4, 4), axis=1)
    m.op("ConvTranspose", [x, w, m.bias(x, w, 6)], "y", strides=[2, 2], pads=[1] * 4)
    m.output(m.quantize("y"))
    return m


def conv(inputs: int = 6, group: int = 1) -> Qdq:
    m = Qdq("uint8", seed=3)
    x = m.input((1, inputs, 8, 9))
    w = m.weight((6, inputs // group, 3, 3), axis=0)
    m.op("Conv", [x, w, m.bias(x, w, 6)], "y", group=group, pads=[1] * 4)
    m.output(m.quantize("y"))
    return m


def matmul(zero: bool = False) -> Qdq:
    m = Qdq("uint8", seed=5)
    m.output(m.quantize(m.op("MatMul", [m.input((4, 24)), m.weight((24, 24), axis=1, zero=zero)], "y")))
    return m


def weights(index: tuple[int, ...] = (), zeros: bool = False, axis: int = 0) -> Change:
    """Stores the weights as real values of float32 with scales (or zero points) of another axis. index: of the scale, by
    the place on that axis."""

    def change(board: Board) -> None:
        node = next(n for n in board.nodes.values() if n.op_type == "DequantizeLinear" and n.input[0].endswith("_i8"))
        values, scale, zero = (board.constants[n].astype(np.float64) for n in node.input)
        own = next(a.i for a in node.attribute if a.name == "axis")

        def along(v: Array, at: int, order: tuple[int, ...]) -> Array:
            taken = v[list(order)] if order else v
            return taken.reshape([-1 if i == at else 1 for i in range(values.ndim)])

        real = values - along(zero, *((axis, index) if zeros else (own, ())))
        real = real * along(scale, *((own, ()) if zeros else (axis, index)))
        node.op_type = "Identity"
        board.constants["real_weights"] = real.astype(np.float32)
        del node.attribute[:], node.input[:]
        node.input.append("real_weights")

    return change


SAID = "per-channel scales of the weights: the index is {} instead of the output channel"
FAULTS = {
    "transposed": (transposed(), weights(), SAID.format("the input channel")),
    "conv": (conv(), weights(axis=1), SAID.format("the input channel")),
    "modulo": (conv(9), weights((0, 1, 2, 3, 4, 5, 0, 1, 2), axis=1), SAID.format("the input channel modulo 6")),
    "groups": (conv(8, 2), weights((0, 1, 2, 3), axis=1), SAID.format("the input channel in its group")),
    "kernel": (conv(), weights((0, 1, 2), axis=3), SAID.format("the column of the kernel")),
    "matrix": (matmul(), weights(), SAID.format("the row of the matrix")),
    "zero points": (matmul(zero=True), weights(zeros=True), "zero points of the weights: the index is the row of the"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_another_axis_is_named(name: str) -> None:
    check_named(*FAULTS[name])


@pytest.mark.parametrize("make", [transposed, conv, matmul])
def test_other_faults_have_no_other_axis(make: type) -> None:
    others: dict[str, Change] = {"noise": noise(9), "order": constant("_i8", lambda w: np.roll(w, 1, 0))}
    check_silent(parameter_axis, make(), others)
