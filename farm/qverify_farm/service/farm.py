"""What the service is made of: database, artifacts, dispatcher, and what its routes share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from qverify import __version__
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from qverify_farm.dispatcher import Dispatcher
from qverify_farm.dispatcher.dispatcher import Health
from qverify_farm.engines.engine import JobEngine
from qverify_farm.service.event_feed import Feed, Happened
from qverify_farm.service.known_callers import KnownCallers
from qverify_farm.service.metrics import Metrics
from qverify_farm.service.rate_limits import RateLimit
from qverify_farm.service.settings import ServiceSettings
from qverify_farm.service.tokens import Caller
from qverify_farm.service.triage_engine import LANE
from qverify_farm.store.artifacts import Artifacts
from qverify_farm.store.database import Database
from qverify_farm.store.states import DONE
from qverify_farm.store.tables import AuditEntry, Board, Job

FAILURES_PER_S, MOST_FAILURES = 0.5, 20  # wrong tokens of one address


@dataclass(slots=True)
class Farm:
    """An open farm: made by open_farm(), closed by close(). engine: the dispatcher's, which closes it."""

    database: Database
    artifacts: Artifacts
    engine: JobEngine
    settings: ServiceSettings
    dispatcher: Dispatcher
    feed: Feed
    metrics: Metrics
    requests: RateLimit
    failures: RateLimit
    known: KnownCallers
    stopping: bool = False
    listeners: list[Callable[[list[Happened]], None]] = field(default_factory=list)

    def close(self) -> None:
        """Ends what runs, leaves the rest queued, and closes the database."""
        self.stopping = True
        self.dispatcher.close(self.settings.stop_s)
        self.database.close()

    def health(self) -> Health:
        """Returns how the dispatcher is; the lanes of triages are not among its boards."""
        return lab_health(self.database, self.dispatcher)

    def wake(self) -> None:
        """Has dispatcher and feed look at what a request has changed."""
        self.dispatcher.wake()
        self.feed.changed()


def open_farm(database: Database, artifacts: Artifacts, engine: JobEngine, settings: ServiceSettings) -> Farm:
    """Returns a farm; nothing of it runs until its dispatcher is started. database: owned by this process."""
    listeners: list[Callable[[list[Happened]], None]] = []

    def heard(events: list[Happened]) -> None:
        for listener in listeners:
            listener(events)

    feed = Feed(database, heard)
    dispatcher = Dispatcher(database, engine, artifacts, on_change=feed.changed)
    metrics = Metrics(lambda: lab_health(database, dispatcher), artifacts.free_bytes, __version__)
    listeners.append(lambda events: _count(database, metrics, events))
    return Farm(
        database,
        artifacts,
        engine,
        settings,
        dispatcher,
        feed,
        metrics,
        RateLimit(settings.requests_per_s, settings.burst),
        RateLimit(FAILURES_PER_S, MOST_FAILURES),
        KnownCallers(database),
        listeners=listeners,
    )


def lab_health(database: Database, dispatcher: Dispatcher) -> Health:
    """Returns the dispatcher's health, with the states of boards as the database has them, without the lanes of
    triages."""
    found = dispatcher.health()
    try:
        with database.read() as session:
            rows = session.execute(
                select(Board.state, func.count()).where(~Board.name.startswith(LANE)).group_by(Board.state)
            )
            return replace(found, boards={str(state): int(number) for state, number in rows})
    except SQLAlchemyError:
        return replace(found, boards={})


def _count(database: Database, metrics: Metrics, events: list[Happened]) -> None:
    done = {
        e.content["job"]: e.content.get("verdict") for e in events if e.kind == "job" and e.content["state"] == DONE
    }
    if not done:
        return
    with database.read() as session:
        rows = session.execute(select(Job.id, Job.board_seconds).where(Job.id.in_(done)))
        seconds = {job: held for job, held in rows}
    for job, verdict in done.items():
        metrics.count_job(verdict, seconds.get(job, 0.0))


def add_audit(session: Session, caller: Caller, request: str, action: str, project: str | None, **content: Any) -> None:
    """Adds who changed what, in the transaction that changes it. request: its id."""
    entry = AuditEntry(
        time=time.time(), token=caller.name, project=project, action=action, content=content, request=request
    )
    session.add(entry)


def well(health: Health) -> str:
    """Returns why the dispatcher is not well, or ""."""
    if not health.alive:
        return health.database or "it has ended"
    return health.database
