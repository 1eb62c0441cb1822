"""Renders the task numbers: a table of the sides, and the frames that only the board has wrong."""

from __future__ import annotations

from qverify.renderers.html_page.elements import element, listed, table, text
from qverify.renderers.task_lines import describe, side_cells
from qverify.report.document import ReportDocument


def section_text(report: ReportDocument) -> str:
    """Returns the section's content, or "" for a report without task numbers."""
    parts = list[str]()
    for task in report.tasks:
        first, *lines = describe(task, None)
        names = list(dict.fromkeys(name for side in task.sides for name in side.values))
        rows = [[text(cell) for cell in side_cells(task, side, names)] for side in task.sides]
        below = [line.strip() for line in lines[len(task.sides) :]]
        parts += [element("p", text(first)), table("sides", ("side", *names, "frames"), rows), listed(below)]
    return "".join(parts)
