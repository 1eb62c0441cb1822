"""Measures how far a side whose arithmetic is stated lies from the reference. No verdict is reached, unless a gate was
given."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from qverify.compare.judge import Judge, Judged
from qverify.compare.later import Later
from qverify.compare.options import Options
from qverify.compare.settle import map_known_equality
from qverify.compare.values import Values
from qverify.model_bin.graph import Graph
from qverify.report.distance import Distance, OutputDistance
from qverify.report.document import Metric, TensorRow
from qverify.tensors.recording import Array

METRICS = ("mismatched", "max_lsb", "max_abs", "sqnr_db", "cosine")  # of a final output
MAX_MEASURED = 1 << 24  # elements of an inner tensor, beyond which only its bytes are compared


def has_gate(options: Options) -> bool:
    """Returns whether the user gave a gate, which is then a limit of the distance."""
    return bool(options.digits_given or options.gates or options.criteria)


def measure_outputs(reference: Values, side: Values, graph: Graph, options: Options) -> Distance:
    """Returns the distance of the final outputs of a side from the reference's: how many elements differ, the largest difference,
    and the gate's verdict, if one was given."""
    judged, found = _judge(reference, side, graph, options, ("mismatched", "max_abs"), Later())
    found.outputs = [_measure_output(row, None) for row in judged.rows.values() if row.final]
    return found


def _judge(
    reference: Values,
    side: Values,
    graph: Graph,
    options: Options,
    metrics: tuple[str, ...],
    later: Later | None = None,
) -> tuple[Judged, Distance]:
    only = () if has_gate(options) or options.roles else metrics
    judge = Judge(reference, side, graph, replace(options, dump_all=False), only=only, later=later)
    judged = judge.run("reference", side.recording.side)
    found = Distance(side.recording.side, options.frame, judged.pair.board, 0, 0, 0)
    if has_gate(options) and judged.pair.verdict != "PASSED":
        found.misses, found.verdict = judged.pair.why, judged.pair.verdict
    return judged, found


def measure_reference_distance(reference: Values, side: Values, graph: Graph, options: Options) -> Distance:
    """Returns the distance of a side from the reference. Only final outputs are pulled from a board."""
    judged, found = _judge(reference, side, graph, options, METRICS)
    equal = map_known_equality(judged)
    differing = [name for name, same in equal.items() if not same]
    found.tensors, found.of = len(differing), len(equal)
    for name in differing:
        apart, lsb = _count(judged, name)
        found.elements += apart
        if not found.first:
            found.first, found.first_elements = name, apart
        if lsb > found.most_lsb:
            found.most, found.most_lsb = name, lsb
    arg_max = {agreement.output: agreement.arg_max for agreement in judged.pair.agreement}
    found.outputs = [_measure_output(row, arg_max.get(row.name)) for row in judged.rows.values() if row.final]
    return found


def _count(judged: Judged, name: str) -> tuple[int, int]:
    """Returns how many elements of a tensor differ, and by how many LSB at most (0 for floats); 0, 0 if the bytes are
    not at hand."""
    names = next(p for p in judged.declared if p.name == name)
    a, b = judged.a.get_local(names.a), judged.b.get_local(names.b)
    if a is None or b is None or (a.shape, a.dtype) != (b.shape, b.dtype) or a.size > MAX_MEASURED:
        return 0, 0
    apart = int(np.count_nonzero(a != b))
    return apart, _largest_step(a, b) if a.dtype.kind in "iu" and apart else 0


def _largest_step(a: Array, b: Array) -> int:
    wide = np.int16 if a.dtype.itemsize == 1 else np.int64
    return int(np.abs(np.subtract(a, b, dtype=wide)).max())


def _measure_output(row: TensorRow, arg_max: float | None) -> OutputDistance:
    differing, lsb = row.metrics.get("mismatched"), row.metrics.get("max_lsb")
    return OutputDistance(
        row.name,
        row.elements,
        differing if isinstance(differing, int) else 0 if row.bit_equal else row.elements,
        lsb if isinstance(lsb, int) else None,
        _finite(row.metrics.get("max_abs")),
        _finite(row.metrics.get("sqnr_db")),
        _finite(row.metrics.get("cosine")),
        arg_max,
    )


def _finite(value: Metric) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
