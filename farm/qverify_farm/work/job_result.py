"""Makes the result of an attempt, which stays small however large the report is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from qverify.report.document import ReportDocument
from qverify.report.matrix.stored_runs import describe_gates
from qverify.report.weakenings import list_caveats

from qverify_farm.work.failure_extent import extent_of, failed_rows
from qverify_farm.work.job_task import JobResult

MAX_BYTES, MAX_WHY_LENGTH, MAX_NODES, MAX_NAME_LENGTH = 2048, 300, 10, 120
MAX_CAVEATS_LENGTH, MAX_GATE_LENGTH, MIN_TEXT_LENGTH = 600, 200, 80


def verdict_fields(report: ReportDocument) -> dict[str, Any]:
    """Returns the fields of a JobResult that come from a report: verdict, why, caveats, blame, and the nodes that failed with
    the extent of the failure."""
    blame, nodes = report.blame, [*failed_rows(report)][:MAX_NODES]
    return {
        "verdict": report.verdict,
        "why": _why(report) if report.sequence is None else _why_of_sequence(report, report.sequence.steps),
        "caveats": "; ".join(list_caveats(report)),
        "gate": describe_gates(report),
        "blame_side": blame.side if blame is not None else "",
        "blame_node": blame.node if blame is not None else "",
        "nodes": tuple(nodes),
        "extent": extent_of(report, nodes),
    }


def _why_of_sequence(report: ReportDocument, steps: int) -> str:
    """Returns the reason with the first step that has the verdict."""
    why = _why(report)
    first = next((at for at, row in enumerate(report.frames) if row["verdict"] == report.verdict), None)
    return f"step {first} of {steps}: {why}" if why and first is not None else why


def _why(report: ReportDocument) -> str:
    if report.verdict == "PASSED":
        return ""
    reasons = [
        pair.why + ("; location unknown" if pair.cause == "unlocated" else "")
        for pair in report.pairs
        if pair.verdict == report.verdict
    ]
    reasons += [
        f"{row['source']}: {row['why']}" for row in report.frames if row["verdict"] == report.verdict and row["why"]
    ]
    reasons += [report.blame.why] if report.blame is not None else []
    return next((text for text in [*reasons, *report.caveats] if text), "")


def shortened(result: JobResult) -> JobResult:
    """Returns the result with texts and names cut so that it has at most MAX_BYTES as JSON."""
    small = replace(
        result,
        why=_cut(" ".join(result.why.split()), MAX_WHY_LENGTH),
        caveats=_cut(" ".join(result.caveats.split()), MAX_CAVEATS_LENGTH),
        gate=_cut(" ".join(result.gate.split()), MAX_GATE_LENGTH),
        blame_node=_cut(result.blame_node, MAX_NAME_LENGTH),
        nodes=tuple(_cut(name, MAX_NAME_LENGTH) for name in result.nodes),
        facts={_cut(k, 20): _cut(v, 60) for k, v in [*result.facts.items()][:5]},
        worker=_cut(result.worker, 80),
    )
    small = _with_nodes(small, MAX_NODES)
    while _size(small) > MAX_BYTES and len(small.caveats) > MIN_TEXT_LENGTH:
        small = replace(small, caveats=_cut(small.caveats, max(MIN_TEXT_LENGTH, len(small.caveats) // 2)))
    while _size(small) > MAX_BYTES and len(small.why) > MIN_TEXT_LENGTH:
        small = replace(small, why=_cut(small.why, max(MIN_TEXT_LENGTH, len(small.why) // 2)))
    while _size(small) > MAX_BYTES and small.nodes:  # last, since a baseline is known by them
        small = _with_nodes(small, len(small.nodes) - 1)
    if _size(small) > MAX_BYTES:
        small = replace(small, facts={}, blame_node=_cut(small.blame_node, 40), worker=_cut(small.worker, 20))
    return small


def _with_nodes(result: JobResult, number: int) -> JobResult:
    """Returns the result with its first nodes, and their extents."""
    extent = result.extent and {**result.extent, "nodes": result.extent["nodes"][:number]}
    return replace(result, nodes=result.nodes[:number], extent=extent)


def _cut(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


def _size(result: JobResult) -> int:
    return len(json.dumps(result.to_json()).encode())
