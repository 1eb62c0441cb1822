"""The loop: takes results from the engine, records them, and gives free boards their next jobs."""

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

from qverify_farm.dispatcher.batch import Around, Written, write_batch
from qverify_farm.dispatcher.run_states import RunState, deadline_of
from qverify_farm.dispatcher.turn import Moment, Turns
from qverify_farm.engines.engine import Engine
from qverify_farm.errors import OwnedError
from qverify_farm.store.artifacts import Artifacts
from qverify_farm.store.boards import all_boards
from qverify_farm.store.database import Database
from qverify_farm.store.jobs import queue_dead, waiting_jobs
from qverify_farm.store.runs import end_run
from qverify_farm.store.states import CANCELLED, RUNNING
from qverify_farm.store.tables import Board, SuiteRun
from qverify_farm.work.job_task import JobResult, JobTask

LOOK_S = 1.0  # between two looks at what others may have changed: runs, boards, the disk
OWNED_S = 5.0  # between two looks whether the database is still ours
AGAIN_S = (0.1, 0.3, 1.0, 3.0, 5.0)  # until a failed transaction is tried again
Made = TypeVar("Made")
MOST_MESSAGES = 500  # of one turn


@dataclass(frozen=True, slots=True)
class Health:
    """What the dispatcher says of itself. looked_s: since its last turn. database: why it cannot be written, or "".
    full: the artifact store has no room, and jobs wait. unserved: jobs for which no board is usable."""

    alive: bool
    looked_s: float
    waiting: int
    running: int
    unserved: int
    boards: dict[str, int]
    full: bool
    database: str

    @property
    def well(self) -> bool:
        return self.alive and not self.full and not self.database

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "well": self.well}


