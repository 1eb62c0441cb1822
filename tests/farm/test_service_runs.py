"""The service over both kinds of database: uploads, submissions, runs, replies and history."""

from __future__ import annotations

import hashlib
import html
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from qverify_farm.dispatcher import dispatcher
from qverify_farm.store.artifacts import open_artifacts
from qverify_farm.store.runs import ensure_project
from qverify_farm.ui.routes import add_pages
from qverify_farm.work.job_task import JobResult, JobTask

from tests.farm.scripted_engine import passed
from tests.farm.service_app import INPUT, MODEL, Service, error_of, serving


@pytest.fixture(autouse=True)
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "POLL_S", 0.02)


def test_a_verification_runs_on_each_requested_board(any_service: Service) -> None:
    run = any_service.submit(boards=["all:soc=j5", "soc=rv1126"], labels={"firmware": "1.2"}, options={"seed": 3})
    ended = any_service.ended(run)
    assert (ended["state"], ended["verdict"], ended["counts"]) == ("done", "PASSED", {"done": 3, "PASSED": 3})
    assert ended["labels"] == {"firmware": "1.2"} and ended["kind"] == "verify"
    jobs = any_service.client.get(f"/api/v1/runs/{run}/jobs").json()["jobs"]
    assert [(job["name"], job["board"]) for job in jobs] == [
        ("m j5-0", "j5-0"),
        ("m j5-1", "j5-1"),
        ("m soc=rv1126", "rv-0"),
    ]
    whole = any_service.client.get(f"/api/v1/jobs/{jobs[0]['id']}").json()
    assert [(one["number"], one["ending"]) for one in whole["attempts"]] == [(1, "finished")]
    history = any_service.client.get("/api/v1/history", params={"board": "j5-1"}).json()["jobs"]
    assert [(one["name"], one["labels"]) for one in history] == [("m j5-1", {"firmware": "1.2"})]
    listed = any_service.client.get("/api/v1/runs", params={"kind": "verify", "state": "done"}).json()["runs"]
    assert [one["id"] for one in listed] == [run]
    kinds = [one["kind"] for one in any_service.client.get("/api/v1/events", params={"run": run}).json()["events"]]
    assert kinds[0] == "run" and kinds[-1] == "run" and kinds.count("job") == 6


def test_the_worker_gets_the_submitted_values(tmp_path: Path) -> None:
    seen: list[JobTask] = []

    def act(task: JobTask) -> JobResult:
        seen.append(task)
        return passed(task)

    with serving(str(tmp_path / "farm.db"), tmp_path, act) as service:
        service.ended(service.submit(options={"seed": 3}, timeout_s=77, keep_capture=True))
    (task,) = seen
    assert [(file.path, file.size) for file in task.files] == [("in/a.npy", len(INPUT)), ("m.onnx", len(MODEL))]
    assert (task.models, task.inputs, task.options) == (("m.onnx",), "in", {"seed": 3})
    assert task.timeout_s == 77 and task.keep_capture


def test_a_submission_that_is_sent_again_makes_no_second_run(any_service: Service) -> None:
    """Another project may have the same key."""
    client, key = any_service.client, {"Idempotency-Key": "3f1c9a0e-lost"}
    body = any_service.verification(boards=["j5-0", "j5-1"])
    first = client.post("/api/v1/verifications", json=body, headers=key)
    again = client.post("/api/v1/verifications", json=body, headers=key)
    assert first.status_code == again.status_code == 201 and first.json() == again.json() and again.json()["jobs"] == 2
    error = error_of(client.post("/api/v1/verifications", json={**body, "priority": 3}, headers=key), 422)
    assert error["where"] == "header.Idempotency-Key"
    suite_job = {"name": "a", "model": "m", "models": ["m.onnx"], "files": ["m.onnx"], "wanted": ["j5-0"]}
    suite = {"name": "s", "files": body["files"], "jobs": [suite_job]}
    error_of(client.post("/api/v1/suites", json=suite, headers=key), 422)
    triage = {"files": body["files"], "models": ["m.onnx"]}
    error_of(client.post("/api/v1/triages", json=triage, headers=key), 422)
    error_of(client.post("/api/v1/verifications", json=body, headers={"Idempotency-Key": "a b"}), 422)
    assert [run["id"] for run in client.get("/api/v1/runs").json()["runs"]] == [first.json()["id"]]
    for path, more in (("suites", suite), ("triages", triage)):
        of_path = {"Idempotency-Key": f"3f1c9a0e-{path}"}
        assert len({client.post(f"/api/v1/{path}", json=more, headers=of_path).json()["id"] for _ in range(2)}) == 1
    any_service.ended(first.json()["id"])
    headers = any_service.bearer("submitter", "elsewhere")
    theirs = client.post("/api/v1/verifications", json=any_service.verification(headers), headers=headers | key)
    assert theirs.status_code == 201 and theirs.json()["id"] != first.json()["id"]


