"""Long short-term memory over a whole sequence: gates i, o, f and c of exact sums, states of float32 (NUMERICS.md, lstm)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.recurrences import largest_sum, operands, product, rounded, settings_of, walk
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
WORDS = ("direction", "clip_f32", "input_forget", "function[C]", "alpha_f32[C]", "beta_f32[C]")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    """Returns y, the last h and the last c. ValueError for a sequence length outside 0..T."""
    given, settings = operands(inputs, node.name), settings_of(node.words, 3, True)

    def cell(d: int, sums: Array, h: Array, c: Array) -> tuple[Array, Array]:
        f, g, last = settings.gates[d]
        i, o, forget, new = np.split(product(h, given.r[d], sums), 4, -1)
        if inputs[7] is not None:
            of_i, of_o, of_f = np.split(given.p[d], 3)
            i, forget = rounded(i + of_i * c), rounded(forget + of_f * c)
        i, new = f(i), g(new)
        forget = rounded(1.0 - i) if settings.flag else f(forget)
        c = rounded(forget * c + i * new)
        if inputs[7] is not None:
            o = rounded(o + of_o * c)
        return rounded(f(o) * last.unlimited()(c)), c

    return walk(given, settings.reverse, lambda d: rounded(np.add(*given.biases(d))), cell)


def magnitude(node: Node, inputs: list[Array | None], graph: Graph) -> float:
    """Returns about the largest sum of magnitudes of a gate's terms."""
    return largest_sum(operands(inputs, node.name))
