"""Database rows of jobs and their attempts. An attempt is ended exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import CursorResult, Table, bindparam, insert, select, update
from sqlalchemy.orm import Session

from qverify_farm.store.states import CANCELLED, DONE, INCONCLUSIVE, QUEUED, RUNNING
from qverify_farm.store.tables import AttemptRecord, JobRecord, SuiteRunRecord

ROWS_PER_FETCH = 500


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """The fields of a queued job that the scheduler needs. created: the time of its run. tried: the boards on which it was
    INCONCLUSIVE."""

    id: str
    run: str
    number: int
    submitter: str
    priority: int
    created: float
    wanted: tuple[str, ...]
    tried: frozenset[str]


@dataclass(frozen=True, slots=True)
class NewAttempt:
    """An attempt that is about to begin."""

    job: str
    number: int
    board: str


def waiting_jobs(session: Session, run: str | None = None) -> Iterator[WaitingJob]:
    """Yields the queued jobs of one run or of all runs, by the age of the run and the job's place in it."""
    condition = (JobRecord.run == run) if run is not None else (JobRecord.state == QUEUED)
    tried: dict[str, set[str]] = {}
    for job, board in session.execute(
        select(AttemptRecord.job, AttemptRecord.board)
        .join(JobRecord, JobRecord.id == AttemptRecord.job)
        .where(JobRecord.state == QUEUED, condition, AttemptRecord.verdict == INCONCLUSIVE)
    ):
        tried.setdefault(job, set()).add(board)
    columns = (
        JobRecord.id,
        JobRecord.run,
        JobRecord.number,
        SuiteRunRecord.submitter,
        SuiteRunRecord.priority,
        SuiteRunRecord.created,
        JobRecord.wanted,
    )
    rows = session.execute(
        select(*columns)
        .join(SuiteRunRecord, SuiteRunRecord.id == JobRecord.run)
        .where(JobRecord.state == QUEUED, SuiteRunRecord.state == RUNNING, condition)
        .order_by(SuiteRunRecord.created, JobRecord.number)
        .execution_options(yield_per=ROWS_PER_FETCH)
    )
    for row in rows:
        id_, of_run, number, submitter, priority, created, wanted = row
        wanted_words, tried_boards = tuple(str(word) for word in wanted), frozenset(tried.get(id_, ()))
        yield WaitingJob(id_, of_run, number, submitter, priority, created, wanted_words, tried_boards)


def begin_attempt(session: Session, attempt: NewAttempt, now: float) -> bool:
    """Writes that an attempt has begun. Returns False if its job does not wait any more. Repeating the call changes nothing."""
    parameters = {"_job": attempt.job, "_attempt": attempt.number, "board": attempt.board, "started": now}
    if not _has_changed_one(session.execute(_BEGIN, parameters)):
        return False
    if session.execute(_KNOWN, parameters).first() is None:
        session.execute(
            _ATTEMPT, {"job": attempt.job, "number": attempt.number, "board": attempt.board, "started": now}
        )
    return True


def end_attempt(session: Session, job: str, attempt: int, values: Mapping[str, Any]) -> bool:
    """Writes the end of an attempt (ending, verdict, why, seconds, worker, of_board, ended). Returns False if its end was written before,
    since only the first result counts."""
    return _has_changed_one(session.execute(_END, {"_job": job, "_attempt": attempt, **values}))


def change_job(session: Session, job: str, attempt: int, values: Mapping[str, Any]) -> bool:
    """Changes a job. Returns False if this attempt of it is not running."""
    return _has_changed_one(session.execute(_CHANGE, {"_job": job, "_attempt": attempt, **values}))


def _has_changed_one(result: object) -> bool:
    return isinstance(result, CursorResult) and result.rowcount == 1


