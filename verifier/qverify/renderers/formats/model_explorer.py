"""Node data for Model Explorer, which colours the graph of the quantized ONNX: the lowest SQNR of each tensor."""

from __future__ import annotations

import json
import math

from qverify.renderers.report_text import write_report
from qverify.renderers.summary_lines import summary_lines
from qverify.renderers.triage_text import render
from qverify.report.document import ReportDocument, TensorRow
from qverify.report.triage_document import TriageDocument

SUFFIX = ".node_data.json"
EQUAL_DB = 200.0  # SQNR of equal tensors, since JSON has no infinity
COLOURS = {"PASSED": "#d7f0dd", "FAILED": "#f7c6c2", "INCONCLUSIVE": "#f6e3b4"}
ORDER = ("FAILED", "INCONCLUSIVE", "PASSED")


def write(report: ReportDocument, path: str) -> None:
    """Writes value and colour of each tensor: the lowest SQNR in dB of all pairs, frames and boards, at most EQUAL_DB,
    and the colour of the worst verdict. The keys are the tensor and the ONNX nodes that it stands for; Model Explorer
    accepts both."""
    results: dict[str, dict[str, object]] = {}
    for row, value, verdict in _worst(report).values():
        for key in dict.fromkeys((row.name, row.node, *row.covers)):
            if key:
                results[key] = {"value": value, "bgColor": COLOURS[verdict], "textColor": "#1b1f24"}
    _write(results, {"qverify": summary_lines(report)}, path)


def write_triage(triage: TriageDocument, path: str) -> None:
    """Writes the SQNR of each tensor with a loss of quantization, by its names in both ONNX files."""
    results = dict[str, dict[str, object]]()
    for loss in triage.losses:
        for key in dict.fromkeys((loss.tensor, loss.quantized, loss.node)):
            if key:
                results[key] = {"value": _finite(loss.sqnr_db)}
    stops = [{"stop": 0, "bgColor": "#f7c6c2"}, {"stop": 1, "bgColor": "#d7f0dd"}]
    _write(results, {"gradient": stops, "qverify": render(triage).splitlines()}, path)


def _worst(report: ReportDocument) -> dict[str, tuple[TensorRow, float, str]]:
    worst = dict[str, tuple[TensorRow, float, str]]()
    for pair in report.pairs:
        for row in pair.tensors:
            value = row.metrics.get("sqnr_db")
            ratio = _finite(
                float(value) if isinstance(value, (int, float)) else EQUAL_DB if row.bit_equal else math.nan
            )
            _, lowest, verdict = worst.get(row.name, (row, EQUAL_DB, "PASSED"))
            worst[row.name] = row, min(lowest, ratio), min((verdict, row.verdict), key=ORDER.index)
    return worst


def _finite(value: float) -> float:
    """Returns the ratio, limited to -EQUAL_DB to EQUAL_DB. NaN becomes the lowest value."""
    return -EQUAL_DB if math.isnan(value) else min(max(value, -EQUAL_DB), EQUAL_DB)


def _write(results: dict[str, dict[str, object]], others: dict[str, object], path: str) -> None:
    """Writes the document. others: further fields; Model Explorer ignores unknown ones."""
    results.pop("results", None)  # a tensor of this name would make Model Explorer expect another format
    document = {"results": results, **others}
    write_report(json.dumps(document, indent=1, allow_nan=False) + "\n", path)