def test_a_submission_that_is_sent_again_after_a_restart_or_into_a_full_quota(tmp_path: Path) -> None:
    url, key = str(tmp_path / "farm.db"), {"Idempotency-Key": "3f1c9a0e-lost"}
    with serving(url, tmp_path) as service:
        body = service.verification()
        first = service.client.post("/api/v1/verifications", json=body, headers=key).json()
        service.ended(first["id"])
    with serving(url, tmp_path) as service:
        with service.farm.database.write() as session:
            ensure_project(session).quota_jobs = 0
        assert service.client.post("/api/v1/verifications", json=body, headers=key).json() == first
        assert len(service.client.get("/api/v1/runs").json()["runs"]) == 1


def test_a_suite_is_submitted_as_jobs_with_the_digests_of_its_files(any_service: Service) -> None:
    files = {"m.onnx": any_service.put(MODEL), "in/a.npy": any_service.put(INPUT)}
    job = {"model": "m", "models": ["m.onnx"], "inputs": "in", "files": ["m.onnx", "in/"], "wanted": ["soc=j5"]}
    jobs = [{"name": f"m in #{n}", **job} for n in range(4)]
    body = {"name": "nightly", "files": files, "jobs": jobs, "labels": {"firmware": "7"}}
    reply = any_service.client.post("/api/v1/suites", json=body)
    assert reply.status_code == 201 and reply.json()["jobs"] == 4
    ended = any_service.ended(reply.json()["id"])
    assert (ended["name"], ended["verdict"], ended["counts"]["PASSED"]) == ("nightly", "PASSED", 4)


def test_all_mistakes_of_a_submission_are_reported_at_once(service: Service) -> None:
    body = service.verification(boards=["j5-9", "soc=j6"], options={"runner": "x", "sed": 1}, models=["other.onnx"])
    error = error_of(service.client.post("/api/v1/verifications", json=body), 422)
    for words in (
        "other.onnx: none of the files",
        "j5-9",
        "soc=j6",
        "runner: a job must not have this option",
        "sed: unknown option",
    ):
        assert words in error["got"]
    assert service.client.get("/api/v1/runs").json() == {"runs": []}


@pytest.mark.parametrize("path", ["../m.onnx", "/etc/passwd", "a//b", "a,b", "a:b", "a\\b", "./a", "a/../../b", ""])
def test_a_path_outside_of_its_tree_is_refused(service: Service, path: str) -> None:
    body = service.verification(files={path: service.put()}, models=[path], inputs="")
    error_of(service.client.post("/api/v1/verifications", json=body), 422)


def test_a_name_too_long_for_a_file_system_and_tags_without_tags_are_refused(service: Service) -> None:
    for name in ("x" * 300 + ".onnx", "\N{SNOWMAN}" * 86):
        body = service.verification(files={name: service.put()}, models=[name], inputs="")
        assert "more than 255 bytes" in str(error_of(service.client.post("/api/v1/verifications", json=body), 422))
        upload = service.client.post("/api/v1/artifacts", params={"name": name}, content=b"x")
        assert "255 bytes" in str(error_of(upload, 422))
    body = service.verification(boards=["all:"])
    assert "wanted all:KEY=VALUE" in str(error_of(service.client.post("/api/v1/verifications", json=body), 422))
    body = service.verification(options={"run_sim": []})
    assert "run_sim: got []" in str(error_of(service.client.post("/api/v1/verifications", json=body), 422))


