"""Computes the verdict of a run from the verdicts of its jobs, and compares failures with a baseline."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from qverify_farm.store.failures import Failure, failure_of, find_unlike, is_same_place
from qverify_farm.store.states import DONE, FAILED, PASSED, worst
from qverify_farm.store.tables import BaselineRecord, JobRecord, SuiteRunRecord


def verdict_of(session: Session, run: SuiteRunRecord, jobs: Sequence[JobRecord]) -> str:
    """Returns the worst verdict of a run's jobs. A job without a verdict counts as INCONCLUSIVE. If the suite has the key
    `baseline`, a job that FAILED as its baseline did counts as PASSED. jobs: all jobs of the run."""
    baselines = _baselines(session, run)
    known = {job.id for job in jobs if job.name in baselines and is_known(job, baselines[job.name])}
    return worst(PASSED if job.id in known else job.verdict for job in jobs)


def known_failures(session: Session, run: SuiteRunRecord) -> dict[str, Failure]:
    """Returns the failures of a run's baseline, by job name; none unless its suite has the key `baseline`."""
    failed = [row for row in _baselines(session, run).values() if row.verdict == FAILED and row.nodes]
    return {row.job: failure_of(row.blame_side, row.nodes, row.extent) for row in failed}


def _baselines(session: Session, run: SuiteRunRecord) -> dict[str, BaselineRecord]:
    if not run.definition.get("baseline"):
        return {}
    rows = session.scalars(
        select(BaselineRecord).where(BaselineRecord.project == run.project, BaselineRecord.suite == run.name)
    )
    return {row.job: row for row in rows}


def is_known(job: JobRecord, baseline: BaselineRecord) -> bool:
    """Returns whether a job FAILED in the same way as its baseline: in the same place, and neither differently nor worse."""
    return _is_in_its_place(job, baseline) and not unlike_baseline(job, baseline)


def unlike_baseline(job: JobRecord, baseline: BaselineRecord) -> str:
    """Returns how a job that FAILED in the place of its baseline is different or worse, in words; else ""."""
    if not _is_in_its_place(job, baseline):
        return ""
    return find_unlike(_failure(baseline), _failure(job))


def _is_in_its_place(job: JobRecord, baseline: BaselineRecord) -> bool:
    return job.verdict == FAILED == baseline.verdict and is_same_place(_failure(baseline), _failure(job))


def _failure(row: JobRecord | BaselineRecord) -> Failure:
    return failure_of(row.blame_side, row.nodes or (), row.extent)


def take_baseline(session: Session, run: SuiteRunRecord, now: float) -> int:
    """Replaces the baseline of a suite by the verdicts of a run's done jobs, and returns their number."""
    jobs = session.scalars(select(JobRecord).where(JobRecord.run == run.id, JobRecord.state == DONE)).all()
    session.execute(
        delete(BaselineRecord).where(BaselineRecord.project == run.project, BaselineRecord.suite == run.name)
    )
    for job in jobs:
        session.add(
            BaselineRecord(
                project=run.project,
                suite=run.name,
                job=job.name,
                verdict=str(job.verdict),
                blame_side=job.blame_side,
                nodes=list(job.nodes or ()),
                extent=dict(job.extent or {}),
                report=job.report,
                taken=now,
            )
        )
    return len(jobs)
