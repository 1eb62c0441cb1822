"""Several engines used as one: each board's tasks go to the part that reaches the board."""

from __future__ import annotations

import os
import queue
from pathlib import Path

import pytest
from qverify_farm.engines.beside import BesideEngine
from qverify_farm.engines.group import BOARDS_PER_PROCESS, EngineGroup, engine_beside, engine_here
from qverify_farm.engines.in_process import InProcessEngine
from qverify_farm.engines.reached_boards import reached_boards
from qverify_farm.work.job_task import JobResult, JobTask
from qverify_farm.work.worker import JobWorker

from tests.farm.example_jobs import FAULTY, ExampleJobs, program

WAIT_S = 90.0


def run(engine: EngineGroup, task: JobTask) -> JobResult:
    return started(engine, task).get(timeout=WAIT_S)


def started(engine: EngineGroup, task: JobTask) -> queue.SimpleQueue[JobResult]:
    ended = queue.SimpleQueue[JobResult]()
    engine.start(task, lambda _, result: ended.put(result))
    return ended


def test_each_task_goes_to_the_engine_that_reaches_its_board(tmp_path: Path) -> None:
    jobs, hangs = ExampleJobs.make(tmp_path), program(tmp_path / "hangs", "exec sleep 60")
    parts = [
        InProcessEngine(reached_boards([], addresses), JobWorker(tmp_path / "cache"))
        for addresses in (["local"], [FAULTY, hangs])
    ]
    group = EngineGroup(parts)
    assert list(group.boards()) == ["local", FAULTY, hangs]
    assert [run(group, jobs.task(board)).verdict for board in ("local", FAULTY)] == ["PASSED", "FAILED"]
    nowhere = run(group, jobs.task("elsewhere"))
    assert (nowhere.ending, nowhere.why) == ("busy", "no worker reaches elsewhere")
    checked = queue.SimpleQueue[tuple[str, str]]()
    for name in ("local", "elsewhere"):
        group.check_board(name, lambda *end: checked.put(end))
    assert dict(checked.get(timeout=WAIT_S) for _ in range(2)) == {
        "local": "",
        "elsewhere": "no worker reaches elsewhere",
    }
    hanging = started(group, jobs.task(hangs, job="hanging"))
    group.cancel("hanging")
    assert hanging.get(timeout=WAIT_S).ending == "cancelled"
    group.close(5)
    assert run(group, jobs.task("local")).ending == "busy"


def test_many_boards_use_one_process_per_processor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    boards = reached_boards([], [f"local?name={at}" for at in range(BOARDS_PER_PROCESS + 1)])
    few = dict(list(boards.items())[:BOARDS_PER_PROCESS])
    made = engine_beside(boards, str(tmp_path))
    try:
        assert isinstance(made, EngineGroup) and made.boards().keys() == boards.keys()
        assert [len(part.boards()) for part in made.parts] == [5, 4]
    finally:
        made.close(1)
    for engine, kind in ((engine_here(few), InProcessEngine), (engine_beside(few, str(tmp_path)), BesideEngine)):
        assert isinstance(engine, kind)
        engine.close(1)
