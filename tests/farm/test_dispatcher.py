"""The dispatcher over both databases: each job exactly one result; retries, losses, cancelling, quarantine, resuming."""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from qverify_farm.dispatcher import Dispatcher
from qverify_farm.dispatcher import dispatcher as module
from qverify_farm.dispatcher.run_states import RunState
from qverify_farm.dispatcher.turn import Turns
from qverify_farm.engines.engine import Finished
from qverify_farm.scheduling import board_health
from qverify_farm.store import artifacts as artifacts_module
from qverify_farm.store.artifacts import Artifacts, open_artifacts
from qverify_farm.store.boards import all_boards, ensure_board
from qverify_farm.store.database import Database, open_database
from qverify_farm.store.events import events_after
from qverify_farm.store.jobs import Waiting, attempts_of, jobs_of
from qverify_farm.store.runs import NewJob, NewRun, cancel_run, ensure_project, reopen_run, submit_run
from qverify_farm.store.tables import Attempt, Board, Job, SuiteRun
from qverify_farm.work.job_task import JobResult, JobTask

from tests.farm import postgres
from tests.farm.scripted_engine import ScriptedEngine, passed

J5 = {f"j5-{n}": {"soc": "j5"} for n in range(3)}


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.02)


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return open_artifacts(str(tmp_path / "artifacts"))


def submit(
    database: Database,
    wanted: Sequence[str] = ("soc=j5",) * 6,
    retries: int = 0,
    submitter: str = "ann",
    **definition: Any,
) -> str:
    """Submits a job for each of `wanted`; returns the run's id."""
    files = {"m.onnx": ["0" * 64, 1], "in/a.npy": ["1" * 64, 2], "in/b.npy": ["2" * 64, 3], "x.npy": ["3" * 64, 3]}
    settings = {
        "models": ["m.onnx"],
        "inputs": "in",
        "files": ["m.onnx", "in/"],
        "options": {"seed": 1},
        "timeout_s": 5,
    }
    with database.write() as session:
        project = ensure_project(session)
        new = NewRun(project.id, "nightly", submitter, {"name": "nightly", "files": files, **definition})
        jobs = [NewJob(f"m in {want} {n}", "m", (want,), settings, retries) for n, want in enumerate(wanted)]
        return submit_run(session, new, jobs).id


def jobs(database: Database, run: str) -> list[Job]:
    with database.read() as session:
        return jobs_of(session, run)


def attempts(database: Database, run: str) -> list[Attempt]:
    with database.read() as session:
        return attempts_of(session, run)


def the_run(database: Database, run: str) -> SuiteRun:
    with database.read() as session:
        return session.get_one(SuiteRun, run)


def board(database: Database, name: str) -> Board:
    with database.read() as session:
        return session.get_one(Board, name)


class Working:
    """A dispatcher that works on everything until a condition holds."""

    def __init__(self, database: Database, engine: ScriptedEngine, artifacts: Artifacts, **options: Any):
        self.dispatcher, self._database = Dispatcher(database, engine, artifacts, **options), database

    def until(self, condition: Callable[[], bool]) -> Dispatcher:
        end = time.monotonic() + 20

        def done() -> bool:
            assert time.monotonic() < end, "it takes too long"
            return condition()

        self.dispatcher.run(done)
        return self.dispatcher

    def until_ended(self, *runs: str) -> Dispatcher:
        return self.until(lambda: not any(self.dispatcher.unfinished(run) for run in runs))


@pytest.fixture
def work(database: Database, artifacts: Artifacts) -> Iterator[Callable[..., Working]]:
    made: list[Working] = []

    def start(engine: ScriptedEngine, **options: Any) -> Working:
        made.append(Working(database, engine, artifacts, **options))
        return made[-1]

    yield start
    for one in made:
        one.dispatcher.close(2.0)


def test_every_job_gets_one_result_and_boards_are_never_shared(
    database: Database, work: Callable[..., Working]
) -> None:
    engine, run = (
        ScriptedEngine(J5, lambda task: (time.sleep(0.01), passed(task))[1]),
        submit(database, ("soc=j5",) * 20),
    )
    changes: list[None] = []
    work(engine, on_change=lambda: changes.append(None)).until_ended(run)
    assert {(job.state, job.verdict, job.attempt) for job in jobs(database, run)} == {("done", "PASSED", 1)}
    assert len({job for job, _, _ in engine.ran}) == len(engine.ran) == 20 and engine.overlaps == 0
    assert {name for _, name, _ in engine.ran} == set(J5) and changes
    row = the_run(database, run)
    assert (row.state, row.verdict) == ("done", "PASSED") and row.started and row.ended
    with database.read() as session:
        events = events_after(session, 0, run=run, most=1000)
        assert Counter((e.kind, e.content["state"]) for e in events) == {
            ("job", "running"): 20, ("job", "done"): 20, ("run", "running"): 1, ("run", "done"): 1
        }  # fmt: skip
        assert [b.state for b in all_boards(session)] == ["free"] * 3


