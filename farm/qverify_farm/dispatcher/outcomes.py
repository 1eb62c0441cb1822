"""What an attempt's result makes of its job; pure."""

from __future__ import annotations

from dataclasses import dataclass

from qverify_farm.store.states import CANCELLED, DONE, INCONCLUSIVE, QUEUED
from qverify_farm.work.job_task import JobResult

MOST_LOST = 3  # ends of its process until a job is given up


@dataclass(slots=True)
class RunningJob:
    """An attempt that runs. begun: monotonic seconds. lost: attempts before it that ended their process. cancelled:
    its run was cancelled, so that it is not tried again."""

    id: str
    run: str
    name: str
    attempt: int
    board: str
    begun: float
    retries_left: int
    lost: int
    board_seconds: float = 0.0
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """state: of the job from now on. verdict, why: of a job that is done. retries_left, lost:
    what is left and was lost after it. tried: the board was tried in vain, another one is better."""

    state: str
    verdict: str | None = None
    why: str = ""
    retries_left: int = 0
    lost: int = 0
    tried: bool = False


def outcome_of(job: RunningJob, result: JobResult, closing: bool) -> Outcome:
    """Returns what becomes of a job. closing: the dispatcher ends, so that what it cancels waits for the next one."""
    again = CANCELLED if job.cancelled else QUEUED
    if result.ending == "finished":
        if result.verdict != INCONCLUSIVE or job.retries_left <= 0 or job.cancelled:
            return Outcome(DONE, result.verdict, result.why, job.retries_left, job.lost)
        return Outcome(QUEUED, None, result.why, job.retries_left - 1, job.lost, tried=True)
    if result.ending == "cancelled" or closing:
        state = again if closing else CANCELLED
        return Outcome(state, None, "" if state == QUEUED else result.why, job.retries_left, job.lost)
    if result.ending == "busy":
        return Outcome(again, None, result.why, job.retries_left, job.lost)
    lost = job.lost + 1
    if lost >= MOST_LOST and not job.cancelled:
        why = f"ended its process {lost} times; the last time: {result.why}"[:300]
        return Outcome(DONE, INCONCLUSIVE, why, job.retries_left, lost)
    return Outcome(again, None, result.why, job.retries_left, lost)
