"""A dispatcher that continues the work of another, and databases, clocks and engines that fail."""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable

import pytest
from qverify.errors import UsageError
from qverify_farm.dispatcher import dispatcher as module
from qverify_farm.dispatcher.dispatcher_state import DispatcherState
from qverify_farm.dispatcher.run_states import RunState
from qverify_farm.engines.engine import Finished
from qverify_farm.scheduling import board_health
from qverify_farm.store.artifacts import ArtifactStore
from qverify_farm.store.boards import all_boards, ensure_board
from qverify_farm.store.database import Database, open_database
from qverify_farm.store.jobs import WaitingJob
from qverify_farm.store.runs import cancel_run, find_unfinished_run, reopen_run
from qverify_farm.store.tables import BoardRecord, SuiteRunRecord
from qverify_farm.work.job_task import JobResult, JobTask
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from tests.farm import postgres
from tests.farm.dispatching import J5, Working, attempts, board, jobs, submit, the_run
from tests.farm.scripted_engine import ScriptedEngine, passed


@pytest.mark.usefixtures("quick_polls")
def test_jobs_of_a_dead_dispatcher_run_again_once(database_url: str, artifacts: ArtifactStore) -> None:
    """The first dispatcher stops as after kill -9: nothing is closed, only its lock is released."""
    database = open_database(database_url, "first")
    run = submit(database, ("j5-0", "j5-1", "j5-2", "j5-0"))
    hangs = threading.Event()

    def act(task: JobTask) -> JobResult:
        if task.board_name == "j5-1":
            hangs.wait(20)
        return passed(task)

    engine = ScriptedEngine(J5, act)
    Working(database, engine, artifacts).until(lambda: [j.state for j in jobs(database, run)].count("done") == 3)
    database.close()
    again = open_database(database_url, "second")
    working = Working(again, engine := ScriptedEngine(J5), artifacts)
    working.until_ended(run)
    hangs.set()
    assert [(name, task.isolated) for (_, name, _), task in zip(engine.ran, engine.tasks, strict=True)] == [
        ("j5-1", True)
    ]
    assert [(j.verdict, j.attempt) for j in jobs(again, run)] == [
        ("PASSED", 1),
        ("PASSED", 2),
        ("PASSED", 1),
        ("PASSED", 1),
    ]
    assert [a.ending for a in attempts(again, run)] == ["finished", "lost", "finished", "finished", "finished"]
    working.dispatcher.close(1.0)
    again.close()


@pytest.mark.usefixtures("quick_polls")
def test_jobs_running_at_close_are_queued_for_the_next_dispatcher(database: Database, artifacts: ArtifactStore) -> None:
    def act(task: JobTask) -> JobResult:
        engine.cancelled(task.job).wait(10)
        return JobResult(task.job, task.attempt, "cancelled", why="cancelled")

    engine, run = ScriptedEngine(J5, act), submit(database)
    working = Working(database, engine, artifacts)
    working.until(lambda: len(engine.ran) == 3).close()
    assert {job.state for job in jobs(database, run)} == {"queued"} and the_run(database, run).state == "running"
    assert {job.lost for job in jobs(database, run)} == {0} and engine.closed
    second = Working(database, ScriptedEngine(J5), artifacts)
    second.until_ended(run).close()
    assert {job.verdict for job in jobs(database, run)} == {"PASSED"}


def test_a_late_or_repeated_result_changes_nothing(database: Database, work: Callable[..., Working]) -> None:
    run = submit(database, ("j5-0", "j5-0"))
    engine = ScriptedEngine(J5)
    working = work(engine)
    working.until(lambda: len(engine.ran) == 2)
    first = engine.tasks[0]
    for attempt in (0, 1, 2):
        working.dispatcher._post_result(first, JobResult(first.job, attempt, "finished", "FAILED", why="late"))
    working.until_ended(run)
    assert [job.verdict for job in jobs(database, run)] == ["PASSED", "PASSED"] and len(attempts(database, run)) == 2


def test_a_cancelled_run_is_resumed_with_its_missing_jobs(database: Database, work: Callable[..., Working]) -> None:
    engine, run = (
        ScriptedEngine(J5, lambda task: passed(task, verdict="FAILED")),
        submit(database, ("j5-0",) * 3, fail_fast=True),
    )
    working = work(engine)
    working.until_ended(run)
    with database.write() as session:
        assert reopen_run(session, session.get_one(SuiteRunRecord, run)) == 2
    working.until_ended(run) if working.dispatcher.unfinished(run) else working.until(lambda: len(engine.ran) == 2)
    working.until_ended(run)
    assert [job.state for job in jobs(database, run)] == ["done", "done", "cancelled"]


def test_the_run_to_resume_is_the_newest_unfinished_one(database: Database, work: Callable[..., Working]) -> None:
    """The time of its suite ran out, or its process died; what a user or fail-fast cancelled is finished."""

    def found() -> str:
        with database.read() as session:
            return find_unfinished_run(session).id

    def act(task: JobTask) -> JobResult:
        if not engine.cancelled(task.job).wait(10 if task.board_name == "j5-1" else 0):
            return passed(task, verdict="FAILED")
        return JobResult(task.job, task.attempt, "cancelled", why="cancelled")

    def end(*runs: str) -> str:
        working.until(lambda: all(the_run(database, run).verdict for run in runs))
        return runs[0]

    engine = ScriptedEngine(J5, act)
    working = work(engine)
    with pytest.raises(UsageError, match="qverify suite list"):
        found()
    done = end(submit(database, ("j5-0",)))
    assert found() == done  # nothing is unfinished: its report again
    late = end(submit(database, ("j5-0", "j5-1"), timeout_s=0.2))
    assert the_run(database, late).state == "cancelled" and found() == late
    end(submit(database, ("j5-0",)), submit(database, ("j5-0",) * 2, fail_fast=True))
    user = submit(database, ("j5-0",))
    assert found() == user
    with database.write() as session:
        cancel_run(session, user, "by suite cancel", 5.0)
    assert found() == late
    with database.write() as session:
        assert reopen_run(session, session.get_one(SuiteRunRecord, late)) == 1
    end(late)
    assert found() == late  # its time ran out again


