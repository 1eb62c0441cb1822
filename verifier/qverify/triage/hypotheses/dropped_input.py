"""A row, column or channel of the unit's input is left out or repeated: a part of its line buffer was not loaded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from qverify import ops
from qverify.arithmetic.functions64 import log2_of
from qverify.triage.altered_kernels.memory_sources import MemorySource, memory_sources, output_from
from qverify.triage.case import Array, Case, UnitChange
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import Linear, accumulator, linear

NAME = "dropped-input"
FEW = 16  # channels that are tried one by one
MAX_WORK = 4_000_000  # elements of the sums of one output channel, computed for each input channel
NAMES = {2: "row", 3: "column"}


def variants(case: Case) -> Iterator[FaultVariant]:
    for place in memory_sources(case, "input"):
        shape = place.spec.shape
        if len(shape) != 4 or len(case.recorded.shape) != 4:
            continue
        for axis in (2, 3):
            for line in _lines(case, axis, shape[axis]):
                yield from _spoiled(case, place, axis, line, NAMES[axis])
        for channel in _channels(case, place):
            yield from _spoiled(case, place, 1, channel, "channel")


def _spoiled(case: Case, place: MemorySource, axis: int, line: int, name: str) -> Iterator[FaultVariant]:
    text, size = f"{name} {line} of {place.label}", place.spec.shape[axis]
    for value in sorted({0, *place.spec.zero_point[:1]}):
        yield FaultVariant(
            f"{text} left out: {value} there",
            output_from(place, partial(_filled, axis=axis, line=line, value=value)),
            log2_of(size),
        )
    for other in (line - 1, line + 1):
        if 0 <= other < size:
            compute = output_from(place, partial(_repeated, axis=axis, line=line, other=other))
            yield FaultVariant(f"{text} repeats {name} {other}", compute, log2_of(size))


def _filled(values: Array, axis: int, line: int, value: Any) -> Array:
    changed = values.copy()
    np.moveaxis(changed, axis, 0)[line] = value
    return changed


def _repeated(values: Array, axis: int, line: int, other: int) -> Array:
    changed = values.copy()
    moved = np.moveaxis(changed, axis, 0)
    moved[line] = moved[other]
    return changed


def _lines(case: Case, axis: int, size: int) -> list[int]:
    """Returns the rows or columns that every differing element reads."""
    touched = np.unravel_index(case.differing, case.recorded.shape)[axis]
    first, last = int(touched.min()), int(touched.max())
    words, side = ops.words(case.last), "hw"[axis - 2]
    if f"stride_{side}" not in words:
        return [first] if first == last and size == case.recorded.shape[axis] else []
    stride, dilation = words[f"stride_{side}"], words.get(f"dilation_{side}", 1)
    pad, reach = words[("pad_top", "pad_left")[axis - 2]], (words[f"kernel_{side}"] - 1) * dilation
    if case.last.op == "conv_transpose" or (last - first) * stride > reach:
        return []
    return [i for i in range(last * stride - pad, first * stride - pad + reach + 1) if 0 <= i < size]


def _channels(case: Case, place: MemorySource) -> list[int]:
    """Returns the candidate channels of a convolution's input; if it reads many, only those that explain one of its
    output channels."""
    sums, node = linear(case), case.last
    if node.op != "conv" or sums is None or place.name != node.inputs[0]:
        return []
    weights, groups = case.graph.constants[node.inputs[1] or ""], node.words[10]
    touched = np.unique(np.unravel_index(case.differing, case.recorded.shape)[1])
    groups_touched = np.unique(touched // (len(weights) // groups))
    if len(groups_touched) > 1:
        return []
    members = range(int(groups_touched[0]) * weights.shape[1], (int(groups_touched[0]) + 1) * weights.shape[1])
    if len(members) <= FEW:
        return list(members)
    if groups > 1 or len(members) * case.recorded[0, 0].size > MAX_WORK:
        return []
    return _explaining(case, sums, int(touched[len(touched) // 2]), place)


def _explaining(case: Case, sums: Linear, output: int, place: MemorySource) -> list[int]:
    """Returns the channels that, if they are left out or replaced by a neighbour, give the recorded elements of this
    output channel."""
    contributions = _by_channel(case, output, place, case.inputs[place.name])
    zero = _by_channel(case, output, place, np.zeros_like(case.inputs[place.name]))
    x = case.inputs[place.name]
    before, after = (_by_channel(case, output, place, np.roll(x, by, 1)) for by in (1, -1))
    one = sums.acc[:, output : output + 1]
    part = sums.rq if sums.rq.shape[-1] == 1 else sums.rq[..., output : output + 1]
    matches = np.zeros(contributions.shape[1], bool)
    for replacement in (np.zeros_like(contributions), zero, before, after):
        result = sums.output(one - contributions + replacement, rq=part)
        matches |= (result == case.recorded[:, output : output + 1]).all((0, 2, 3))
    return [int(i) for i in np.flatnonzero(matches)[:FEW]]


def _by_channel(case: Case, output: int, place: MemorySource, x: Array) -> Array:
    """Returns the contributions of each input channel to the sums of one output channel, [N, I, H, W], computed with
    one group per channel."""
    node, name = case.last, case.last.inputs[1] or ""
    w, spec = case.graph.constants[name][output], case.graph.spec(name)
    zero = spec.zero_point[output if len(spec.zero_point) > 1 else 0]
    of_one = replace(spec, shape=(len(w), 1, *w.shape[1:]), aligned_shape=(), zero_point=(zero,))
    wide = replace(
        case,
        graph=replace(case.graph, tensors={**case.graph.tensors, case.output: _channels_of(case, len(w))}),
        cache={},
        states={},
    )
    words = (*node.words[:10], len(w), *node.words[11:])
    grouped = replace(node, inputs=(node.inputs[0], name, None, node.inputs[3]), words=words)
    return accumulator(
        wide,
        UnitChange(
            inputs={place.name: x}, constants={name: w[:, None]}, specs={name: of_one}, nodes={node.name: grouped}
        ),
    )


def _channels_of(case: Case, count: int) -> Any:
    shape = case.spec.shape
    return replace(case.spec, shape=(shape[0], count, *shape[2:]), aligned_shape=())
