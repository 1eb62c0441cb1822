"""Removes what is older than its project keeps it: runs, events, audit entries, and then artifacts that nothing names."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from qverify_farm.service.json_log import log
from qverify_farm.service.schemas.lab import Swept
from qverify_farm.service.sessions import forget_sessions
from qverify_farm.service.settings import ServiceSettings
from qverify_farm.store.artifacts import Artifacts
from qverify_farm.store.database import Database
from qverify_farm.store.events import forget_events
from qverify_farm.store.states import RUNNING
from qverify_farm.store.tables import (
    Artifact,
    Attempt,
    AuditEntry,
    Baseline,
    Event,
    Job,
    Project,
    ProjectArtifact,
    SuiteRun,
)

AT_ONCE = 50  # rows of one transaction: others write in between
DAY_S = 86400.0
UNKNOWN_S = DAY_S  # bytes that no row knows are left for so long: a worker has stored them just now


@dataclass(frozen=True, slots=True)
class Retention:
    """What is removed. One sweep at a time."""

    database: Database
    artifacts: Artifacts
    settings: ServiceSettings
    lock: threading.Lock

    def sweep(self, now: float | None = None) -> Swept:
        """Removes what is too old. now: seconds since 1970."""
        with self.lock:
            at = time.time() if now is None else now
            with self.database.read() as session:
                projects = session.execute(select(Project.id, Project.keep_days)).all()
            swept = Swept(runs=0, events=self._forget(at), artifacts=0, bytes=0)
            for project, keep_days in projects:
                before = at - keep_days * DAY_S
                swept.runs += self._remove_runs(project, before)
                self._release(project, before)
            self._remove_unnamed(swept)
            self._remove_unknown(at, swept)
        if swept.runs or swept.artifacts:
            log("retention", **swept.model_dump())
        return swept

    def _forget(self, now: float) -> int:
        """Removes old events, audit entries and sessions that have ended; returns how many events."""
        with self.database.write() as session:
            before = now - self.settings.keep_events_days * DAY_S
            old = len(session.scalars(select(Event.number).where(Event.time < before)).all())
            forget_events(session, before)
            forget_sessions(session, now)
            session.execute(delete(AuditEntry).where(AuditEntry.time < now - self.settings.keep_audit_days * DAY_S))
        return old

    def _remove_runs(self, project: str, before: float) -> int:
        removed = 0
        while True:
            with self.database.write() as session:
                ended = (SuiteRun.project == project) & (SuiteRun.state != RUNNING) & (SuiteRun.ended < before)
                run = session.scalar(select(SuiteRun).where(ended).limit(1))
                if run is None:
                    return removed
                jobs = select(Job.id).where(Job.run == run.id)
                session.execute(delete(Attempt).where(Attempt.job.in_(jobs)))
                session.execute(delete(Job).where(Job.run == run.id))
                session.delete(run)
                removed += 1

    def _release(self, project: str, before: float) -> None:
        """Takes artifacts away from a project that has not used them since `before`, and whose runs do not name them."""
        with self.database.read() as session:
            old = (ProjectArtifact.project == project) & (ProjectArtifact.used < before)
            candidates = set(session.scalars(select(ProjectArtifact.sha256).where(old)))
            if not candidates:
                return
            candidates -= _named(session, project)
        listed = sorted(candidates)
        for at in range(0, len(listed), AT_ONCE):
            with self.database.write() as session:
                part = ProjectArtifact.sha256.in_(listed[at : at + AT_ONCE])
                session.execute(
                    delete(ProjectArtifact).where(
                        ProjectArtifact.project == project, part, ProjectArtifact.used < before
                    )
                )

    def _remove_unnamed(self, swept: Swept) -> None:
        """Removes bytes that no project has. They are removed inside the transaction that removes their row: who puts the
        same bytes meanwhile waits for it, sees that they are gone, and is told to put them again."""
        orphan = ~select(ProjectArtifact.sha256).where(ProjectArtifact.sha256 == Artifact.sha256).exists()
        while True:
            with self.database.write() as session:
                rows = session.scalars(select(Artifact).where(orphan).limit(AT_ONCE).with_for_update()).all()
                for row in rows:
                    session.delete(row)
                session.flush()
                for row in rows:
                    self.artifacts.delete(row.sha256)
                    swept.artifacts += 1
                    swept.bytes += row.size
            if len(rows) < AT_ONCE:
                return

    def _remove_unknown(self, now: float, swept: Swept) -> None:
        """Removes bytes that no row knows: of results that nobody recorded."""
        listed = [stored for stored, at in self.artifacts.listed() if at < now - UNKNOWN_S]
        for at in range(0, len(listed), AT_ONCE):
            part = {stored.sha256: stored.size for stored in listed[at : at + AT_ONCE]}
            with self.database.write() as session:
                known = set(session.scalars(select(Artifact.sha256).where(Artifact.sha256.in_(part))))
                for sha256 in part.keys() - known:
                    self.artifacts.delete(sha256)
                    swept.artifacts += 1
                    swept.bytes += part[sha256]


def _named(session: Session, project: str) -> set[str]:
    """Returns the digests that a project's runs and baselines name."""
    named = set(session.scalars(select(Baseline.report).where(Baseline.project == project)))
    runs = select(SuiteRun.id).where(SuiteRun.project == project)
    for report, capture in session.execute(select(Job.report, Job.capture).where(Job.run.in_(runs))):
        named |= {report, capture}
    rows = session.scalars(
        select(SuiteRun.definition).where(SuiteRun.project == project).execution_options(yield_per=20)
    )
    for definition in rows:
        named |= {str(file[0]) for file in definition.get("files", {}).values()}
    return named
