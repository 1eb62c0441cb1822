"""lstm with weights of 8 bits: x, and h before each step, are quantized by their own range (NUMERICS.md,
lstm_integer)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.recurrences import (
    compute_lstm_step,
    read_integer_operands,
    read_integer_weights,
    read_settings,
    round_to_float32,
    run_steps,
)
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("direction", "clip_f32", "input_forget", "function[C]", "alpha_f32[C]", "beta_f32[C]")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    """Returns y, the last h and the last c."""
    return simulate_steps(node, inputs, graph, None)


def simulate_steps(node: Node, inputs: list[Array | None], graph: Graph, recorded: Array | None) -> tuple[Array, ...]:
    """Returns the outputs of simulate(). If a y is recorded, each step starts from its h."""
    settings = read_settings(node.words, 3, True)
    of_x, of_h = read_integer_weights(inputs, len(settings.reverse))
    operands = read_integer_operands(inputs, node.name)

    def sums_of_x(d: int) -> Array:
        return of_x[d].product(operands.x.reshape(len(operands.x), -1)).reshape(len(operands.x), 1, -1)

    def cell(d: int, sums: Array, h: Array, c: Array) -> tuple[Array, Array]:
        bias = round_to_float32(np.add(*operands.biases(d))).astype(np.float32)
        gates = round_to_float32((sums + of_h[d].product(h)) + bias)
        return compute_lstm_step(
            settings.gates[d], settings.flag, None if inputs[7] is None else operands.p[d], gates, c
        )

    return run_steps(operands, settings.reverse, sums_of_x, cell, recorded)
