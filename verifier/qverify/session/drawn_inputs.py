"""Keeps the drawings of the inputs of the worst frames of a run of many frames."""

from __future__ import annotations

from typing import Any

from qverify.report.document import ReportDocument
from qverify.report.drawings import InputDrawing
from qverify.report.frame_rank import frame_rank

MAX_FRAMES = 6  # whose inputs are drawn


class DrawnInputs:
    """The drawings of the inputs of the worst frames: at most MAX_FRAMES that are not PASSED, or the worst one if all
    are PASSED."""

    def __init__(self) -> None:
        self._kept: list[tuple[tuple[float, ...], str, list[InputDrawing]]] = []

    def add(self, report: ReportDocument, row: dict[str, Any]) -> None:
        """Moves the drawings out of a frame's report. row: the frame's entry in the report's `frames`."""
        drawings, report.input_drawings = report.input_drawings, []
        for drawing in drawings:
            drawing.frame, drawing.source = row["frame"], row["source"]
        self._kept.append((frame_rank(row), row["verdict"], drawings))
        self._kept = sorted(self._kept, key=lambda kept: kept[0])[:MAX_FRAMES]

    def worst(self) -> list[InputDrawing]:
        """Returns the kept drawings, those of the worst frame first."""
        not_passed = [drawings for _, verdict, drawings in self._kept if verdict != "PASSED"]
        chosen = not_passed or [drawings for *_, drawings in self._kept[:1]]
        return [drawing for drawings in chosen for drawing in drawings]
