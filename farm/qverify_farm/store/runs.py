"""Rows of suite runs: submitted, found, cancelled, ended."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from qverify import __version__
from qverify.errors import UsageError
from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from qverify_farm.store.events import add_event
from qverify_farm.store.states import CANCELLED, DONE, ENDED, QUEUED, RUNNING
from qverify_farm.store.tables import Job, Project, SuiteRun
from qverify_farm.store.verdicts import verdict_of

AT_ONCE = 500  # rows of one statement
DEFAULT_PROJECT = "default"


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to submit. name: unique in its suite. wanted: board names, or tags ("soc=j5"). settings: models, inputs,
    options, files (paths of the definition's files; a folder ends with /), timeout_s, keep_capture, content (digest of all
    that decides what the job computes). retries: of an INCONCLUSIVE."""

    name: str
    model: str
    wanted: tuple[str, ...]
    settings: dict[str, Any]
    retries: int = 0


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to submit. definition: name, files ({path: [sha256, size]}), fail_fast, timeout_s, quarantine, and the suite
    as it was written. kind: suite, verify, triage or bad-case."""

    project: str
    name: str
    submitter: str
    definition: dict[str, Any]
    labels: dict[str, str] = field(default_factory=dict)
    kind: str = "suite"
    priority: int = 0


def ensure_project(session: Session, name: str = DEFAULT_PROJECT) -> Project:
    """Returns the project of this name, made where it is missing."""
    found = session.scalar(select(Project).where(Project.name == name))
    if found is None:
        found = Project(id=uuid.uuid4().hex, name=name, created=time.time())
        session.add(found)
        session.flush()
    return found


def submit_run(session: Session, new: NewRun, jobs: Iterable[NewJob]) -> SuiteRun:
    """Adds a run and its jobs, queued, and returns it. A run without jobs is an error of the caller's."""
    now = time.time()
    run = SuiteRun(
        id=uuid.uuid4().hex,
        project=new.project,
        name=new.name,
        submitter=new.submitter,
        kind=new.kind,
        definition=new.definition,
        labels=dict(new.labels),
        state=RUNNING,
        priority=new.priority,
        created=now,
        qverify=__version__,
    )
    session.add(run)
    session.flush()
    rows = [_job_row(run.id, number, job) for number, job in enumerate(jobs)]
    assert rows, "a run of no jobs"
    for at in range(0, len(rows), AT_ONCE):
        session.execute(insert(Job), rows[at : at + AT_ONCE])
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


def find_run(session: Session, text: str = "", project: str | None = None) -> SuiteRun:
    """Returns the run of this id or beginning of an id; "" is the newest. project: id, of which it must be. UsageError
    where there is none, or more than one."""
    query = select(SuiteRun).order_by(SuiteRun.created.desc()).limit(2)
    if project is not None:
        query = query.where(SuiteRun.project == project)
    if text:
        if not text.isalnum():
            raise UsageError(f"run {text[:40]!r}: wanted an id, or its first characters")
        query = query.where(SuiteRun.id.startswith(text.lower()))
    found = session.scalars(query).all()
    if not found:
        raise UsageError(
            f"run {text[:40]!r}: there is none. Next: qverify suite list" if text else "there are no runs yet"
        )
    if text and len(found) > 1:
        raise UsageError(f"run {text!r}: {found[0].id[:12]} and {found[1].id[:12]} begin so; wanted more characters")
    return found[0]


def list_runs(session: Session, most: int = 50, project: str | None = None, state: str | None = None) -> list[SuiteRun]:
    """Returns the newest runs, the newest first."""
    query = select(SuiteRun).order_by(SuiteRun.created.desc()).limit(most)
    if project is not None:
        query = query.where(SuiteRun.project == project)
    if state is not None:
        query = query.where(SuiteRun.state == state)
    return list(session.scalars(query))


def past_runs(session: Session, run: SuiteRun, most: int) -> list[SuiteRun]:
    """Returns the earlier runs of the same suite, the newest first."""
    query = select(SuiteRun).where(SuiteRun.project == run.project, SuiteRun.name == run.name)
    query = query.where(SuiteRun.created < run.created).order_by(SuiteRun.created.desc()).limit(most)
    return list(session.scalars(query))


def counts_of(session: Session, run: str) -> dict[str, int]:
    """Returns how many jobs of a run are in each state; of done ones, also by verdict."""
    rows = session.execute(
        select(Job.state, Job.verdict, func.count()).where(Job.run == run).group_by(Job.state, Job.verdict)
    )
    counts: dict[str, int] = {}
    for state, verdict, number in rows:
        counts[state] = counts.get(state, 0) + number
        if verdict is not None:
            counts[verdict] = counts.get(verdict, 0) + number
    return counts


def cancel_run(session: Session, run: str, why: str, now: float) -> bool:
    """Cancels what of a run has not ended: queued jobs at once, running ones when the dispatcher hears of it. Returns
    False for a run that had ended."""
    changed = session.execute(
        update(SuiteRun)
        .where(SuiteRun.id == run, SuiteRun.state == RUNNING)
        .values(state=CANCELLED, why=why[:1000], ended=now)
        .returning(SuiteRun.project)
    ).all()
    if not changed:
        return False
    session.execute(
        update(Job).where(Job.run == run, Job.state == QUEUED).values(state=CANCELLED, why=why[:300], ended=now)
    )
    add_event(session, "run", {"state": CANCELLED, "why": why[:300]}, run=run, project=changed[0][0])
    return True


def reopen_run(session: Session, run: SuiteRun) -> int:
    """Queues the cancelled jobs of a run again, to resume it; returns how many jobs of it wait now."""
    session.execute(
        update(Job)
        .where(Job.run == run.id, Job.state == CANCELLED)
        .values(state=QUEUED, why="", ended=None, board=None)
    )
    waiting = int(session.scalar(select(func.count()).where(Job.run == run.id, Job.state == QUEUED)) or 0)
    if waiting and run.state != RUNNING:
        run.state, run.why, run.ended, run.verdict = RUNNING, "", None, None
        add_event(session, "run", {"state": RUNNING, "resumed": True}, run=run.id, project=run.project)
    return waiting


def end_run(session: Session, run: SuiteRun, now: float) -> str | None:
    """Ends a run all of whose jobs have ended, and returns its verdict, the worst of its jobs'; None while some have
    not."""
    query = select(Job).where(Job.run == run.id).execution_options(populate_existing=True)
    jobs = session.scalars(query).all()
    if any(job.state not in ENDED for job in jobs):
        return None
    run.verdict = verdict_of(session, run, jobs)
    if run.state == RUNNING:
        run.state, run.ended = (CANCELLED if any(job.state == CANCELLED for job in jobs) else DONE), now
    add_event(session, "run", {"state": run.state, "verdict": run.verdict}, run=run.id, project=run.project)
    return run.verdict
