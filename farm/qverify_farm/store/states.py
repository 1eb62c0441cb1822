"""The words of the database for states and verdicts."""

from __future__ import annotations

from collections.abc import Iterable

QUEUED, RUNNING, DONE, CANCELLED = "queued", "running", "done", "cancelled"  # of jobs; of runs without the first
ENDED = (DONE, CANCELLED)
FREE, BUSY, QUARANTINED, OFFLINE = "free", "busy", "quarantined", "offline"  # of boards
PASSED, FAILED, INCONCLUSIVE = "PASSED", "FAILED", "INCONCLUSIVE"
WORST_FIRST = (FAILED, INCONCLUSIVE, PASSED)


def worst(verdicts: Iterable[str | None]) -> str:
    """Returns the worst verdict; INCONCLUSIVE for none at all, and for a job that has none."""
    found = {verdict or INCONCLUSIVE for verdict in verdicts}
    return next((one for one in WORST_FIRST if one in found), INCONCLUSIVE)
