"""The engine over Dask workers: processes on the lab's hosts, each of which reaches some of the boards."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from qverify_farm.engines import dask_tasks
from qverify_farm.engines.dask_address import TlsFiles, import_distributed, security_of
from qverify_farm.engines.dask_versions import describe_difference
from qverify_farm.engines.engine import Finished, ReachedBoard
from qverify_farm.engines.kept_threads import OneThread
from qverify_farm.engines.scheduler_process import SchedulerProcess
from qverify_farm.work.job_task import Ending, JobResult, JobTask

POLL_S = 1.0  # seconds between looks at the workers
CONNECT_S, CALL_S = 5.0, 10.0
MAX_UNREACHED_S = 5.0  # a task is given up if no worker reaches its board for so long
GRACE_S = 120.0  # a task that runs this much longer than its timeout counts as lost
RESULT_WAIT_S = 5.0  # longest time between the end of a task and the message with its result
CHECK_TIMEOUT_S = 240.0
LOST_SCHEDULER = "the connection to the scheduler was lost"
NOT_STARTED = "no worker reaches"  # how the reason of a task begins that never began and counts as no attempt


@dataclass(slots=True, eq=False)
class _Started:
    """A running task or health check.

    Attributes:
        on_end: Called with the message that has the result, or with None and the reason why there is none.
        until: When it is given up, in monotonic seconds.
        job: The job's id, or "" for a health check.
        unreached_since: Since when no worker reaches the board, in monotonic seconds; 0 while one does.
        ended_at: When Dask ended the task, in monotonic seconds; 0 before.
    """

    key: str
    board: str
    on_end: Callable[[dict[str, Any] | None, str], None]
    until: float
    job: str = ""
    future: Any = None
    unreached_since: float = 0.0
    ended_at: float = 0.0


@dataclass(slots=True)
class _Reached:
    """The boards that workers reach, by name; the address of the worker that reaches each; and the reasons why workers with
    other versions are refused, by worker name."""

    boards: dict[str, ReachedBoard] = field(default_factory=dict)
    workers: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


class DaskEngine:
    """A JobEngine over the workers of a scheduler. When the connection to the scheduler is lost, the running tasks end as
    "lost", and the engine connects again. Results arrive as messages, so that no result is lost with its worker, and no task
    runs twice."""

    def __init__(self, address: str, tls: TlsFiles | None = None, scheduler: SchedulerProcess | None = None):
        """Returns at once; there are no boards until workers are connected. address: a checked address. scheduler: is closed
        with the engine."""
        self._address, self._tls, self._scheduler = address, tls, scheduler
        self._running: dict[str, _Started] = {}
        self._reached = _Reached()
        self._client: Any = None
        self._callbacks = OneThread()
        self._closing: asyncio.Event | None = None
        self._connected, ready = threading.Event(), threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="farm-dask", daemon=True)
        self._thread.start()
        ready.wait()

    def boards(self) -> Mapping[str, ReachedBoard]:
        """Returns the boards that live workers reach."""
        return dict(self._reached.boards)

    def wait_connected(self, timeout_s: float) -> bool:
        """Waits for the connection to the scheduler; returns whether there is one."""
        return self._connected.wait(timeout_s)

    def start(self, task: JobTask, finished: Finished) -> None:
        """Begins a task; never waits."""

        def on_end(message: dict[str, Any] | None, why: str) -> None:
            ending: Ending = "busy" if why.startswith(NOT_STARTED) else "lost"
            no_result = JobResult(task.job, task.attempt, ending, why=why[:300])
            finished(task, no_result if message is None else JobResult.from_json(message["result"]))

        key = f"job-{task.job}-{task.attempt}-{secrets.token_hex(4)}"
        started = _Started(key, task.board_name, on_end, time.monotonic() + task.timeout_s + GRACE_S, task.job)
        self._begin(started, dask_tasks.run_task, task.to_json())

    def check_board(self, name: str, finished: Callable[[str, str], None]) -> None:
        """Begins a health check; never waits."""

        def on_end(message: dict[str, Any] | None, why: str) -> None:
            finished(name, why if message is None else str(message["why"]))

        started = _Started(f"check-{secrets.token_hex(8)}", name, on_end, time.monotonic() + CHECK_TIMEOUT_S)
        board = self._reached.boards.get(name)
        self._begin(started, dask_tasks.check_task, name, board.address if board is not None else "")

    def cancel(self, job: str) -> None:
        """Ends a job's attempt as soon as its worker can."""
        self._post(self._cancel, job)

    def close(self, timeout_s: float = 10.0) -> None:
        """Cancels the running tasks, waits for them, and closes the scheduler that was passed in; the workers then wait for
        another."""
        end = time.monotonic() + timeout_s
        for started in list(self._running.values()):
            if started.job:
                self.cancel(started.job)
        while self._running and time.monotonic() < end:
            time.sleep(0.05)
        assert self._closing is not None
        self._post(self._closing.set)
        self._thread.join(max(1.0, end - time.monotonic()))
        self._callbacks.close()
        if self._scheduler is not None:
            self._scheduler.close()

    def _begin(self, started: _Started, function: Callable[..., None], *arguments: Any) -> None:
        assert self._closing is not None
        if self._closing.is_set() or not self._post(self._submit, started, function, *arguments):
            self._callbacks.run(lambda: started.on_end(None, f"{NOT_STARTED} {started.board}: the engine is closed"))

    def _post(self, call: Callable[..., None], *arguments: Any) -> bool:
        """Makes the engine's thread call a function; returns False if that thread has ended."""
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            return False
        return True

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._closing = asyncio.Event()
        self._loop.call_soon(ready.set)
        try:
            self._loop.run_until_complete(self._serve(self._closing))
        finally:
            self._lose_all("the engine was closed")
            self._loop.close()

    async def _serve(self, closing: asyncio.Event) -> None:
        """Keeps a connection to the scheduler until the engine is closed."""
        client_class = import_distributed().Client
        while not closing.is_set():
            try:
                client = client_class(
                    self._address,
                    asynchronous=True,
                    security=security_of(self._tls),
                    timeout=CONNECT_S,
                    set_as_default=False,
                    direct_to_workers=False,
                )
                await client
            except Exception:  # nothing listens there, or the TLS handshake failed
                await _wait_for(closing, POLL_S)
                continue
            try:
                await self._use(client, closing)
            finally:
                self._client, self._reached = None, _Reached()
                self._connected.clear()
                self._lose_all(LOST_SCHEDULER)
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(client.close(timeout=2), CALL_S)

    async def _use(self, client: Any, closing: asyncio.Event) -> None:
        """Uses one connection until it is lost or the engine is closed."""
        client.subscribe_topic(dask_tasks.RESULTS, self._take_result)
        self._client = client
        while not closing.is_set() and client.status == "running":
            try:
                identity = await asyncio.wait_for(client.scheduler.identity(n_workers=-1), CALL_S)
            except (OSError, TimeoutError):
                return
            self._reached = reached_by(identity.get("workers", {}))
            self._connected.set()
            self._give_up_overdue()
            await _wait_for(closing, POLL_S)

    def _submit(self, started: _Started, function: Callable[..., None], *arguments: Any) -> None:
        if self._client is None or self._client.status != "running" or started.board not in self._reached.boards:
            self._callbacks.run(lambda: started.on_end(None, f"{NOT_STARTED} {started.board}"))
            return
        self._running[started.key] = started
        started.future = self._client.submit(
            function,
            started.key,
            *arguments,
            key=started.key,
            pure=False,
            retries=0,
            resources={dask_tasks.resource_of(started.board): 1},
        )
        started.future.add_done_callback(lambda _: self._post(self._note_end, started))

    def _note_end(self, started: _Started) -> None:
        """Notes that Dask ended a task. The result, if there is one, arrives as a message."""
        if started.key in self._running:
            started.ended_at = time.monotonic()
            if started.future.status == "cancelled":  # the connection is lost, and with it every board
                self._reached = _Reached()
            if started.future.status != "finished":
                self._loop.create_task(self._lose(started))

    async def _lose(self, started: _Started) -> None:
        self._end(started, None, await _why_lost(started.future))

    def _take_result(self, event: tuple[float, dict[str, Any]]) -> None:
        """Takes a result from a worker's message."""
        message = event[1]
        if (started := self._running.get(str(message.get("key")))) is not None:
            self._end(started, message, "")

    def _end(self, started: _Started, message: dict[str, Any] | None, why: str) -> None:
        """Reports the end of a task once, and lets Dask forget the task."""
        if self._running.pop(started.key, None) is None:
            return
        if started.future is not None:
            with contextlib.suppress(Exception):
                started.future.release()
        self._callbacks.run(lambda: started.on_end(message, why))

    def _lose_all(self, why: str) -> None:
        for started in list(self._running.values()):
            self._end(started, None, why)

    def _give_up_overdue(self) -> None:
        """Gives up tasks that no worker can run any more, and those that are overdue."""
        now = time.monotonic()
        for started in list(self._running.values()):
            started.unreached_since = 0.0 if started.board in self._reached.boards else started.unreached_since or now
            if started.unreached_since and now - started.unreached_since > MAX_UNREACHED_S:
                self._end(started, None, f"{NOT_STARTED} {started.board} any more")
            elif started.ended_at and now - started.ended_at > RESULT_WAIT_S:
                self._end(started, None, "its worker sent no result")
            elif now > started.until:
                self._end(started, None, "its worker did not end it in time")

    def _cancel(self, job: str) -> None:
        for started in self._running.values():
            worker = self._reached.workers.get(started.board)
            if started.job == job and worker is not None and self._client is not None:
                self._loop.create_task(self._cancel_on_worker(worker, job))

    async def _cancel_on_worker(self, worker: str, job: str) -> None:
        with contextlib.suppress(Exception):  # if it fails, the job runs to its end
            call = self._client.run(dask_tasks.cancel_task, job, workers=[worker], on_error="ignore")
            await asyncio.wait_for(call, CALL_S)


def reached_by(workers: Mapping[str, Mapping[str, Any]]) -> _Reached:
    """Returns the boards of the scheduler's workers. workers: the scheduler's facts about each worker, by address. The boards
    of a worker with other versions are left out."""
    reached = _Reached()
    for address, facts in sorted(workers.items()):
        information = facts.get(dask_tasks.INFORMATION) or {}
        name = str(facts.get("name", address))
        if why := describe_difference(information.get("versions", {}), f"worker {name}"):
            reached.refused[name] = why
            continue
        for row in information.get("boards", ()):
            board = ReachedBoard(str(row["name"]), str(row["address"]), dict(row["tags"]), str(row["host"]))
            if board.name not in reached.boards:
                reached.boards[board.name], reached.workers[board.name] = board, address
    return reached


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


async def _why_lost(future: Any) -> str:
    """Returns why a task that Dask ended has no result."""
    if future.status != "error":
        return LOST_SCHEDULER
    with contextlib.suppress(Exception):
        error = await asyncio.wait_for(future.exception(), RESULT_WAIT_S)
        if type(error).__name__ == "KilledWorker":
            return "its worker died"
        return " ".join(f"{type(error).__name__}: {error}".split())[:250]
    return "its worker failed"