# Statements that every job needs. They are built once, since building them takes longer than running them.
_JOBS, _ATTEMPTS = cast(Table, JobRecord.__table__), cast(Table, AttemptRecord.__table__)
_THIS_JOB = _JOBS.c.id == bindparam("_job")
_THIS_ATTEMPT = (_ATTEMPTS.c.job == bindparam("_job")) & (_ATTEMPTS.c.number == bindparam("_attempt"))
_RUNS_THIS = (_JOBS.c.state == RUNNING) & (_JOBS.c.attempt == bindparam("_attempt"))
_BEGIN = (
    update(_JOBS)
    .where(_THIS_JOB, (_JOBS.c.state == QUEUED) | _RUNS_THIS)
    .values(
        state=RUNNING, attempt=bindparam("_attempt"), board=bindparam("board"), started=bindparam("started"), why=""
    )
)
_KNOWN = select(_ATTEMPTS.c.number).where(_THIS_ATTEMPT)
_ATTEMPT = insert(_ATTEMPTS)
_END = update(_ATTEMPTS).where(_THIS_ATTEMPT, _ATTEMPTS.c.ending.is_(None))
_CHANGE = update(_JOBS).where(_THIS_JOB, _RUNS_THIS)


def requeue_abandoned(session: Session, now: float, run: str | None = None) -> int:
    """Queues the jobs that an ended dispatcher left running, of one run or of all runs, and returns their number. Since such a
    job may have crashed the dispatcher, its next attempt runs in a separate process."""
    runs = (JobRecord.state == RUNNING) if run is None else (JobRecord.state == RUNNING) & (JobRecord.run == run)
    running = select(JobRecord.id).where(runs)
    session.execute(
        update(AttemptRecord)
        .where(AttemptRecord.ending.is_(None), AttemptRecord.job.in_(running))
        .values(ending="lost", why="the dispatcher ended", ended=now)
    )
    session.execute(update(JobRecord).where(runs, JobRecord.lost == 0).values(lost=1))
    cancelled = select(SuiteRunRecord.id).where(SuiteRunRecord.state == CANCELLED)
    why = select(SuiteRunRecord.why).where(SuiteRunRecord.id == JobRecord.run).scalar_subquery()
    session.execute(
        update(JobRecord).where(runs, JobRecord.run.in_(cancelled)).values(state=CANCELLED, ended=now, why=why)
    )
    changed = session.execute(update(JobRecord).where(runs).values(state=QUEUED))
    return changed.rowcount if isinstance(changed, CursorResult) else 0


def jobs_of(session: Session, run: str) -> list[JobRecord]:
    """Returns the jobs of a run in order."""
    return list(session.scalars(select(JobRecord).where(JobRecord.run == run).order_by(JobRecord.number)))


def attempts_of(session: Session, run: str) -> list[AttemptRecord]:
    """Returns the attempts of a run's jobs, by job and number."""
    query = select(AttemptRecord).join(JobRecord, JobRecord.id == AttemptRecord.job).where(JobRecord.run == run)
    return list(session.scalars(query.order_by(JobRecord.number, AttemptRecord.number)))


@dataclass(frozen=True, slots=True)
class PastJob:
    """The fields of a done job that trends need. caveats: what weakens its verdict. content: a digest of everything that the job's results depend on."""

    name: str
    run: str
    board: str
    verdict: str
    blame_side: str
    blame_node: str
    nodes: tuple[str, ...]
    content: str
    caveats: str = ""


def done_jobs(session: Session, runs: Sequence[str]) -> list[PastJob]:
    """Returns the done jobs of these runs, by the order of the runs and then of the jobs."""
    content = JobRecord.settings["content"].as_string()
    columns = (
        JobRecord.name,
        JobRecord.run,
        JobRecord.board,
        JobRecord.verdict,
        JobRecord.blame_side,
        JobRecord.blame_node,
        JobRecord.nodes,
        content,
        JobRecord.caveats,
    )
    query = select(*columns).where(JobRecord.run.in_(runs), JobRecord.state == DONE).order_by(JobRecord.number)
    position = {run: index for index, run in enumerate(runs)}
    jobs = [
        PastJob(name, run, board or "", verdict, side, node, tuple(nodes or ()), digest or "", caveats)
        for name, run, board, verdict, side, node, nodes, digest, caveats in session.execute(query)
    ]
    return sorted(jobs, key=lambda job: position[job.run])  # stable: keeps the order of the jobs