def test_files_that_were_not_uploaded_are_named(service: Service) -> None:
    missing = hashlib.sha256(b"never put").hexdigest()
    body = service.verification(files={"m.onnx": missing}, inputs="")
    error = error_of(service.client.post("/api/v1/verifications", json=body), 422)
    assert error["what"] == "the bytes of 1 file are not here" and error["got"] == "m.onnx"


def test_a_run_is_cancelled_and_resumed(tmp_path: Path) -> None:
    import threading

    let = threading.Event()

    def act(task: JobTask) -> JobResult:
        return passed(task) if let.wait(10) else passed(task, ending="cancelled")

    with serving(str(tmp_path / "farm.db"), tmp_path, act) as service:
        service.client.post("/api/v1/boards/j5-1/drain", json={})
        run = service.submit(boards=["j5-0", "j5-1"])
        why = {"why": "wrong firmware"}
        assert service.client.post(f"/api/v1/runs/{run}/cancel", json=why).json()["changed"]
        assert not service.client.post(f"/api/v1/runs/{run}/cancel", json=why).json()["changed"]
        assert "wrong firmware" in service.client.get(f"/api/v1/runs/{run}").json()["why"]
        let.set()
        service.client.post("/api/v1/boards/j5-1/undrain")
        assert service.client.post(f"/api/v1/runs/{run}/resume").json()["jobs"] >= 1
        assert service.ended(run)["verdict"] == "PASSED"


def test_a_drained_board_gets_no_jobs_and_has_a_reason(any_service: Service) -> None:
    client = any_service.client
    assert client.post("/api/v1/boards/j5-0/drain", json={"reason": "new cable"}).json() == {"changed": True, "jobs": 0}
    board = client.get("/api/v1/boards/j5-0").json()
    assert board["drained"] and board["reason"] == "drained: new cable"
    assert client.get("/api/v1/boards").json()["boards"][0]["reason"] == "drained: new cable"
    run = any_service.submit(boards=["soc=j5"])
    assert any_service.ended(run)["verdict"] == "PASSED"
    assert client.get(f"/api/v1/runs/{run}/jobs").json()["jobs"][0]["board"] == "j5-1"
    assert client.post("/api/v1/boards/j5-0/undrain").json()["changed"]
    assert error_of(client.post("/api/v1/boards/nobody/drain", json={}), 404)["what"] == "there is no such board"


REPORT = {
    "pairs": [
        {
            "a": "simulator",
            "b": "board",
            "tensors": [
                {"name": "t7", "node": "conv7", "verdict": "FAILED", "max_lsb": 3, "cosine": 0.5, "sqnr_db": "inf"}
            ],
        }
    ]
}


def test_what_weakens_a_verdict_is_said_by_every_reply(any_service: Service) -> None:
    engine, client, text = any_service.farm.engine._engine, any_service.client, "judged by sqnr_db >= -100"  # type: ignore[attr-defined]
    before = any_service.submit(name="nightly")
    assert "caveats" not in any_service.ended(before)["counts"]
    engine._act = lambda task: passed(task, caveats=text)
    after = any_service.submit(name="nightly")
    ended = any_service.ended(after)
    jobs = client.get(f"/api/v1/runs/{after}/jobs").json()["jobs"]
    assert (ended["verdict"], ended["counts"]["caveats"]) == ("PASSED", len(jobs))
    assert {job["caveats"] for job in jobs} == {text} == {client.get(f"/api/v1/jobs/{jobs[0]['id']}").json()["caveats"]}
    assert client.get("/api/v1/history").json()["jobs"][0]["caveats"] == text
    (row, *_) = client.get(f"/api/v1/runs/{after}/differences", params={"since": before}).json()["different"]
    assert (row["before"], row["after"], row["before_caveats"], row["after_caveats"]) == ("PASSED", "PASSED", "", text)
    events = client.get("/api/v1/events", params={"run": after}).json()["events"]
    assert any(event["content"].get("caveats") == text for event in events)
    add_pages(any_service.app)
    for path in (
        f"/runs/{after}",
        f"/jobs/{jobs[0]['id']}",
        f"/history?name={jobs[0]['name']}",
        f"/compare?before={before}&after={after}",
    ):
        assert html.escape(text) in client.get(path, headers={"Accept": "text/html"}).text, path
    assert "PASSED with caveats" in client.get("/runs").text


