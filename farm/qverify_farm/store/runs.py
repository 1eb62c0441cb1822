"""Database rows of suite runs: submitting, finding, cancelling and ending them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from qverify import __version__
from qverify.errors import UsageError
from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from qverify_farm.store.events import add_event
from qverify_farm.store.states import CANCELLED, DONE, ENDED, PASSED, QUEUED, RUNNING, TIMED_OUT
from qverify_farm.store.tables import JobRecord, ProjectRecord, SuiteRunRecord
from qverify_farm.store.verdicts import verdict_of

ROWS_PER_STATEMENT = 500
DEFAULT_PROJECT = "default"


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to submit.

    Attributes:
        name: Its name, unique in the suite.
        model: The name of its model.
        wanted: The boards that fit: board names, or tags such as "soc=j5".
        settings: models, inputs, options, files (paths of the definition's files; a folder ends with /), timeout_s,
            keep_capture, and content (a digest of everything that the job's results depend on).
        retries: How often it is tried again after INCONCLUSIVE.
    """

    name: str
    model: str
    wanted: tuple[str, ...]
    settings: dict[str, Any]
    retries: int = 0


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to submit.

    Attributes:
        definition: name, files ({path: [sha256, size]}), fail_fast, timeout_s, quarantine, the suite as written, and
            submission (a digest of the request, if it had an Idempotency-Key).
        kind: suite, verify, triage or bad-case.
        id: Its id, or "" for a new one.
    """

    project: str
    name: str
    submitter: str
    definition: dict[str, Any]
    labels: dict[str, str] = field(default_factory=dict)
    kind: str = "suite"
    priority: int = 0
    id: str = ""


def ensure_project(session: Session, name: str = DEFAULT_PROJECT) -> ProjectRecord:
    """Returns the project with this name. A missing project is added."""
    project = session.scalar(select(ProjectRecord).where(ProjectRecord.name == name))
    if project is None:
        project = ProjectRecord(id=uuid.uuid4().hex, name=name, created=time.time())
        session.add(project)
        session.flush()
    return project


def submit_run(session: Session, new_run: NewRun, jobs: Iterable[NewJob]) -> SuiteRunRecord:
    """Adds a run with its jobs, in state queued, and returns it. There must be at least one job."""
    now = time.time()
    run = SuiteRunRecord(
        id=new_run.id or uuid.uuid4().hex,
        project=new_run.project,
        name=new_run.name,
        submitter=new_run.submitter,
        kind=new_run.kind,
        definition=new_run.definition,
        labels=dict(new_run.labels),
        state=RUNNING,
        priority=new_run.priority,
        created=now,
        qverify=__version__,
    )
    session.add(run)
    session.flush()
    rows = [_job_row(run.id, number, job) for number, job in enumerate(jobs)]
    assert rows, "a run of no jobs"
    for start in range(0, len(rows), ROWS_PER_STATEMENT):
        session.execute(insert(JobRecord), rows[start : start + ROWS_PER_STATEMENT])
    add_event(session, "run", {"state": RUNNING, "name": run.name, "jobs": len(rows)}, run=run.id, project=run.project)
    return run


def _job_row(run: str, number: int, job: NewJob) -> dict[str, Any]:
    return {
        "id": uuid.uuid4().hex,
        "run": run,
        "number": number,
        "name": job.name,
        "model": job.model,
        "wanted": list(job.wanted),
        "settings": job.settings,
        "state": QUEUED,
        "retries_left": job.retries,
    }


def find_run(session: Session, text: str = "", project: str | None = None) -> SuiteRunRecord:
    """Returns the run with this id, or with an id that begins so; "" stands for the newest run. project: the id of the project to
    search, or None for all. Raises UsageError if no run or more than one matches."""
    query = select(SuiteRunRecord).order_by(SuiteRunRecord.created.desc()).limit(2)
    if project is not None:
        query = query.where(SuiteRunRecord.project == project)
    if text:
        if not text.isalnum():
            raise UsageError(f"run {text[:40]!r}: wanted an id, or its first characters")
        query = query.where(SuiteRunRecord.id.startswith(text.lower()))
    matches = session.scalars(query).all()
    if not matches:
        raise UsageError(
            f"run {text[:40]!r}: there is none. Next: qverify suite list" if text else "there are no runs yet"
        )
    if text and len(matches) > 1:
        raise UsageError(
            f"run {text!r}: {matches[0].id[:12]} and {matches[1].id[:12]} begin so; wanted more characters"
        )
    return matches[0]


def find_unfinished_run(session: Session) -> SuiteRunRecord:
    """Returns the newest run that is unfinished: its process ended, or the time of its suite ran out. A run that a user or fail-fast
    cancelled counts as finished. If every run is finished, returns the newest that was not cancelled. Raises UsageError if
    there is none."""
    newest = select(SuiteRunRecord).order_by(SuiteRunRecord.created.desc()).limit(1)
    is_timed_out = (SuiteRunRecord.state == CANCELLED) & SuiteRunRecord.why.startswith(TIMED_OUT)
    has_left = select(JobRecord.id).where(JobRecord.run == SuiteRunRecord.id, JobRecord.state != DONE).exists()
    run = session.scalar(newest.where((SuiteRunRecord.state == RUNNING) | is_timed_out, has_left))
    run = run or session.scalar(newest.where(SuiteRunRecord.state != CANCELLED))
    if run is None:
        raise UsageError("there are no runs yet, or only cancelled ones; their IDs: qverify suite list")
    return run


def list_runs(
    session: Session, limit: int = 50, project: str | None = None, state: str | None = None
) -> list[SuiteRunRecord]:
    """Returns the newest runs, newest first."""
    query = select(SuiteRunRecord).order_by(SuiteRunRecord.created.desc()).limit(limit)
    if project is not None:
        query = query.where(SuiteRunRecord.project == project)
    if state is not None:
        query = query.where(SuiteRunRecord.state == state)
    return list(session.scalars(query))


def past_runs(session: Session, run: SuiteRunRecord, limit: int) -> list[SuiteRunRecord]:
    """Returns the earlier runs of the same suite, newest first."""
    query = select(SuiteRunRecord).where(SuiteRunRecord.project == run.project, SuiteRunRecord.name == run.name)
    query = query.where(SuiteRunRecord.created < run.created).order_by(SuiteRunRecord.created.desc()).limit(limit)
    return list(session.scalars(query))


def counts_of(session: Session, run: str) -> dict[str, int]:
    """Returns the number of jobs of a run in each state and with each verdict, and of jobs that PASSED with caveats."""
    rows = session.execute(
        select(JobRecord.state, JobRecord.verdict, func.count())
        .where(JobRecord.run == run)
        .group_by(JobRecord.state, JobRecord.verdict)
    )
    counts: dict[str, int] = {}
    for state, verdict, number in rows:
        counts[state] = counts.get(state, 0) + number
        if verdict is not None:
            counts[verdict] = counts.get(verdict, 0) + number
    if weak := passed_with_caveats(session, [run]).get(run):
        counts["caveats"] = weak
    return counts


def passed_with_caveats(session: Session, runs: Collection[str]) -> dict[str, int]:
    """Returns the number of jobs that PASSED with caveats, of the runs that have any."""
    query = select(JobRecord.run, func.count()).where(JobRecord.run.in_(runs), JobRecord.caveats != "")
    rows = session.execute(query.where(JobRecord.verdict == PASSED).group_by(JobRecord.run))
    return {run: number for run, number in rows}


def cancel_run(session: Session, run: str, why: str, now: float) -> bool:
    """Cancels the unfinished jobs of a run: queued jobs at once, running ones when the dispatcher notices it. Returns False if
    the run had ended before."""
    changed = session.execute(
        update(SuiteRunRecord)
        .where(SuiteRunRecord.id == run, SuiteRunRecord.state == RUNNING)
        .values(state=CANCELLED, why=why[:1000], ended=now)
        .returning(SuiteRunRecord.project)
    ).all()
    if not changed:
        return False
    session.execute(
        update(JobRecord)
        .where(JobRecord.run == run, JobRecord.state == QUEUED)
        .values(state=CANCELLED, why=why[:300], ended=now)
    )
    add_event(session, "run", {"state": CANCELLED, "why": why[:300]}, run=run, project=changed[0][0])
    return True


def reopen_run(session: Session, run: SuiteRunRecord) -> int:
    """Queues the cancelled jobs of a run again, to resume it. Returns the number of its queued jobs."""
    session.execute(
        update(JobRecord)
        .where(JobRecord.run == run.id, JobRecord.state == CANCELLED)
        .values(state=QUEUED, why="", ended=None, board=None)
    )
    waiting = int(session.scalar(select(func.count()).where(JobRecord.run == run.id, JobRecord.state == QUEUED)) or 0)
    if waiting and run.state != RUNNING:
        run.state, run.why, run.ended, run.verdict = RUNNING, "", None, None
        add_event(session, "run", {"state": RUNNING, "resumed": True}, run=run.id, project=run.project)
    return waiting


def end_run(session: Session, run: SuiteRunRecord, now: float) -> str | None:
    """Ends a run if all its jobs have ended, and returns its verdict, the worst of its jobs' verdicts. Otherwise returns None."""
    query = select(JobRecord).where(JobRecord.run == run.id).execution_options(populate_existing=True)
    jobs = session.scalars(query).all()
    if any(job.state not in ENDED for job in jobs):
        return None
    run.verdict = verdict_of(session, run, jobs)
    if run.state == RUNNING:
        run.state, run.ended = (CANCELLED if any(job.state == CANCELLED for job in jobs) else DONE), now
    add_event(session, "run", {"state": run.state, "verdict": run.verdict}, run=run.id, project=run.project)
    return run.verdict
