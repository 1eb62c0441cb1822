"""The weights of some output channels are 0, with or without their bias."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import comb

import numpy as np

from qverify.arithmetic.functions64 import log2_of
from qverify.triage.case import Array, Case, UnitChange
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import LINEAR_OPS, linear
from qverify.triage.one_row import Recomputed, is_beyond

NAME = "lost-weights"
OPS = ("conv", "fully_connected", "matmul")
MOST_NAMED = 4  # channels


def variants(case: Case) -> Iterator[FaultVariant]:
    name = case.last.inputs[1] or ""
    if case.last.op not in LINEAR_OPS or name not in case.graph.constants or linear(case) is None:
        return
    axis = -1 if case.last.op == "matmul" else 1
    size = case.spec.shape[axis]
    bias = case.last.inputs[2] if case.last.op != "matmul" else None
    far = np.flatnonzero(is_beyond(case.healthy, case.recorded, 1))
    touched = [np.unique(np.unravel_index(places, case.spec.shape)[axis]) for places in (case.differing, far)]
    for channels in touched if len(touched[0]) != len(touched[1]) else touched[:1]:
        if len(channels):
            yield from _lost_in(channels, size, name, bias)


def _lost_in(touched: Array, size: int, name: str, bias: str | None) -> Iterator[FaultVariant]:
    """Yields the faults of the weights of these channels."""
    named = ", ".join(str(c) for c in touched[:MOST_NAMED]) + (" ..." if len(touched) > MOST_NAMED else "")
    which = "" if len(touched) == size else f" of {'channel' if len(touched) == 1 else 'channels'} {named}"
    bits = 0.0 if len(touched) == size else log2_of(comb(size, len(touched)))
    for text, names in {"the weights": (name,), "the weights and the bias": (name, bias)}.items():
        if None not in names:
            change = partial(_lose, channels=touched, names=tuple(n for n in names if n is not None))
            yield FaultVariant(f"{text}{which} are 0", Recomputed(change), 3.0 + bits)


def _lose(case: Case, channels: Array, names: tuple[str, ...]) -> UnitChange:
    """Returns the change in which these constants stand for 0 in these channels."""
    changed = dict[str, Array]()
    for name in names:
        values, zero = case.graph.constants[name].copy(), np.asarray(case.graph.spec(name).zero_point or (0,))
        along = -1 if case.last.op == "matmul" else 0
        moved = np.moveaxis(values, along, 0)
        zeros = np.broadcast_to(zero, (len(moved),)) if zero.size in (1, len(moved)) else np.zeros(len(moved), int)
        moved[channels] = zeros[channels].reshape(-1, *[1] * (moved.ndim - 1))
        changed[name] = values
    return UnitChange(constants=changed)
