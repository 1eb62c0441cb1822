"""The verdict of a run from its jobs', and the failures that a baseline knows."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from qverify_farm.store.states import DONE, FAILED, PASSED, worst
from qverify_farm.store.tables import Baseline, Job, SuiteRun


def verdict_of(session: Session, run: SuiteRun, jobs: Sequence[Job]) -> str:
    """Returns the worst verdict of these jobs, all of the run's; a job without one counts as INCONCLUSIVE. With
    `baseline` in its suite, a job that FAILED as its baseline did counts as PASSED."""
    known = _known_jobs(session, run, jobs) if run.definition.get("baseline") else set()
    return worst(PASSED if job.id in known else job.verdict for job in jobs)


def _known_jobs(session: Session, run: SuiteRun, jobs: Sequence[Job]) -> set[str]:
    rows = session.scalars(select(Baseline).where(Baseline.project == run.project, Baseline.suite == run.name))
    baselines = {row.job: row for row in rows}
    return {job.id for job in jobs if job.name in baselines and is_known(job, baselines[job.name])}


def is_known(job: Job, baseline: Baseline) -> bool:
    """Returns whether a job FAILED in the way of its baseline: blame on the same side, at the same nodes. A baseline that
    names no node knows nothing."""
    return (
        job.verdict == FAILED == baseline.verdict
        and bool(baseline.nodes)
        and job.blame_side == baseline.blame_side
        and sorted(job.nodes or ()) == sorted(baseline.nodes)
    )


def take_baseline(session: Session, run: SuiteRun, now: float) -> int:
    """Makes the verdicts of a run's done jobs the baseline of its suite, instead of the one before; returns how many."""
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
