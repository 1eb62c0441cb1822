"""What a check needs of a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from qverify.report.document import ReportDocument
from qverify.session.host_sides import Watch
from qverify.session.models import Models
from qverify.session.request import Request
from qverify.session.run_evidence import RunEvidence
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Recording


class JudgedRun(Protocol):
    """A run that was judged (session.job.JobOutcome)."""

    @property
    def report(self) -> ReportDocument: ...
    @property
    def unreached(self) -> str: ...
    @property
    def evidence(self) -> RunEvidence | None: ...


class CheckedJob(Protocol):
    """A job (session.job.Job) whose board runs again."""

    request: Request
    models: Models

    def run_board(self, prepared: PreparedInputs, watch: Watch | None = None) -> Recording | None:
        """Runs the board alone; None if it is not connected."""

    def run_prepared(
        self, prepared: PreparedInputs, frame: int, watch: Watch | None, source: str, is_further: bool = False
    ) -> JudgedRun:
        """Runs every side once and judges them."""

    def release_board(self) -> None:
        """Disconnects the board."""

    def close(self) -> None:
        """Ends the job."""


OpenJob = Callable[[Request], CheckedJob]
