"""Rows of the database as the API shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from qverify_farm.service.schemas.lab import BoardShort
from qverify_farm.service.schemas.runs import AttemptShort, JobShort, RunShort
from qverify_farm.service.triage_engine import WANTED, is_lane
from qverify_farm.store.tables import Attempt, Board, Job, SuiteRun

JOB = [name for name in JobShort.model_fields]
RUN = [name for name in RunShort.model_fields if name not in ("project", "counts")]
ATTEMPT = [name for name in AttemptShort.model_fields]


def job_values(job: Job) -> dict[str, Any]:
    """Returns the fields of JobShort; of a triage, which takes no board, without the lane that it ran in."""
    values = {name: getattr(job, name) for name in JOB}
    if WANTED in job.wanted:
        values |= {"board": None, "wanted": []}
    return values


def shown_job(job: Job) -> JobShort:
    return JobShort(**job_values(job))


def shown_attempt(attempt: Attempt) -> AttemptShort:
    board = "" if is_lane(attempt.board) else attempt.board
    return AttemptShort(**({name: getattr(attempt, name) for name in ATTEMPT} | {"board": board}))


def shown_run(run: SuiteRun, project: str, counts: Mapping[str, int]) -> RunShort:
    """project: name of the run's."""
    return RunShort(project=project, counts=dict(counts), **{name: getattr(run, name) for name in RUN})


def counts_of_runs(session: Session, runs: Iterable[str]) -> dict[str, dict[str, int]]:
    """Returns how many jobs of each run are in each state, and of done ones by verdict."""
    counts: dict[str, dict[str, int]] = {run: {} for run in runs}
    rows = session.execute(
        select(Job.run, Job.state, Job.verdict, func.count())
        .where(Job.run.in_(counts))
        .group_by(Job.run, Job.state, Job.verdict)
    )
    for run, state, verdict, number in rows:
        of_run = counts[run]
        of_run[state] = of_run.get(state, 0) + number
        if verdict is not None:
            of_run[verdict] = of_run.get(verdict, 0) + number
    return counts


def shown_board(board: Board, own_jobs: set[str] | None) -> BoardShort:
    """own_jobs: of the caller's project, None for who sees all: of another project's job neither id nor words are
    told."""
    mine = own_jobs is None or board.job in own_jobs
    reason = board.reason if own_jobs is None else board.reason.partition("; the last: ")[0]
    last_mine = own_jobs is None or board.last_job in own_jobs
    return BoardShort(
        name=board.name,
        host=board.host,
        tags=dict(board.tags or {}),
        state=board.state,
        drained=board.drained,
        reason=reason,
        since=board.since,
        job=board.job if mine else None,
        last_verdict=board.last_verdict if last_mine else None,
        next_check=board.next_check,
        facts=dict(board.facts or {}),
    )
