"""Decides what the result of an attempt means for its job: done, tried again, or cancelled. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from qverify_farm.store.states import CANCELLED, DONE, INCONCLUSIVE, QUEUED
from qverify_farm.work.job_task import JobResult

MAX_LOST_ATTEMPTS = 3  # a job whose attempts ended their process this often is given up


@dataclass(slots=True)
class RunningJob:
    """A job with a running attempt.

    Attributes:
        attempt: The number of the attempt, 0 until it has a row in the database.
        begun: When it began, in monotonic seconds.
        lost: The number of earlier attempts that ended their process.
        board_seconds: How long earlier attempts held boards.
        cancelled: Its run was cancelled, so the job is not tried again.
        cancelled_why: Why its run was cancelled.
    """

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
    cancelled_why: str = ""


@dataclass(frozen=True, slots=True)
class NewJobState:
    """The new state of a job after an attempt.

    Attributes:
        state: The job's state from now on.
        verdict: The verdict of a job that is done, otherwise None.
        why: The reason of the verdict or of the new state.
        retries_left: The number of retries that remain.
        lost: The number of attempts so far that ended their process.
        tried: The attempt on this board was INCONCLUSIVE; the next one should take another board.
    """

    state: str
    verdict: str | None = None
    why: str = ""
    retries_left: int = 0
    lost: int = 0
    tried: bool = False


def outcome_of(job: RunningJob, result: JobResult, closing: bool) -> NewJobState:
    """Returns the new state of a job. closing: the dispatcher is shutting down, so a job that it cancels is queued for the
    next dispatcher."""
    retry_state = CANCELLED if job.cancelled else QUEUED
    if result.ending == "refused":
        return NewJobState(DONE, INCONCLUSIVE, result.why, job.retries_left, job.lost)
    why_not_done = job.cancelled_why or result.why
    if result.ending == "finished":
        if result.verdict != INCONCLUSIVE or job.retries_left <= 0 or job.cancelled:
            return NewJobState(DONE, result.verdict, result.why, job.retries_left, job.lost)
        return NewJobState(QUEUED, None, result.why, job.retries_left - 1, job.lost, tried=True)
    if result.ending == "cancelled" or closing:
        state = retry_state if closing else CANCELLED
        return NewJobState(state, None, "" if state == QUEUED else why_not_done, job.retries_left, job.lost)
    if result.ending == "busy":
        return NewJobState(retry_state, None, why_not_done, job.retries_left, job.lost)
    lost = job.lost + 1
    if lost >= MAX_LOST_ATTEMPTS and not job.cancelled:
        why = f"ended its process {lost} times; the last time: {result.why}"[:300]
        return NewJobState(DONE, INCONCLUSIVE, why, job.retries_left, lost)
    return NewJobState(retry_state, None, why_not_done, job.retries_left, lost)
