"""The parts of the service that its routes share: database, artifacts, dispatcher, event feed, metrics and limits."""

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
from qverify_farm.service.event_feed import EventFeed, FeedEvent
from qverify_farm.service.known_callers import KnownCallers
from qverify_farm.service.metrics import Metrics
from qverify_farm.service.rate_limits import RateLimit
from qverify_farm.service.settings import ServiceSettings
from qverify_farm.service.tokens import Caller
from qverify_farm.service.triage_engine import LANE
from qverify_farm.store.artifacts import ArtifactStore
from qverify_farm.store.database import Database
from qverify_farm.store.states import DONE
from qverify_farm.store.tables import AuditRecord, BoardRecord, JobRecord

FAILURES_PER_S, FAILURES_AT_ONCE = 0.5, 20  # limits of wrong tokens from one address


@dataclass(slots=True)
class Farm:
    """An open farm. open_farm() makes it, and close() closes it.

    Attributes:
        engine: The dispatcher's engine, which the dispatcher closes.
        requests: The limit of requests, by token or address.
        failures: The limit of wrong tokens, by address.
        listeners: Called with each batch of events.
    """

    database: Database
    artifacts: ArtifactStore
    engine: JobEngine
    settings: ServiceSettings
    dispatcher: Dispatcher
    feed: EventFeed
    metrics: Metrics
    requests: RateLimit
    failures: RateLimit
    known_callers: KnownCallers
    stopping: bool = False
    listeners: list[Callable[[list[FeedEvent]], None]] = field(default_factory=list)

    def close(self) -> None:
        """Ends the running jobs, leaves the others queued, and closes the database."""
        self.stopping = True
        self.dispatcher.close(self.settings.stop_s)
        self.database.close()

    def health(self) -> Health:
        """Returns the dispatcher's health, without the lanes of triages among the boards."""
        return lab_health(self.database, self.dispatcher)

    def wake(self) -> None:
        """Makes the dispatcher and the feed notice the changes of a request."""
        self.dispatcher.wake()
        self.feed.changed()


def open_farm(database: Database, artifacts: ArtifactStore, engine: JobEngine, settings: ServiceSettings) -> Farm:
    """Returns a farm. Nothing runs until its dispatcher is started. database: must be owned by this process."""
    listeners: list[Callable[[list[FeedEvent]], None]] = []

    def on_events(events: list[FeedEvent]) -> None:
        for listener in listeners:
            listener(events)

    feed = EventFeed(database, on_events)
    dispatcher = Dispatcher(database, engine, artifacts, on_change=feed.changed)
    metrics = Metrics(lambda: lab_health(database, dispatcher), artifacts.free_bytes, __version__)
    listeners.append(lambda events: _count_jobs(database, metrics, events))
    return Farm(
        database,
        artifacts,
        engine,
        settings,
        dispatcher,
        feed,
        metrics,
        RateLimit(settings.requests_per_s, settings.burst),
        RateLimit(FAILURES_PER_S, FAILURES_AT_ONCE),
        KnownCallers(database),
        listeners=listeners,
    )


def lab_health(database: Database, dispatcher: Dispatcher) -> Health:
    """Returns the dispatcher's health with the numbers of boards from the database, without the lanes of triages."""
    health = dispatcher.health()
    try:
        with database.read() as session:
            rows = session.execute(
                select(BoardRecord.state, func.count())
                .where(~BoardRecord.name.startswith(LANE))
                .group_by(BoardRecord.state)
            )
            return replace(health, boards={str(state): int(number) for state, number in rows})
    except SQLAlchemyError:
        return replace(health, boards={})


def _count_jobs(database: Database, metrics: Metrics, events: list[FeedEvent]) -> None:
    done = {
        event.content["job"]: event.content.get("verdict")
        for event in events
        if event.kind == "job" and event.content["state"] == DONE
    }
    if not done:
        return
    with database.read() as session:
        rows = session.execute(select(JobRecord.id, JobRecord.board_seconds).where(JobRecord.id.in_(done)))
        seconds = {job: board_seconds for job, board_seconds in rows}
    for job, verdict in done.items():
        metrics.count_job(verdict, seconds.get(job, 0.0))


def add_audit(session: Session, caller: Caller, request: str, action: str, project: str | None, **content: Any) -> None:
    """Adds an audit entry in the transaction that makes the change. request: the request's id."""
    entry = AuditRecord(
        time=time.time(), token=caller.name, project=project, action=action, content=content, request=request
    )
    session.add(entry)


def why_unwell(health: Health) -> str:
    """Returns why the dispatcher does not work, or ""."""
    if not health.alive:
        return health.database or "it has ended"
    return health.database
