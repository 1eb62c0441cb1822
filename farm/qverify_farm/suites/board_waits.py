"""Says why boards do not take a job: which are busy, why the others are unusable, when each is checked again, and until when
the job waits for them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from qverify_farm.scheduling.board_filter import BoardFilter
from qverify_farm.store.states import BUSY, FREE, QUARANTINED, QUEUED
from qverify_farm.store.tables import BoardRecord, JobRecord, SuiteRunRecord

MAX_NAMED = 3  # number of boards that one reason names
DEFAULT_WAIT_S = 900.0  # of a run that does not state it
NONE_KNOWN = "no board that fits is known"


def reason_to_wait(
    wanted: Sequence[str], boards: Iterable[BoardRecord], reason_of: Callable[[BoardRecord], str]
) -> str | None:
    """Returns why the boards that fit do not take a job, or None if one of them is free. reason_of: why a board is not usable."""
    fitting = _fitting(wanted, boards)
    if any(board.state == FREE for board in fitting):
        return None
    if not fitting:
        return NONE_KNOWN
    busy = [board.name for board in fitting if board.state == BUSY]
    reasons = [f"{_names(busy)} {'is' if len(busy) == 1 else 'are'} busy"] if busy else []
    unusable = [board for board in fitting if board.state != BUSY]
    reasons += [_why_unusable(board, reason_of(board)) for board in unusable[: MAX_NAMED - len(reasons)]]
    more = len(unusable) - MAX_NAMED + (1 if busy else 0)
    return "; ".join(reasons) + (f"; and {more} more" if more > 0 else "")


def given_up_at(
    wanted: Sequence[str], queued: float, boards: Iterable[BoardRecord], definition: Mapping[str, object]
) -> float | None:
    """Returns when a job ends without a verdict if no board that fits becomes usable, in seconds since 1970; None while one
    is free or busy. queued: since when the job waits. definition: that of its run."""
    fitting = _fitting(wanted, boards)
    if any(board.state in (FREE, BUSY) for board in fitting):
        return None
    wait = definition.get("board_wait_s", DEFAULT_WAIT_S)
    return max([queued, *(board.since for board in fitting)]) + (
        float(wait) if isinstance(wait, int | float) else DEFAULT_WAIT_S
    )


def clock(stamp: float) -> str:
    """Returns a time of day in UTC, such as 14:05:00 UTC."""
    return time.strftime("%H:%M:%S UTC", time.gmtime(stamp))


def lines_of_run(run: SuiteRunRecord, jobs: Iterable[JobRecord], boards: Sequence[BoardRecord]) -> list[str]:
    """Returns a line for each kind of board that the queued jobs of a run wait for, unless one is free or busy: how many
    jobs, the boards with their reasons and next checks, and the deadline."""
    waiting = Counter(tuple(map(str, job.wanted)) for job in jobs if job.state == QUEUED)
    lines = list[str]()
    for wanted, number in waiting.items():
        until = given_up_at(wanted, run.started or run.created, boards, run.definition or {})
        reason = reason_to_wait(wanted, boards, lambda board: "drained" if board.drained else board.reason)
        if reason is not None and until is not None:
            said = "1 job waits" if number == 1 else f"{number} jobs wait"
            lines.append(f"{said} for {', '.join(wanted)}: {reason}; INCONCLUSIVE at {clock(until)} if none is usable")
    return lines


def _fitting(wanted: Sequence[str], boards: Iterable[BoardRecord]) -> list[BoardRecord]:
    board_filter = BoardFilter.of(tuple(wanted))
    return [board for board in boards if board_filter.fits(board.name, board.tags or {})]


def _why_unusable(board: BoardRecord, reason: str) -> str:
    check = f", next check {clock(board.next_check)}" if board.next_check is not None and not board.drained else ""
    if board.drained:
        return f"{board.name} is {reason}"
    if board.state == QUARANTINED:
        return f"{board.name} is quarantined: {reason}{check}"
    return f"{board.name}: {reason or board.state}{check}"


def _names(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = len(ordered) - MAX_NAMED
    return ", ".join(ordered[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