def test_a_task_is_what_the_row_and_the_definition_say(
    database: Database, work: Callable[..., Working], artifacts: Artifacts
) -> None:
    engine, run = ScriptedEngine(J5), submit(database, ("j5-1",))
    work(engine).until_ended(run)
    task = engine.tasks[0]
    assert (task.models, task.inputs, task.options, task.timeout_s) == (("m.onnx",), "in", {"seed": 1}, 5.0)
    assert [file.path for file in task.files] == ["m.onnx", "in/a.npy", "in/b.npy"] and task.files[1].sha256 == "1" * 64
    assert (task.board, task.board_name, task.artifacts) == ("local?name=j5-1", "j5-1", artifacts.url)
    assert not task.isolated and not task.keep_capture


def test_a_result_is_recorded_with_its_artifacts(
    database: Database, work: Callable[..., Working], artifacts: Artifacts
) -> None:
    report = artifacts.put_bytes(b"{}").sha256

    def act(task: JobTask) -> JobResult:
        return passed(task, verdict="FAILED", why="conv1 differs", blame_side="board", blame_node="conv1", nodes=("conv1",),
                      report=report, facts={"arch": "arm64"}, worker="lab1", seconds=2.0)  # fmt: skip

    run = submit(database, ("j5-0",), retries=3)
    work(ScriptedEngine(J5, act)).until_ended(run)
    (job,), (attempt,) = jobs(database, run), attempts(database, run)
    assert (job.verdict, job.why, job.blame_side, job.blame_node, job.nodes) == (
        "FAILED",
        "conv1 differs",
        "board",
        "conv1",
        ["conv1"],
    )
    assert (job.report, job.facts, job.board, job.board_seconds) == (report, {"arch": "arm64"}, "j5-0", 0.01)
    assert (attempt.ending, attempt.verdict, attempt.worker, attempt.seconds) == ("finished", "FAILED", "lab1", 2.0)
    row = board(database, "j5-0")
    assert (row.last_verdict, row.last_job, row.facts) == ("FAILED", job.id, {"arch": "arm64"})
    assert the_run(database, run).verdict == "FAILED"


def test_only_inconclusive_is_tried_again_and_on_another_board(
    database: Database, work: Callable[..., Working]
) -> None:
    def act(task: JobTask) -> JobResult:
        return passed(task, verdict="INCONCLUSIVE" if task.attempt == 1 else "FAILED", why="no answer")

    engine, run = ScriptedEngine(J5, act), submit(database, ("soc=j5",), retries=2)
    work(engine).until_ended(run)
    (job,) = jobs(database, run)
    assert (job.verdict, job.attempt, job.retries_left) == ("FAILED", 2, 1)
    assert len({name for _, name, _ in engine.ran}) == 2


def test_retries_end(database: Database, work: Callable[..., Working]) -> None:
    run = submit(database, ("j5-0",), retries=2, quarantine=0)
    engine = ScriptedEngine(J5, lambda task: passed(task, verdict="INCONCLUSIVE", why="no answer", of_board=True))
    work(engine).until_ended(run)
    (job,) = jobs(database, run)
    assert (job.verdict, job.attempt, job.why) == ("INCONCLUSIVE", 3, "no answer")
    assert the_run(database, run).verdict == "INCONCLUSIVE"


def test_a_job_that_ends_its_process_is_isolated_and_given_up(database: Database, work: Callable[..., Working]) -> None:
    run = submit(database, ("j5-0", "j5-0"))
    poison = jobs(database, run)[0].id

    def act(task: JobTask) -> JobResult:
        return JobResult(task.job, task.attempt, "lost", why="signal 11") if task.job == poison else passed(task)

    engine = ScriptedEngine(J5, act)
    work(engine).until_ended(run)
    first, second = jobs(database, run)
    assert (first.verdict, first.why) == ("INCONCLUSIVE", "ended its process 3 times; the last time: signal 11")
    assert second.verdict == "PASSED" and [t.isolated for t in engine.tasks if t.job == poison] == [False, True, True]


def test_a_board_that_others_hold_costs_no_retry(
    database: Database, work: Callable[..., Working], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_health, "REST_FIRST_S", 0.01)

    def act(task: JobTask) -> JobResult:
        return JobResult(task.job, task.attempt, "busy", why="ann has it") if task.attempt < 4 else passed(task)

    run = submit(database, ("j5-0",))
    work(ScriptedEngine(J5, act)).until_ended(run)
    assert jobs(database, run)[0].verdict == "PASSED"
    assert [one.ending for one in attempts(database, run)] == ["busy"] * 3 + ["finished"]


