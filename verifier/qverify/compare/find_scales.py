"""Recognises final outputs that a side gives by another scale, that of another tensor or any, or without their zero point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from qverify.compare.judge import Judged
from qverify.compare.scale import FAR, holds
from qverify.compare.side_values import (
    CLEAR,
    MIN_VALUES,
    MOST_TENSORS,
    Real,
    average_deviation,
    is_output,
    quantization,
    read_real,
)
from qverify.model_bin.graph import Graph
from qverify.report.facts import Finding
from qverify.report.side_names import named, within
from qverify.tensors.spec import TensorSpec

SAME = 1e-6  # relative; two scales that are one
WHOLE = 2.0**-21  # of the largest step: roundoff of float32
SAMPLE = 256


def find_other_scales(pairs: Iterable[Judged], graph: Graph | None, frame: int) -> list[Finding]:
    """Returns a finding on each final output that FAILED, of a board, a dump or dumps compared with each other, whose
    values are those of the other side, but for rounding, by the scale of another tensor, off by their zero point everywhere, or by
    a factor of at most FAR (scale.find_scales() finds larger ones). frame: number of the frame."""
    found: dict[str, Finding] = {}
    for judged in pairs:
        if judged.pair.verdict == "PASSED" or judged.b.recording.side not in ("board", "dump", "B"):
            continue
        failed = [n for n, row in judged.rows.items() if row.verdict == "FAILED" and is_output(judged, graph, n)]
        for name in failed[:MOST_TENSORS]:
            if name not in found and (text := _describe(judged, graph, name)):
                found[name] = Finding("scale", name, text, frame)
    return list(found.values())


def _describe(judged: Judged, graph: Graph | None, name: str) -> str:
    """Returns the sentence on one tensor, or ""."""
    sides, own = read_real(judged, graph, name, name), quantization(judged, graph, name)
    if sides is None or sides.wanted.size != sides.given.size:
        return ""
    others = _list_scales(judged, graph, name, own) if own is not None else ()
    a, b = sides.wanted.reshape(-1), sides.given.reshape(-1)
    if own is not None and (other := find_scale(a, b, own, others)) is not None:
        return f"{name}: {describe_scale(own, other, f'that {named(judged.pair.b)} gives', within(judged.pair.a))}"
    if own is not None and (steps := find_zero_point(a, b, own)):
        where = "above" if steps > 0 else "below"
        lies = f"{name}: every value {within(judged.pair.b)} lies {abs(steps)} steps {where} that {within(judged.pair.a)}, but for rounding"
        return f"{lies}: {_describe_zero_point(steps, own)}"
    ratio = find_factor(a, b)
    if not ratio or not holds(ratio, FAR) or f"{ratio:.3g}" == "1":  # few values, off by a step
        return ""
    larger = f"{ratio:.3g} times as large {within(judged.pair.b)} as {within(judged.pair.a)}"
    return f"{name} is {larger}, and equal otherwise, but for rounding: a scale"


def describe_scale(own: TensorSpec, other: TensorSpec, given: str, wanted: str) -> str:
    """Returns what find_scale() found in words. given, wanted: the sides, such as `that B gives`, `in A`."""
    whole = f"every value {given} is a whole step of {other.scale[0]:.6g}, the scale of {other.name}"
    return f"{whole}; by its own scale, {own.scale[0]:.6g}, they are those {wanted}, but for rounding"


def find_scale(a: Real, b: Real, own: TensorSpec, others: Iterable[TensorSpec]) -> TensorSpec | None:
    """Returns the tensor by whose scale the second side gives the values of the first, but for rounding, or None.

    Args:
        a, b: real values of both sides, flat, of one size.
        own: the quantization of the tensor; one scale.
        others: those of other tensors, with other scales."""
    limit = min(float(np.mean(np.abs(b - a))), average_deviation(a))
    return next((spec for spec in others if _is_by_scale(a, b, own, spec, limit)), None)


def find_zero_point(a: Real, b: Real, own: TensorSpec) -> int:
    """Returns the steps by which every value of the second side is that of the first, but for rounding, if this is the zero
    point or what the signed and the unsigned type differ by; else 0.

    Args:
        a, b: real values of both sides, flat, of one size.
        own: the quantization of the tensor; one scale."""
    steps = round(float(np.median(b - a)) / own.scale[0])
    left = CLEAR * float(np.mean(np.abs(b - a - steps * own.scale[0])))
    limit = min(average_deviation(a), abs(steps) * own.scale[0])
    known = abs(steps) in (abs(own.zero_point[0]) if own.zero_point else 0, _signs_apart(own))
    return steps if steps and known and left < limit and len(np.unique(a)) >= MIN_VALUES else 0


def _signs_apart(own: TensorSpec) -> int:
    return 1 << (8 * own.numpy_dtype.itemsize - 1)


def _describe_zero_point(steps: int, own: TensorSpec) -> str:
    zero = own.zero_point[0] if own.zero_point else 0
    if abs(steps) != abs(zero):
        return f"{own.dtype} was read with the other sign"
    return f"its zero point, {zero}, was " + ("not subtracted" if steps == zero else "subtracted twice")


def find_factor(a: Real, b: Real) -> float | None:
    """Returns the factor by which the values of the second side are those of the first, but for rounding; None if there is
    none, if it cannot be told from 1, or if an offset explains them as well."""
    squares = float((a * a).sum())
    ratio = float((a * b).sum()) / squares if squares else 0.0
    if ratio <= 0 or CLEAR * np.mean(np.abs(b / ratio - a)) >= min(average_deviation(b - a), average_deviation(a)):
        return None
    return ratio


def _list_scales(judged: Judged, graph: Graph | None, name: str, own: TensorSpec) -> Iterator[TensorSpec]:
    """Yields the other tensors with a scale of their own, under the names of the rows, final outputs first, each scale
    once."""
    specs = {n: s for n in judged.rows if n != name and (s := quantization(judged, graph, n)) is not None}
    ordered = sorted(specs.items(), key=lambda item: not is_output(judged, graph, item[0]))
    if graph is not None:
        ordered += [(n, s) for n, s in graph.tensors.items() if len(s.scale) == 1 and n not in graph.constants]
    seen = [own.scale[0]]
    for other, spec in ordered:
        if all(abs(spec.scale[0] - scale) > SAME * scale for scale in seen):
            seen.append(spec.scale[0])
            yield replace(spec, name=other)


def _is_by_scale(a: Real, b: Real, own: TensorSpec, other: TensorSpec, limit: float) -> bool:
    """Returns whether all values of b are whole steps of the other scale, and, as steps of their own, CLEAR times nearer
    to those of a than `limit`."""
    places = np.linspace(0, b.size - 1, min(SAMPLE, b.size)).astype(np.int64)
    if not _are_whole(b[places] / other.scale[0]):
        return False
    steps = b / other.scale[0]
    if not _are_whole(steps) or len(np.unique(np.rint(steps))) < MIN_VALUES:
        return False
    zeros = {(s.zero_point[0] if s.zero_point else 0) for s in (own, other)}
    shifts = {zero - (own.zero_point[0] if own.zero_point else 0) for zero in zeros}
    return any(CLEAR * np.mean(np.abs((steps + shift) * own.scale[0] - a)) <= limit for shift in shifts)


def _are_whole(steps: Real) -> bool:
    return bool(np.abs(steps - np.rint(steps)).max() <= max(float(np.abs(steps).max()), 1.0) * WHOLE)