def test_reports_history_of_a_node_baselines_and_differences(any_service: Service) -> None:
    store = any_service.farm.artifacts
    report = store.put_bytes(json.dumps(REPORT).encode()).sha256
    engine = any_service.farm.engine._engine  # type: ignore[attr-defined]

    def failed(task: JobTask) -> JobResult:
        fields: dict[str, Any] = {"blame_side": "board", "blame_node": "conv7", "nodes": ("conv7",), "report": report}
        fields["extent"] = {"causes": ["node"], "tensors": 1, "elements": 1, "nodes": [[1, 0.5, 0, 1]]}
        return passed(task, verdict="FAILED", why="conv7 differs", **fields)

    before = any_service.submit(name="nightly", labels={"firmware": "1"})
    any_service.ended(before)
    engine._act = failed
    after = any_service.submit(name="nightly", labels={"firmware": "2"})
    assert any_service.ended(after)["verdict"] == "FAILED"
    client = any_service.client
    job = client.get(f"/api/v1/runs/{after}/jobs").json()["jobs"][0]
    assert client.get(f"/api/v1/jobs/{job['id']}/report").json() == REPORT
    assert [one["kind"] for one in client.get(f"/api/v1/jobs/{job['id']}").json()["results"]] == ["report"]
    points = client.get("/api/v1/history/nodes", params={"node": "conv7", "suite": "nightly"}).json()["points"]
    assert [(p["pair"], p["labels"], p["metrics"]) for p in points] == [
        ("simulator ~ board", {"firmware": "2"}, {"max_lsb": 3.0, "cosine": 0.5, "sqnr_db": None})
    ]
    of_node = client.get("/api/v1/history", params={"node": "conv7"}).json()["jobs"]
    assert [one["run"] for one in of_node] == [after]
    found = client.get(f"/api/v1/runs/{after}/differences", params={"since": before}).json()
    assert (found["same"], [(d["before"], d["after"]) for d in found["different"]]) == (0, [("PASSED", "FAILED")])
    (change,) = found["different"]
    assert (change["before_state"], change["after_state"]) == ("done", "done")
    assert change["after_board"] == job["board"] and change["before_board"] in ("j5-0", "j5-1", "rv-0")
    assert client.put("/api/v1/baselines", json={"run": before}).json()["jobs"] == 1
    assert client.get("/api/v1/history").json()["jobs"][0]["baseline"] == "PASSED"
    assert client.put("/api/v1/baselines", json={"run": after}).json()["jobs"] == 1
    files = {"m.onnx": any_service.put(MODEL)}
    same = {"name": "j", "model": "m", "models": ["m.onnx"], "files": ["m.onnx"], "wanted": ["j5-0"]}
    suite = {"name": "nightly", "files": files, "jobs": [{**same, "name": job["name"]}], "baseline": True}
    again = client.post("/api/v1/suites", json=suite).json()["id"]
    assert any_service.ended(again)["verdict"] == "PASSED"  # FAILED as its baseline
    (row,) = client.get("/api/v1/baselines").json()["baselines"]
    assert (row["nodes"], row["extent"]["elements"]) == (["conv7"], 1)
    assert client.delete("/api/v1/baselines", params={"suite": "nightly"}).json()["jobs"] == 1
    assert client.get("/api/v1/baselines").json() == {"baselines": []}
    # a report that is no report of qverify gives no page, and no page of its own
    assert error_of(client.get(f"/api/v1/jobs/{job['id']}/page"), 422)
    assert error_of(client.get(f"/api/v1/jobs/{'0' * 32}/report"), 404)


