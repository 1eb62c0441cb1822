"""Passes events to many listeners as they happen, with one reader of the database for all."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from qverify_farm.store.database import Database
from qverify_farm.store.events import events_after, last_event
from qverify_farm.store.tables import EventRecord

POLL_S = 1.0  # longest time between looks at the database without a call of changed()
GAP_S = 2.0  # how long to wait for a missing number, since its transaction may not be committed yet
MAX_BACKLOG = 1000  # a listener that is further behind is disconnected


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """An event for listeners. project: the project's id, or None for an event of a board."""

    number: int
    time: float
    kind: str
    run: str | None
    project: str | None
    content: dict[str, Any]


class EventFeed:
    """Reads events in the order of their numbers and passes them to listeners. run() is a task of the server's loop; changed()
    may be called from any thread. on_events is called with each batch, in a thread."""

    def __init__(self, database: Database, on_events: Callable[[list[FeedEvent]], None] | None = None):
        self._database, self._on_events = database, on_events or (lambda _: None)
        self._queues = set[asyncio.Queue[FeedEvent | None]]()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._gap_since: float | None = None
        self.closed = False
        self.last = 0

    @property
    def listeners(self) -> int:
        return len(self._queues)

    def changed(self) -> None:
        """Makes the feed read the database now."""
        loop = self._loop
        if loop is not None and not self.closed:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._wake.set)

    async def start(self) -> None:
        """Sets the starting point: the events after the newest one."""
        self._loop = asyncio.get_running_loop()
        self.last = await asyncio.to_thread(self.newest)

    async def run(self) -> None:
        """Reads until close()."""
        while not self.closed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._wake.wait()
            self._wake.clear()
            with contextlib.suppress(SQLAlchemyError):  # the next turn tries again; /ready reports the error
                while not self.closed and (events := await asyncio.to_thread(self._read)):
                    self._distribute(events)
                    await asyncio.to_thread(self._on_events, events)

    def close(self) -> None:
        """Ends run() and every listener. Must be called in the loop's thread."""
        self.closed = True
        self._wake.set()
        for queue in self._queues:
            _put(queue, None)

    @contextlib.contextmanager
    def listening(self) -> Iterator[AsyncIterator[FeedEvent]]:
        """Yields an iterator over the events from now on. It ends when the feed is closed or the listener is too slow."""
        queue: asyncio.Queue[FeedEvent | None] = asyncio.Queue(MAX_BACKLOG)
        self._queues.add(queue)
        if self.closed:
            _put(queue, None)
        try:
            yield _drain(queue)
        finally:
            self._queues.discard(queue)

    def newest(self) -> int:
        """Returns the number of the newest event of the database."""
        with self._database.read() as session:
            return last_event(session)

    def _read(self) -> list[FeedEvent]:
        """Returns the next events. Stops before a missing number for up to GAP_S."""
        with self._database.read() as session:
            rows = events_after(session, self.last)
        now = time.monotonic()
        events = []
        expected = self.last + 1
        for row in rows:
            if row.number != expected and self._wait_for_gap(now):
                break
            self._gap_since = None
            events.append(feed_event(row))
            expected = row.number + 1
        if events:
            self.last = events[-1].number
        return events

    def _wait_for_gap(self, now: float) -> bool:
        self._gap_since = now if self._gap_since is None else self._gap_since
        return now - self._gap_since < GAP_S

    def _distribute(self, events: list[FeedEvent]) -> None:
        for queue in list(self._queues):
            for event in events:
                if not _put(queue, event):
                    self._queues.discard(queue)
                    break


def feed_event(row: EventRecord) -> FeedEvent:
    """Returns the event of a database row."""
    return FeedEvent(row.number, row.time, row.kind, row.run, row.project, dict(row.content))


def _put(queue: asyncio.Queue[FeedEvent | None], event: FeedEvent | None) -> bool:
    """Adds an event to a queue. If the queue is full, ends the queue instead and returns False."""
    try:
        queue.put_nowait(event)
        return True
    except asyncio.QueueFull:
        queue.get_nowait()
        queue.put_nowait(None)
        return False


async def _drain(queue: asyncio.Queue[FeedEvent | None]) -> AsyncIterator[FeedEvent]:
    while (event := await queue.get()) is not None:
        yield event
