"""The engine over Dask workers: processes on the lab's hosts, each with the boards that it reaches."""

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
from qverify_farm.engines.dask_versions import difference
from qverify_farm.engines.engine import Finished, ReachedBoard
from qverify_farm.engines.kept_threads import OneThread
from qverify_farm.engines.scheduler_process import SchedulerProcess
from qverify_farm.work.job_task import Ending, JobResult, JobTask

LOOK_S = 1.0  # how often workers are looked at
CONNECT_S, CALL_S = 5.0, 10.0
UNREACHED_S = 5.0  # a task whose board no worker has for so long is lost
GRACE_S = 120.0  # beyond a task's timeout: then its worker has lost it
ANSWER_S = 5.0  # between a task's end and its result
CHECK_S = 240.0
LOST_SCHEDULER = "the connection to the scheduler was lost"
NOT_STARTED = "no worker reaches"  # the beginning of why a task was never begun: it counts as no attempt


@dataclass(slots=True, eq=False)
class _Started:
    """What runs. tell: is given the result's message, or why there is none. until: on time.monotonic()'s clock."""

    key: str
    board: str
    tell: Callable[[dict[str, Any] | None, str], None]
    until: float
    job: str = ""
    future: Any = None
    unreached_since: float = 0.0
    ended_at: float = 0.0


@dataclass(slots=True)
class _Reached:
    """Boards by name, and the address of the worker that reaches each. refused: workers of other versions, and why."""

    boards: dict[str, ReachedBoard] = field(default_factory=dict)
    workers: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


