"""Events as they happen, to many listeners: one reader of the database for all of them."""

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
from qverify_farm.store.tables import Event

LOOK_S = 1.0  # without a call of changed()
GAP_S = 2.0  # how long a missing number is waited for: its transaction may not be committed yet
MOST_WAITING = 1000  # events that a slow listener may be behind before it is sent away


@dataclass(frozen=True, slots=True)
class Happened:
    """An event, as listeners get it. project: None for boards."""

    number: int
    time: float
    kind: str
    run: str | None
    project: str | None
    content: dict[str, Any]


class Feed:
    """Reads events in the order of their numbers and hands them to listeners. heard: called with each batch, in a thread.
    run() is a task of the server's loop; changed() may be called from any thread."""

    def __init__(self, database: Database, heard: Callable[[list[Happened]], None] | None = None):
        self._database, self._heard = database, heard or (lambda _: None)
        self._queues = set[asyncio.Queue[Happened | None]]()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._again = asyncio.Event()
        self._gap_since: float | None = None
        self.closed = False
        self.last = 0

    @property
    def listeners(self) -> int:
        return len(self._queues)

    def changed(self) -> None:
        """Has the feed look at the database now."""
        loop = self._loop
        if loop is not None and not self.closed:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._again.set)

    async def start(self) -> None:
        """Begins after the newest event there is."""
        self._loop = asyncio.get_running_loop()
        self.last = await asyncio.to_thread(self.newest)

    async def run(self) -> None:
        """Reads until close()."""
        while not self.closed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._again.wait()
            self._again.clear()
            with contextlib.suppress(SQLAlchemyError):  # tried again; /ready tells it
                while not self.closed and (found := await asyncio.to_thread(self._read)):
                    self._hand_out(found)
                    await asyncio.to_thread(self._heard, found)

    def close(self) -> None:
        """Ends run() and every listener; from the loop's thread."""
        self.closed = True
        self._again.set()
        for queue in self._queues:
            _put(queue, None)

    @contextlib.contextmanager
    def listening(self) -> Iterator[AsyncIterator[Happened]]:
        """Yields the events from now on; they end where the feed is closed or the listener is too slow."""
        queue: asyncio.Queue[Happened | None] = asyncio.Queue(MOST_WAITING)
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

    def _read(self) -> list[Happened]:
        """Returns the next events; stops before a number that is missing, for a while."""
        with self._database.read() as session:
            rows = events_after(session, self.last)
        now = time.monotonic()
        found = []
        expected = self.last + 1
        for row in rows:
            if row.number != expected and self._wait_for_gap(now):
                break
            self._gap_since = None
            found.append(happened(row))
            expected = row.number + 1
        if found:
            self.last = found[-1].number
        return found

    def _wait_for_gap(self, now: float) -> bool:
        self._gap_since = now if self._gap_since is None else self._gap_since
        return now - self._gap_since < GAP_S

    def _hand_out(self, found: list[Happened]) -> None:
        for queue in list(self._queues):
            for one in found:
                if not _put(queue, one):
                    self._queues.discard(queue)
                    break


def happened(row: Event) -> Happened:
    """Returns a row as listeners get it."""
    return Happened(row.number, row.time, row.kind, row.run, row.project, dict(row.content))


def _put(queue: asyncio.Queue[Happened | None], one: Happened | None) -> bool:
    """Returns False for a queue that is full: it is ended instead."""
    try:
        queue.put_nowait(one)
        return True
    except asyncio.QueueFull:
        queue.get_nowait()
        queue.put_nowait(None)
        return False


async def _drain(queue: asyncio.Queue[Happened | None]) -> AsyncIterator[Happened]:
    while (one := await queue.get()) is not None:
        yield one
