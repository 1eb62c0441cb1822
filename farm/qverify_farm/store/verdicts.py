"""Computes the verdict of a run from the verdicts of its jobs, and compares failures with a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from qverify_farm.store.states import DONE, FAILED, PASSED, worst
from qverify_farm.store.tables import BaselineRecord, JobRecord, SuiteRunRecord

Failure = tuple[str, tuple[str, ...]]  # the side that is blamed, and the nodes in alphabetical order


def verdict_of(session: Session, run: SuiteRunRecord, jobs: Sequence[JobRecord]) -> str:
    """Returns the worst verdict of a run's jobs. A job without a verdict counts as INCONCLUSIVE. If the suite has the key
    `baseline`, a job that FAILED as its baseline did counts as PASSED. jobs: all jobs of the run."""
    baselines = _baselines(session, run)
    known = {job.id for job in jobs if job.name in baselines and is_known(job, baselines[job.name])}
    return worst(PASSED if job.id in known else job.verdict for job in jobs)


def known_failures(session: Session, run: SuiteRunRecord) -> dict[str, Failure]:
    """Returns the failures of a run's baseline, by job name; none unless its suite has the key `baseline`."""
    failed = [row for row in _baselines(session, run).values() if row.verdict == FAILED and row.nodes]
    return {row.job: failure_of(row.blame_side, row.nodes) for row in failed}


def failure_of(blame_side: str, nodes: Iterable[str]) -> Failure:
    return blame_side, tuple(sorted(nodes))


def _baselines(session: Session, run: SuiteRunRecord) -> dict[str, BaselineRecord]:
    if not run.definition.get("baseline"):
        return {}
    rows = session.scalars(
        select(BaselineRecord).where(BaselineRecord.project == run.project, BaselineRecord.suite == run.name)
    )
    return {row.job: row for row in rows}


def is_known(job: JobRecord, baseline: BaselineRecord) -> bool:
    """Returns whether a job FAILED in the same way as its baseline: with blame on the same side and at the same nodes. A
    baseline without nodes never matches."""
    return (
        job.verdict == FAILED == baseline.verdict
        and bool(baseline.nodes)
        and failure_of(job.blame_side, job.nodes or ()) == failure_of(baseline.blame_side, baseline.nodes)
    )


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
                report=job.report,
                taken=now,
            )
        )
    return len(jobs)