def test_a_dispatcher_of_some_runs_leaves_the_others_alone(database: Database, work: Callable[..., Working]) -> None:
    other, mine = submit(database), submit(database)
    engine = ScriptedEngine(J5)
    work(engine, runs=[mine]).until_ended(mine)
    assert {job.state for job in jobs(database, other)} == {"queued"} and the_run(database, other).state == "running"


def test_the_thread_takes_runs_that_are_submitted_later(database: Database, work: Callable[..., Working]) -> None:
    engine = ScriptedEngine(J5)
    dispatcher = work(engine).dispatcher
    dispatcher.start()
    run = submit(database)
    dispatcher.wake()
    end = time.monotonic() + 10
    while the_run(database, run).state != "done" and time.monotonic() < end:
        time.sleep(0.01)
    assert the_run(database, run).verdict == "PASSED" and dispatcher.health().well
    dispatcher.close()
    assert not dispatcher.health().alive


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_lost_connection_to_the_database_loses_nothing(
    database: Database, work: Callable[..., Working], postgres_server: postgres.Server
) -> None:
    """Every connection of this database is terminated several times, also the owner's."""
    name = database.url.rpartition("?")[0].rpartition("/")[2]
    end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    seen: list[int] = []

    def act(task: JobTask) -> JobResult:
        seen.append(1)
        if len(seen) in (5, 15, 25):
            postgres_server.execute(end)
        time.sleep(0.01)
        return passed(task)

    engine, run = ScriptedEngine(J5, act), submit(database, ("soc=j5",) * 40)
    work(engine).until_ended(run)
    assert {(job.state, job.verdict) for job in jobs(database, run)} == {("done", "PASSED")}
    assert Counter(one.ending for one in attempts(database, run)) == {"finished": 40} and len(engine.ran) == 40


def test_the_dispatcher_waits_for_a_database_that_is_lost_at_the_start(
    database: Database, work: Callable[..., Working], monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []
    dispatcher = work(ScriptedEngine(J5)).dispatcher

    def lost_twice(session: Session) -> list[BoardRecord]:
        tries.append(dispatcher.health().database)
        if len(tries) < 3:
            raise OperationalError("SELECT", {}, Exception("the server closed the connection"))
        return all_boards(session)

    monkeypatch.setattr(module, "all_boards", lost_twice)
    monkeypatch.setattr(module, "RETRY_DELAYS_S", (0.001,))
    run = submit(database)
    dispatcher.run(lambda: not dispatcher.unfinished(run))
    assert {job.verdict for job in jobs(database, run)} == {"PASSED"} and dispatcher.health().well
    assert tries == ["", *["the server closed the connection"] * 2]


def test_a_clock_that_jumps_ends_no_run(
    database: Database, work: Callable[..., Working], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, run = ScriptedEngine(J5), submit(database, ("j5-0",) * 12, timeout_s=1000.0)
    real, jumps = time.time, iter(range(10_000))
    monkeypatch.setattr(module.time, "time", lambda: real() + (-1e6, 1e6)[next(jumps) % 2])
    work(engine).until_ended(run)
    assert {job.verdict for job in jobs(database, run)} == {"PASSED"} and the_run(database, run).state == "done"


def test_a_waiting_job_takes_little_memory_in_the_dispatcher() -> None:
    turns, run = DispatcherState(), RunState("r", "p", {}, None)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    waiting = [WaitingJob(f"{n:032x}", "r", n, "ann", 0, 1.0, ("soc=j5",), frozenset()) for n in range(10_000)]
    turns.add_run(run, waiting)
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert used / 10_000 < 5_000


def test_a_run_cancelled_before_the_dispatcher_took_it_on_is_ended(
    database: Database, work: Callable[..., Working]
) -> None:
    run = submit(database)
    with database.write() as session:
        cancel_run(session, run, "by ann", 5.0)
    work(ScriptedEngine(J5)).until(lambda: the_run(database, run).verdict is not None)
    assert (the_run(database, run).state, the_run(database, run).verdict) == ("cancelled", "INCONCLUSIVE")


def test_boards_of_an_earlier_dispatcher_are_offline_if_no_worker_reaches_them(
    database: Database, work: Callable[..., Working]
) -> None:
    with database.write() as session:
        ensure_board(session, "gone", 0.0).state = "busy"
    run = submit(database, ("j5-0",))
    work(ScriptedEngine(J5)).until_ended(run)
    assert (board(database, "gone").state, board(database, "gone").reason) == ("offline", "no worker reaches it")


def test_an_engine_that_cannot_start_a_job_loses_none(
    database: Database, work: Callable[..., Working], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_health, "FIRST_REST_S", 0.01)
    engine, run, refusals = ScriptedEngine(J5), submit(database, ("j5-0", "j5-1")), iter(range(99))
    start = engine.start

    def refuse_first(task: JobTask, finished: Finished) -> None:
        if next(refusals) < 2:
            raise RuntimeError("can't start new thread")
        start(task, finished)

    monkeypatch.setattr(engine, "start", refuse_first)
    work(engine).until_ended(run)
    assert {job.verdict for job in jobs(database, run)} == {"PASSED"}
    assert Counter(one.ending for one in attempts(database, run)) == {"busy": 2, "finished": 2}
