"""Gated recurrent unit over a whole sequence: gates z, r and h of exact sums, states of float32 (NUMERICS.md, gru)."""

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
WORDS = ("direction", "clip_f32", "linear_before_reset", "function[C]", "alpha_f32[C]", "beta_f32[C]")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    """Returns y and the last h. Raises ValueError for a sequence length outside 0..T."""
    return simulate_steps(node, inputs, graph, None)


def simulate_steps(node: Node, inputs: list[Array | None], graph: Graph, recorded: Array | None) -> tuple[Array, ...]:
    """Returns the outputs of simulate(). If a y is recorded, each step starts from its h."""
    operands, settings = read_operands(inputs, node.name), read_settings(node.words, 2, True)
    both = 2 * operands.hidden

    def biases(d: int) -> Array:
        of_x, of_h = operands.biases(d)
        added = round_to_float32(of_x + of_h)
        return np.concatenate([added[:both], of_x[both:]]) if settings.flag else added

    def cell(d: int, sums: Array, h: Array, c: Array) -> tuple[Array, Array]:
        f, g = settings.gates[d]
        weights, bias_of_h = operands.r[d], operands.biases(d)[1][both:]
        z, r = np.split(f(multiply_and_round(h, weights[:both], sums[:, :both])), 2, -1)
        if settings.flag:
            candidate = round_to_float32(sums[:, both:] + r * multiply_and_round(h, weights[both:], bias_of_h))
        else:
            candidate = multiply_and_round(round_to_float32(r * h), weights[both:], sums[:, both:])
        return round_to_float32((1.0 - z) * g(candidate) + z * h), c

    return run_steps(operands, settings.reverse, lambda d: sum_inputs(operands, d, biases(d)), cell, recorded)[:2]


def magnitude(node: Node, inputs: list[Array | None], graph: Graph) -> float:
    """Returns an estimate of the largest sum of the magnitudes of a gate's terms."""
    return estimate_largest_sum(read_operands(inputs, node.name))
