"""Finds from the recorded elements how many times a known step was added to the accumulator by mistake."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.windows import as_planes, plane_shape, window_of
from qverify.triage.case import Case
from qverify.triage.linear_sums import Linear

Array = npt.NDArray[Any]
FEW, MANY = 16, 512  # elements that are compared for every candidate, and for those that remain
MAX_RESULTS = 4
SAMPLE_SIZE = 48  # differing elements of a channel, and others


def find_multiples(case: Case, sums: Linear, step: Array, candidates: Array) -> list[int]:
    """Returns at most four of the candidates k for which acc + k * step gives the recorded elements, as far as a sample
    of them shows. step: in the shape of acc."""
    places = _usable_elements(case, sums, step)
    if not places.size:
        return []
    for count in (FEW, MANY):
        chosen = places[:: max(1, len(places) // count)]
        candidates = candidates[_gives_recorded(case, sums, step, candidates, chosen)]
    return [int(k) for k in candidates[:MAX_RESULTS]]


def _usable_elements(case: Case, sums: Linear, step: Array) -> Array:
    """Returns the differing elements that the step changes and that are not saturated; if there are none, the saturated
    ones."""
    flat, recorded = case.differing, case.recorded.reshape(-1)
    moved = flat[step.reshape(-1)[flat] != 0]
    inside = moved[(recorded[moved] > sums.low) & (recorded[moved] < sums.high)]
    return inside if inside.size else moved


def _gives_recorded(case: Case, sums: Linear, step: Array, candidates: Array, places: Array) -> Array:
    at = at_elements(sums, places)
    acc = at.acc + candidates[:, None] * step.reshape(-1)[places]
    output = replace(at, axis=1).output(acc)
    return np.asarray((output == case.recorded.reshape(-1)[places]).all(1))


def at_elements(sums: Linear, places: Array) -> Linear:
    """Returns the accumulator's elements at these flat indices as a row, each with the parameters of its channel,
    except for `real`."""
    channel = np.unravel_index(places, sums.acc.shape)[sums.axis]
    rq = sums.rq if sums.rq.shape[-1] == 1 else sums.rq[..., channel]
    return replace(sums, acc=sums.acc.reshape(-1)[places], rq=rq, axis=0)


def find_flipped_weights(case: Case, sums: Linear, channel: int) -> list[tuple[int, int]]:
    """Returns (flat index in the constant, bit) of at most four weights of one output channel in which an inverted bit
    gives the channel's recorded elements, as far as a sample of them shows."""
    name = case.last.inputs[1] or ""
    w = case.graph.constants[name]
    if w.itemsize != 1:
        return []
    taps = _taps(case, w, channel)
    places = _sample_of_channel(case, channel)
    row = w[channel].reshape(-1)
    by = np.stack([(row.view(np.uint8) ^ (1 << b)).view(w.dtype).astype(np.int64) - row for b in range(8)], 1)
    steps = (by[:, :, None] * taps[:, None, :]).reshape(-1, taps.shape[1])
    at = at_elements(sums, places)
    output = replace(at, axis=1).output(at.acc + steps)
    matches = np.flatnonzero((output == case.recorded.reshape(-1)[places]).all(1))
    return [(channel * row.size + int(i) // 8, int(i) % 8) for i in matches[:MAX_RESULTS]]


def _sample_of_channel(case: Case, channel: int) -> Array:
    """Returns flat indices of some of the channel's elements, among them some that differ."""
    all_places = np.arange(case.recorded.size).reshape(case.recorded.shape)[:, channel].reshape(-1)
    return np.unique(
        np.concatenate([case.differing[:SAMPLE_SIZE], all_places[:: max(1, len(all_places) // SAMPLE_SIZE)]])
    )


def _taps(case: Case, w: Array, channel: int) -> Array:
    """Returns the input elements by which each weight of the channel is multiplied: [K, elements of
    _sample_of_channel]."""
    places = _sample_of_channel(case, channel)
    where = np.unravel_index(places, case.recorded.shape)
    node, k = case.last, int(np.prod(w.shape[1:]))
    spec = case.graph.spec(node.inputs[0] or "")
    x = case.inputs[node.inputs[0] or ""].astype(np.int64) - spec.zero_point[0]
    if node.op == "fully_connected":
        return x[where[0]].T
    window, (rows, columns) = window_of(node.words), plane_shape(case.spec.shape)
    inputs, group = w.shape[1], channel // (len(w) // node.words[10])
    padded = window.padded(as_planes(x)[:, group * inputs : (group + 1) * inputs], (rows, columns), 0)
    at_row = where[2] if len(where) == 4 else np.zeros_like(where[0])
    taps = [tap[where[0], :, at_row, where[-1]] for tap in window.taps(padded, (rows, columns))]
    return np.stack(taps, 2).reshape(len(places), k).T
