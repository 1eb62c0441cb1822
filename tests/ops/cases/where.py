"""where: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def where_constant_mask(m: Qdq) -> None:
    mask = m.constant("mask", m.rng.integers(0, 2, (3, 7)).astype(bool))
    m.output(m.quantize(m.op("Where", [mask, m.input((2, 3, 7)), m.input((2, 3, 7), -1, 1)])))


@reference()
def where_condition_has_more_rows_than_the_branches(m: Qdq) -> None:
    mask = m.constant("mask", m.rng.integers(0, 2, (2, 5, 7)).astype(bool))
    m.output(m.quantize(m.op("Where", [mask, m.input((5, 1)), m.input((7,), -1, 1)])))


@reference(integer=False)
def where_of_two_numbers_by_a_computed_condition(m: Qdq) -> None:
    """The mask of a decoder's attention."""
    chosen = m.op("Greater", [m.input((3, 11)), m.constant("middle", np.float32(0.1))])
    numbers = [m.constant("kept", np.float32(0)), m.constant("masked", np.float32(-3.4e38))]
    m.output(m.op("Where", [chosen, *numbers]))


def random_nodes(r: RandomNodes) -> None:
    condition = r.plain(r.rng.integers(0, 2, (5, 1)).astype(bool))
    y = r.output(r.type(), (3, 5, 7))
    r.node("where", (condition, r.input_like(y, (3, 1, 7)), r.input(r.type(), (3, 5, 7))), y)
    r.node("where", (condition, r.floats((3, 5, 7)), r.floats((5, 7))), r.float_output((3, 5, 7)))
    wide = r.plain(r.rng.integers(0, 2, (2, 3, 5, 7)).astype(bool))
    r.node("where", (wide, r.floats((5, 1)), r.floats((1,))), r.float_output((2, 3, 5, 7)))
