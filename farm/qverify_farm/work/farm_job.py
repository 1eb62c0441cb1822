"""The main job as the farm runs it. It also notes facts about the board, and captures frames that do not pass."""

from __future__ import annotations

import time

from qverify.report.document import ReportDocument
from qverify.session.chosen_sides import ChosenSides
from qverify.session.host_sides import SideResults, Watch
from qverify.session.job import Job, OpenedModels
from qverify.session.request import Request
from qverify.session.run_evidence import Pull
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Recording

FACTS = ("arch", "temperature_c")  # settings of a board's recording that are facts about the board


class FarmJob(Job):
    """A job of the farm.

    Attributes:
        captures: Whether a capture has been started.
        held_since: When the board was first used, in monotonic seconds; None before.
        broke: Why the last incomplete run of the board is incomplete, or "" if all are complete.
        facts: What the board reported about itself, by name.
    """

    def __init__(self, request: Request, opened: OpenedModels, sides: ChosenSides, capture: str = ""):
        """sides: what was chosen for the request. capture: the folder for the frames that do not pass, or "" for no capture."""
        super().__init__(request, opened=opened, sides=sides)
        self._capture_folder, self.captures = capture, False
        self.held_since: float | None = None
        self.broke, self.facts = "", dict[str, str]()

    def record(self, prepared: PreparedInputs, watch: Watch | None = None) -> tuple[SideResults, Pull | None, str]:
        """Does the same as Job.record, and notes the facts about the board."""
        if self.held_since is None:
            self.held_since = time.monotonic()
        results, pull, unreached = super().record(prepared, watch)
        self._note_board(results.recordings.get("board"))
        return results, pull, unreached

    def _note_board(self, board: Recording | None) -> None:
        if board is None:
            return
        if board.state != "complete":
            self.broke = board.why or board.state
        facts = {"version": board.version, **{k: board.settings.get(k) for k in FACTS}}
        self.facts = self.facts | {k: str(v)[:60] for k, v in facts.items() if v not in (None, "")}

    def is_kept(self, report: ReportDocument) -> bool:
        """Returns whether the frame of this report goes into the capture. The first such frame starts the capture."""
        keep = bool(self._capture_folder) and report.verdict != "PASSED"
        if keep and not self.captures:
            self.start_capture(self._capture_folder)
            self.captures = True
        return keep
