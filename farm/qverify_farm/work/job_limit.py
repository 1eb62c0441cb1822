"""The time limit of an attempt, which may also be cancelled."""

from __future__ import annotations

import time

from qverify_agents.deadline import ThreadTimeLimit


class JobLimit(ThreadTimeLimit):
    """The limit of an attempt. `cancelled` is true once cancel() was called."""

    def __init__(self, timeout_s: float):
        super().__init__(timeout_s, f"the job took longer than its {timeout_s:g} s")
        self._over_at, self.cancelled = time.monotonic() + timeout_s, False

    def cancel(self) -> None:
        """Ends the attempt, from any thread."""
        self.cancelled = True
        self.stop("cancelled")

    @property
    def over(self) -> bool:
        """Whether the timeout has passed."""
        return time.monotonic() >= self._over_at
