"""Makes the small result of an attempt, whatever the size of its report."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from qverify.report.document import Report

from qverify_farm.work.job_task import JobResult

MOST_BYTES, MOST_WHY, MOST_NODES, MOST_NAME = 1024, 300, 10, 120


def verdict_fields(report: Report) -> dict[str, Any]:
    """Returns the fields of a JobResult that a report decides: verdict, why, blame and the nodes that failed."""
    blame = report.blame
    return {
        "verdict": report.verdict,
        "why": _why(report),
        "blame_side": blame.side if blame is not None else "",
        "blame_node": blame.node if blame is not None else "",
        "nodes": tuple(_failing(report)),
    }


def _why(report: Report) -> str:
    if report.verdict == "PASSED":
        return ""
    said = [pair.why for pair in report.pairs if pair.verdict == report.verdict]
    said += [
        f"{row['source']}: {row['why']}" for row in report.frames if row["verdict"] == report.verdict and row["why"]
    ]
    said += [report.blame.why] if report.blame is not None else []
    return next((text for text in [*said, *report.caveats] if text), "")


def _failing(report: Report) -> list[str]:
    """Returns the first nodes with a failing tensor, in running order, each once."""
    rows = [row for pair in report.pairs for row in pair.tensors]
    return list(dict.fromkeys(row.node or row.name for row in rows if row.verdict == "FAILED"))[:MOST_NODES]


def shortened(result: JobResult) -> JobResult:
    """Returns the result with texts and names cut so that it has at most MOST_BYTES as JSON."""
    small = replace(
        result,
        why=_cut(" ".join(result.why.split()), MOST_WHY),
        blame_node=_cut(result.blame_node, MOST_NAME),
        nodes=tuple(_cut(name, MOST_NAME) for name in result.nodes[:MOST_NODES]),
        facts={_cut(k, 20): _cut(v, 60) for k, v in [*result.facts.items()][:5]},
        worker=_cut(result.worker, 80),
    )
    while _bytes(small) > MOST_BYTES and small.nodes:
        small = replace(small, nodes=small.nodes[:-1])
    while _bytes(small) > MOST_BYTES and len(small.why) > 20:
        small = replace(small, why=_cut(small.why, len(small.why) // 2))
    if _bytes(small) > MOST_BYTES:
        small = replace(small, facts={}, blame_node=_cut(small.blame_node, 40), worker=_cut(small.worker, 20))
    return small


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _bytes(result: JobResult) -> int:
    return len(json.dumps(result.to_json()).encode())
