"""Tells whether the wall clock is right enough to delete data by its age."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sqlalchemy import func, select

from qverify_farm.store.database import Database
from qverify_farm.store.tables import EventRecord, SuiteRunRecord

MAX_JUMP_S = 300.0
MAX_IDLE_S = 7 * 86400.0  # a service that starts so long after the newest row may have a wrong clock
DOUBT_S = 86400.0  # how long a clock is doubted; until then somebody, or NTP, has put it right


class ClockWatch:
    """Compares the wall clock with the monotonic clock, and with the newest row of the database when the service starts. look()
    must be called every few seconds. Any thread may call it.

    wall: seconds since 1970. monotonic: seconds that never jump. newest: the time of the newest row, or None.
    """

    def __init__(self, wall: Callable[[], float], monotonic: Callable[[], float], newest: float | None):
        self._wall, self._monotonic = wall, monotonic
        self._offset = wall() - monotonic()
        self._doubt, self._doubted_until = "", float("-inf")
        self._lock = threading.Lock()
        age = wall() - newest if newest is not None else 0.0
        if age < -MAX_JUMP_S:
            self._begin_doubt(f"the clock is {_duration(-age)} behind the newest row of the database")
        elif age > MAX_IDLE_S:
            self._begin_doubt(f"the newest row of the database is {_duration(age)} old")

    def look(self) -> str:
        """Returns why the clock is doubted, or ""."""
        with self._lock:
            offset = self._wall() - self._monotonic()
            if abs(offset - self._offset) > MAX_JUMP_S:
                where = "ahead" if offset > self._offset else "back"
                self._begin_doubt(f"the clock jumped {_duration(abs(offset - self._offset))} {where}")
            self._offset = offset
            left = self._doubted_until - self._monotonic()
            return f"{self._doubt}; nothing is deleted for {_duration(left)}" if left > 0 else ""

    def _begin_doubt(self, why: str) -> None:
        self._doubt, self._doubted_until = why, self._monotonic() + DOUBT_S


def newest_row_time(database: Database) -> float | None:
    """Returns the time of the newest event or run, in seconds since 1970, or None if there is none."""
    with database.read() as session:
        times = (
            session.scalar(select(func.max(EventRecord.time))),
            session.scalar(select(func.max(SuiteRunRecord.created))),
        )
    return max((time for time in times if time is not None), default=None)


def _duration(seconds: float) -> str:
    unit, name = next(
        (u, n) for u, n in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")) if seconds >= u or u == 60
    )
    return f"{seconds / unit:.1f} {name}"
