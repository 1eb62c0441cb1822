"""The engine with threads in a process beside this one."""

from __future__ import annotations

import os
import queue
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from qverify_farm.engines.beside import BesideEngine
from qverify_farm.engines.reached_boards import reached_boards
from qverify_farm.work.job_task import JobResult, JobTask

from tests.farm.example_jobs import FAULTY, ExampleJobs, program

WAIT_S = 90.0


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> ExampleJobs:
    return ExampleJobs.make(tmp_path_factory.mktemp("jobs"))


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A board that kills the process that runs its job, and a board that hangs."""
    folder = tmp_path_factory.mktemp("boards")
    return program(folder / "kills", "kill -9 $PPID; exec sleep 60"), program(folder / "hangs", "exec sleep 60")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, boards: tuple[str, str]) -> Iterator[BesideEngine]:
    made = BesideEngine(reached_boards([], ["local", FAULTY, *boards]), str(tmp_path_factory.mktemp("cache")))
    yield made
    made.close(1)


def started(engine: BesideEngine, task: JobTask) -> queue.SimpleQueue[JobResult]:
    ended = queue.SimpleQueue[JobResult]()
    engine.start(task, lambda _, result: ended.put(result))
    return ended


def run(engine: BesideEngine, task: JobTask) -> JobResult:
    """Runs a task, and repeats it while there is no process to begin it."""
    end = time.monotonic() + WAIT_S
    while (result := started(engine, task).get(timeout=WAIT_S)).ending == "busy" and time.monotonic() < end:
        time.sleep(0.2)
    return result


def test_results_checks_and_cancel(engine: BesideEngine, jobs: ExampleJobs, boards: tuple[str, str]) -> None:
    assert [run(engine, jobs.task(board)).verdict for board in ("local", FAULTY)] == ["PASSED", "FAILED"]
    checked = queue.SimpleQueue[tuple[str, str]]()
    for name in ("local", "elsewhere"):
        engine.check_board(name, lambda *end: checked.put(end))
    assert dict(checked.get(timeout=WAIT_S) for _ in range(2)) == {
        "local": "",
        "elsewhere": "no worker reaches elsewhere",
    }
    ended = started(engine, jobs.task(boards[1], job="hangs"))
    time.sleep(0.5)
    engine.cancel("hangs")
    assert ended.get(timeout=WAIT_S).ending == "cancelled"


def test_a_process_that_dies_loses_its_jobs_and_is_restarted(
    engine: BesideEngine, jobs: ExampleJobs, boards: tuple[str, str]
) -> None:
    run(engine, jobs.task())
    ended = started(engine, jobs.task(boards[1], job="beside"))
    lost = run(engine, jobs.task(boards[0], job="kills"))
    assert (lost.ending, lost.why) == ("lost", "the process that runs the jobs ended")
    assert ended.get(timeout=WAIT_S).ending == "lost"
    assert run(engine, jobs.task()).verdict == "PASSED"


def test_a_closed_engine_leaves_nothing_and_starts_nothing(
    jobs: ExampleJobs, boards: tuple[str, str], tmp_path: Path
) -> None:
    """No process is left, and later tasks are not begun."""
    engine = BesideEngine(reached_boards([], [boards[1]]), str(tmp_path))
    process = psutil.Process(engine.process_id)
    ended = started(engine, jobs.task(boards[1]))
    time.sleep(5)
    children = process.children(recursive=True)
    engine.close(30)
    assert ended.get(timeout=1).ending == "cancelled"
    assert started(engine, jobs.task()).get(timeout=WAIT_S).ending == "busy"
    psutil.wait_procs(children, timeout=WAIT_S)
    assert not process.is_running() and not any(child.is_running() for child in children)


def test_the_process_ends_with_its_parent(jobs: ExampleJobs, tmp_path: Path) -> None:
    engine = BesideEngine(reached_boards([], ["local"]), str(tmp_path))
    assert run(engine, jobs.task()).verdict == "PASSED"
    process = psutil.Process(engine.process_id)
    os.kill(process.pid, signal.SIGSTOP)
    engine._closed.set()
    assert engine._process.popen.stdin is not None
    engine._process.popen.stdin.close()  # as the end of this process would
    os.kill(process.pid, signal.SIGCONT)
    process.wait(WAIT_S)
    engine.close(1)
