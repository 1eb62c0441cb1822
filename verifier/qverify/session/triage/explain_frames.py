"""Explains the frames in which the board is blamed: frozen outputs first, then known faults."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from qverify.report.document import ReportDocument
from qverify.report.facts import Finding
from qverify.session.host_sides import Watch
from qverify.session.job import Job
from qverify.session.node_evidence import NodeEvidence
from qverify.session.offline.rejudge import CapturedJob
from qverify.session.triage.board_experiments import BoardExperiments
from qverify.session.triage.captured_experiments import CapturedExperiments, experiment_rows
from qverify.session.triage.explain_nodes import BlameExplainer, ExplainedOutput
from qverify.session.triage.frozen_experiments import Frozen, find_frozen, needs_frozen
from qverify.triage.experiments import ExperimentBoard


class FrameExplainer:
    """The explanations of all frames. seconds: time limit in a frame; 0: nothing is explained."""

    def __init__(self, seconds: float):
        self._seconds, self._nodes = seconds, BlameExplainer(seconds)
        self._frozen: Frozen | None = None  # None before it was tried
        self._pending: Callable[[float, Watch | None], Frozen] | None = None

    @property
    def explained(self) -> list[ExplainedOutput]:
        """The explanations so far."""
        return list(self._nodes.explained)

    @property
    def findings(self) -> list[Finding]:
        """The findings on outputs that are frozen in all experiments."""
        return [] if self._frozen is None else list(self._frozen.findings)

    def frame(
        self,
        job: Job | CapturedJob,
        report: ReportDocument,
        evidence: NodeEvidence,
        number: int,
        watch: Watch | None = None,
    ) -> None:
        """Explains the nodes of a frame where the board is blamed, and keeps the experiments in the capture, if there is
        one. Whether outputs are frozen is tried once: here on a board with a runner, before anything else; on one that
        runs qvrt by finish(), as its tensors can no longer be pulled then."""
        fails = any(p.b == "board" and p.verdict == "FAILED" for p in report.pairs)
        ask = isinstance(job, Job) and job.connected_board() is not None and fails and self._frozen is None
        end = time.monotonic() + self._seconds
        evidence = replace(evidence, board=_experiments(job, number))
        if isinstance(job, Job) and ask and job.has_runner:
            self._frozen = find_frozen(job, evidence.recordings, end, watch)
            evidence = replace(evidence, frozen=self._frozen.causes)
        self._nodes.frame(report, evidence, number, watch)
        if not isinstance(job, Job):
            return
        job.keep_experiments(experiment_rows(self._nodes.explained, number))
        if ask and not job.has_runner:
            self._pending = partial(find_frozen, job, evidence.recordings)

    def finish(self, watch: Watch | None = None) -> None:
        """Tries after the last frame whether outputs are frozen, if that was not tried and something is not explained:
        experiments between frames would change what a board keeps from the frame before."""
        if self._pending is not None and needs_frozen(self._nodes.explained):
            self._frozen = frozen = self._pending(time.monotonic() + self._seconds, watch)
            self._nodes.explained = [frozen.explain(output) for output in self._nodes.explained]


def _experiments(job: Job | CapturedJob, number: int) -> ExperimentBoard | None:
    """Returns the board for experiments: the connected one, or that of the capture if it has experiments of this frame;
    None without any. number: of the frame."""
    if isinstance(job, CapturedJob):
        rows = job.capture.frames[number].get("experiments", [])
        return CapturedExperiments(job.capture.folder, rows) if rows else None
    board = job.connected_board()
    return None if board is None else BoardExperiments(board)
