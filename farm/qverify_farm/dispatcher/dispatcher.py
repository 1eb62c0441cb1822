"""The dispatcher's loop: takes results from the engine, records them, and assigns the next jobs to free boards."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from qverify.errors import QVerifyError
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from qverify_farm.dispatcher.batch import BatchContext, BatchResult, write_batch
from qverify_farm.dispatcher.dispatcher_state import DispatcherState, Moment
from qverify_farm.dispatcher.run_states import RunState, deadline_of
from qverify_farm.engines.engine import JobEngine
from qverify_farm.errors import OwnedError
from qverify_farm.store.artifacts import ArtifactStore
from qverify_farm.store.board_usage import full_quotas
from qverify_farm.store.boards import all_boards
from qverify_farm.store.database import Database
from qverify_farm.store.jobs import requeue_abandoned, waiting_jobs
from qverify_farm.store.runs import end_run
from qverify_farm.store.states import CANCELLED, RUNNING
from qverify_farm.store.tables import BoardRecord, SuiteRunRecord
from qverify_farm.store.verdicts import known_failures
from qverify_farm.work.job_task import JobResult, JobTask

POLL_S = 1.0  # seconds between checks for changes by others: of runs, boards, and free space of the artifact store
USAGE_S = 5.0  # seconds between looks at the board time that accounts have used
OWNER_CHECK_S = 5.0  # seconds between checks that this process still owns the database
RETRY_DELAYS_S = (0.1, 0.3, 1.0, 3.0, 5.0)  # seconds between retries of a failed transaction; the last one repeats
MAX_MESSAGES_PER_TURN = 500
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a dispatcher.

    Attributes:
        looked_s: Seconds since its last turn.
        waiting: The number of queued jobs.
        running: The number of running jobs.
        unserved: The number of queued jobs for which no board is usable.
        boards: The number of boards in each state.
        store: Why the artifact store cannot be used, so that jobs wait, or "".
        database: Why the database cannot be written, or "".
    """

    alive: bool
    looked_s: float
    waiting: int
    running: int
    unserved: int
    boards: dict[str, int]
    store: str
    database: str

    @property
    def well(self) -> bool:
        return self.alive and not self.store and not self.database

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "well": self.well}


