"""The host's sides run while the board runs: what is waited for, what is shown, and what ends them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from qverify.compiler.compile_model import compile_model
from qverify.errors import BadFileError
from qverify.model_bin.records import encode
from qverify.session.background import Background
from qverify.session.host_sides import Watch
from qverify.session.job import Job
from qverify.session.request import Request
from qverify_agents.errors import LinkError

from tests.plain.test_light_model import products

STEPS = [("simulator", 1, 2), ("simulator", 2, 2)]


def test_the_work_goes_on_meanwhile_and_its_steps_are_shown_once_it_is_waited_for() -> None:
    began, go_on, seen = threading.Event(), threading.Event(), list[tuple[str, int, int]]()

    def work(watch: Watch) -> str:
        watch(*STEPS[0])
        began.set()
        assert go_on.wait(60)
        while not background._is_shown:
            go_on.wait(0.001)
        watch(*STEPS[1])
        return threading.current_thread().name

    with Background(work, lambda *step: seen.append(step)) as background:
        assert began.wait(60) and not seen
        go_on.set()
        name = background.result()
    assert name != threading.current_thread().name and not name.startswith("qverify-block")
    assert seen == STEPS[1:]


def test_the_error_of_the_work_is_raised_where_it_is_waited_for() -> None:
    def work(watch: Watch) -> None:
        raise BadFileError("no such kernel")

    with pytest.raises(BadFileError, match="no such kernel"), Background(work, None) as background:
        background.result()
    with Background(work, None):
        pass  # nobody waits


def test_an_error_meanwhile_ends_the_work_at_its_next_step() -> None:
    began, steps = threading.Event(), list[int]()

    def work(watch: Watch) -> None:
        for step in range(1 << 30):
            watch("simulator", step, 1 << 30)
            steps.append(step)
            began.set()

    with pytest.raises(KeyboardInterrupt), Background(work, None):
        assert began.wait(60)
        raise KeyboardInterrupt
    assert 1 <= len(steps) < 1 << 30
    assert not any(t.name == "qverify-meanwhile" for t in threading.enumerate())


def job(folder: Path, board: str) -> tuple[Job, Any]:
    model = products(1).SerializeToString()
    (folder / "m.onnx").write_bytes(model)
    (folder / "m.bin").write_bytes(encode(compile_model(model, "m.onnx").graph))
    made = Job(Request([str(folder / "m.onnx"), str(folder / "m.bin")], board=board))
    return made, made.prepared(made.request.inputs, 0)


def test_a_wrong_address_is_told_before_the_hosts_mistake_and_that_before_a_board_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, prepared = job(tmp_path, "serial:///no/such/port?nonsense=1")
    away, prepared_too = job(tmp_path, "serial:///no/such/port")

    def refused(*_: Any) -> None:
        raise BadFileError("the reference refuses it")

    for one in (made, away):
        monkeypatch.setattr(one._host, "run", refused)
    with pytest.raises(LinkError):
        made.record(prepared)
    with pytest.raises(BadFileError, match="the reference refuses it"):
        away.record(prepared_too)


def test_the_sides_stand_in_their_order_whichever_ends_first(tmp_path: Path) -> None:
    made, prepared = job(tmp_path, "local")
    try:
        ran, pull, unreached = made.record(prepared)
    finally:
        made.close()
    assert list(ran.recordings) == ["reference", "simulator", "board"] and pull is not None and not unreached
    assert ran.recordings["board"].digests == ran.recordings["simulator"].digests
