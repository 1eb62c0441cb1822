"""Makes the StoredRuns of a matrix from jobs of the database and their stored reports."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

from qverify.errors import QVerifyError
from qverify.report.matrix.document import StoredRun
from qverify.report.matrix.skim import Skimmer
from qverify.report.matrix.stored_runs import stored_runs
from qverify.report.stated_facts import usable_facts

from qverify_farm.errors import ArtifactError
from qverify_farm.store.artifacts import ArtifactStore
from qverify_farm.store.finished_jobs import FoundJobs
from qverify_farm.store.states import CANCELLED
from qverify_farm.store.tables import JobRecord, SuiteRunRecord

MAX_REPORT_BYTES = 1 << 28
MAX_KEPT = 5000  # runs that are kept in memory, without their tensors: about 10 KB each


@dataclass(slots=True)
class StoredReports:
    """The runs of stored reports by their digests, the last used ones kept in memory. A report never changes."""

    artifacts: ArtifactStore
    _kept: OrderedDict[str, list[StoredRun]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def runs_of(self, report: str, skimmer: Skimmer) -> list[StoredRun]:
        """Returns the runs of a report. Raises ArtifactError if it is not stored, BadFileError if it is no report."""
        with self._lock:
            if report in self._kept:
                self._kept.move_to_end(report)
                return self._kept[report]
        runs = list(stored_runs(skimmer.read(self.artifacts.read(report, MAX_REPORT_BYTES), "its report"), report))
        with self._lock:
            self._kept[report] = runs
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return runs


def runs_of_jobs(
    found: FoundJobs, reports: StoredReports, link: Callable[[str], str] = lambda job: ""
) -> list[StoredRun]:
    """Returns the runs of jobs: at least one for each. link: address of a job's page."""
    tags = {name: dict(usable_facts(values)) for name, values in found.tags.items()}
    with Skimmer() as skimmer:
        return [
            run
            for job, suite in found.rows
            for run in _runs_of_job(job, suite, reports, tags.get(job.board or "", {}), skimmer, link(job.id))
        ]


def _runs_of_job(
    job: JobRecord, suite: SuiteRunRecord, reports: StoredReports, tags: Mapping[str, str], skimmer: Skimmer, link: str
) -> Iterator[StoredRun]:
    """Yields the runs of a job: those of its report, or, without one, what the database knows."""
    labels = {**tags, **dict(usable_facts(suite.labels or {}))}
    own = {"suite": suite.name, "job": job.name, "submitter": suite.submitter, "board": job.board or ""}
    source = f"{suite.name} {suite.id[:12]}, {job.name}"
    known, why = list[StoredRun](), job.why
    if job.report:
        try:
            known = reports.runs_of(job.report, skimmer)
        except (ArtifactError, QVerifyError) as error:
            why = f"{why}; its report: {error}".removeprefix("; ")
    if known:
        for run in known:
            stack = {f"fact {key}": value for key, value in labels.items()} | run.stack
            yield replace(run, source=source, link=link, facts={**labels, **run.facts, **own}, stack=stack)
        return
    facts = {**labels, "model": job.model, "qverify": suite.qverify, "date": _date(job.ended), **own}
    stack = {f"fact {key}": value for key, value in labels.items()} | {"qverify": suite.qverify}
    verdict = cast(Any, job.verdict)
    yield StoredRun(source, _date(job.ended), facts, stack, verdict, why or _describe(job), seconds=None, link=link)


def _describe(job: JobRecord) -> str:
    return "it was cancelled" if job.state == CANCELLED else "it has no report"


def _date(ended: float | None) -> str:
    return "" if ended is None else datetime.fromtimestamp(ended, UTC).isoformat(timespec="seconds")


def labelled(runs: Iterable[StoredRun], labels: Mapping[str, str]) -> list[StoredRun]:
    """Returns the runs with further facts, where they do not state them themselves."""
    return [replace(run, facts={**labels, **run.facts}) for run in runs]
