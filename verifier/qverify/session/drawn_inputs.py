"""The drawn inputs of many frames: those of the worst frames are kept."""

from __future__ import annotations

from typing import Any

from qverify.report.document import Report
from qverify.report.drawings import InputDrawing
from qverify.report.frame_rank import frame_rank

MOST = 6  # frames


class DrawnInputs:
    """Adds up the frames of a run, and keeps the drawn inputs of the MOST worst that are not PASSED; of the worst one where
    all are."""

    def __init__(self) -> None:
        self._kept: list[tuple[tuple[float, ...], str, list[InputDrawing]]] = []

    def add(self, report: Report, row: dict[str, Any]) -> None:
        """Takes the drawings out of a frame's report. row: the frame's in the report's `frames`."""
        drawn, report.input_drawings = report.input_drawings, []
        for one in drawn:
            one.frame, one.source = row["frame"], row["source"]
        self._kept.append((frame_rank(row), row["verdict"], drawn))
        self._kept = sorted(self._kept, key=lambda kept: kept[0])[:MOST]

    def worst(self) -> list[InputDrawing]:
        """Returns what was kept, the worst frame first."""
        wrong = [drawn for _, verdict, drawn in self._kept if verdict != "PASSED"]
        return [one for drawn in wrong or [drawn for *_, drawn in self._kept[:1]] for one in drawn]
