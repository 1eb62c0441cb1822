"""Writes the changes of one turn of the dispatcher in one transaction. Writing a batch twice has the effect of writing it
once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import update
from sqlalchemy.orm import Session

from qverify_farm.dispatcher.outcomes import NewJobState, RunningJob
from qverify_farm.dispatcher.tasks import task_of
from qverify_farm.engines.engine import ReachedBoard
from qverify_farm.store.artifact_rows import keep_artifact
from qverify_farm.store.boards import change_board
from qverify_farm.store.events import add_event
from qverify_farm.store.jobs import NewAttempt, begin_attempt, change_job, end_attempt
from qverify_farm.store.runs import cancel_run, end_run
from qverify_farm.store.states import CANCELLED, DONE, INCONCLUSIVE, QUEUED
from qverify_farm.store.tables import JobRecord, SuiteRunRecord
from qverify_farm.work.job_task import WITH_VERDICT, JobResult, JobTask


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """An attempt that has ended. `sizes`: the sizes of its report and its capture in bytes, by digest."""

    job: RunningJob
    result: JobResult
    outcome: NewJobState
    sizes: Mapping[str, int]


@dataclass(slots=True)
class Batch:
    """Changes that are not yet in the database.

    Attributes:
        ended: Attempts that have ended.
        begun: Attempts that the scheduler has assigned to boards.
        given_up: The reasons of jobs that no board can take, by job id.
        boards: New column values, by board name.
        cancelled: The reasons of cancelled runs, by run id.
        ended_runs: Ids of the runs in which every job has ended.
    """

    ended: list[EndedAttempt] = field(default_factory=list)
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
class BatchResult:
    """The consequences of a batch that has been written.

    Attributes:
        tasks: Tasks to start now.
        gone: Jobs that the scheduler assigned but that cannot begin, since they were cancelled in the meantime.
        unreached: Jobs that keep waiting, since their board became unreachable before they began.
        verdicts: The verdicts of the runs that ended, by run id.
    """

    tasks: list[tuple[RunningJob, JobTask]] = field(default_factory=list)
    gone: list[RunningJob] = field(default_factory=list)
    unreached: list[RunningJob] = field(default_factory=list)
    verdicts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BatchContext:
    """Facts that are needed to write a batch.

    Attributes:
        boards: The reachable boards, by name.
        artifacts: The URL of the artifact store.
        definition_of: Returns the definition of a run, by run id.
        project_of: Returns the project of a run, by run id.
    """

    boards: Mapping[str, ReachedBoard]
    artifacts: str
    definition_of: Callable[[str], Mapping[str, Any]]
    project_of: Callable[[str], str]


def write_batch(session: Session, batch: Batch, context: BatchContext, now: float) -> BatchResult:
    """Writes a batch and returns what follows from it. `now` is in seconds since 1970."""
    written = BatchResult()
    for attempt in batch.ended:
        _write_end(session, attempt, context.project_of(attempt.job.run), now)
    for job, why in batch.given_up.items():
        _give_up(session, job, why, context, now)
    for run, why in batch.cancelled.items():
        cancel_run(session, run, why, now)
    for begun in batch.begun:
        _begin(session, begun, context, written, now)
    for name, values in batch.boards.items():
        change_board(session, name, now, values)
    for run in batch.ended_runs:
        row = session.get_one(SuiteRunRecord, run, populate_existing=True)
        verdict = end_run(session, row, now)
        if verdict is not None:
            written.verdicts[run] = verdict
    return written


def _write_end(session: Session, attempt: EndedAttempt, project: str, now: float) -> None:
    """Writes the end of an attempt, and its job's new state, if the attempt is still the job's present one."""
    job, result, outcome = attempt.job, attempt.result, attempt.outcome
    finished = result.ending in WITH_VERDICT
    row: dict[str, Any] = {"ending": result.ending, "verdict": result.verdict if finished else None, "ended": now}
    row |= {"why": result.why[:1000], "seconds": result.seconds, "worker": result.worker[:200]}
    row["of_board"] = result.of_board
    if not end_attempt(session, job.id, job.attempt, row):
        return
    values: dict[str, Any] = {"state": outcome.state, "retries_left": outcome.retries_left, "lost": outcome.lost}
    values |= {"why": outcome.why[:1000], "board_seconds": job.board_seconds + result.board_seconds}
    if outcome.state == DONE:
        values |= {"verdict": outcome.verdict, "ended": now}
        values |= {"blame_side": result.blame_side[:32], "blame_node": result.blame_node, "nodes": list(result.nodes)}
        values |= {"extent": dict(result.extent), "caveats": result.caveats, "gate": result.gate}
        values |= {"report": result.report, "capture": result.capture, "facts": dict(result.facts)}
    elif outcome.state == CANCELLED:
        values["ended"] = now
    if not change_job(session, job.id, job.attempt, values):
        return
    for kind, digest in (("report", result.report), ("capture", result.capture)):
        if digest:
            keep_artifact(session, project, digest, attempt.sizes.get(digest, 0), now, name=job.name, kind=kind)
    event = {"job": job.id, "name": job.name, "state": outcome.state, "board": job.board, "attempt": job.attempt}
    event |= {"verdict": outcome.verdict, "why": outcome.why[:300], "ending": result.ending}
    event["caveats"] = result.caveats if outcome.state == DONE else ""
    add_event(session, "job", event, run=job.run, project=project)


def _give_up(session: Session, job: str, why: str, context: BatchContext, now: float) -> None:
    values = {"state": DONE, "verdict": INCONCLUSIVE, "why": why[:1000], "ended": now}
    changed = session.execute(
        update(JobRecord)
        .where(JobRecord.id == job, JobRecord.state == QUEUED)
        .values(**values)
        .returning(JobRecord.run, JobRecord.name)
    ).first()
    if changed is not None:
        event = {"job": job, "name": changed[1], "state": DONE, "board": None}
        event |= {"verdict": INCONCLUSIVE, "why": why[:300]}
        add_event(session, "job", event, run=changed[0], project=context.project_of(changed[0]))


def _begin(session: Session, job: RunningJob, context: BatchContext, written: BatchResult, now: float) -> None:
    row = session.get(JobRecord, job.id, populate_existing=True)
    reached = context.boards.get(job.board)
    number = job.attempt or (row.attempt + 1 if row is not None else 1)
    if row is not None and row.state == QUEUED and reached is None:
        written.unreached.append(job)
        return
    if row is None or reached is None or not begin_attempt(session, NewAttempt(job.id, number, job.board), now):
        written.gone.append(job)
        return
    job.attempt, job.retries_left, job.lost = number, row.retries_left, row.lost
    job.board_seconds, job.name = row.board_seconds, row.name
    task = task_of(row, number, context.definition_of(job.run), reached, context.artifacts)
    written.tasks.append((job, task))
    event = {"job": job.id, "name": job.name, "state": "running", "board": job.board, "attempt": number}
    add_event(session, "job", event, run=job.run, project=context.project_of(job.run))
