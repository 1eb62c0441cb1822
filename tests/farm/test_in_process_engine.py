"""The engine that uses threads of this process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from qverify.errors import UsageError
from qverify_agents.errors import BadAddress
from qverify_farm.engines.engine import JobEngine
from qverify_farm.engines.in_process import InProcessEngine
from qverify_farm.engines.kept_threads import KeptThreads, OneThread
from qverify_farm.engines.open_engine import open_engine
from qverify_farm.engines.reached_boards import reached_boards
from qverify_farm.work.job_task import JobResult, JobTask
from qverify_farm.work.worker import JobWorker

from tests.farm.example_jobs import FAULTY, ExampleJobs, program

Ended = queue.SimpleQueue[tuple[JobTask, JobResult]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("farm")


@pytest.fixture(scope="module")
def jobs(folder: Path) -> ExampleJobs:
    return ExampleJobs.make(folder)


@pytest.fixture(scope="module")
def hangs(folder: Path) -> str:
    return program(folder / "hangs", "exec sleep 60")


@pytest.fixture
def engine(folder: Path, hangs: str) -> Iterator[JobEngine]:
    made = InProcessEngine(reached_boards([], ["local", FAULTY, hangs]), JobWorker(folder / "cache"), grace_s=0.1)
    yield made
    made.close()


@pytest.fixture
def ended() -> Ended:
    return queue.SimpleQueue()


def test_each_task_ends_once(engine: JobEngine, jobs: ExampleJobs, ended: Ended) -> None:
    tasks = [jobs.task(board, job=board) for board in ("local", FAULTY)]
    for task in tasks:
        engine.start(task, lambda *end: ended.put(end))
    results = {task.job: result for task, result in (ended.get(timeout=60) for _ in tasks)}
    assert {job: result.verdict for job, result in results.items()} == {"local": "PASSED", FAULTY: "FAILED"}
    assert ended.empty()


def test_tasks_for_unreachable_boards_end_busy(engine: JobEngine, jobs: ExampleJobs, ended: Ended) -> None:
    engine.start(jobs.task("elsewhere"), lambda *end: ended.put(end))
    assert ended.get(timeout=10)[1].ending == "busy"
    checked = queue.SimpleQueue[tuple[str, str]]()
    for name in ("elsewhere", "local", FAULTY):
        engine.check_board(name, lambda *end: checked.put(end))
    said = dict(checked.get(timeout=60) for _ in range(3))
    assert said["elsewhere"] == "no worker reaches elsewhere" and said["local"] == "" and "FAILED" in said[FAULTY]


def test_an_attempt_that_does_not_end_is_lost(engine: JobEngine, jobs: ExampleJobs, ended: Ended, hangs: str) -> None:
    """Its end is reported once; a later result is dropped."""
    assert isinstance(engine, InProcessEngine)
    stuck = threading.Event()
    task = replace(jobs.task(hangs), timeout_s=0.1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "qverify_farm.engines.in_process.run_job", lambda *_: stuck.wait(30) and JobResult("job", 1, "finished")
        )
        engine.start(task, lambda *end: ended.put(end))
        result = ended.get(timeout=10)[1]
    assert result.ending == "lost" and "longer than its timeout" in result.why
    stuck.set()
    engine.close()
    assert ended.empty()


def test_cancel_and_close(engine: JobEngine, jobs: ExampleJobs, ended: Ended, hangs: str) -> None:
    engine.start(jobs.task(hangs, job="one"), lambda *end: ended.put(end))
    engine.cancel("another")
    engine.close(30)
    assert ended.get(timeout=1)[1].ending == "cancelled"
    engine.start(jobs.task(), lambda *end: ended.put(end))
    assert ended.get(timeout=1)[1].ending == "busy"


def test_boards_of_the_inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inventory = tmp_path / "boards.toml"
    inventory.write_text('[boards.desk]\nuri = "local"\ntags = { soc = "j5" }\n[boards.shelf]\nuri = "local"\n')
    monkeypatch.setenv("QVERIFY_BOARDS", str(inventory))
    found = reached_boards(None, ["qemu-user:armv7"])
    assert list(found) == ["desk", "shelf", "qemu-user:armv7"]
    assert (found["desk"].address, found["desk"].tags) == ("desk", {"soc": "j5", "runner": "qvrt"})
    assert list(reached_boards(["shelf"])) == ["shelf"]
    with pytest.raises(UsageError, match=r"^dsk: not in boards.toml; did you mean desk\?$"):
        reached_boards(["dsk"])
    with pytest.raises(BadAddress, match="longer than 200"):
        reached_boards([], ["local?runtime=" + "x" * 200])
    engine = open_engine()
    assert list(engine.boards()) == ["desk", "shelf"]
    engine.close()


def test_threads_are_reused() -> None:
    """A second call uses the idle thread; a new thread is started only while the first is busy."""
    threads, names, go = KeptThreads(), queue.SimpleQueue[str](), threading.Event()
    threads.run(lambda: names.put(threading.current_thread().name))
    first = names.get(timeout=10)
    while not threads._idle:
        pass
    threads.run(lambda: (names.put(threading.current_thread().name), go.wait(10)))  # type: ignore[func-returns-value]
    threads.run(lambda: names.put(threading.current_thread().name))
    both = {names.get(timeout=10), names.get(timeout=10)}
    assert len(both) == 2 and first in both
    go.set()
    threads.close()


def test_work_continues_after_an_exception(capsys: pytest.CaptureFixture[str]) -> None:
    one, done = OneThread(), queue.SimpleQueue[int]()
    one.run(lambda: done.put(1 // 0))
    one.run(lambda: done.put(2))
    assert done.get(timeout=10) == 2
    assert "ZeroDivisionError" in capsys.readouterr().err
    one.close()
