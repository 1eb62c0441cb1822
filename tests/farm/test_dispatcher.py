"""The dispatcher over both kinds of database: exactly one result for each job, retries, losses, cancelling, quarantine."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from qverify_farm.dispatcher import dispatcher as module
from qverify_farm.scheduling import board_health
from qverify_farm.store import artifacts as artifacts_module
from qverify_farm.store.artifacts import ArtifactStore
from qverify_farm.store.boards import all_boards, ensure_board
from qverify_farm.store.database import Database
from qverify_farm.store.events import events_after
from qverify_farm.store.runs import cancel_run
from qverify_farm.store.tables import SuiteRunRecord
from qverify_farm.store.verdicts import take_baseline
from qverify_farm.work.job_task import JobResult, JobTask

from tests.farm.dispatching import J5, Working, attempts, board, jobs, submit, the_run
from tests.farm.scripted_engine import ScriptedEngine, passed

EXTENT = {"causes": ["node"], "tensors": 2, "elements": 3, "nodes": [[1, 0.5, 0, 1], [2, 0.5, 2, 0]]}  # of a failure


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
        events = events_after(session, 0, run=run, limit=1000)
        assert Counter((e.kind, e.content["state"]) for e in events) == {
            ("job", "running"): 20, ("job", "done"): 20, ("run", "running"): 1, ("run", "done"): 1
        }  # fmt: skip
        assert [b.state for b in all_boards(session)] == ["free"] * 3


def test_a_task_has_the_values_of_the_row_and_the_definition(
    database: Database, work: Callable[..., Working], artifacts: ArtifactStore
) -> None:
    engine, run = ScriptedEngine(J5), submit(database, ("j5-1",))
    work(engine).until_ended(run)
    task = engine.tasks[0]
    assert (task.models, task.inputs, task.options, task.timeout_s) == (("m.onnx",), "in", {"seed": 1}, 5.0)
    assert [file.path for file in task.files] == ["m.onnx", "in/a.npy", "in/b.npy"] and task.files[1].sha256 == "1" * 64
    assert (task.board, task.board_name, task.artifacts) == ("local?name=j5-1", "j5-1", artifacts.url)
    assert not task.isolated and not task.keep_capture


def test_a_result_is_recorded_with_its_artifacts(
    database: Database, work: Callable[..., Working], artifacts: ArtifactStore
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


def test_the_number_of_retries_is_limited(database: Database, work: Callable[..., Working]) -> None:
    run = submit(database, ("j5-0",), retries=2, quarantine=0)
    engine = ScriptedEngine(J5, lambda task: passed(task, verdict="INCONCLUSIVE", why="no answer", of_board=True))
    work(engine).until_ended(run)
    (job,) = jobs(database, run)
    assert (job.verdict, job.attempt, job.why) == ("INCONCLUSIVE", 3, "no answer")
    assert the_run(database, run).verdict == "INCONCLUSIVE"


def test_a_job_whose_files_are_wrong_is_not_tried_again(database: Database, work: Callable[..., Working]) -> None:
    run = submit(database, ("soc=j5",), retries=2)
    refused = {"ending": "refused", "verdict": "INCONCLUSIVE", "why": "m.onnx: no model"}
    work(ScriptedEngine(J5, lambda task: passed(task, **refused))).until_ended(run)
    (job,), (attempt,) = jobs(database, run), attempts(database, run)
    assert (job.verdict, job.attempt, job.why) == ("INCONCLUSIVE", 1, "m.onnx: no model")
    assert (attempt.ending, attempt.verdict, attempt.of_board) == ("refused", "INCONCLUSIVE", False)
    assert the_run(database, run).verdict == "INCONCLUSIVE" and board(database, "j5-0").state == "free"


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


def test_a_busy_board_costs_no_retry(
    database: Database, work: Callable[..., Working], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_health, "FIRST_REST_S", 0.01)

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


def until_cancelled() -> ScriptedEngine:
    """An engine whose attempts end when they are cancelled."""

    def act(task: JobTask) -> JobResult:
        engine.cancelled(task.job).wait(10)
        return JobResult(task.job, task.attempt, "cancelled", why="cancelled")

    engine = ScriptedEngine(J5, act)
    return engine


def test_a_suite_ends_at_its_timeout(database: Database, work: Callable[..., Working]) -> None:
    engine, run = until_cancelled(), submit(database, ("j5-0", "j5-0"), timeout_s=0.1)
    work(engine).until_ended(run)
    row = the_run(database, run)
    assert (row.state, row.verdict, row.why) == ("cancelled", "INCONCLUSIVE", "timeout of the suite: 0.1 s")
    assert {(job.state, job.why) for job in jobs(database, run)} == {("cancelled", row.why)}


def test_a_known_failure_does_not_trigger_fail_fast(database: Database, work: Callable[..., Working]) -> None:
    def act(task: JobTask) -> JobResult:
        verdict = "FAILED" if task.board_name == "j5-0" else "PASSED"
        return replace(passed(task, verdict=verdict), blame_side="board", nodes=("b", "a"), extent=EXTENT)

    first = submit(database, ("j5-0", "j5-1"))
    work(ScriptedEngine(J5, act)).until_ended(first).close()
    with database.write() as session:
        take_baseline(session, session.get_one(SuiteRunRecord, first), 1.0)
    run = submit(database, ("j5-0",) + ("j5-1",) * 5, fail_fast=True, baseline=True)
    work(ScriptedEngine(J5, act)).until_ended(run)
    assert [job.verdict for job in jobs(database, run)] == ["FAILED"] + ["PASSED"] * 5
    assert the_run(database, run).verdict == "PASSED"


def test_a_timeout_does_not_wait_for_the_next_poll(
    database: Database, work: Callable[..., Working], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_S", 30.0)

    engine, run = until_cancelled(), submit(database, ("j5-0",), timeout_s=0.1)
    work(engine).until_ended(run)
    assert the_run(database, run).why == "timeout of the suite: 0.1 s"


def test_a_run_is_cancelled_by_another_process(database: Database, work: Callable[..., Working]) -> None:
    engine, run = until_cancelled(), submit(database, ("j5-0", "j5-0"))
    working = work(engine)
    working.until(lambda: bool(engine.ran))
    with database.write() as session:
        assert cancel_run(session, run, "by ann", 5.0) and not cancel_run(session, run, "again", 6.0)
    working.until_ended(run)
    assert {(job.state, job.why) for job in jobs(database, run)} == {("cancelled", "by ann")} and len(engine.ran) == 1
    assert (the_run(database, run).why, the_run(database, run).verdict) == ("by ann", "INCONCLUSIVE")


def test_a_board_that_spoils_results_is_quarantined_until_it_is_healthy(
    database: Database, work: Callable[..., Working], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_health, "FIRST_CHECK_PAUSE_S", 0.02)
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


def test_a_job_without_reachable_boards_is_given_up(database: Database, work: Callable[..., Working]) -> None:
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
    assert engine.ran == [] and "full" in health.store and not health.well and health.waiting == 6
    monkeypatch.setattr(artifacts_module, "KEEP_FREE_BYTES", 0)
    working.until_ended(run)
    assert working.dispatcher.health().well and the_run(database, run).verdict == "PASSED"
