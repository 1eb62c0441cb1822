"""Adds the result of a check to a report: no pair with the board stays PASSED without it."""

from __future__ import annotations

from typing import Any

from qverify.report.checks import CheckResult
from qverify.report.document import Blame, Pair, ReportDocument, worst


def mark_check(report: ReportDocument, result: CheckResult) -> None:
    """Adds the result. If it is FAILED, the pairs with the board of the frames that differ are FAILED, and the board is
    blamed at the first node that differs, unless something was blamed before; if it is INCONCLUSIVE, no pair with the
    board stays PASSED."""
    report.checks.append(result)
    if result.verdict == "PASSED":
        return
    frames = {one.frame for one in result.differing}
    for pair in report.pairs:
        if "board" in (pair.a, pair.b) and (result.verdict == "INCONCLUSIVE" or pair.frame in frames):
            _mark_pair(pair, result)
    if result.verdict == "FAILED" and report.blame is None:
        report.blame = Blame("board", result.differing[0].node, result.why)
        report.blamed.insert(0, report.blame)
    for row in report.frames:
        _mark_row(row, report.pairs)
    report.verdict = worst([report.verdict, result.verdict])


def _mark_pair(pair: Pair, result: CheckResult) -> None:
    if pair.verdict == "PASSED":
        pair.verdict, pair.why = result.verdict, result.why
        pair.cause = result.check if result.verdict == "FAILED" else pair.cause
    elif result.verdict == "FAILED" and pair.verdict == "FAILED":
        pair.why = f"{pair.why}; {result.why}"
    elif result.verdict == "FAILED":
        pair.verdict, pair.cause, pair.why = "FAILED", result.check, f"{result.why}; {pair.why}"


def _mark_row(row: dict[str, Any], pairs: list[Pair]) -> None:
    """Gives the row of a frame that ran the worst verdict of its pairs, and the reason."""
    own = [pair for pair in pairs if pair.frame == row["frame"]]
    verdict = worst([pair.verdict for pair in own])
    if own and row["verdict"] != "NOT RUN" and row["verdict"] != verdict:
        row["verdict"] = verdict
        row["why"] = next(pair.why for pair in own if pair.verdict == verdict)
