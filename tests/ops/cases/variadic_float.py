"""variadic_float: reference cases and random nodes."""

from __future__ import annotations

from qverify.model_bin.float_functions import VARIADIC

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def sum_and_mean_of_several(m: Qdq) -> None:
    x = [m.input((3, 5, 7)), m.input((5, 1), 1, 4), m.op("Exp", [m.input((3, 1, 7), -1, 1)])]
    m.output(m.quantize(m.op("Sum", x)))
    m.output(m.op("Mean", x))
    m.output(m.op("Sum", [m.op("Sum", x[:2])]))


@reference(integer=False)
def extrema_of_several(m: Qdq) -> None:
    x = [m.input((3, 5, 7)), m.op("Exp", [m.input((5, 1), -1, 1)]), m.constant("c", m.rng.normal(0, 1, 7).astype("f4"))]
    m.output(m.op("Max", x))
    m.output(m.quantize(m.op("Min", [*x, x[0]])))
    m.output(m.op("Max", [m.op("Min", x[1:2])]))


def random_nodes(r: RandomNodes) -> None:
    """Every function of one to four tensors."""
    for function in range(len(VARIADIC)):
        last = r.pick(1, 17, 600)
        shapes = [(3, 5, last), (5, 1), (3, 1, 1), (last,)][: r.pick(1, 2, 3, 4)]
        r.node("variadic_float", tuple(r.floats(s) for s in shapes), r.float_output((3, 5, last)), (function,))
