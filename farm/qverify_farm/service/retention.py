"""Removes old runs, events and audit entries, and then the artifacts to which nothing refers."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from qverify_farm.service.clock_watch import ClockWatch
from qverify_farm.service.json_log import log
from qverify_farm.service.schemas.lab import Swept
from qverify_farm.service.sessions import forget_sessions
from qverify_farm.service.settings import ServiceSettings
from qverify_farm.store.artifacts import ArtifactStore
from qverify_farm.store.database import Database
from qverify_farm.store.events import forget_events
from qverify_farm.store.states import RUNNING
from qverify_farm.store.tables import (
    ArtifactRecord,
    AttemptRecord,
    AuditRecord,
    BaselineRecord,
    EventRecord,
    JobRecord,
    ProjectArtifactRecord,
    ProjectRecord,
    SuiteRunRecord,
)

ROWS_PER_TRANSACTION = 50  # few, so that others can write in between
DAY_S = 86400.0
MIN_AGE_S = DAY_S  # artifacts without a row are kept for so long, since a worker may just have stored them


class ClockDoubtError(Exception):
    """The clock may be wrong, so that nothing is deleted by its age."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Removes old data. `lock` ensures that there is only one sweep at a time."""

    database: Database
    artifacts: ArtifactStore
    settings: ServiceSettings
    lock: threading.Lock
    clock: ClockWatch

    def sweep(self, now: float | None = None, despite_clock: bool = False) -> Swept:
        """Removes everything that is too old, and returns the numbers. now: seconds since 1970. Raises ClockDoubtError if the
        clock may be wrong, unless `despite_clock` is true."""
        if (why := self.clock.look()) and not despite_clock:
            raise ClockDoubtError(why)
        with self.lock:
            at = time.time() if now is None else now
            with self.database.read() as session:
                projects = session.execute(select(ProjectRecord.id, ProjectRecord.keep_days)).all()
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
        """Removes old events, old audit entries and ended sessions, and returns the number of events."""
        with self.database.write() as session:
            before = now - self.settings.keep_events_days * DAY_S
            old = len(session.scalars(select(EventRecord.number).where(EventRecord.time < before)).all())
            forget_events(session, before)
            forget_sessions(session, now)
            session.execute(delete(AuditRecord).where(AuditRecord.time < now - self.settings.keep_audit_days * DAY_S))
        return old

    def _remove_runs(self, project: str, before: float) -> int:
        removed = 0
        while True:
            with self.database.write() as session:
                ended = (
                    (SuiteRunRecord.project == project)
                    & (SuiteRunRecord.state != RUNNING)
                    & (SuiteRunRecord.ended < before)
                )
                run = session.scalar(select(SuiteRunRecord).where(ended).limit(1))
                if run is None:
                    return removed
                jobs = select(JobRecord.id).where(JobRecord.run == run.id)
                session.execute(delete(AttemptRecord).where(AttemptRecord.job.in_(jobs)))
                session.execute(delete(JobRecord).where(JobRecord.run == run.id))
                session.delete(run)
                removed += 1

    def _release(self, project: str, before: float) -> None:
        """Removes from a project the artifacts that it has not used since `before` and to which its runs do not refer."""
        with self.database.read() as session:
            old = (ProjectArtifactRecord.project == project) & (ProjectArtifactRecord.used < before)
            candidates = set(session.scalars(select(ProjectArtifactRecord.sha256).where(old)))
            if not candidates:
                return
            candidates -= _referenced_digests(session, project)
        digests_in_order = sorted(candidates)
        for at in range(0, len(digests_in_order), ROWS_PER_TRANSACTION):
            with self.database.write() as session:
                part = ProjectArtifactRecord.sha256.in_(digests_in_order[at : at + ROWS_PER_TRANSACTION])
                session.execute(
                    delete(ProjectArtifactRecord).where(
                        ProjectArtifactRecord.project == project, part, ProjectArtifactRecord.used < before
                    )
                )

    def _remove_unnamed(self, swept: Swept) -> None:
        """Removes artifacts that belong to no project. The bytes are removed inside the transaction that removes the row: an
        upload of the same bytes waits for it, finds that they are gone, and is told to upload them again."""
        orphan = (
            ~select(ProjectArtifactRecord.sha256).where(ProjectArtifactRecord.sha256 == ArtifactRecord.sha256).exists()
        )
        while True:
            with self.database.write() as session:
                rows = session.scalars(
                    select(ArtifactRecord).where(orphan).limit(ROWS_PER_TRANSACTION).with_for_update()
                ).all()
                for row in rows:
                    session.delete(row)
                session.flush()
                for row in rows:
                    self.artifacts.delete(row.sha256)
                    swept.artifacts += 1
                    swept.bytes += row.size
            if len(rows) < ROWS_PER_TRANSACTION:
                return

    def _remove_unknown(self, now: float, swept: Swept) -> None:
        """Removes artifacts without a row, such as those of results that were never recorded, and damaged bytes."""
        self.artifacts.delete_damaged(now - MIN_AGE_S)
        old = [artifact for artifact, stored_at in self.artifacts.entries() if stored_at < now - MIN_AGE_S]
        for at in range(0, len(old), ROWS_PER_TRANSACTION):
            part = {artifact.sha256: artifact.size for artifact in old[at : at + ROWS_PER_TRANSACTION]}
            with self.database.write() as session:
                recorded = set(session.scalars(select(ArtifactRecord.sha256).where(ArtifactRecord.sha256.in_(part))))
                for sha256 in part.keys() - recorded:
                    self.artifacts.delete(sha256)
                    swept.artifacts += 1
                    swept.bytes += part[sha256]


def _referenced_digests(session: Session, project: str) -> set[str]:
    """Returns the digests to which a project's runs and baselines refer."""
    digests = set(session.scalars(select(BaselineRecord.report).where(BaselineRecord.project == project)))
    runs = select(SuiteRunRecord.id).where(SuiteRunRecord.project == project)
    for report, capture in session.execute(select(JobRecord.report, JobRecord.capture).where(JobRecord.run.in_(runs))):
        digests |= {report, capture}
    rows = session.scalars(
        select(SuiteRunRecord.definition).where(SuiteRunRecord.project == project).execution_options(yield_per=20)
    )
    for definition in rows:
        digests |= {str(file[0]) for file in definition.get("files", {}).values()}
    return digests
