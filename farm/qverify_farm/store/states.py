"""The database's words for states and verdicts."""

from __future__ import annotations

from collections.abc import Iterable

QUEUED, RUNNING, DONE, CANCELLED = "queued", "running", "done", "cancelled"  # of jobs; runs have all but the first
ENDED = (DONE, CANCELLED)
FREE, BUSY, QUARANTINED, OFFLINE = "free", "busy", "quarantined", "offline"  # of boards
PASSED, FAILED, INCONCLUSIVE = "PASSED", "FAILED", "INCONCLUSIVE"
TIMED_OUT = "timeout of the suite: "  # begins `why` of a run that was cancelled because its time ran out
WORST_FIRST = (FAILED, INCONCLUSIVE, PASSED)


def worst(verdicts: Iterable[str | None]) -> str:
    """Returns the worst verdict. None counts as INCONCLUSIVE, and so does an empty sequence."""
    present = {verdict or INCONCLUSIVE for verdict in verdicts}
    return next((verdict for verdict in WORST_FIRST if verdict in present), INCONCLUSIVE)
