"""The dispatcher's knowledge of runs, jobs and boards. Each event changes it and adds to the batch of database changes.
There is no thread and no waiting here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from qverify_farm.dispatcher.batch import Batch, BatchResult, EndedAttempt
from qverify_farm.dispatcher.lab import Lab, LabBoard
from qverify_farm.dispatcher.outcomes import RunningJob, outcome_of
from qverify_farm.dispatcher.run_states import RunState
from qverify_farm.engines.engine import ReachedBoard
from qverify_farm.scheduling.board_filter import BoardFilter
from qverify_farm.scheduling.queue import QueuedJob
from qverify_farm.scheduling.scheduler import Scheduler
from qverify_farm.store.jobs import WaitingJob
from qverify_farm.store.states import FAILED, QUEUED, TIMED_OUT
from qverify_farm.work.job_task import WITH_VERDICT, JobResult


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment on two clocks: `now` in monotonic seconds, for durations; `wall` in seconds since 1970, for display, which
    may jump."""

    now: float
    wall: float


@dataclass(slots=True)
class _Running:
    """A job that holds a board: `facts` for the rules of outcomes.py, and `queued` for the scheduler."""

    facts: RunningJob
    queued: QueuedJob


@dataclass(slots=True)
class DispatcherState:
    """The state of a dispatcher.

    Attributes:
        runs: The runs that have not ended, by id.
        running: The jobs that hold a board, by id.
        batch: The changes that are not yet in the database.
        to_cancel: Ids of the jobs that the engine must cancel once the batch is written.
        closing: The dispatcher is shutting down.
    """

    scheduler: Scheduler = field(default_factory=Scheduler)
    lab: Lab = field(default_factory=Lab)
    runs: dict[str, RunState] = field(default_factory=dict)
    running: dict[str, _Running] = field(default_factory=dict)
    batch: Batch = field(default_factory=Batch)
    to_cancel: list[str] = field(default_factory=list)
    closing: bool = False
    _run_of: dict[str, str] = field(default_factory=dict)  # run id of each waiting job
    _filters: dict[tuple[str, ...], BoardFilter] = field(default_factory=dict)
    _unserved: dict[BoardFilter, float] = field(default_factory=dict)  # since when no matching board has been usable

    def add_run(self, run: RunState, jobs: list[WaitingJob]) -> None:
        """Takes on a run with its waiting jobs."""
        self.runs[run.id] = run
        for job in jobs:
            board_filter = self._filters.setdefault(job.wanted, BoardFilter.of(job.wanted))
            queued = QueuedJob(job.id, job.submitter, board_filter, job.priority, job.created, job.number, job.tried)
            queued.account = (run.project, job.submitter)
            self._enqueue(queued, run)
        if run.has_ended:
            self.batch.ended_runs.add(run.id)

    def _enqueue(self, job: QueuedJob, run: RunState) -> None:
        self.scheduler.add(job)
        self._run_of[job.id] = run.id
        run.waiting.add(job.id)

    def update_boards(self, reached: Mapping[str, ReachedBoard], drained: Mapping[str, bool], at: Moment) -> None:
        """Notes which boards are reachable and drained now."""
        for board in self.lab.update(reached, drained):
            self.board_changed(board, at)

    def board_changed(self, board: LabBoard, at: Moment) -> None:
        """Passes a board's changes to the scheduler and to the batch."""
        self.scheduler.set_board(board.name, board.tags, board.usable)
        self.batch.change_board(board.name, **board.row(at.now, at.wall))

    def take_check(self, name: str, why_not: str, at: Moment) -> None:
        """Notes the result of a health check. why_not: why it failed, or "" if it passed."""
        board = self.lab.boards[name]
        self.lab.after_check(board, why_not, at.now)
        self.board_changed(board, at)

    def take_result(self, result: JobResult, sizes: Mapping[str, int], at: Moment) -> None:
        """Notes the result of an attempt. The result is dropped unless the attempt is the job's present one. sizes: bytes
        of the report and the capture, by digest."""
        running = self.running.get(result.job)
        if running is None or running.facts.attempt != result.attempt:
            return
        del self.running[result.job]
        job, run = running.facts, self.runs[running.facts.run]
        outcome = outcome_of(job, result, self.closing)
        self.batch.ended.append(EndedAttempt(job, result, outcome, sizes))
        self.scheduler.release(job.id, result.board_seconds)
        run.running.discard(job.id)
        self._free_board(self.lab.boards[job.board], result, run, at)
        if outcome.state == QUEUED:
            tried = running.queued.tried | {job.board} if outcome.tried else running.queued.tried
            running.queued.tried = tried
            self._enqueue(running.queued, run)
        elif outcome.verdict == FAILED and run.fail_fast and not run.cancelled and not run.is_known(job.name, result):
            self.cancel_run(run.id, f"fail-fast: {job.name} FAILED", tell=True)
        self._end_if_ended(run)

    def _free_board(self, board: LabBoard, result: JobResult, run: RunState, at: Moment) -> None:
        board.job = None
        if result.ending in WITH_VERDICT:
            self.lab.after_result(board, result.verdict, result.why, result.of_board, run.quarantine, at.now)
            self.batch.change_board(board.name, last_verdict=result.verdict, last_job=result.job)
            if result.facts:
                self.batch.change_board(board.name, facts=dict(result.facts))
        elif result.ending == "busy":
            self.scheduler.rest(board.name, at.now + board.health.after_busy())
        self.board_changed(board, at)

    def cancel_run(self, run_id: str, why: str, *, tell: bool) -> None:
        """Cancels the jobs of a run that have not ended. tell: the cancellation is not yet in the database and must be
        written."""
        run = self.runs.get(run_id)
        if run is None or run.cancelled:
            return
        run.cancelled = True
        if tell:
            self.batch.cancelled[run_id] = why
        for job in run.waiting:
            self.scheduler.remove(job)
            self._run_of.pop(job, None)
        run.waiting.clear()
        for job in run.running:
            facts = self.running[job].facts
            facts.cancelled, facts.cancelled_why = True, why[:300]
            self.to_cancel.append(job)
        self._end_if_ended(run)

    def left_s(self, now: float) -> float:
        """Returns the seconds until the next run times out, at least 0; infinity if no run has a timeout."""
        deadlines = [run.deadline for run in self.runs.values() if run.deadline is not None and not run.cancelled]
        return max(0.0, min(deadlines, default=float("inf")) - now)

    def time_out(self, at: Moment) -> None:
        """Cancels the runs that have exceeded their timeout."""
        for run in list(self.runs.values()):
            if run.deadline is not None and at.now >= run.deadline and not run.cancelled:
                self.cancel_run(run.id, f"{TIMED_OUT}{run.definition['timeout_s']:g} s", tell=True)

    def give_up_unserved(self, at: Moment) -> None:
        """Ends, as INCONCLUSIVE, the jobs that have waited too long while no board that fits them was usable."""
        filters = self.scheduler.queue.board_filters()
        for unused in self._unserved.keys() - set(filters):
            del self._unserved[unused]
        for board_filter in filters:
            names = self.scheduler.fitting(board_filter)
            if any(self.lab.boards[name].usable for name in names):
                self._unserved.pop(board_filter, None)
                continue
            waited = at.now - self._unserved.setdefault(board_filter, at.now)
            for job in [job for group in self.scheduler.queue.of(board_filter).values() for job in group]:
                run = self.runs[self._run_of[job.id]]
                if waited >= run.board_wait_s:
                    self._give_up(job, run, f"no board for {waited:.0f} s: {self._why_unusable(names)}")

    def _give_up(self, job: QueuedJob, run: RunState, why: str) -> None:
        self.scheduler.remove(job.id)
        self._run_of.pop(job.id, None)
        run.waiting.discard(job.id)
        self.batch.given_up[job.id] = why
        self._end_if_ended(run)

    def _why_unusable(self, names: Collection[str]) -> str:
        reasons = [f"{name}: {self.lab.boards[name].reason or 'not usable'}" for name in sorted(names)[:3]]
        return "; ".join(reasons) or "no worker reaches one that fits"

    def _end_if_ended(self, run: RunState) -> None:
        if run.has_ended:
            self.batch.ended_runs.add(run.id)

    def assign(self, at: Moment) -> None:
        """Assigns the next jobs to free boards."""
        for job, name in self.scheduler.assign(at.now):
            run = self.runs[self._run_of.pop(job.id)]
            run.waiting.discard(job.id)
            run.running.add(job.id)
            facts = RunningJob(job.id, run.id, "", 0, name, at.now, 0, 0)
            self.running[job.id] = _Running(facts, job)
            self.batch.begun.append(facts)
            board = self.lab.boards[name]
            board.job = job.id
            self.batch.change_board(name, **board.row(at.now, at.wall))

    def after_write(self, result: BatchResult) -> None:
        """Starts a new batch after the present one was written. Forgets the runs that ended and the jobs that did not
        begin."""
        batch, self.batch = self.batch, Batch()
        for run_id in batch.ended_runs:  # a run that another process gave jobs again is found at the next look
            del self.runs[run_id]
        for facts in result.gone:
            self._take_back(facts)
        for facts in result.unreached:
            self._take_back(facts, waits=True)

    def drop_begun(self) -> None:
        """Takes back the assignments that are not yet written; in the database these jobs are still queued."""
        begun, self.batch.begun = self.batch.begun, []
        for facts in begun:
            self._take_back(facts)

    def _take_back(self, facts: RunningJob, waits: bool = False) -> None:
        """Frees the board of a job that was assigned but did not begin. waits: the job is queued again."""
        running = self.running.pop(facts.id)
        self.scheduler.release(facts.id, 0.0)
        self.lab.boards[facts.board].job = None
        self.batch.change_board(facts.board, state=self.lab.boards[facts.board].state, job=None)
        run = self.runs[facts.run]
        run.running.discard(facts.id)
        if waits:
            self._enqueue(running.queued, run)
        self._end_if_ended(run)

    def unserved(self) -> int:
        """Returns the number of jobs that wait while no board that fits them is usable."""
        queue = self.scheduler.queue
        return sum(len(group) for board_filter in self._unserved for group in queue.of(board_filter).values())