class Dispatcher:
    """Works on the runs of a database that this process owns. Any thread may call wake(), check_board(), health() and
    close()."""

    def __init__(
        self,
        database: Database,
        engine: JobEngine,
        artifacts: ArtifactStore,
        *,
        runs: Collection[str] | None = None,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        """engine: belongs to the dispatcher; close() closes it. runs: ids of the runs to work on, or None for all.
        on_change: called after each change of the database, in the dispatcher's thread."""
        self._database, self._engine, self._artifacts = database, engine, artifacts
        self._allowed_runs = None if runs is None else set(runs)
        self._on_change = on_change or (lambda: None)
        self._inbox = queue.SimpleQueue[Callable[[Moment], None] | None]()
        self._state = DispatcherState()
        self._next_poll = self._next_owner_check = self._next_usage = float("-inf")
        self._last_turn = time.monotonic()
        self._store_error, self._database_error = "", ""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.failure: Exception | None = None  # the error that ended the thread of start()
        self._loaded = False

    def start(self) -> None:
        """Runs the loop in a new thread until close()."""
        self._thread = threading.Thread(target=self._run_thread, name="farm-dispatcher")
        self._thread.start()

    def _run_thread(self) -> None:
        try:
            self.run(lambda: False)
        except Exception as error:  # health() reports it
            self.failure = error

    def run(self, until: Callable[[], bool]) -> None:
        """Runs the loop in this thread until close() is called or `until()` returns true; it is called before each turn.
        Raises OwnedError if another process has taken the database over."""
        if not self._loaded:
            self._load()
        while not self._stop.is_set() and not until():
            self._turn(POLL_S)

    def wake(self) -> None:
        """Makes the dispatcher read the database soon, to notice a run that was submitted or cancelled, or a board that was
        drained."""
        self._inbox.put(self._poll_soon)

    def check_board(self, name: str) -> None:
        """Requests a health check of a board, whatever its state; the board gets no job until the check is done."""
        self._inbox.put(lambda at: self._check_soon(name, at))

    def unfinished(self, run: str) -> bool:
        """Returns whether the dispatcher still works on a run. Only for the thread that calls run()."""
        return run in self._state.runs or not self._loaded

    def health(self) -> Health:
        """Returns the dispatcher's health."""
        state, boards_by_state = self._state, dict[str, int]()
        for board in list(state.lab.boards.values()):
            boards_by_state[board.state] = boards_by_state.get(board.state, 0) + 1
        alive = self.failure is None and not self._stop.is_set()
        return Health(
            alive,
            time.monotonic() - self._last_turn,
            len(state.scheduler.queue),
            len(state.running),
            state.unserved(),
            boards_by_state,
            self._store_error,
            str(self.failure) if self.failure else self._database_error,
        )

    def close(self, timeout_s: float = 10.0) -> None:
        """Ends the running attempts, records their results, and closes the engine. Interrupted jobs are queued for the next
        dispatcher; an attempt that does not end in time is queued when the database is opened next."""
        self._state.closing = True
        self._stop.set()
        self._inbox.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
        self._engine.close(timeout_s)
        if self._loaded:
            self._state.drop_begun()
            self._take_messages(0.0)
            self._write(once=True)

    # one turn

    def _turn(self, wait_s: float) -> None:
        self._take_messages(min(wait_s, self._state.left_s(time.monotonic())))
        at = _present_moment()
        self._state.time_out(at)
        if at.now >= self._next_poll:
            self._next_poll = at.now + POLL_S
            self._poll(at)
        if not self._store_error:
            self._state.assign(at)
        self._write()
        self._last_turn = at.now

    def _take_messages(self, wait_s: float) -> None:
        with contextlib.suppress(queue.Empty):
            for number in range(MAX_MESSAGES_PER_TURN):
                may_wait = wait_s > 0 and not number
                message = self._inbox.get(timeout=wait_s) if may_wait else self._inbox.get_nowait()
                if message is not None:
                    message(_present_moment())

    def _write(self, once: bool = False) -> None:
        """Writes the batch, then starts and cancels attempts. Retries while the database cannot be reached, unless `once`
        is true."""
        state = self._state
        while state.batch or state.to_cancel:
            result = self._write_batch(once)
            if result is None:
                return
            state.after_write(result)
            for job in state.to_cancel:
                self._engine.cancel(job)
            state.to_cancel.clear()
            for _, task in result.tasks:
                self._start(task)
            self._on_change()

    def _start(self, task: JobTask) -> None:
        try:
            self._engine.start(task, self._post_result)
        except Exception as error:  # for example, no thread could be started: the attempt never ran
            why = f"it could not be started: {' '.join(str(error).split())}"
            self._post_result(task, JobResult(task.job, task.attempt, "busy", why=why[:300]))

    def _write_batch(self, once: bool) -> BatchResult | None:
        state = self._state
        context = BatchContext(
            self._engine.boards(),
            self._artifacts.url,
            lambda run: state.runs[run].definition,
            lambda run: state.runs[run].project,
        )
        return self._transact(lambda session: write_batch(session, state.batch, context, time.time()), once)

    def _transact(self, work: Callable[[Session], Value], once: bool = False) -> Value | None:
        """Calls work(session) in a transaction and returns its value. Retries while the database cannot be reached.
        Returns None if the dispatcher is closed meanwhile, or after the first failure if `once` is true."""
        failures = 0
        while True:
            try:
                with self._database.write() as session:
                    value = work(session)
                self._database_error = ""
                return value
            except SQLAlchemyError as error:
                self._database_error = " ".join(str(getattr(error, "orig", None) or error).split())[:300]
                if once or self._stop.wait(RETRY_DELAYS_S[min(failures, len(RETRY_DELAYS_S) - 1)]):
                    return None
                failures += 1
                self._check_owned()

    # messages from the engine's threads

    def _post_result(self, task: JobTask, result: JobResult) -> None:
        sizes = {digest: self._size_of(digest) for digest in (result.report, result.capture) if digest}
        self._inbox.put(lambda at: self._state.take_result(result, sizes, at))

    def _size_of(self, digest: str) -> int:
        with contextlib.suppress(QVerifyError, OSError):
            return self._artifacts.size_of(digest) or 0
        return 0

    def _post_check(self, name: str, why_not: str) -> None:
        self._inbox.put(lambda at: self._state.take_check(name, why_not, at))

    def _poll_soon(self, _: Moment) -> None:
        self._next_poll = float("-inf")

    def _check_soon(self, name: str, at: Moment) -> None:
        board = self._state.lab.boards.get(name)
        if board is not None and not board.checking:
            board.next_check, board.health.quarantined = at.now, True
            board.why = board.why or "a health check was requested"
            self._state.board_changed(board, at)
            self._poll_soon(at)

    # changes that others made

    def _load(self) -> None:
        at = _present_moment()

        def load_boards(session: Session) -> bool:
            requeue_abandoned(session, at.wall)
            self._state.lab.load(all_boards(session), at.now)
            return True

        if self._transact(load_boards):
            self._loaded = True
            self._poll(at)

    def _poll(self, at: Moment) -> None:
        state = self._state
        if at.now >= self._next_owner_check:
            self._next_owner_check = at.now + OWNER_CHECK_S
            self._check_owned()
        try:
            self._read_database(at)
        except SQLAlchemyError as error:
            self._database_error = " ".join(str(getattr(error, "orig", None) or error).split())[:300]
        self._store_error = self._artifacts.why_unavailable()
        state.give_up_unserved(at)
        for board in state.lab.due_checks(at.now):
            self._engine.check_board(board.name, self._post_check)

    def _check_owned(self) -> None:
        try:
            self._database.check_owned()
        except OwnedError:
            self._stop.set()
            raise
        except (SQLAlchemyError, OSError) as error:  # the database cannot be reached: the next poll tries again
            self._database_error = " ".join(str(error).split())[:300]

    def _read_database(self, at: Moment) -> None:
        """Takes on the runs that were submitted, ends those that were cancelled, and updates the boards."""
        with self._database.read() as session:
            drained = {
                name: bool(value) for name, value in session.execute(select(BoardRecord.name, BoardRecord.drained))
            }
            live = session.scalars(select(SuiteRunRecord.id).where(SuiteRunRecord.state == RUNNING)).all()
            unfinished = select(SuiteRunRecord.id).where(
                SuiteRunRecord.state == CANCELLED, SuiteRunRecord.verdict.is_(None)
            )
            cancelled = [run for run in session.scalars(unfinished) if run not in self._state.runs]
            self._state.update_boards(self._engine.boards(), drained, at)
            if at.now >= self._next_usage:
                self._next_usage = at.now + USAGE_S
                self._state.scheduler.held_back = frozenset(full_quotas(session, at.wall))
            for run in self._state.runs.keys() - set(live):
                row = session.get(SuiteRunRecord, run)
                self._state.cancel_run(run, row.why or "" if row is not None else "", tell=False)
        for run in live:
            if run not in self._state.runs and (self._allowed_runs is None or run in self._allowed_runs):
                self._take_on(run, at)
        for run in cancelled:
            if self._allowed_runs is None or run in self._allowed_runs:
                self._end_cancelled(run, at)

    def _end_cancelled(self, run: str, at: Moment) -> None:
        """Ends a run that was cancelled before the dispatcher took it on."""
        with self._database.write() as session:
            requeue_abandoned(session, at.wall, run)
            end_run(session, session.get_one(SuiteRunRecord, run), at.wall)

    def _take_on(self, run: str, at: Moment) -> None:
        with self._database.write() as session:
            row = session.get_one(SuiteRunRecord, run)
            row.started = row.started or at.wall
            requeue_abandoned(session, at.wall, run)
            jobs = list(waiting_jobs(session, run))
            deadline = deadline_of(row.definition, at.wall - row.started, at.now)
            state = RunState(row.id, row.project, row.definition, deadline, known_failures(session, row))
        self._state.add_run(state, jobs)


def _present_moment() -> Moment:
    return Moment(time.monotonic(), time.time())
