"""The quotas of board time: what one job, and the unfinished jobs of one submitter, may take. A job takes at most its
timeout for each attempt, whatever it repeats in it."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from qverify_farm.service.errors import ApiError, too_busy
from qverify_farm.store.runs import NewJob
from qverify_farm.store.states import QUEUED, RUNNING
from qverify_farm.store.tables import JobRecord, ProjectRecord, SuiteRunRecord

DEFAULT_TIMEOUT_S = 900.0
RETRY_AFTER_S = 60


def most_seconds(job: NewJob) -> float:
    """Returns the longest time that a new job may hold a board: its timeout for the first attempt and for each retry."""
    return float(job.settings.get("timeout_s", DEFAULT_TIMEOUT_S)) * (1 + job.retries)


def unfinished_seconds(session: Session, project: str, submitter: str) -> float:
    """Returns the longest time that the unfinished jobs of a submitter may still hold boards."""
    timeout = func.coalesce(JobRecord.settings["timeout_s"].as_float(), DEFAULT_TIMEOUT_S)
    query = (
        select(func.sum(timeout * (1 + JobRecord.retries_left)))
        .join(SuiteRunRecord, SuiteRunRecord.id == JobRecord.run)
        .where(SuiteRunRecord.project == project, SuiteRunRecord.submitter == submitter)
    )
    return float(session.scalar(query.where(JobRecord.state.in_((QUEUED, RUNNING)))) or 0.0)


def check_board_time(session: Session, project: ProjectRecord, submitter: str, jobs: Iterable[NewJob]) -> None:
    """Raises ApiError 422 if a job, or all of them together, may take more board time than a quota permits, and 429 if they
    may only together with the submitter's unfinished jobs."""
    jobs = list(jobs)
    for job in jobs:
        if most_seconds(job) > project.quota_job_s:
            retries = f" and {job.retries} retries" if job.retries else ""
            raise ApiError(
                422,
                f"{job.name[:200]}: up to {most_seconds(job):g} s of board time",
                where="timeout_s",
                got=f"a timeout of {job.settings.get('timeout_s', DEFAULT_TIMEOUT_S):g} s{retries}",
                wanted=f"at most {project.quota_job_s:g} s, the project's quota of board time for one job",
                next="give a shorter timeout, or ask the administrator for a larger quota_job_s",
            )
        for name, whose in (("quota_day_s", "the project"), ("quota_submitter_day_s", "one submitter")):
            quota_s = getattr(project, name)
            if most_seconds(job) > quota_s:
                raise ApiError(
                    422,
                    f"{job.name[:200]}: up to {most_seconds(job):g} s of board time",
                    where="timeout_s",
                    wanted=f"at most {quota_s:g} s, the quota of board time within 24 hours of {whose}",
                    next=f"give a shorter timeout, or ask the administrator for a larger {name}",
                )
    wanted = sum(map(most_seconds, jobs))
    if wanted > project.quota_submitter_s:
        raise ApiError(
            422,
            f"up to {wanted:g} s of board time at once",
            where="jobs",
            wanted=f"at most {project.quota_submitter_s:g} s, the project's quota of board time for one submitter",
            next="submit fewer at a time, give shorter timeouts, or ask the administrator for a larger quota_submitter_s",
        )
    check_unfinished(session, project, submitter, wanted)


def check_unfinished(
    session: Session, project: ProjectRecord, submitter: str, more_s: float, before_s: float = 0
) -> None:
    """Raises ApiError 429 if the submitter's unfinished jobs and `more_s` are beyond the quota. before_s: they may take as
    much anyway."""
    unfinished = unfinished_seconds(session, project.id, submitter)
    if unfinished + more_s > max(project.quota_submitter_s, before_s):
        raise too_busy(
            f"the project's quota of {project.quota_submitter_s:g} s of board time for one submitter is full: "
            f"unfinished jobs of {submitter} may take {unfinished:g} s",
            RETRY_AFTER_S,
        )
