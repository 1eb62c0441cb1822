"""The service gives, and its client prints, the reason why a job waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from qverify_farm.client.verify_on_farm import WAITS_SAID_S, WaitReasons
from qverify_farm.service.triage_engine import LANE, TRIAGE_WANTED
from qverify_farm.store.boards import all_boards, ensure_board
from qverify_farm.store.jobs import jobs_of
from qverify_farm.store.tables import SuiteRunRecord
from qverify_farm.suites.board_waits import clock, lines_of_run
from sqlalchemy import select

from tests.farm.service_app import Service


@pytest.fixture
def idle(service: Service) -> Service:
    """A service whose dispatcher does nothing, so that jobs stay queued."""
    service.farm.dispatcher.close(2.0)
    return service


def set_board(service: Service, name: str, state: str, reason: str = "", drained: bool = False) -> None:
    with service.farm.database.write() as session:
        row = ensure_board(session, name, time.time())
        row.tags = {"soc": "j5"} if name.startswith("j5") else {"qverify": "triage"} if name.startswith(LANE) else {}
        row.state, row.reason, row.drained = state, reason, drained


def reason(service: Service, board: str, headers: dict[str, str] | None = None) -> str:
    """Submits a job for a board and returns why it waits; its page and its run's list of jobs say the same."""
    run = service.submit(boards=[board], headers=headers)
    (job,) = service.client.get(f"/api/v1/runs/{run}/jobs", headers=headers).json()["jobs"]
    assert job["state"] == "queued"
    assert service.client.get(f"/api/v1/jobs/{job['id']}", headers=headers).json()["waits"] == job["waits"]
    return str(job["waits"])


def without_deadline(text: str) -> str:
    return text.partition("; it ends INCONCLUSIVE at ")[0]


def test_the_boards_that_fit_are_named_with_their_reasons(idle: Service) -> None:
    set_board(idle, "j5-0", "quarantined", "3 INCONCLUSIVE in a row; the last: no answer")
    set_board(idle, "j5-1", "free")
    assert reason(idle, "soc=j5") == "" and "quarantined" in reason(idle, "j5-0")
    set_board(idle, "j5-1", "busy")
    assert reason(idle, "j5-1") == "j5-1 is busy"
    whole = "j5-1 is busy; j5-0 is quarantined: 3 INCONCLUSIVE in a row; the last: no answer"
    assert reason(idle, "soc=j5") == whole
    set_board(idle, "j5-1", "offline", "drained", drained=True)
    set_board(idle, "j5-0", "offline", "no worker reaches it")
    assert without_deadline(reason(idle, "j5-1")) == "j5-1 is drained"
    assert without_deadline(reason(idle, "j5-0")) == "j5-0: no worker reaches it"


def test_only_some_boards_of_many_are_named(idle: Service) -> None:
    for number in range(6):
        set_board(idle, f"j5-{number}", "busy")
    assert reason(idle, "soc=j5") == "j5-0, j5-1, j5-2 and 3 more are busy"
    for number in range(1, 6):
        set_board(idle, f"j5-{number}", "offline", "no worker reaches it")
    assert reason(idle, "soc=j5").endswith("; j5-2: no worker reaches it; and 3 more")


def test_the_message_of_a_job_of_another_project_is_not_told(idle: Service) -> None:
    theirs = idle.bearer("submitter", "theirs")
    set_board(idle, "j5-0", "quarantined", "3 INCONCLUSIVE in a row; the last: their secret")
    assert without_deadline(reason(idle, "j5-0", theirs)) == "j5-0 is quarantined: 3 INCONCLUSIVE in a row"


def test_a_full_store_is_the_reason_of_every_job(idle: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    set_board(idle, "j5-0", "busy")
    full = "the artifact store is full: 3 MB are free"
    monkeypatch.setattr(idle.farm.dispatcher, "_store_error", full)
    assert reason(idle, "j5-0") == full


def test_a_triage_waits_for_other_triages(idle: Service) -> None:
    set_board(idle, f"{LANE}1", "busy")
    files = {"m.onnx": idle.put(), "d.npz": idle.put(b"dump")}
    body = {"models": ["m.onnx"], "dump": "d.npz", "files": files}
    run = idle.client.post("/api/v1/triages", json=body).json()["id"]
    (job,) = idle.client.get(f"/api/v1/runs/{run}/jobs").json()["jobs"]
    assert TRIAGE_WANTED not in job["wanted"] and job["waits"] == "other triages run"


def job(waits: str, state: str = "queued", **more: Any) -> dict[str, Any]:
    return {"name": "digits desk", "state": state, "waits": waits, **more}


def test_a_reason_is_told_once_after_it_has_lasted() -> None:
    lines = list[str]()
    reasons = WaitReasons(lines.append)
    for at in range(0, 40):
        reasons.look([job(f"the artifact store is full: {at} MB are free")], float(at))
    assert lines == [f"digits desk waits: the artifact store is full: {WAITS_SAID_S:.0f} MB are free"]
    for at in range(40, 80):
        reasons.look([job("desk is busy"), job("desk is busy")], float(at))
    assert lines[1:] == ["digits desk and 1 more wait: desk is busy"]


@pytest.mark.parametrize(
    "jobs",
    [
        lambda at: [job("")],
        lambda at: [job("desk is busy", state="running")],
        lambda at: [{"name": "x", "state": "queued"}],  # of an older server
        lambda at: [job("desk is busy" if at % 8 else "")],  # for a moment at a time
    ],
)
def test_nothing_is_told_of_a_job_that_goes_on(jobs: Callable[[int], list[dict[str, Any]]]) -> None:
    lines = list[str]()
    reasons = WaitReasons(lines.append)
    for at in range(40):
        reasons.look(jobs(at), float(at))
    assert lines == []


def test_the_next_check_and_the_deadline_are_said(idle: Service) -> None:
    set_board(idle, "j5-0", "quarantined", "3 INCONCLUSIVE in a row")
    with idle.farm.database.write() as session:
        ensure_board(session, "j5-0", time.time()).next_check = 1_800_000_000.0
    said = reason(idle, "j5-0")
    assert said.startswith(
        "j5-0 is quarantined: 3 INCONCLUSIVE in a row, next check 08:00:00 UTC; it ends INCONCLUSIVE at "
    )
    with idle.farm.database.read() as session:
        run = next(iter(session.scalars(select(SuiteRunRecord))))
        (line,) = lines_of_run(run, jobs_of(session, run.id), all_boards(session))
        until = clock(run.created + 900)
    assert line == (
        "1 job waits for j5-0: j5-0 is quarantined: 3 INCONCLUSIVE in a row, next check 08:00:00 UTC; "
        f"INCONCLUSIVE at {until} if none is usable"
    )
    set_board(idle, "j5-0", "busy")
    assert reason(idle, "j5-0") == "j5-0 is busy"  # it may become free at any moment