class DaskEngine:
    """An JobEngine (engine.py) over the workers of a scheduler. It connects again to a scheduler that was away; what ran then
    is told as lost. Results come as messages, so that none is lost with its worker, and no task is run twice."""

    def __init__(self, address: str, tls: TlsFiles | None = None, scheduler: SchedulerProcess | None = None):
        """address: checked. scheduler: ended with the engine. Returns at once; there are no boards until workers are
        there."""
        self._address, self._tls, self._scheduler = address, tls, scheduler
        self._running: dict[str, _Started] = {}
        self._reached = _Reached()
        self._client: Any = None
        self._tellers = OneThread()
        self._closing: asyncio.Event | None = None
        self._connected, ready = threading.Event(), threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="farm-dask", daemon=True)
        self._thread.start()
        ready.wait()

    def boards(self) -> Mapping[str, ReachedBoard]:
        """Returns the boards that live workers reach."""
        return dict(self._reached.boards)

    def refused_workers(self) -> Mapping[str, str]:
        """Returns the workers that get no tasks, since they have other versions, and which."""
        return dict(self._reached.refused)

    def wait_connected(self, timeout_s: float) -> bool:
        """Waits for the scheduler; returns whether it is connected."""
        return self._connected.wait(timeout_s)

    def start(self, task: JobTask, finished: Finished) -> None:
        """Begins a task; never waits."""

        def tell(message: dict[str, Any] | None, why: str) -> None:
            ending: Ending = "busy" if why.startswith(NOT_STARTED) else "lost"
            none = JobResult(task.job, task.attempt, ending, why=why[:300])
            finished(task, none if message is None else JobResult.from_json(message["result"]))

        key = f"job-{task.job}-{task.attempt}-{secrets.token_hex(4)}"
        one = _Started(key, task.board_name, tell, time.monotonic() + task.timeout_s + GRACE_S, task.job)
        self._begin(one, dask_tasks.run_task, task.to_json())

    def check_board(self, name: str, finished: Callable[[str, str], None]) -> None:
        """Begins a health check; never waits."""

        def tell(message: dict[str, Any] | None, why: str) -> None:
            finished(name, why if message is None else str(message["why"]))

        one = _Started(f"check-{secrets.token_hex(8)}", name, tell, time.monotonic() + CHECK_S)
        board = self._reached.boards.get(name)
        self._begin(one, dask_tasks.check_task, name, board.address if board is not None else "")

    def cancel(self, job: str) -> None:
        """Ends a job's attempt as soon as its worker can."""
        self._post(self._cancel, job)

    def close(self, timeout_s: float = 10.0) -> None:
        """Cancels what runs, waits for it, and ends the scheduler that was given; workers then wait for another."""
        end = time.monotonic() + timeout_s
        for one in list(self._running.values()):
            if one.job:
                self.cancel(one.job)
        while self._running and time.monotonic() < end:
            time.sleep(0.05)
        assert self._closing is not None
        self._post(self._closing.set)
        self._thread.join(max(1.0, end - time.monotonic()))
        self._tellers.close()
        if self._scheduler is not None:
            self._scheduler.close()

    def _begin(self, one: _Started, function: Callable[..., None], *arguments: Any) -> None:
        assert self._closing is not None
        if self._closing.is_set() or not self._post(self._submit, one, function, *arguments):
            self._tellers.run(lambda: one.tell(None, f"{NOT_STARTED} {one.board}: the engine is closed"))

    def _post(self, call: Callable[..., None], *arguments: Any) -> bool:
        """Has the engine's thread call it; returns False where that has ended."""
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
        """Keeps connected until it is closed."""
        client_of = import_distributed().Client
        while not closing.is_set():
            try:
                client = client_of(
                    self._address,
                    asynchronous=True,
                    security=security_of(self._tls),
                    timeout=CONNECT_S,
                    set_as_default=False,
                    direct_to_workers=False,
                )
                await client
            except Exception:  # nobody there, or a TLS handshake that fails
                await _wait(closing, LOOK_S)
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
        """Looks after one connection, until it is lost."""
        client.subscribe_topic(dask_tasks.RESULTS, self._came)
        self._client = client
        while not closing.is_set() and client.status == "running":
            try:
                identity = await asyncio.wait_for(client.scheduler.identity(n_workers=-1), CALL_S)
            except (OSError, TimeoutError):
                return
            self._reached = reached_by(identity.get("workers", {}))
            self._connected.set()
            self._look_after()
            await _wait(closing, LOOK_S)

    def _submit(self, one: _Started, function: Callable[..., None], *arguments: Any) -> None:
        if self._client is None or self._client.status != "running" or one.board not in self._reached.boards:
            self._tellers.run(lambda: one.tell(None, f"{NOT_STARTED} {one.board}"))
            return
        self._running[one.key] = one
        one.future = self._client.submit(
            function,
            one.key,
            *arguments,
            key=one.key,
            pure=False,
            retries=0,
            resources={dask_tasks.resource(one.board): 1},
        )
        one.future.add_done_callback(lambda _: self._post(self._stopped, one))

    def _stopped(self, one: _Started) -> None:
        """Notes that Dask ended a task; its result comes by itself where there is one."""
        if one.key in self._running:
            one.ended_at = time.monotonic()
            if one.future.status == "cancelled":  # the connection is lost: nobody is reached until it is made again
                self._reached = _Reached()
            if one.future.status != "finished":
                self._loop.create_task(self._lose(one))

    async def _lose(self, one: _Started) -> None:
        self._end(one, None, await _why_lost(one.future))

    def _came(self, event: tuple[float, dict[str, Any]]) -> None:
        """Takes a result that a worker tells."""
        message = event[1]
        if (one := self._running.get(str(message.get("key")))) is not None:
            self._end(one, message, "")

    def _end(self, one: _Started, message: dict[str, Any] | None, why: str) -> None:
        """Tells an end once, and lets Dask forget the task."""
        if self._running.pop(one.key, None) is None:
            return
        if one.future is not None:
            with contextlib.suppress(Exception):
                one.future.release()
        self._tellers.run(lambda: one.tell(message, why))

    def _lose_all(self, why: str) -> None:
        for one in list(self._running.values()):
            self._end(one, None, why)

    def _look_after(self) -> None:
        """Gives up what has no worker any more, and what takes far longer than it may."""
        now = time.monotonic()
        for one in list(self._running.values()):
            one.unreached_since = 0.0 if one.board in self._reached.boards else one.unreached_since or now
            if one.unreached_since and now - one.unreached_since > UNREACHED_S:
                self._end(one, None, f"{NOT_STARTED} {one.board} any more")
            elif one.ended_at and now - one.ended_at > ANSWER_S:
                self._end(one, None, "its worker told no result")
            elif now > one.until:
                self._end(one, None, "its worker did not end it in time")

    def _cancel(self, job: str) -> None:
        for one in self._running.values():
            worker = self._reached.workers.get(one.board)
            if one.job == job and worker is not None and self._client is not None:
                self._loop.create_task(self._cancel_at(worker, job))

    async def _cancel_at(self, worker: str, job: str) -> None:
        with contextlib.suppress(Exception):  # then the job runs to its end
            call = self._client.run(dask_tasks.cancel_task, job, workers=[worker], on_error="ignore")
            await asyncio.wait_for(call, CALL_S)


def reached_by(workers: Mapping[str, Mapping[str, Any]]) -> _Reached:
    """Returns the boards of the scheduler's workers, by address; those of a worker of other versions are left out."""
    reached = _Reached()
    for address, facts in sorted(workers.items()):
        known = facts.get(dask_tasks.INFORMATION) or {}
        name = str(facts.get("name", address))
        if why := difference(known.get("versions", {}), f"worker {name}"):
            reached.refused[name] = why
            continue
        for row in known.get("boards", ()):
            board = ReachedBoard(str(row["name"]), str(row["address"]), dict(row["tags"]), str(row["host"]))
            if board.name not in reached.boards:
                reached.boards[board.name], reached.workers[board.name] = board, address
    return reached


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


async def _why_lost(future: Any) -> str:
    """Returns why a task that Dask ended gave no result."""
    if future.status != "error":
        return LOST_SCHEDULER
    with contextlib.suppress(Exception):
        error = await asyncio.wait_for(future.exception(), ANSWER_S)
        if type(error).__name__ == "KilledWorker":
            return "its worker died"
        return " ".join(f"{type(error).__name__}: {error}".split())[:250]
    return "its worker failed"