class Dispatcher:
    """Works on the runs of a database that this process owns. runs: ids of those it may touch, None for all.
    on_change: called after each change of the database, from the dispatcher's thread. Its engine belongs to it: close()
    closes it. Any thread may call wake(), check_board(), health() and close()."""

    def __init__(
        self,
        database: Database,
        engine: Engine,
        artifacts: Artifacts,
        *,
        runs: Collection[str] | None = None,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        self._database, self._engine, self._artifacts = database, engine, artifacts
        self._only = None if runs is None else set(runs)
        self._on_change = on_change or (lambda: None)
        self._inbox = queue.SimpleQueue[Callable[[Moment], None] | None]()
        self._turns = Turns()
        self._next_look = self._next_owned = float("-inf")
        self._turned = time.monotonic()
        self._full, self._database_error = False, ""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.failure: Exception | None = None  # that ended the thread of start()
        self._loaded = False

    def start(self) -> None:
        """Runs in a thread of its own until close()."""
        self._thread = threading.Thread(target=self._run_thread, name="farm-dispatcher")
        self._thread.start()

    def _run_thread(self) -> None:
        try:
            self.run(lambda: False)
        except Exception as error:  # health() tells it
            self.failure = error

    def run(self, until: Callable[[], bool]) -> None:
        """Works in this thread until `until()` is true, asked after each turn, or close() is called. OwnedError where
        another process took the database over."""
        if not self._loaded:
            self._load()
        while not self._stop.is_set() and not until():
            self._turn(LOOK_S)

    def wake(self) -> None:
        """Has the dispatcher look now at what changed in the database: a run that was submitted or cancelled, a board that
        was drained."""
        self._inbox.put(self._look_soon)

    def check_board(self, name: str) -> None:
        """Begins a board's health check soon, whatever its state; it gets no job meanwhile."""
        self._inbox.put(lambda at: self._check_soon(name, at))

    def unfinished(self, run: str) -> bool:
        """Returns whether the dispatcher still works on a run; for the thread that calls run()."""
        return run in self._turns.runs or not self._loaded

    def health(self) -> Health:
        """Returns how the dispatcher is."""
        turns, states = self._turns, dict[str, int]()
        for board in list(turns.lab.boards.values()):
            states[board.state] = states.get(board.state, 0) + 1
        alive = self.failure is None and not self._stop.is_set()
        return Health(
            alive,
            time.monotonic() - self._turned,
            len(turns.scheduler.queue),
            len(turns.running),
            turns.unserved(),
            states,
            self._full,
            str(self.failure) if self.failure else self._database_error,
        )

    def close(self, timeout_s: float = 10.0) -> None:
        """Ends what runs (its jobs wait for the next dispatcher), records what came of it, and closes the engine. What
        does not end in time is queued again when the database is opened next."""
        self._turns.closing = True
        self._stop.set()
        self._inbox.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
        self._engine.close(timeout_s)
        if self._loaded:
            self._turns.drop_begun()
            self._take_messages(0.0)
            self._write(once=True)

    # one turn

    def _turn(self, wait_s: float) -> None:
        self._take_messages(min(wait_s, self._turns.left_s(time.monotonic())))
        at = _moment()
        self._turns.time_out(at)
        if at.now >= self._next_look:
            self._next_look = at.now + LOOK_S
            self._look(at)
        if not self._full:
            self._turns.assign(at)
        self._write()
        self._turned = at.now

    def _take_messages(self, wait_s: float) -> None:
        with contextlib.suppress(queue.Empty):
            for number in range(MOST_MESSAGES):
                waits = wait_s > 0 and not number
                message = self._inbox.get(timeout=wait_s) if waits else self._inbox.get_nowait()
                if message is not None:
                    message(_moment())

    def _write(self, once: bool = False) -> None:
        """Writes the batch, again and again while the database cannot be reached, and then starts and cancels attempts."""
        turns = self._turns
        while turns.batch or turns.to_cancel:
            written = self._written(once)
            if written is None:
                return
            turns.after_write(written)
            for job in turns.to_cancel:
                self._engine.cancel(job)
            turns.to_cancel.clear()
            for _, task in written.tasks:
                self._start(task)
            self._on_change()

    def _start(self, task: JobTask) -> None:
        try:
            self._engine.start(task, self._finished)
        except Exception as error:  # such as no more threads: the attempt never ran
            why = f"it could not be started: {' '.join(str(error).split())}"
            self._finished(task, JobResult(task.job, task.attempt, "busy", why=why[:300]))

    def _written(self, once: bool) -> Written | None:
        turns = self._turns
        around = Around(
            self._engine.boards(),
            self._artifacts.url,
            lambda run: turns.runs[run].definition,
            lambda run: turns.runs[run].project,
        )
        return self._transact(lambda session: write_batch(session, turns.batch, around, time.time()), once)

    def _transact(self, work: Callable[[Session], Made], once: bool = False) -> Made | None:
        """Returns what `work` makes of a transaction, which is tried again while the database cannot be reached; None
        where the dispatcher is closed meanwhile, or after one try with `once`."""
        tries = 0
        while True:
            try:
                with self._database.write() as session:
                    made = work(session)
                self._database_error = ""
                return made
            except SQLAlchemyError as error:
                self._database_error = " ".join(str(getattr(error, "orig", None) or error).split())[:300]
                if once or self._stop.wait(AGAIN_S[min(tries, len(AGAIN_S) - 1)]):
                    return None
                tries += 1
                self._check_owned()

    # what the engine tells, from its threads

    def _finished(self, task: JobTask, result: JobResult) -> None:
        sizes = {digest: self._size_of(digest) for digest in (result.report, result.capture) if digest}
        self._inbox.put(lambda at: self._turns.take_result(result, sizes, at))

    def _size_of(self, digest: str) -> int:
        with contextlib.suppress(QVerifyError, OSError):
            return self._artifacts.size_of(digest) or 0
        return 0

    def _checked(self, name: str, why_not: str) -> None:
        self._inbox.put(lambda at: self._turns.take_check(name, why_not, at))

    def _look_soon(self, _: Moment) -> None:
        self._next_look = float("-inf")

    def _check_soon(self, name: str, at: Moment) -> None:
        board = self._turns.lab.boards.get(name)
        if board is not None and not board.checking:
            board.next_check, board.health.quarantined = at.now, True
            board.why = board.why or "a health check was asked for"
            self._turns.board_changed(board, at)
            self._look_soon(at)

    # what others changed

    def _load(self) -> None:
        at = _moment()

        def take_up(session: Session) -> bool:
            queue_dead(session, at.wall)
            self._turns.lab.load(all_boards(session), at.now)
            return True

        if self._transact(take_up):
            self._loaded = True
            self._look(at)

    def _look(self, at: Moment) -> None:
        turns = self._turns
        if at.now >= self._next_owned:
            self._next_owned = at.now + OWNED_S
            self._check_owned()
        try:
            self._look_at_database(at)
        except SQLAlchemyError as error:
            self._database_error = " ".join(str(getattr(error, "orig", None) or error).split())[:300]
        self._full = not self._artifacts.has_room()
        turns.give_up_unserved(at)
        for board in turns.lab.due_checks(at.now):
            self._engine.check_board(board.name, self._checked)

    def _check_owned(self) -> None:
        try:
            self._database.check_owned()
        except OwnedError:
            self._stop.set()
            raise
        except (SQLAlchemyError, OSError) as error:  # not reached: tried again
            self._database_error = " ".join(str(error).split())[:300]

    def _look_at_database(self, at: Moment) -> None:
        with self._database.read() as session:
            drained = {name: bool(is_so) for name, is_so in session.execute(select(Board.name, Board.drained))}
            live = session.scalars(select(SuiteRun.id).where(SuiteRun.state == RUNNING)).all()
            without_end = select(SuiteRun.id).where(SuiteRun.state == CANCELLED, SuiteRun.verdict.is_(None))
            cancelled = [run for run in session.scalars(without_end) if run not in self._turns.runs]
            self._turns.update_boards(self._engine.boards(), drained, at)
            for run in self._turns.runs.keys() - set(live):
                self._turns.cancel_run(run, "", tell=False)
        for run in live:
            if run not in self._turns.runs and (self._only is None or run in self._only):
                self._take_on(run, at)

        for run in cancelled:
            if self._only is None or run in self._only:
                self._end_cancelled(run, at)

    def _end_cancelled(self, run: str, at: Moment) -> None:
        """Ends a run that was cancelled before the dispatcher had heard of it."""
        with self._database.write() as session:
            queue_dead(session, at.wall, run)
            end_run(session, session.get_one(SuiteRun, run), at.wall)

    def _take_on(self, run: str, at: Moment) -> None:
        with self._database.write() as session:
            row = session.get_one(SuiteRun, run)
            row.started = row.started or at.wall
            queue_dead(session, at.wall, run)
            jobs = list(waiting_jobs(session, run))
            deadline = deadline_of(row.definition, at.wall - row.started, at.now)
            state = RunState(row.id, row.project, row.definition, deadline)
        self._turns.add_run(state, jobs)


def _moment() -> Moment:
    return Moment(time.monotonic(), time.time())
