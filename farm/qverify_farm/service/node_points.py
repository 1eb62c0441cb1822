"""Reads the metrics of one node from the report of a job."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from qverify_farm.service.schemas.runs import NodePoint
from qverify_farm.store.tables import JobRecord, SuiteRunRecord

METRICS = ("max_lsb", "max_abs", "cosine", "rmse", "sqnr_db", "mismatched", "elements")
ERRORS = ("max_lsb", "max_abs", "rmse", "mismatched")  # 0 for equal bytes


def node_points(document: Any, node: str, job: JobRecord, run: SuiteRunRecord) -> list[NodePoint]:
    """Returns a point for each pair of sides whose report says something about a node or tensor. document: the report as JSON,
    which may be anything."""
    points = []
    for pair in _dicts(document.get("pairs") if isinstance(document, dict) else None):
        name = " ~ ".join(str(pair.get(side, "")) for side in ("a", "b"))
        for verdict, metrics in _values(document, pair, node):
            points.append(
                NodePoint(
                    job=job.id,
                    run=run.id,
                    board=job.board,
                    labels=dict(run.labels or {}),
                    ended=job.ended,
                    pair=name,
                    verdict=verdict,
                    metrics=metrics,
                )
            )
    return points


def _values(
    document: Mapping[str, Any], pair: Mapping[str, Any], node: str
) -> Iterator[tuple[str, dict[str, float | None]]]:
    """Yields the verdict and the metrics of each of the node's tensors that has a row in the pair; if there is none but the pair
    shows that the node's bytes are equal, yields PASSED with errors of 0."""
    has_row = False
    for row in _dicts(pair.get("tensors")):
        if node in (row.get("node"), row.get("name")):
            has_row = True
            metrics = {name: _finite(row[name]) for name in METRICS if name in row}
            if row.get("digests_equal") is True:
                metrics |= {name: 0.0 for name in ERRORS if metrics.get(name) is None}
            yield str(row.get("verdict", "")), metrics
    if not has_row and _has_equal_bytes(pair, _outputs_of(document, node)):
        yield "PASSED", dict.fromkeys(ERRORS, 0.0)


def _outputs_of(document: Mapping[str, Any], node: str) -> list[str]:
    """Returns the tensors of a node or tensor of the model; empty for other names."""
    for unit in _dicts(document.get("units")):
        outputs = _strings(unit.get("outputs"))
        if node == unit.get("node"):
            return outputs
        if node in outputs:
            return [node]
    return []


def _has_equal_bytes(pair: Mapping[str, Any], tensors: list[str]) -> bool:
    same = pair.get("same_bytes")
    return bool(tensors) and isinstance(same, dict) and all(same.get(name) is True for name in tensors)


def _strings(values: object) -> list[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _dicts(values: object) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _finite(value: object) -> float | None:
    if not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:  # JSON's integers have no limit
        return None
    return number if math.isfinite(number) else None
