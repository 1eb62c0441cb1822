"""Multipliers and shifts of nodes that a model states itself, in place of those that a form derives from scales
(verifier/ARITHMETICS.md)."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from qverify.arithmetic.forms import EACH, EACH_WHOLE, SUM_UP, Form, Stated, steps_of_multiplier, sum_of_whole
from qverify.arithmetic.rounding_rules import RULES, Array

MULTIPLIERS = "qverify.multipliers"  # of an ONNX's metadata: the multipliers and shifts of its nodes
STATED_TOLERANCE = 0.02  # relative, of stated multipliers: those of 7 bits are cut off


def stated_rq(form: Form, real: Array, stated: Stated, is_addition: bool, wide: bool = False) -> Array:
    """Returns the rq of a node whose multipliers and shifts the model states. real: its scales. Raises ValueError for a
    form without a multiplier, and for numbers that are not those of the scales."""
    if form.is_exact or form.bits == 1 or form.method:
        raise ValueError(f"{str(form)!r} has no multiplier, but the model states one")
    multiplier, shift = (np.array(numbers, np.int64) for numbers in stated)
    shared = is_addition and form.operands != EACH_WHOLE  # both operands have one shift
    if is_addition and (form.operands == EACH or len(multiplier) != 2 or (len(shift) == 1) != shared):
        raise ValueError(f"{len(multiplier)} multipliers and {len(shift)} shifts of an addition are stated")
    magnitudes = np.abs(np.atleast_1d(real))
    shift = np.resize(shift, len(multiplier))
    if len(multiplier) not in (1, len(magnitudes)):
        raise ValueError(f"{len(multiplier)} multipliers are stated, wanted {len(magnitudes)}")
    if not np.allclose(multiplier * 2.0**-shift, magnitudes, rtol=STATED_TOLERANCE, atol=2.0 ** -shift.min()):
        raise ValueError("the stated multipliers are not those of its scales")
    if shared:
        signs = np.sign(np.atleast_1d(real)).astype(np.int64)
        each = [[m, 0, 0, 0, 0] for m in (multiplier * signs).tolist()]
        code = RULES.index("half up" if form.operands == SUM_UP else form.rounding) << 8
        return np.array([*each, [1, 0, 0, int(shift[0]), code]], np.int32)
    few = np.maximum(1 - shift, 0)  # a last step wants a shift of at least 1
    rows = steps_of_multiplier(replace(form, operands=""), magnitudes, multiplier << few, shift + few, wide)
    return sum_of_whole(rows, np.atleast_1d(real)) if is_addition else rows


def read_multipliers(text: str) -> dict[str, Stated]:
    """Returns the multipliers and shifts that an ONNX's metadata states, by the tensor that a node makes. Raises
    ValueError for a text of another form."""
    content = json.loads(text)
    made: dict[str, Stated] = {}
    for name, (multiplier, shift) in content.items():
        made[name] = tuple(map(int, multiplier)), tuple(map(int, shift))
        if (
            not made[name][0]
            or not all(0 <= m < 2**31 for m in made[name][0])
            or len(made[name][1]) not in (1, len(made[name][0]))
        ):
            raise ValueError(f"{name[:40]!r}: multipliers from 0 to 2^31, and a shift for all or for each, are wanted")
        if not all(-30 <= s <= 93 for s in made[name][1]):
            raise ValueError(f"{name[:40]!r}: shifts from -30 to 93 are wanted")
    return made
