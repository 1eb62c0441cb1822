"""A number found from the recorded elements: how many times a known step stands in the accumulator too much."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.triage.case import Case
from qverify.triage.linear import Linear

Array = npt.NDArray[Any]
FEW, MANY = 16, 512  # elements looked at for every candidate, and for those that are left
MOST_FOUND = 4


def multiples(case: Case, of: Linear, step: Array, candidates: Array) -> list[int]:
    """The candidates k for which acc + k * step gives the recorded elements, judged by some hundreds of them; at most four.
    step: of acc's shape."""
    places = _telling(case, of, step)
    if not places.size:
        return []
    for count in (FEW, MANY):
        chosen = places[:: max(1, len(places) // count)]
        candidates = candidates[_hold(case, of, step, candidates, chosen)]
    return [int(k) for k in candidates[:MOST_FOUND] if k]


def _telling(case: Case, of: Linear, step: Array) -> Array:
    """Differing elements that are not saturated; where there are none, those that are."""
    flat, recorded = case.differing, case.recorded.reshape(-1)
    moved = flat[step.reshape(-1)[flat] != 0]
    inside = moved[(recorded[moved] > of.low) & (recorded[moved] < of.high)]
    return inside if inside.size else moved


def _hold(case: Case, of: Linear, step: Array, candidates: Array, places: Array) -> Array:
    at = at_elements(of, places)
    acc = at.acc + candidates[:, None] * step.reshape(-1)[places]
    made = replace(at, axis=1).output(acc)
    return np.asarray((made == case.recorded.reshape(-1)[places]).all(1))


def at_elements(of: Linear, places: Array) -> Linear:
    """Some elements of an accumulator as a row, every one with its own channel's parameters. places: flat."""
    channel = np.unravel_index(places, of.acc.shape)[of.axis]
    rq = of.rq if of.rq.shape[-1] == 1 else of.rq[..., channel]
    real = of.real if of.real.shape[-1] == 1 else of.real[channel]
    return replace(of, acc=of.acc.reshape(-1)[places], rq=rq, real=real, axis=0)
