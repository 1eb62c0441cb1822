"""Writes what one turn of the dispatcher changes, in one transaction; writing it twice is writing it once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import update
from sqlalchemy.orm import Session

from qverify_farm.dispatcher.outcomes import Outcome, RunningJob
from qverify_farm.dispatcher.tasks import task_of
from qverify_farm.engines.engine import ReachedBoard
from qverify_farm.store.artifact_rows import keep_artifact
from qverify_farm.store.boards import change_board
from qverify_farm.store.events import add_event
from qverify_farm.store.jobs import Begun, begin_attempt, change_job, end_attempt
from qverify_farm.store.runs import cancel_run, end_run
from qverify_farm.store.states import CANCELLED, DONE, INCONCLUSIVE, QUEUED
from qverify_farm.store.tables import Job, SuiteRun
from qverify_farm.work.job_task import JobResult, JobTask


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt that ended. sizes: bytes of its report and its capture."""

    job: RunningJob
    result: JobResult
    outcome: Outcome
    sizes: Mapping[str, int]


@dataclass(slots=True)
class Batch:
    """given_up: jobs that no board can take, and why. boards: new values of boards' rows. cancelled: runs, and why.
    ended_runs: all of whose jobs have ended."""

    ended: list[Ended] = field(default_factory=list)
    begun: list[RunningJob] = field(default_factory=list)
    given_up: dict[str, str] = field(default_factory=dict)
    boards: dict[str, dict[str, Any]] = field(default_factory=dict)
    cancelled: dict[str, str] = field(default_factory=dict)
    ended_runs: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return any((self.ended, self.begun, self.given_up, self.boards, self.cancelled, self.ended_runs))

    def change_board(self, name: str, **values: Any) -> None:
        self.boards.setdefault(name, {}).update(values)


@dataclass(slots=True)
class Written:
    """tasks: to start now. gone: jobs that began in the scheduler's mind only: they were cancelled meanwhile. verdicts: of
    runs that ended."""

    tasks: list[tuple[RunningJob, JobTask]] = field(default_factory=list)
    gone: list[RunningJob] = field(default_factory=list)
    unreached: list[RunningJob] = field(default_factory=list)  # their board went before they began: they wait on
    verdicts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Around:
    """The facts around a batch that writing it needs. boards: by name. artifacts: the store's URL. definition_of, project_of:
    give a run's definition and project by the run's id."""

    boards: Mapping[str, ReachedBoard]
    artifacts: str
    definition_of: Callable[[str], Mapping[str, Any]]
    project_of: Callable[[str], str]


def write_batch(session: Session, batch: Batch, around: Around, now: float) -> Written:
    """Writes all of a batch. now: seconds since 1970."""
    written = Written()
    for one in batch.ended:
        _write_end(session, one, around.project_of(one.job.run), now)
    for job, why in batch.given_up.items():
        _give_up(session, job, why, around, now)
    for run, why in batch.cancelled.items():
        cancel_run(session, run, why, now)
    for begun in batch.begun:
        _begin(session, begun, around, written, now)
    for name, values in batch.boards.items():
        change_board(session, name, now, values)
    for run in batch.ended_runs:
        row = session.get_one(SuiteRun, run, populate_existing=True)
        verdict = end_run(session, row, now)
        if verdict is not None:
            written.verdicts[run] = verdict
    return written


def _write_end(session: Session, one: Ended, project: str, now: float) -> None:
    job, result, outcome = one.job, one.result, one.outcome
    finished = result.ending == "finished"
    attempt: dict[str, Any] = {"ending": result.ending, "verdict": result.verdict if finished else None, "ended": now}
    attempt |= {"why": result.why[:1000], "seconds": result.seconds, "worker": result.worker[:200]}
    if not end_attempt(session, job.id, job.attempt, attempt):
        return
    values: dict[str, Any] = {"state": outcome.state, "retries_left": outcome.retries_left, "lost": outcome.lost}
    values |= {"why": outcome.why[:1000], "board_seconds": job.board_seconds + result.board_seconds}
    if outcome.state == DONE:
        values |= {"verdict": outcome.verdict, "ended": now}
        values |= {"blame_side": result.blame_side[:32], "blame_node": result.blame_node, "nodes": list(result.nodes)}
        values |= {"report": result.report, "capture": result.capture, "facts": dict(result.facts)}
    elif outcome.state == CANCELLED:
        values["ended"] = now
    if not change_job(session, job.id, job.attempt, values):
        return
    for kind, digest in (("report", result.report), ("capture", result.capture)):
        if digest:
            keep_artifact(session, project, digest, one.sizes.get(digest, 0), now, name=job.name, kind=kind)
    told = {"job": job.id, "name": job.name, "state": outcome.state, "board": job.board, "attempt": job.attempt}
    told |= {"verdict": outcome.verdict, "why": outcome.why[:300], "ending": result.ending}
    add_event(session, "job", told, run=job.run, project=project)


def _give_up(session: Session, job: str, why: str, around: Around, now: float) -> None:
    values = {"state": DONE, "verdict": INCONCLUSIVE, "why": why[:1000], "ended": now}
    changed = session.execute(
        update(Job).where(Job.id == job, Job.state == QUEUED).values(**values).returning(Job.run, Job.name)
    ).first()
    if changed is not None:
        told = {"job": job, "name": changed[1], "state": DONE, "board": None, "verdict": INCONCLUSIVE, "why": why[:300]}
        add_event(session, "job", told, run=changed[0], project=around.project_of(changed[0]))


def _begin(session: Session, job: RunningJob, around: Around, written: Written, now: float) -> None:
    row = session.get(Job, job.id, populate_existing=True)
    reached = around.boards.get(job.board)
    number = job.attempt or (row.attempt + 1 if row is not None else 1)
    if row is not None and row.state == QUEUED and reached is None:
        written.unreached.append(job)
        return
    if row is None or reached is None or not begin_attempt(session, Begun(job.id, number, job.board), now):
        written.gone.append(job)
        return
    job.attempt, job.retries_left, job.lost = number, row.retries_left, row.lost
    job.board_seconds, job.name = row.board_seconds, row.name
    task = task_of(row, number, around.definition_of(job.run), reached, around.artifacts)
    written.tasks.append((job, task))
    told = {"job": job.id, "name": job.name, "state": "running", "board": job.board, "attempt": number}
    add_event(session, "job", told, run=job.run, project=around.project_of(job.run))