def test_fail_fast_cancels_the_rest(database: Database, work: Callable[..., Working]) -> None:
    first = threading.Event()

    def act(task: JobTask) -> JobResult:
        if task.board_name == "j5-0":
            first.wait(5)
            return passed(task, verdict="FAILED")
        first.set()
        engine.cancelled(task.job).wait(10)
        return JobResult(task.job, task.attempt, "cancelled", why="cancelled")

    engine = ScriptedEngine(J5, act)
    run = submit(database, ("j5-0", "j5-1", "j5-0"), fail_fast=True)
    work(engine).until_ended(run)
    assert [(job.state, job.verdict) for job in jobs(database, run)] == [
        ("done", "FAILED"),
        ("cancelled", None),
        ("cancelled", None),
    ]
    row = the_run(database, run)
    assert (row.state, row.verdict) == ("cancelled", "FAILED") and row.why == "fail-fast: m in j5-0 0 FAILED"


def test_a_suite_is_ended_by_its_timeout(database: Database, work: Callable[..., Working]) -> None:
    def act(task: JobTask) -> JobResult:
        engine.cancelled(task.job).wait(10)
        return JobResult(task.job, task.attempt, "cancelled", why="cancelled")

    engine, run = ScriptedEngine(J5, act), submit(database, ("j5-0", "j5-0"), timeout_s=0.1)
    work(engine).until_ended(run)
    row = the_run(database, run)
    assert (row.state, row.verdict, row.why) == ("cancelled", "INCONCLUSIVE", "timeout of the suite: 0.1 s")
    assert {job.state for job in jobs(database, run)} == {"cancelled"}


def test_a_run_that_somebody_cancels(database: Database, work: Callable[..., Working]) -> None:
    def act(task: JobTask) -> JobResult:
        engine.cancelled(task.job).wait(10)
        return JobResult(task.job, task.attempt, "cancelled", why="cancelled")

    engine, run = ScriptedEngine(J5, act), submit(database, ("j5-0", "j5-0"))
    working = work(engine)
    working.until(lambda: bool(engine.ran))
    with database.write() as session:
        assert cancel_run(session, run, "by ann", 5.0) and not cancel_run(session, run, "again", 6.0)
    working.until_ended(run)
    assert {job.state for job in jobs(database, run)} == {"cancelled"} and len(engine.ran) == 1
    assert (the_run(database, run).why, the_run(database, run).verdict) == ("by ann", "INCONCLUSIVE")


def test_a_board_that_spoils_results_is_quarantined_until_it_is_healthy(
    database: Database, work: Callable[..., Working], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_health, "FIRST_S", 0.02)
    checks: list[str] = []

    def check(name: str) -> str:
        checks.append(name)
        return "no HELLO" if len(checks) < 3 else ""

    def act(task: JobTask) -> JobResult:
        return passed(task) if checks else passed(task, verdict="INCONCLUSIVE", why="no answer", of_board=True)

    engine, run = ScriptedEngine(J5, act, check), submit(database, ("j5-0",) * 5)
    working = work(engine)
    working.until(lambda: len(checks) == 2)
    assert len(engine.ran) == 3
    row = board(database, "j5-0")
    assert (
        row.state == "quarantined" and row.next_check and "no HELLO" in row.reason
    ) or "3 INCONCLUSIVE in a row" in row.reason
    working.until_ended(run)
    assert [job.verdict for job in jobs(database, run)] == ["INCONCLUSIVE"] * 3 + ["PASSED"] * 2 and len(checks) == 3
    assert board(database, "j5-0").state == "free"


def test_a_job_whose_boards_are_gone_is_given_up(database: Database, work: Callable[..., Working]) -> None:
    def act(task: JobTask) -> JobResult:
        engine.lose("j5-0")
        return JobResult(task.job, task.attempt, "lost", why="the host is gone")

    engine, run = ScriptedEngine(J5, act), submit(database, ("j5-0", "j5-0"), board_wait_s=0.05)
    dispatcher = work(engine).until_ended(run)
    assert {job.why for job in jobs(database, run)} == {"no board for 0 s: j5-0: no worker reaches it"}
    assert {job.verdict for job in jobs(database, run)} == {"INCONCLUSIVE"} and dispatcher.health().boards[
        "offline"
    ] == 1


def test_a_drained_board_gets_no_jobs(database: Database, work: Callable[..., Working]) -> None:
    with database.write() as session:
        ensure_board(session, "j5-0", 0.0).drained = True
    engine, run = ScriptedEngine(J5), submit(database, ("soc=j5",) * 8)
    work(engine).until_ended(run)
    assert {name for _, name, _ in engine.ran} == {"j5-1", "j5-2"}
    assert (board(database, "j5-0").state, board(database, "j5-0").reason) == ("offline", "drained")


