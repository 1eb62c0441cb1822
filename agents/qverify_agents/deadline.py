"""A deadline that all calls of one operation share."""

from __future__ import annotations

import time

from qverify_agents.errors import LinkTimeout


class Deadline:
    """A deadline some seconds from now. what: the operation, longer: what gives it more time, for the message."""

    def __init__(self, seconds: float, what: str = "the board", longer: str = "--timeout"):
        self._end, self._seconds, self._what, self._longer = time.monotonic() + seconds, seconds, what, longer

    def left(self) -> float:
        """Returns the seconds left. Raises LinkTimeout if there are none."""
        rest = self._end - time.monotonic()
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
