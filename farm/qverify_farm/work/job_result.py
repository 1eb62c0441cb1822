"""Makes the result of an attempt, which stays small however large the report is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from qverify.report.document import ReportDocument

from qverify_farm.work.job_task import JobResult

MAX_BYTES, MAX_WHY_LENGTH, MAX_NODES, MAX_NAME_LENGTH = 1024, 300, 10, 120


def verdict_fields(report: ReportDocument) -> dict[str, Any]:
    """Returns the fields of a JobResult that come from a report: verdict, why, blame and the nodes that failed."""
    blame = report.blame
    return {
        "verdict": report.verdict,
        "why": _why(report),
        "blame_side": blame.side if blame is not None else "",
        "blame_node": blame.node if blame is not None else "",
        "nodes": tuple(_failed_nodes(report)),
    }


def _why(report: ReportDocument) -> str:
    if report.verdict == "PASSED":
        return ""
    reasons = [pair.why for pair in report.pairs if pair.verdict == report.verdict]
    reasons += [
        f"{row['source']}: {row['why']}" for row in report.frames if row["verdict"] == report.verdict and row["why"]
    ]
    reasons += [report.blame.why] if report.blame is not None else []
    return next((text for text in [*reasons, *report.caveats] if text), "")


def _failed_nodes(report: ReportDocument) -> list[str]:
    """Returns the first nodes with a FAILED tensor, in the order of execution, each once."""
    rows = [row for pair in report.pairs for row in pair.tensors]
    return list(dict.fromkeys(row.node or row.name for row in rows if row.verdict == "FAILED"))[:MAX_NODES]


def shortened(result: JobResult) -> JobResult:
    """Returns the result with texts and names cut so that it has at most MAX_BYTES as JSON."""
    small = replace(
        result,
        why=_cut(" ".join(result.why.split()), MAX_WHY_LENGTH),
        blame_node=_cut(result.blame_node, MAX_NAME_LENGTH),
        nodes=tuple(_cut(name, MAX_NAME_LENGTH) for name in result.nodes[:MAX_NODES]),
        facts={_cut(k, 20): _cut(v, 60) for k, v in [*result.facts.items()][:5]},
        worker=_cut(result.worker, 80),
    )
    while _size(small) > MAX_BYTES and small.nodes:
        small = replace(small, nodes=small.nodes[:-1])
    while _size(small) > MAX_BYTES and len(small.why) > 20:
        small = replace(small, why=_cut(small.why, len(small.why) // 2))
    if _size(small) > MAX_BYTES:
        small = replace(small, facts={}, blame_node=_cut(small.blame_node, 40), worker=_cut(small.worker, 20))
    return small


def _cut(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


def _size(result: JobResult) -> int:
    return len(json.dumps(result.to_json()).encode())