def test_jobs_wait_while_the_artifact_store_is_full(
    database: Database, work: Callable[..., Working], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, run = ScriptedEngine(J5), submit(database)
    monkeypatch.setattr(artifacts_module, "KEEP_FREE_BYTES", 1 << 62)
    working, looks = work(engine), iter(range(5))
    working.until(lambda: next(looks) == 4)
    health = working.dispatcher.health()
    assert engine.ran == [] and health.full and not health.well and health.waiting == 6
    monkeypatch.setattr(artifacts_module, "KEEP_FREE_BYTES", 0)
    working.until_ended(run)
    assert working.dispatcher.health().well and the_run(database, run).verdict == "PASSED"


def test_what_a_dead_dispatcher_left_is_run_again_once(database_url: str, artifacts: Artifacts) -> None:
    """As after kill -9: nothing is closed, the lock alone is given up."""
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


def test_what_is_running_when_it_is_closed_waits_for_the_next(database: Database, artifacts: Artifacts) -> None:
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


def test_a_result_that_comes_late_or_twice_changes_nothing(database: Database, work: Callable[..., Working]) -> None:
    run = submit(database, ("j5-0", "j5-0"))
    engine = ScriptedEngine(J5)
    working = work(engine)
    working.until(lambda: len(engine.ran) == 2)
    first = engine.tasks[0]
    for attempt in (0, 1, 2):
        working.dispatcher._finished(first, JobResult(first.job, attempt, "finished", "FAILED", why="late"))
    working.until_ended(run)
    assert [job.verdict for job in jobs(database, run)] == ["PASSED", "PASSED"] and len(attempts(database, run)) == 2


def test_a_cancelled_run_is_resumed_with_what_it_lacks(database: Database, work: Callable[..., Working]) -> None:
    engine, run = (
        ScriptedEngine(J5, lambda task: passed(task, verdict="FAILED")),
        submit(database, ("j5-0",) * 3, fail_fast=True),
    )
    working = work(engine)
    working.until_ended(run)
    with database.write() as session:
        assert reopen_run(session, session.get_one(SuiteRun, run)) == 2
    working.until_ended(run) if working.dispatcher.unfinished(run) else working.until(lambda: len(engine.ran) == 2)
    working.until_ended(run)
    assert [job.state for job in jobs(database, run)] == ["done", "done", "cancelled"]


def test_a_dispatcher_of_some_runs_leaves_the_others_alone(database: Database, work: Callable[..., Working]) -> None:
    other, mine = submit(database), submit(database)
    engine = ScriptedEngine(J5)
    work(engine, runs=[mine]).until_ended(mine)
    assert {job.state for job in jobs(database, other)} == {"queued"} and the_run(database, other).state == "running"


def test_the_thread_takes_what_is_submitted_later(database: Database, work: Callable[..., Working]) -> None:
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
    """Every connection of this database is ended several times, the owner's too."""
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


def test_a_clock_that_jumps_ends_nothing(
    database: Database, work: Callable[..., Working], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, run = ScriptedEngine(J5), submit(database, ("j5-0",) * 12, timeout_s=1000.0)
    real, jumps = time.time, iter(range(10_000))
    monkeypatch.setattr(module.time, "time", lambda: real() + (-1e6, 1e6)[next(jumps) % 2])
    work(engine).until_ended(run)
    assert {job.verdict for job in jobs(database, run)} == {"PASSED"} and the_run(database, run).state == "done"


def test_a_waiting_job_takes_little_memory_of_the_dispatcher() -> None:
    turns, run = Turns(), RunState("r", "p", {}, None)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    waiting = [Waiting(f"{n:032x}", "r", n, "ann", 0, 1.0, ("soc=j5",), frozenset()) for n in range(10_000)]
    turns.add_run(run, waiting)
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert used / 10_000 < 5_000


def test_a_run_that_is_cancelled_before_anybody_heard_of_it_has_an_end(
    database: Database, work: Callable[..., Working]
) -> None:
    run = submit(database)
    with database.write() as session:
        cancel_run(session, run, "by ann", 5.0)
    work(ScriptedEngine(J5)).until(lambda: the_run(database, run).verdict is not None)
    assert (the_run(database, run).state, the_run(database, run).verdict) == ("cancelled", "INCONCLUSIVE")


def test_boards_that_were_left_as_they_were_are_offline_where_nobody_reaches_them(
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
    monkeypatch.setattr(board_health, "REST_FIRST_S", 0.01)
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
