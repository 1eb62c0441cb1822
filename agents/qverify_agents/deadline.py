"""A deadline that all calls of one operation share."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextvars import ContextVar

from qverify_agents.errors import LinkTimeout


class ThreadTimeLimit:
    """A time limit for all work with boards in one thread, whatever the deadlines of its single steps are. Ends
    `seconds` from now; from then on LinkTimeout is raised with the text `why`."""

    def __init__(self, seconds: float, why: str):
        self._end, self._why = time.monotonic() + seconds, why

    def stop(self, why: str) -> None:
        """Ends the limit now. May be called from any thread; a wait that is going on ends within a few seconds."""
        self._end, self._why = time.monotonic(), why

    def left(self) -> float:
        """Returns the seconds left. Raises LinkTimeout if there are none."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise LinkTimeout(self._why)
        return seconds


_THREAD_LIMIT: ContextVar[ThreadTimeLimit | None] = ContextVar("limit", default=None)


@contextlib.contextmanager
def apply_time_limit(limit: ThreadTimeLimit) -> Iterator[None]:
    """A context in which every deadline of this thread ends at the limit at the latest."""
    token = _THREAD_LIMIT.set(limit)
    try:
        yield
    finally:
        _THREAD_LIMIT.reset(token)


class Deadline:
    """A deadline `seconds` from now. For the error message, `operation` names what takes so long, and `longer` the
    option that gives it more time."""

    def __init__(self, seconds: float, operation: str = "the board", longer: str = "--timeout"):
        self._end, self._seconds, self._what, self._longer = time.monotonic() + seconds, seconds, operation, longer

    def left(self) -> float:
        """Returns the seconds left. Raises LinkTimeout if there are none."""
        seconds = self._end - time.monotonic()
        if (limit := _THREAD_LIMIT.get()) is not None:
            thread_seconds = limit.left()
            seconds = min(seconds, thread_seconds) if seconds > 0 else seconds
        if seconds <= 0:
            raise LinkTimeout(
                f"{self._what}: no answer within {round(self._seconds, 2):g} s; give {self._longer} to wait longer"
            )
        return seconds

    @property
    def over(self) -> bool:
        """True once the deadline has passed."""
        return time.monotonic() >= self._end

    def part(self, seconds: float) -> Deadline:
        """Returns a deadline `seconds` from now, or at the end of this one if that is earlier."""
        return Deadline(min(seconds, self.left()), self._what, self._longer)
