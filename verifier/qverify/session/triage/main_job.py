"""Collects the main job's verdicts of all frames, with which triage begins."""

from __future__ import annotations

from dataclasses import replace

from qverify.report.document import Coverage, NotRun, Pair, ReportDocument, worst
from qverify.report.triage_document import MainJob

NOT_OF_MAIN_JOB = ("dump",)  # a stage of triage only


class MainVerdicts:
    """The pairs of the main job, frame by frame, without their tensors."""

    def __init__(self) -> None:
        self._pairs: list[Pair] = []
        self._not_run: list[NotRun] = []

    def add(self, report: ReportDocument) -> None:
        """Adds the report of one frame, after everything that can change its verdicts."""
        self._pairs += [_without_tensors(p) for p in report.pairs if p.b not in NOT_OF_MAIN_JOB]
        self._not_run = list(report.not_run)

    def add_in_place(self, report: ReportDocument) -> None:
        """Replaces the pairs by those of the report of a dump in the board's place."""
        self._pairs, self._not_run = [_without_tensors(p) for p in report.pairs], list(report.not_run)

    def result(self) -> MainJob | None:
        """Returns the verdicts of all frames, None if the main job compares nothing."""
        if not self._pairs:
            return None
        return MainJob(worst([p.verdict for p in self._pairs]), self._pairs, self._not_run)

    def not_passed(self) -> set[tuple[str, str]]:
        """Returns the sides of the pairs that are not PASSED in every frame."""
        return {(p.a, p.b) for p in self._pairs if p.verdict != "PASSED"}


def _without_tensors(pair: Pair) -> Pair:
    """Returns the pair without rows, except those of tensors without elements, which its verdict line names."""
    coverage = Coverage(pair.coverage.expected, pair.coverage.compared, elements=pair.coverage.elements)
    empty = [row for row in pair.tensors if row.elements == 0]
    return replace(pair, coverage=coverage, tensors=empty, notes=[], drawings=[], same_bytes={})
