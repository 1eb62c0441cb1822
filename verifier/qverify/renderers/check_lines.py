"""Describes the results of --check, and the rows of several shapes of --shape."""

from __future__ import annotations

from qverify.report.checks import ShapeResult
from qverify.report.document import ReportDocument


def check_lines(report: ReportDocument) -> list[str]:
    """Returns a line for each check, and for several shapes a line for each: verdict, and the node that is worst."""
    several = len(report.boards) > 1
    of = [f", {one.board}" if several and one.board else "" for one in report.checks]
    lines = [
        f"check {one.check}{board}: {one.verdict}: {one.why}" for one, board in zip(report.checks, of, strict=True)
    ]
    return lines + [shape_line(one, several) for one in report.shapes]


def shape_line(row: ShapeResult, several: bool = False) -> str:
    """Returns the line of one shape. several: True to name its board."""
    board = f", {row.board}" if several and row.board else ""
    node = f", worst node {row.node}" if row.node else ", every tensor equal" if row.verdict == "PASSED" else ""
    model = f"; model {row.sha256[:16]}, {row.bytes} bytes" if row.sha256 else ""
    return f"shape {row.text}{board}: {row.verdict}{node}{model}"


def frame_noun(report: ReportDocument) -> str:
    """Returns what a row of report.frames is: a step of a sequence, a shape, or a frame."""
    return "step" if report.sequence is not None else "shape" if report.shapes else "frame"
