"""elementwise_float: reference cases and random nodes."""

from __future__ import annotations

import numpy as np
from qverify.compiler.builder import float_word
from qverify.model_bin.float_functions import FUNCTIONS

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def divided_by_another_tensor(m: Qdq) -> None:
    m.output(m.quantize(m.op("Div", [m.input((3, 5, 7)), m.input((5, 1), 1, 4)])))


@reference(integer=False)
def largest_of_two_and_its_exponential(m: Qdq) -> None:
    m.output(m.op("Exp", [m.op("Max", [m.input((3, 5, 7)), m.input((5, 7), -1, 1)])]))


def random_nodes(r: RandomNodes) -> None:
    """Every function; those of positive numbers on positive ones."""
    pair, wide, positive = (r.floats((3, 5, 17)), r.floats((5, 1))), r.floats((999,), 9.0), r.floats((999,))
    r.values[positive.name] = np.abs(r.values[positive.name]) + np.float32(1e-3)
    for name, function in FUNCTIONS.items():
        if function.operands == 2:
            r.node("elementwise_float", pair, r.float_output((3, 5, 17)), (function.number, 0, 0))
            continue
        source = positive if name in ("sqrt", "log", "pow") else wide
        for p in (2.0, 3.0, 0.5, -0.7) if name == "pow" else (0.2,):
            words = (function.number, float_word(p), float_word(0.6))
            r.node("elementwise_float", (source,), r.float_output((999,)), words)
