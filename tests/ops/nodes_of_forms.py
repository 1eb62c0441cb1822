"""Nodes in every kind of form, whose sums lie at ties, beside them, and at the ends of their range."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from qverify.arithmetic.forms import EACH, EACH_WHOLE, NAMES, SUM_UP, Form, make_addition_rq, make_rq
from qverify.arithmetic.operand_steps import OperandSteps
from qverify.arithmetic.rounding_rules import RULES

from tests.ops.case_files import RANDOM_NODES
from tests.ops.random_nodes import RandomNodes

SCALES = (2.0**-9, 3 * 2.0**-10, 0.0123, 0.75, 1.0)
LINEAR = ("conv", "conv_transpose", "fully_connected", "matmul", "mul", "add", "average_pool")
LINEAR += ("global_average_pool", "reduce_mean")


def list_forms() -> list[Form]:
    """Returns all rules as the last one of an exact scale, of one shift, of a shift after another, and of a sum that is
    shifted first; each with the zero point inside, too; and the short names."""
    made = []
    for rule in RULES:
        kinds = Form(rule), Form(rule, 1), Form(rule, 15), Form(rule, 31, first=(31, "half up")), Form(rule, fraction=8)
        more = (
            Form(rule, 16, True, first=(7, rule)),
            Form(rule, 12, before=(3, rule)),
            Form(rule, 1, before=(2, "floor")),
        )
        made += [replace(form, zero_inside=inside) for form in (*kinds, *more) for inside in (False, True)]
    return [*made, *(form for name, form in NAMES.items() if name != "ref-exact")]


def products_of_every_byte(made: RandomNodes) -> None:
    """Every product of two bytes, whose ties are many where the scale is a power of two, in each form and scale."""
    every = np.arange(-128, 128).astype(np.int8)
    a, b = made.input("int8", (256, 1)), made.input("int8", (1, 256))
    made.values[a.name], made.values[b.name] = every[:, None], every[None]
    for form in list_forms():
        for scale in SCALES[made.pick(0, 1, 2, 3, 4) :][:2]:
            try:
                rq = made.constant(make_rq(form, scale))
            except ValueError:  # a scale that the form cannot represent
                continue
            made.node("mul", (a, b, rq), made.output("int8", (256, 256)), made.limits("int8"))


def products_of_16_bits(made: RandomNodes) -> None:
    """Products at the ends of int64 sums' range and at ties, in each form."""
    a, b = made.input("int16", (64, 1)), made.input("int16", (1, 64))
    for form in list_forms():
        for scale in (2.0**-15, 3e-5, 2.0**-31):
            try:
                rq = made.constant(make_rq(form, scale, True))
            except ValueError:
                continue
            made.node("mul", (a, b, rq), made.output("int16", (64, 64)), made.limits("int16"))


def additions_of_every_byte(made: RandomNodes) -> None:
    """Every sum of two bytes, in each form, the operands scaled together and one by one."""
    every = np.arange(256).astype(np.uint8)
    a, b = made.input("uint8", (256, 1)), made.input("uint8", (1, 256))
    made.values[a.name], made.values[b.name] = every[:, None], every[None]
    for form in list_forms():
        alone = [str(OperandSteps(n, str(made.rng.choice(("half up", "floor", "half even"))))) for n in (None, 8)]
        for operands in ("", EACH, SUM_UP, EACH_WHOLE, *alone):
            try:
                rq = make_addition_rq(replace(form, operands=operands), 0.5, made.pick(-1, 1) * 0.75)
            except ValueError:
                continue
            made.node("add", (a, b, made.constant(rq)), made.output("uint8", (256, 256)), (0, *made.limits("uint8")))


def linear_nodes(made: RandomNodes) -> None:
    """Random nodes of every op that is requantized, several of each."""
    for op in LINEAR:
        for _ in range(4):
            RANDOM_NODES[op](made)
