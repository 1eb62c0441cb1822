"""Long short-term memory over a whole sequence: gates i, o, f and c of exact sums, states of float32 (NUMERICS.md,
lstm)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.recurrences import (
    compute_lstm_step,
    estimate_largest_sum,
    multiply_and_round,
    read_operands,
    read_settings,
    round_to_float32,
    run_steps,
    sum_inputs,
)
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("direction", "clip_f32", "input_forget", "function[C]", "alpha_f32[C]", "beta_f32[C]")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    """Returns y, the last h and the last c. Raises ValueError for a sequence length outside 0..T."""
    return simulate_steps(node, inputs, graph, None)


def simulate_steps(node: Node, inputs: list[Array | None], graph: Graph, recorded: Array | None) -> tuple[Array, ...]:
    """Returns the outputs of simulate(). If a y is recorded, each step starts from its h."""
    operands, settings = read_operands(inputs, node.name), read_settings(node.words, 3, True)

    def cell(d: int, sums: Array, h: Array, c: Array) -> tuple[Array, Array]:
        peepholes = None if inputs[7] is None else operands.p[d]
        return compute_lstm_step(
            settings.gates[d], settings.flag, peepholes, multiply_and_round(h, operands.r[d], sums), c
        )

    def sums_of_x(d: int) -> Array:
        return sum_inputs(operands, d, round_to_float32(np.add(*operands.biases(d))))

    return run_steps(operands, settings.reverse, sums_of_x, cell, recorded)


def magnitude(node: Node, inputs: list[Array | None], graph: Graph) -> float:
    """Returns an estimate of the largest sum of the magnitudes of a gate's terms."""
    return estimate_largest_sum(read_operands(inputs, node.name))
