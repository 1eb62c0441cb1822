"""The end of an attempt: its timeout, or whoever cancels it."""

from __future__ import annotations

import time

from qverify_agents.deadline import Limit


class JobLimit(Limit):
    """cancelled: somebody ended the attempt, not its time."""

    def __init__(self, timeout_s: float):
        super().__init__(timeout_s, f"the job took longer than its {timeout_s:g} s")
        self._over_at, self.cancelled = time.monotonic() + timeout_s, False

    def cancel(self) -> None:
        """Ends the attempt, from any thread."""
        self.cancelled = True
        self.stop("cancelled")

    @property
    def over(self) -> bool:
        """Whether its time is over."""
        return time.monotonic() >= self._over_at
