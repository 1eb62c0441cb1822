"""Reports of made-up runs, and matrices of them."""

from __future__ import annotations

import json
from pathlib import Path

from qverify.report.document import ReportDocument
from qverify.report.matrix.document import MatrixDocument
from qverify.report.matrix.grouping import build_matrix
from qverify.report.matrix.skim import Skimmer
from qverify.report.matrix.stored_runs import stored_runs
from qverify.report.report_json import to_json

from tests.plain.three_sides import three, wrong_at


def report(ok: bool = True, **facts: str) -> ReportDocument:
    """A report of two sides and a board that is right or wrong, with what was stated about the run."""
    made = three() if ok else three(board=wrong_at("n2"))
    made.facts = {key: value for key, value in facts.items() if key != "date"}
    made.date = facts.get("date", "2026-11-01T00:00:00+00:00")
    made.models = [{"path": "net.onnx", "sha256": "a" * 64, "kind": "quant.onnx"}]
    made.boards = ["ssh://desk"]
    return made


def saved(made: ReportDocument, path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(to_json(made), indent=1))
    return str(path)


def matrix_of(
    *reports: ReportDocument, rows: tuple[str, ...] = ("model",), columns: tuple[str, ...] = ("firmware",)
) -> MatrixDocument:
    with Skimmer() as skimmer:
        runs = [
            run
            for at, one in enumerate(reports)
            for run in stored_runs(
                skimmer.read(json.dumps(to_json(one), indent=1).encode(), f"{at}.json"), f"{at}.json"
            )
        ]
    return build_matrix(runs, rows, columns)
