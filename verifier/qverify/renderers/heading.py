"""Renders the heading of a report: qverify's version, the date, models and boards."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from qverify.printable import visible
from qverify.renderers.text_view import TextView
from qverify.report.document import ReportDocument

if TYPE_CHECKING:
    from qverify.report.triage_document import TriageDocument


def render(report: ReportDocument | TriageDocument, view: TextView) -> str:
    """Returns the first line of a report, with the file names of its models."""
    boards = report.boards if isinstance(report, ReportDocument) else [report.board] if report.board else []
    paths = [str(row["path"]) for row in report.models]
    parts = [f"qverify {report.qverify}", f"{report.date[:19].replace('T', ' ')} UTC"]
    parts += [f"model {', '.join(os.path.basename(p) for p in paths)}"] if paths else []
    parts += [f"board {', '.join(boards)}"] if boards else []
    return view.wrap(visible("; ".join(parts)))


def section(board: str, number: int, boards: int, view: TextView) -> str:
    """Returns the line above the part of one board, in a run on several boards."""
    return view.paint(view.wrap(f"== board {number} of {boards}: {visible(board)} =="), "heading")
