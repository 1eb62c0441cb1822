"""A deadline that all calls of one operation share."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextvars import ContextVar

from qverify_agents.errors import LinkTimeout


class Limit:
    """The end of everything that a thread asks of boards, whatever the deadline of each answer is. seconds: from now. why:
    of the LinkTimeout that is raised at that end."""

    def __init__(self, seconds: float, why: str):
        self._end, self._why = time.monotonic() + seconds, why

    def stop(self, why: str) -> None:
        """Makes now the end, from any thread; a wait that goes on notices it in at most a few seconds."""
        self._end, self._why = time.monotonic(), why

    def left(self) -> float:
        """Returns the seconds left. Raises LinkTimeout if there are none."""
        rest = self._end - time.monotonic()
        if rest <= 0:
            raise LinkTimeout(self._why)
        return rest


_LIMIT: ContextVar[Limit | None] = ContextVar("limit", default=None)


@contextlib.contextmanager
def limited(limit: Limit) -> Iterator[None]:
    """Lets no deadline of this thread pass the limit while the block runs."""
    token = _LIMIT.set(limit)
    try:
        yield
    finally:
        _LIMIT.reset(token)


class Deadline:
    """A deadline some seconds from now. what: the operation, longer: what gives it more time, for the message."""

    def __init__(self, seconds: float, what: str = "the board", longer: str = "--timeout"):
        self._end, self._seconds, self._what, self._longer = time.monotonic() + seconds, seconds, what, longer

    def left(self) -> float:
        """Returns the seconds left. Raises LinkTimeout if there are none."""
        rest = self._end - time.monotonic()
        if (limit := _LIMIT.get()) is not None:
            most = limit.left()
            rest = min(rest, most) if rest > 0 else rest
        if rest <= 0:
            raise LinkTimeout(
                f"{self._what}: no answer within {round(self._seconds, 2):g} s; give {self._longer} to wait longer"
            )
        return rest

    @property
    def over(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() >= self._end

    def part(self, seconds: float) -> Deadline:
        """Returns a deadline some seconds from now, at most this one."""
        return Deadline(min(seconds, self.left()), self._what, self._longer)
