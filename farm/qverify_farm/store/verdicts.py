"""Computes the verdict of a run from the verdicts of its jobs, and compares failures with a baseline."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from qverify_farm.store.states import DONE, FAILED, PASSED, worst
from qverify_farm.store.tables import Baseline, Job, SuiteRun


def verdict_of(session: Session, run: SuiteRun, jobs: Sequence[Job]) -> str:
    """Returns the worst verdict of a run's jobs. A job without a verdict counts as INCONCLUSIVE. If the suite has the key
    `baseline`, a job that FAILED as its baseline did counts as PASSED. jobs: all jobs of the run."""
    known = _known_jobs(session, run, jobs) if run.definition.get("baseline") else set()
    return worst(PASSED if job.id in known else job.verdict for job in jobs)


def _known_jobs(session: Session, run: SuiteRun, jobs: Sequence[Job]) -> set[str]:
    rows = session.scalars(select(Baseline).where(Baseline.project == run.project, Baseline.suite == run.name))
    baselines = {row.job: row for row in rows}
    return {job.id for job in jobs if job.name in baselines and is_known(job, baselines[job.name])}


def is_known(job: Job, baseline: Baseline) -> bool:
    """Returns whether a job FAILED in the same way as its baseline: with blame on the same side and at the same nodes. A
    baseline without nodes never matches."""
    return (
        job.verdict == FAILED == baseline.verdict
        and bool(baseline.nodes)
        and job.blame_side == baseline.blame_side
        and sorted(job.nodes or ()) == sorted(baseline.nodes)
    )


def take_baseline(session: Session, run: SuiteRun, now: float) -> int:
    """Replaces the baseline of a suite by the verdicts of a run's done jobs, and returns their number."""
    jobs = session.scalars(select(Job).where(Job.run == run.id, Job.state == DONE)).all()
    session.execute(delete(Baseline).where(Baseline.project == run.project, Baseline.suite == run.name))
    for job in jobs:
        session.add(
            Baseline(
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
