"""What the dispatcher knows, and what each message, look and turn makes of it: a batch to write. No thread, no waiting."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from qverify_farm.dispatcher.batch import Batch, Ended, Written
from qverify_farm.dispatcher.lab import Lab, LabBoard
from qverify_farm.dispatcher.outcomes import RunningJob, outcome_of
from qverify_farm.dispatcher.run_states import RunState
from qverify_farm.engines.engine import ReachedBoard
from qverify_farm.scheduling.queue import QueuedJob
from qverify_farm.scheduling.scheduler import Scheduler
from qverify_farm.scheduling.wanted import Wanted
from qverify_farm.store.jobs import Waiting
from qverify_farm.store.states import DONE, FAILED, QUEUED
from qverify_farm.work.job_task import JobResult


@dataclass(frozen=True, slots=True)
class Moment:
    """now: monotonic seconds, for durations. wall: seconds since 1970, to show; it may jump."""

    now: float
    wall: float


@dataclass(slots=True)
class _Running:
    """A job that holds a board, as the outcome's rules see it and as the scheduler does."""

    facts: RunningJob
    queued: QueuedJob


@dataclass(slots=True)
class Turns:
    """batch: what is not written yet. to_cancel: jobs whose attempts the engine must end after that."""

    scheduler: Scheduler = field(default_factory=Scheduler)
    lab: Lab = field(default_factory=Lab)
    runs: dict[str, RunState] = field(default_factory=dict)
    running: dict[str, _Running] = field(default_factory=dict)
    batch: Batch = field(default_factory=Batch)
    to_cancel: list[str] = field(default_factory=list)
    closing: bool = False
    _run_of: dict[str, str] = field(default_factory=dict)  # of waiting jobs
    _wanted: dict[tuple[str, ...], Wanted] = field(default_factory=dict)
    _unserved: dict[Wanted, float] = field(default_factory=dict)  # since when no board that fits is usable

    def add_run(self, run: RunState, jobs: list[Waiting]) -> None:
        """Takes on a run with its waiting jobs."""
        self.runs[run.id] = run
        for job in jobs:
            wanted = self._wanted.setdefault(job.wanted, Wanted.of(job.wanted))
            self._wait(QueuedJob(job.id, job.submitter, wanted, job.priority, job.created, job.number, job.tried), run)
        if run.has_ended:
            self.batch.ended_runs.add(run.id)

    def _wait(self, job: QueuedJob, run: RunState) -> None:
        self.scheduler.add(job)
        self._run_of[job.id] = run.id
        run.waiting.add(job.id)

    def update_boards(self, reached: Mapping[str, ReachedBoard], drained: Mapping[str, bool], at: Moment) -> None:
        """Notes which boards there are now."""
        for board in self.lab.update(reached, drained):
            self.board_changed(board, at)

    def board_changed(self, board: LabBoard, at: Moment) -> None:
        """Tells the scheduler and the database what is new of a board."""
        self.scheduler.set_board(board.name, board.tags, board.usable)
        self.batch.change_board(board.name, **board.row(at.now, at.wall))

    def take_check(self, name: str, why_not: str, at: Moment) -> None:
        """Notes what a health check gave."""
        board = self.lab.boards[name]
        self.lab.after_check(board, why_not, at.now)
        self.board_changed(board, at)

    def take_result(self, result: JobResult, sizes: Mapping[str, int], at: Moment) -> None:
        """Notes how an attempt ended; one that is not the job's present attempt is dropped."""
        held = self.running.get(result.job)
        if held is None or held.facts.attempt != result.attempt:
            return
        del self.running[result.job]
        job, run = held.facts, self.runs[held.facts.run]
        outcome = outcome_of(job, result, self.closing)
        self.batch.ended.append(Ended(job, result, outcome, sizes))
        self.scheduler.release(job.id, result.board_seconds)
        run.running.discard(job.id)
        self._after_board(self.lab.boards[job.board], result, run, at)
        if outcome.state == QUEUED:
            tried = held.queued.tried | {job.board} if outcome.tried else held.queued.tried
            held.queued.tried = tried
            self._wait(held.queued, run)
        elif outcome.state == DONE and outcome.verdict == FAILED and run.fail_fast and not run.cancelled:
            self.cancel_run(run.id, f"fail-fast: {job.name} FAILED", tell=True)
        self._end_if_ended(run)

    def _after_board(self, board: LabBoard, result: JobResult, run: RunState, at: Moment) -> None:
        board.job = None
        if result.ending == "finished":
            self.lab.after_result(board, result.verdict, result.why, result.of_board, run.quarantine, at.now)
            self.batch.change_board(board.name, last_verdict=result.verdict, last_job=result.job)
            if result.facts:
                self.batch.change_board(board.name, facts=dict(result.facts))
        elif result.ending == "busy":
            self.scheduler.rest(board.name, at.now + board.health.after_busy())
        self.board_changed(board, at)

    def cancel_run(self, run_id: str, why: str, *, tell: bool) -> None:
        """Cancels what of a run has not ended. tell: the database does not know yet."""
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
            self.running[job].facts.cancelled = True
            self.to_cancel.append(job)
        self._end_if_ended(run)

    def left_s(self, now: float) -> float:
        """Returns the seconds until the next run's time is up, at least 0; infinite where none has a timeout."""
        deadlines = [run.deadline for run in self.runs.values() if run.deadline is not None and not run.cancelled]
        return max(0.0, min(deadlines, default=float("inf")) - now)

    def time_out(self, at: Moment) -> None:
        """Cancels the runs whose time is up."""
        for run in list(self.runs.values()):
            if run.deadline is not None and at.now >= run.deadline and not run.cancelled:
                self.cancel_run(run.id, f"timeout of the suite: {run.definition['timeout_s']:g} s", tell=True)

    def give_up_unserved(self, at: Moment) -> None:
        """Ends jobs, INCONCLUSIVE, that waited too long while no board that fits them was usable."""
        wanted_now = self.scheduler.queue.wanted()
        for gone in self._unserved.keys() - set(wanted_now):
            del self._unserved[gone]
        for wanted in wanted_now:
            names = self.scheduler.fitting(wanted)
            if any(self.lab.boards[name].usable for name in names):
                self._unserved.pop(wanted, None)
                continue
            waited = at.now - self._unserved.setdefault(wanted, at.now)
            for job in [job for group in self.scheduler.queue.of(wanted).values() for job in group]:
                run = self.runs[self._run_of[job.id]]
                if waited >= run.board_wait_s:
                    self._give_up(job, run, f"no board for {waited:.0f} s: {self._why_none(names)}")

    def _give_up(self, job: QueuedJob, run: RunState, why: str) -> None:
        self.scheduler.remove(job.id)
        self._run_of.pop(job.id, None)
        run.waiting.discard(job.id)
        self.batch.given_up[job.id] = why
        self._end_if_ended(run)

    def _why_none(self, names: Collection[str]) -> str:
        said = [f"{name}: {self.lab.boards[name].reason or 'not usable'}" for name in sorted(names)[:3]]
        return "; ".join(said) or "no worker reaches one that fits"

    def _end_if_ended(self, run: RunState) -> None:
        if run.has_ended:
            self.batch.ended_runs.add(run.id)

    def assign(self, at: Moment) -> None:
        """Gives free boards their next jobs."""
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

    def after_write(self, written: Written) -> None:
        """Forgets what is written: runs that ended, and jobs that were cancelled before they began."""
        done, self.batch = self.batch, Batch()
        for run_id in done.ended_runs:  # one that has jobs again, by another's hand, is found at the next look
            del self.runs[run_id]
        for facts in written.gone:
            self._not_begun(facts)
        for facts in written.unreached:
            self._not_begun(facts, waits=True)

    def drop_begun(self) -> None:
        """Takes back what was assigned and is not written: it waits in the database."""
        begun, self.batch.begun = self.batch.begun, []
        for facts in begun:
            self._not_begun(facts)

    def _not_begun(self, facts: RunningJob, waits: bool = False) -> None:
        held = self.running.pop(facts.id)
        self.scheduler.release(facts.id, 0.0)
        self.lab.boards[facts.board].job = None
        self.batch.change_board(facts.board, state=self.lab.boards[facts.board].state, job=None)
        run = self.runs[facts.run]
        run.running.discard(facts.id)
        if waits:
            self._wait(held.queued, run)
        self._end_if_ended(run)

    def unserved(self) -> int:
        """Returns how many jobs wait while no board that fits them is usable."""
        queued = self.scheduler.queue
        return sum(len(group) for wanted in self._unserved for group in queued.of(wanted).values())
