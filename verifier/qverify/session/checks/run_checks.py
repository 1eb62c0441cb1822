"""Runs the checks of --check beside the frames of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qverify.errors import UsageError
from qverify.report.document import ReportDocument
from qverify.session.checks.batch import BatchCheck
from qverify.session.checks.order import OrderCheck
from qverify.session.host_sides import Watch
from qverify.session.request import Request
from qverify.session.run_evidence import RunEvidence

if TYPE_CHECKING:
    from qverify.session.checks.checked_job import CheckedJob, OpenJob


class Checks:
    """The checks that a request asks for; none without --check. Raises UsageError if one of them cannot be made."""

    def __init__(self, request: Request, frames: int = 1):
        """frames: number of frames of the run."""
        if request.checks and request.capture is not None:
            raise UsageError("--capture: it keeps no further runs of --check; leave one of them out")
        if "batch" in request.checks and frames > 1:
            raise UsageError(f"--check batch: got {frames} frames, wanted one, whose items run alone")
        self._order = OrderCheck() if "order" in request.checks else None
        self._batch = BatchCheck(request) if "batch" in request.checks else None

    def add(self, job: CheckedJob, frame: int, source: str, evidence: RunEvidence | None) -> None:
        """Adds a frame that ran."""
        if self._order is not None:
            self._order.add(frame, source, evidence)
        if self._batch is not None:
            self._batch.add(job.models.graph, evidence)

    def finish(
        self,
        job: CheckedJob,
        report: ReportDocument,
        open_job: OpenJob,
        watch: Watch | None = None,
        frame: int = 0,
    ) -> None:
        """Makes the further runs and adds the results to the report. job: of the frames, which loses its board to
        --check batch. open_job: opens the network of one item. frame: number of the frame whose items run alone."""
        if self._order is not None:
            self._order.finish(job, report, watch)
        if self._batch is not None:
            job.release_board()
            self._batch.finish(report, open_job, frame, watch)
