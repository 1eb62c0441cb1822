"""Makes the extent of a failure: by how much its nodes differ, so that a later failure can be compared with a baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from qverify.report.document import ReportDocument, TensorRow

Extent = dict[str, Any]
NodeExtent = list[Any]  # elements, largest difference, elements below, elements above (None: not known)


def failed_rows(report: ReportDocument) -> dict[str, list[TensorRow]]:
    """Returns the FAILED tensors of every two sides and frame by node, in the order of execution."""
    rows: dict[str, list[TensorRow]] = {}
    for row in (row for pair in report.pairs for row in pair.tensors if row.verdict == "FAILED"):
        rows.setdefault(row.node or row.name, []).append(row)
    return rows


def extent_of(report: ReportDocument, nodes: Sequence[str]) -> Extent:
    """Returns the extent of a failure, or {} without one. causes: those of the pairs. tensors, elements: the numbers of
    FAILED tensors and of their differing elements, over every two sides and frame. nodes: a NodeExtent for each of `nodes`."""
    rows = failed_rows(report)
    if report.verdict != "FAILED" or not rows:
        return {}
    every = [row for of_node in rows.values() for row in of_node]
    return {
        "causes": sorted({pair.cause or "" for pair in report.pairs if pair.verdict == "FAILED"}),
        "tensors": len(every),
        "elements": sum(_elements(row) for row in every),
        "nodes": [_node_extent(rows[node]) for node in nodes],
    }


def _node_extent(rows: Iterable[TensorRow]) -> NodeExtent:
    rows = list(rows)
    below, above = _directions(rows)
    return [sum(map(_elements, rows)), _finite(max(map(_largest, rows))), below, above]


def _elements(row: TensorRow) -> int:
    """Returns the number of elements that differ; of values that cannot be compared (another shape or type), all."""
    number = row.metrics.get("mismatched")
    return number if isinstance(number, int) else row.elements


def _largest(row: TensorRow) -> float:
    """Returns the largest difference in real values; infinite if it is not known or not finite."""
    value = row.metrics.get("max_abs")
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else math.inf


def _finite(value: float) -> float | None:
    """Returns the value with 9 digits, or None for infinity, which JSON does not have."""
    return float(f"{value:.9g}") if math.isfinite(value) else None


def _directions(rows: Iterable[TensorRow]) -> tuple[int | None, int | None]:
    """Returns the numbers of elements that are below and above; None where a tensor has no integers."""
    below = above = 0
    for row in rows:
        histogram = row.metrics.get("lsb_histogram")
        if not isinstance(histogram, dict):
            return None, None
        below += sum(number for steps, number in histogram.items() if steps.startswith(("-", "<")))
        above += sum(number for steps, number in histogram.items() if steps != "0" and not steps.startswith(("-", "<")))
    return below, above
