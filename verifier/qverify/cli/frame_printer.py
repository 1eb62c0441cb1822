"""Prints a line for each frame of a run, above the line of progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qverify.cli.live_progress import LiveProgress
    from qverify.renderers.text_view import TextView


class FramePrinter:
    """A function that receives the row of each frame and prints it. total: number of frames, 0 if it is not known.
    silent: print nothing, because a report goes to stdout."""

    def __init__(self, live: LiveProgress, view: TextView, total: int, silent: bool):
        self._live, self._view, self._total, self._silent = live, view, total, silent
        self._verdicts: list[str] = []

    def __call__(self, row: dict[str, Any]) -> None:
        from qverify.renderers import frame_lines

        self._verdicts.append(row["verdict"])
        if not self._silent and self._view.detail != "quiet":
            self._live.say(frame_lines.frame_line(row, self._view))
        self._live.set_prefix(frame_lines.progress(self._verdicts, self._total))
