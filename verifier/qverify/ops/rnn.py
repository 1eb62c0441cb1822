"""A plain recurrence over a whole sequence: h = f of an exact sum (NUMERICS.md, rnn)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.recurrences import (
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
WORDS = ("direction", "clip_f32", "function[C]", "alpha_f32[C]", "beta_f32[C]")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    """Returns y and the last h. Raises ValueError for a sequence length outside 0..T."""
    return simulate_steps(node, inputs, graph, None)


def simulate_steps(node: Node, inputs: list[Array | None], graph: Graph, recorded: Array | None) -> tuple[Array, ...]:
    """Returns the outputs of simulate(). If a y is recorded, each step starts from its h."""
    operands, settings = read_operands(inputs, node.name), read_settings(node.words, 1, False)

    def cell(d: int, sums: Array, h: Array, c: Array) -> tuple[Array, Array]:
        return settings.gates[d][0](multiply_and_round(h, operands.r[d], sums)), c

    def sums_of_x(d: int) -> Array:
        return sum_inputs(operands, d, round_to_float32(np.add(*operands.biases(d))))

    return run_steps(operands, settings.reverse, sums_of_x, cell, recorded)[:2]


def magnitude(node: Node, inputs: list[Array | None], graph: Graph) -> float:
    """Returns an estimate of the largest sum of the magnitudes of an element's terms."""
    return estimate_largest_sum(read_operands(inputs, node.name))
