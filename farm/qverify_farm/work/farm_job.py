"""The main job as the farm runs it: what it noticed of the board, and a capture of what did not pass."""

from __future__ import annotations

import time

from qverify.report.document import Report
from qverify.session.host_sides import SideResults, Watch
from qverify.session.job import Job, Opened
from qverify.session.request import Request
from qverify.session.run_evidence import Pull
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Recording

FACTS = ("arch", "temperature_c")


class FarmJob(Job):
    """capture: the folder that gets the frames that do not pass, "" for none. held_since: when the board was first asked
    for, on time.monotonic()'s clock; None before. broke: why the board's last run is not complete, "" where all are.
    facts: what the board said of itself."""

    def __init__(self, request: Request, opened: Opened, capture: str = ""):
        super().__init__(request, opened=opened)
        self._folder, self.captures = capture, False
        self.held_since: float | None = None
        self.broke, self.facts = "", dict[str, str]()

    def record(self, prepared: PreparedInputs, watch: Watch | None = None) -> tuple[SideResults, Pull | None, str]:
        """As Job.record; also notes what it says of the board."""
        if self.held_since is None:
            self.held_since = time.monotonic()
        ran, pull, unreached = super().record(prepared, watch)
        self._note(ran.recordings.get("board"))
        return ran, pull, unreached

    def _note(self, board: Recording | None) -> None:
        if board is None:
            return
        if board.state != "complete":
            self.broke = board.why or board.state
        said = {"version": board.version, **{k: board.settings.get(k) for k in FACTS}}
        self.facts = self.facts | {k: str(v)[:60] for k, v in said.items() if v not in (None, "")}

    def is_kept(self, report: Report) -> bool:
        """Returns whether the capture gets the frame of this report; the first begins it."""
        wanted = bool(self._folder) and report.verdict != "PASSED"
        if wanted and not self.captures:
            self.start_capture(self._folder)
            self.captures = True
        return wanted
