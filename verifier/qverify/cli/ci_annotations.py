"""Passes the results of a command to the CI system that runs it: on GitHub Actions, as annotations and in the step's
summary."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qverify.report.difference import ReportDifference
    from qverify.report.document import ReportDocument
    from qverify.report.matrix.document import MatrixDocument
    from qverify.report.triage_document import TriageDocument

MAX_SUMMARY_BYTES = 1 << 20  # GitHub discards a larger summary completely


def annotate(report: ReportDocument | TriageDocument | ReportDifference | MatrixDocument) -> None:
    """Does nothing unless this runs on GitHub Actions (GITHUB_ACTIONS=true). There it prints workflow commands to
    standard error, which GitHub's runner reads like standard output, and appends the Markdown report to the file
    GITHUB_STEP_SUMMARY. If that cannot be written, a warning is printed; the verdict stays."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    from qverify.renderers.annotations import github_commands, list_annotations

    for command in github_commands(list_annotations(report)):
        print(command, file=sys.stderr)
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        _append_summary(report, path)


def _append_summary(report: ReportDocument | TriageDocument | ReportDifference | MatrixDocument, path: str) -> None:
    """Appends the Markdown report to a file, or prints a warning if that fails."""
    from qverify.renderers.annotations import Annotation, github_commands
    from qverify.renderers.formats.markdown import text

    summary = text(report).encode()
    try:
        room = MAX_SUMMARY_BYTES - (os.path.getsize(path) if os.path.exists(path) else 0)
        with open(path, "ab") as file:
            file.write(summary if len(summary) <= room else b"")
        why = "" if len(summary) <= room else f"no room for {len(summary)} bytes"
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        message = f"GITHUB_STEP_SUMMARY: {why}; the report is not in the step's summary"
        print(github_commands([Annotation("warning", "qverify", message)])[0], file=sys.stderr)
