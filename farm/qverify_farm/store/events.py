"""Database rows of events, in the order in which they happened."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from qverify_farm.store.tables import EventRecord


def add_event(
    session: Session, kind: str, content: dict[str, Any], *, run: str | None = None, project: str | None = None
) -> None:
    """Adds an event. kind: run, job or board. project: the project's id, or None for an event that all projects may see."""
    session.add(EventRecord(time=time.time(), kind=kind, content=content, run=run, project=project))


def events_after(
    session: Session, number: int, *, run: str | None = None, project: str | None = None, limit: int = 500
) -> list[EventRecord]:
    """Returns the events with larger numbers, the oldest first. project: a project's id, to get its events and those for all
    projects only."""
    query = select(EventRecord).where(EventRecord.number > number).order_by(EventRecord.number).limit(limit)
    if run is not None:
        query = query.where(EventRecord.run == run)
    if project is not None:
        query = query.where((EventRecord.project == project) | (EventRecord.project.is_(None)))
    return list(session.scalars(query))


def last_event(session: Session) -> int:
    """Returns the number of the newest event, or 0 if there is none."""
    return int(session.scalar(select(func.max(EventRecord.number))) or 0)


def forget_events(session: Session, before: float) -> None:
    """Removes the events before this time (seconds since 1970)."""
    session.execute(delete(EventRecord).where(EventRecord.time < before))
