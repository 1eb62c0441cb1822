"""add: reference cases and random nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from qverify.arithmetic.forms import EACH, SUM_UP, ZERO_BIT, Form, make_addition_rq
from qverify.arithmetic.multipliers import add_parameters

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def add_relu(m: Qdq) -> None:
    m.output(m.quantize(m.op("Relu", [m.op("Add", [m.input((1, 3, 5, 7)), m.input((1, 3, 5, 7), -7, 1)])]), crop=0.9))


@reference()
def add_broadcast_channel(m: Qdq) -> None:
    m.output(m.quantize(m.op("Add", [m.input((2, 3, 5, 7)), m.weight((3, 1, 1), m.act)])))


@reference(integer=False)
def sub(m: Qdq) -> None:
    m.output(m.quantize(m.op("Sub", [m.input((1, 3, 5, 7)), m.input((1, 1, 5, 1), -7, 1)])))


def random_nodes(r: RandomNodes) -> None:
    first, second = r.broadcast()
    a, b = r.input(r.type(), first), r.input(r.type(), second)
    y = r.output(r.type(), np.broadcast_shapes(first, second))
    swap, ra, rb = r.pick(0, 1), a.scale[0] / y.scale[0], b.scale[0] / y.scale[0]
    if r.rounding == "ref-exact":
        ra, rb = (rb, ra) if swap else (ra, rb)
        rq = np.array([ra, rb, y.zero_point[0] - ra * 99 - rb * 55], np.float32)
    else:
        rq = add_parameters(r.rounding, ra, rb)
    r.node("add", (a, b, r.constant(rq)), y, (swap, *r.limits(y.dtype)))
    r.requantized += r.rounding != "ref-exact" or r.in_forms
    for types in (("uint8", "int8"), ("uint8", "int8"), ("int16", "uint16")) if r.in_forms else ():
        _in_a_form(r, types)


def _in_a_form(r: RandomNodes, types: tuple[str, str]) -> None:
    """An addition in a form of its own, the second operand of either sign."""
    first, second = r.broadcast()
    a, b = r.input(r.type(*types), first), r.input(r.type(*types), second)
    y = r.output(r.type(*types), np.broadcast_shapes(first, second))
    ra, rb = a.scale[0] / y.scale[0], b.scale[0] / y.scale[0] * r.pick(1, -1)
    operands = str(r.rng.choice(("", EACH, SUM_UP)))

    def in_form(form: Form) -> np.ndarray:
        return make_addition_rq(replace(form, operands=operands), ra, rb)

    rq = in_form(r.form(in_form, exact=operands == ""))
    if len(rq) == 3 and rq.ndim == 2 and r.pick(0, 1):
        rq[2, 4] &= ~ZERO_BIT
        rq = np.concatenate([rq, [[r.pick(0, 1234, -(2**30)), r.pick(0, 99, -200), 0, 0, 0]]]).astype(np.int32)
    r.node("add", (a, b, r.constant(rq)), y, (r.pick(0, 1), *r.limits(y.dtype)))