def test_queued_jobs_count_against_a_quota(service: Service) -> None:
    service.client.patch("/api/v1/projects/default", json={"quota_jobs": 1})
    body = service.verification(boards=["j5-0", "j5-1"])
    reply = service.client.post("/api/v1/verifications", json=body)
    error = error_of(reply, 422)  # trying again later would not help
    assert error["what"] == "2 jobs at once" and error["wanted"] == "at most 1, the project's quota of queued jobs"
    service.client.patch("/api/v1/projects/default", json={"quota_jobs": 2})
    may_end = threading.Event()
    service.farm.engine._engine._act = lambda task: passed(task) if may_end.wait(30) else None  # type: ignore[attr-defined]
    assert service.client.post("/api/v1/verifications", json=body).status_code == 201
    reply = service.client.post("/api/v1/verifications", json=body)
    may_end.set()
    assert "quota of 2 queued jobs" in error_of(reply, 429)["what"] and reply.headers["Retry-After"]


def test_board_time_is_bounded_for_a_job_and_for_a_submitter(any_service: Service) -> None:
    client, week = any_service.client, 604_800
    body = any_service.verification(boards=["j5-0"])
    million = {**body, "timeout_s": week, "options": {"repeat": 1_000_000}}
    error = error_of(client.post("/api/v1/verifications", json=million), 422)
    assert error["what"].endswith("up to 604800 s of board time") and error["where"] == "timeout_s"
    assert error["wanted"] == "at most 14400 s, the project's quota of board time for one job"
    retried = error_of(client.post("/api/v1/verifications", json={**body, "timeout_s": 5000, "retries": 2}), 422)
    assert retried["got"] == "a timeout of 5000 s and 2 retries"
    quotas = {"quota_job_s": week, "quota_submitter_s": 2 * week}
    reply = client.patch("/api/v1/projects/default", json=quotas).json()
    assert {name: reply[name] for name in quotas} == quotas
    many = {**body, "boards": ["j5-0", "j5-1", "rv-0"], "timeout_s": week}
    assert (
        error_of(client.post("/api/v1/verifications", json=many), 422)["what"]
        == "up to 1.8144e+06 s of board time at once"
    )
    may_end = threading.Event()
    any_service.farm.engine._engine._act = lambda task: passed(task) if may_end.wait(30) else None  # type: ignore[attr-defined]
    two = {**many, "boards": ["j5-0", "j5-1"]}
    run = client.post("/api/v1/verifications", json=two).json()["id"]
    full = client.post("/api/v1/verifications", json=body)
    assert "quota of 1.2096e+06 s of board time for one submitter is full" in error_of(full, 429)["what"]
    assert full.headers["Retry-After"]
    may_end.set()
    any_service.ended(run)
    assert client.post("/api/v1/verifications", json=body).status_code == 201


def test_a_triage_lane_is_not_shown_as_a_board(service: Service) -> None:
    for word in ("this-host-triage-1", "qverify=triage"):
        body = service.verification(boards=[word])
        error_of(service.client.post("/api/v1/verifications", json=body), 422)
    assert [one["name"] for one in service.client.get("/api/v1/boards").json()["boards"]] in (
        [],
        sorted(["j5-0", "j5-1", "rv-0"]),
    )


def test_jobs_interrupted_by_a_restart_are_finished(tmp_path: Path) -> None:
    """The service ends while a job runs; the job is queued, and the next service runs it."""
    import threading

    begun, let = threading.Event(), threading.Event()

    def act(task: JobTask) -> JobResult:
        begun.set()
        return passed(task) if let.wait(0.3) else passed(task, ending="lost", verdict="INCONCLUSIVE")

    with serving(str(tmp_path / "farm.db"), tmp_path, act) as service:
        run = service.submit()
        assert begun.wait(10)
    let.set()
    with serving(str(tmp_path / "farm.db"), tmp_path, act) as service:
        assert service.ended(run)["verdict"] == "PASSED"


def test_the_store_is_the_one_that_was_opened(service: Service, tmp_path: Path) -> None:
    sha256 = service.put(b"abc", name="a.bin")
    assert open_artifacts(str(tmp_path / "artifacts")).read(sha256) == b"abc"
