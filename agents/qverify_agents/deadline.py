"""One deadline, passed all the way down."""

from __future__ import annotations

import time

from qverify_agents.errors import LinkTimeout


class Deadline:
    """Seconds from now. what: the operation, for the message."""

    def __init__(self, seconds: float, what: str = "the board"):
        self._end, self._seconds, self._what = time.monotonic() + seconds, seconds, what

    def left(self) -> float:
        """Seconds left; LinkTimeout when none."""
        rest = self._end - time.monotonic()
        if rest <= 0:
            raise LinkTimeout(f"{self._what}: no answer within {self._seconds:g} s; give --timeout to wait longer")
        return rest

    @property
    def over(self) -> bool:
        return time.monotonic() >= self._end

    def part(self, seconds: float) -> Deadline:
        """A deadline within this one."""
        return Deadline(min(seconds, self.left()), self._what)
