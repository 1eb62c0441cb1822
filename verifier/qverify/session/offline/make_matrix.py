"""Puts opened runs beside each other."""

from __future__ import annotations

from qverify.errors import UsageError
from qverify.plural import count
from qverify.report.matrix.document import MatrixDocument
from qverify.report.matrix.grouping import build_matrix, default_axes
from qverify.session.offline.open_runs import OpenedRuns


def make_matrix(
    opened: OpenedRuns,
    rows: tuple[str, ...],
    columns: tuple[str, ...],
    where: tuple[tuple[str, str], ...] = (),
    by_date: bool = False,
) -> MatrixDocument:
    """Returns the matrix of what was opened. rows, columns: facts; () for the usual ones. where: facts with the values that runs
    must have. Raises UsageError if no run is left, and as build_matrix does."""
    runs = [run for run in opened.runs if all(run.facts.get(key, "") == value for key, value in where)]
    if not runs:
        unread = f", {count(len(opened.unreadable), 'file')} not readable" if opened.unreadable else ""
        of_them = f" of {count(len(opened.runs), 'run')} is left by --where" if opened.runs else ""
        raise UsageError(f"nothing to show: no run{of_them}{unread}")
    document = build_matrix(runs, *default_axes(runs, rows, columns), opened.unreadable, by_date)
    if opened.passed_over:
        document.notes.append(f"{count(len(opened.passed_over), 'other document')} of qverify passed over")
    return document
