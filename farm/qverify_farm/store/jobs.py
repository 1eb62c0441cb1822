"""Rows of jobs and their attempts: given out, ended exactly once, queued again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import CursorResult, Table, bindparam, insert, select, update
from sqlalchemy.orm import Session

from qverify_farm.store.states import CANCELLED, DONE, INCONCLUSIVE, QUEUED, RUNNING
from qverify_farm.store.tables import Attempt, Job, SuiteRun

AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Waiting:
    """A queued job, as little of it as the scheduler needs. created: of its run. tried: boards where it was
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
class Begun:
    """An attempt that begins."""

    job: str
    attempt: int
    board: str


def waiting_jobs(session: Session, run: str | None = None) -> Iterator[Waiting]:
    """Yields the queued jobs, of one run or of all, in the order of runs and places."""
    of = (Job.run == run) if run is not None else (Job.state == QUEUED)
    tried: dict[str, set[str]] = {}
    for job, board in session.execute(
        select(Attempt.job, Attempt.board)
        .join(Job, Job.id == Attempt.job)
        .where(Job.state == QUEUED, of, Attempt.verdict == INCONCLUSIVE)
    ):
        tried.setdefault(job, set()).add(board)
    columns = (Job.id, Job.run, Job.number, SuiteRun.submitter, SuiteRun.priority, SuiteRun.created, Job.wanted)
    rows = session.execute(
        select(*columns)
        .join(SuiteRun, SuiteRun.id == Job.run)
        .where(Job.state == QUEUED, SuiteRun.state == RUNNING, of)
        .order_by(SuiteRun.created, Job.number)
        .execution_options(yield_per=AT_ONCE)
    )
    for row in rows:
        id_, of_run, number, submitter, priority, created, wanted = row
        fits, been = tuple(str(one) for one in wanted), frozenset(tried.get(id_, ()))
        yield Waiting(id_, of_run, number, submitter, priority, created, fits, been)


def begin_attempt(session: Session, begun: Begun, now: float) -> bool:
    """Writes that an attempt runs; False where its job waits no longer. Writing the same again changes nothing."""
    given = {"_job": begun.job, "_attempt": begun.attempt, "board": begun.board, "started": now}
    if not _changed_one(session.execute(_BEGIN, given)):
        return False
    if session.execute(_KNOWN, given).first() is None:
        session.execute(_ATTEMPT, {"job": begun.job, "number": begun.attempt, "board": begun.board, "started": now})
    return True


def end_attempt(session: Session, job: str, attempt: int, values: Mapping[str, Any]) -> bool:
    """Writes how an attempt ended (ending, verdict, why, seconds, worker, ended); False where that is written already:
    the first complete result counts."""
    return _changed_one(session.execute(_END, {"_job": job, "_attempt": attempt, **values}))


def change_job(session: Session, job: str, attempt: int, values: Mapping[str, Any]) -> bool:
    """Changes a job of which this attempt runs; False where another one does, or it has ended."""
    return _changed_one(session.execute(_CHANGE, {"_job": job, "_attempt": attempt, **values}))


def _changed_one(result: object) -> bool:
    return isinstance(result, CursorResult) and result.rowcount == 1


# Statements of every job, made once: making them costs more than running them.
_JOBS, _ATTEMPTS = cast(Table, Job.__table__), cast(Table, Attempt.__table__)
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


def queue_dead(session: Session, now: float, run: str | None = None) -> int:
    """Queues what a dispatcher left running when it ended, of one run or of all, and returns how much that was. Whatever
    such a job did may have been the reason, once: its next attempt is in a process of its own."""
    runs = (Job.state == RUNNING) if run is None else (Job.state == RUNNING) & (Job.run == run)
    running = select(Job.id).where(runs)
    session.execute(
        update(Attempt)
        .where(Attempt.ending.is_(None), Attempt.job.in_(running))
        .values(ending="lost", why="the dispatcher ended", ended=now)
    )
    session.execute(update(Job).where(runs, Job.lost == 0).values(lost=1))
    cancelled = select(SuiteRun.id).where(SuiteRun.state == CANCELLED)
    session.execute(update(Job).where(runs, Job.run.in_(cancelled)).values(state=CANCELLED, ended=now))
    changed = session.execute(update(Job).where(runs).values(state=QUEUED))
    return changed.rowcount if isinstance(changed, CursorResult) else 0


def jobs_of(session: Session, run: str) -> list[Job]:
    """Returns the jobs of a run in their order."""
    return list(session.scalars(select(Job).where(Job.run == run).order_by(Job.number)))


def attempts_of(session: Session, run: str) -> list[Attempt]:
    """Returns the attempts of a run's jobs, by job and number."""
    query = select(Attempt).join(Job, Job.id == Attempt.job).where(Job.run == run)
    return list(session.scalars(query.order_by(Job.number, Attempt.number)))


@dataclass(frozen=True, slots=True)
class PastJob:
    """A done job, as little of it as trends need. content: digest of all that decided what it computed."""

    name: str
    run: str
    board: str
    verdict: str
    blame_side: str
    blame_node: str
    nodes: tuple[str, ...]
    content: str


def done_jobs(session: Session, runs: Sequence[str]) -> list[PastJob]:
    """Returns the done jobs of these runs, in the order of the runs and of the jobs."""
    content = Job.settings["content"].as_string()
    columns = (Job.name, Job.run, Job.board, Job.verdict, Job.blame_side, Job.blame_node, Job.nodes, content)
    query = select(*columns).where(Job.run.in_(runs), Job.state == DONE).order_by(Job.number)
    place = {run: at for at, run in enumerate(runs)}
    found = [
        PastJob(name, run, board or "", verdict, side, node, tuple(nodes or ()), digest or "")
        for name, run, board, verdict, side, node, nodes, digest in session.execute(query)
    ]
    return sorted(found, key=lambda job: place[job.run])  # the order of jobs stays
