"""The matrix, the menus of the history, quotas of board time and device outputs, over a complete service with boards of this process."""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="qverify[service] is not installed")
import httpx
import jsonschema
import numpy as np
from qverify.cli.main import main
from qverify.report.schema import matrix_schema
from qverify_farm.service.farm import Farm
from qverify_farm.service.outputs_diff_job import outputs_fields, outputs_page

from tests.farm.served import CULPRIT, MODEL, serving

WAIT_S = 120.0


class Lab:
    """A service, and what the tests ask of it."""

    def __init__(self, url: str, farm: Farm, client: httpx.Client):
        self.url, self.farm, self.client = url, farm, client

    def upload(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self.client.put(f"/api/v1/artifacts/{digest}", content=data).raise_for_status()
        return digest

    def verify(self, boards: list[str], **more: Any) -> str:
        files = {"digits_quant.onnx": self.upload(Path(MODEL).read_bytes())}
        body = {"files": files, "models": ["digits_quant.onnx"], "boards": boards, **more}
        reply = self.client.post("/api/v1/verifications", json=body)
        assert reply.status_code == 201, reply.text
        return str(reply.json()["id"])

    def ended(self, run: str) -> dict[str, Any]:
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            row = self.client.get(f"/api/v1/runs/{run}").json()
            if row["verdict"]:
                return dict(row)
            time.sleep(0.1)
        raise AssertionError(f"{run} has not ended: {row}")


@contextmanager
def open_lab(folder: Path) -> Iterator[Lab]:
    with serving(folder) as (url, farm), httpx.Client(base_url=url, timeout=60) as client:
        lab = Lab(url, farm, client)
        options = {"dump_all_nodes_results": True}
        for firmware, board in (("1.9", "desk"), ("1.10", "desk"), ("1.11", "wrong")):
            labels = {"firmware": firmware, "toolchain": "2.4.0" if board == "wrong" else "2.3.0"}
            lab.ended(lab.verify([board], labels=labels, options=options, name="nightly"))
        yield lab


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A service whose history no test changes."""
    with open_lab(tmp_path_factory.mktemp("farm")) as opened:
        yield opened


@pytest.fixture(scope="module")
def busy_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A service to which tests submit more."""
    with open_lab(tmp_path_factory.mktemp("busy")) as opened:
        yield opened


def test_the_matrix_of_the_history_finds_the_first_changed_column(lab: Lab) -> None:
    query = {"rows": "model", "columns": "firmware"}
    document = lab.client.get("/api/v1/matrix", params=query).json()
    known = document.pop("facts_known")
    jsonschema.validate(document, matrix_schema())
    assert {"firmware", "toolchain", "suite", "job", "soc"} <= set(known)
    assert [column["name"] for column in document["columns"]] == ["1.9", "1.10", "1.11"]
    assert document["rows"][0]["changed"] == 2 and document["cells"][2]["blame"] == f"board at {CULPRIT}"
    facts = {fact["what"]: fact["now"] for fact in document["cells"][2]["change"]["facts"]}
    assert facts["fact toolchain"] == "2.4.0" and "5 decimals" in document["cells"][2]["gate"]
    assert document["cells"][0]["link"].startswith("/jobs/")
    one = lab.client.get("/api/v1/matrix", params={**query, "board": "wrong"}).json()
    assert [cell["verdict"] for cell in one["cells"]] == ["FAILED"]
    assert lab.client.get("/api/v1/matrix", params={"rows": "nothing"}).status_code == 422


def test_the_command_reads_the_history_of_a_server(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["report", "matrix", "--server", lab.url, "--rows", "model", "--columns", "firmware"]
    assert main([*words, "--json", str(tmp_path / "m.json")]) == 1
    printed = capsys.readouterr().out
    assert "1.10 -> 1.11" in printed and "toolchain 2.3.0 -> 2.4.0" in printed
    assert json.loads((tmp_path / "m.json").read_text())["rows"][0]["changed"] == 2
    assert main([*words, "--suite", "none"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_menus_are_what_is_stored_and_filters_hold(lab: Lab) -> None:
    choices = lab.client.get("/api/v1/history/choices").json()
    assert choices["boards"] == ["desk", "wrong"] and choices["suites"] == ["nightly"]
    assert choices["verdicts"] == ["FAILED", "PASSED"] and choices["models"] == ["digits_quant"]
    today = choices["last_day"]

    def jobs(**query: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = lab.client.get("/api/v1/history", params=query).json()["jobs"]
        return rows

    assert [row["board"] for row in jobs(verdict="FAILED")] == ["wrong"]
    assert len(jobs(since=today, until=today)) == 3 and jobs(until="2001-01-01") == []
    assert "5 decimals" in jobs()[0]["gate"]
    assert lab.client.get("/api/v1/history", params={"since": "soon"}).status_code == 422
    page = lab.client.get("/history", params={"verdict": "FAILED", "since": today}).text
    assert "<select" in page and "wrong" in page and f'value="{today}"' in page and "gate: " in page
    whole = lab.client.get(f"/api/v1/jobs/{jobs()[0]['job']}").json()
    assert whole["gate"] == jobs()[0]["gate"]
    assert "Gate" in lab.client.get(f"/jobs/{jobs()[0]['job']}").text


def test_the_page_of_the_matrix_has_menus_cells_and_no_script_of_its_own(lab: Lab) -> None:
    page = lab.client.get("/matrix", params={"rows": "model", "columns": "firmware"}).text
    assert "verdict changed at 1.11" in page and "2.4.0" in page and page.count("<details") == 3
    assert 'href="/api/v1/matrix?rows=model&amp;columns=firmware"' in page
    assert "no run states this fact" in lab.client.get("/matrix", params={"rows": "nothing"}).text
    assert "No job fits" in lab.client.get("/matrix", params={"board": "none"}).text


def test_jobs_beyond_the_board_time_of_a_day_wait_and_say_until_when(busy_lab: Lab) -> None:
    before = busy_lab.client.get("/api/v1/projects").json()["projects"][0]
    assert before["day_s"] > 0
    too_long = {"quota_submitter_day_s": 60}
    assert busy_lab.client.patch("/api/v1/projects/default", json=too_long).json()["quota_submitter_day_s"] == 60
    files = {"digits_quant.onnx": busy_lab.upload(Path(MODEL).read_bytes())}
    body = {"files": files, "models": ["digits_quant.onnx"], "boards": ["desk"], "timeout_s": 900}
    refused = busy_lab.client.post("/api/v1/verifications", json=body)
    assert refused.status_code == 422 and "within 24 hours of one submitter" in refused.json()["error"]["wanted"]
    try:
        used = before["day_s"] / 2
        busy_lab.client.patch("/api/v1/projects/default", json={"quota_submitter_day_s": used}).raise_for_status()
        time.sleep(6)  # the dispatcher looks every 5 s
        run = busy_lab.verify(["desk"], timeout_s=used / 2)
        time.sleep(2)
        job = busy_lab.client.get(f"/api/v1/runs/{run}/jobs").json()["jobs"][0]
        assert job["state"] == "queued"
        assert "within 24 hours is used up" in job["waits"] and "UTC" in job["waits"]
    finally:
        quota = {"quota_submitter_day_s": 8_640_000}
        busy_lab.client.patch("/api/v1/projects/default", json=quota).raise_for_status()
    busy_lab.ended(run)


def npy(array: Any) -> bytes:
    data = io.BytesIO()
    np.save(data, array)
    return data.getvalue()


def hand_in(lab: Lab, device: bytes, reference: bytes, **more: Any) -> httpx.Response:
    files = {"outputs/ref.npy": lab.upload(reference), "device_outputs/dev.npy": lab.upload(device)}
    body = {
        "kind": "bad-case",
        "files": files,
        "outputs": "outputs/ref.npy",
        "device_outputs": "device_outputs/dev.npy",
    }
    return lab.client.post("/api/v1/triages", json={**body, **more})


def test_device_outputs_in_the_inbox_are_compared_and_the_mistake_is_named(busy_lab: Lab) -> None:
    right = np.random.default_rng(3).normal(size=(1, 3, 4, 5)).astype(np.float32)
    wrong = hand_in(busy_lab, npy(right.transpose(0, 2, 3, 1)), npy(right)).json()["id"]
    same = hand_in(busy_lab, npy(right), npy(right)).json()["id"]
    assert busy_lab.ended(wrong)["verdict"] == "FAILED"
    job = busy_lab.client.get(f"/api/v1/runs/{wrong}/jobs").json()["jobs"][0]
    assert "NHWC" in job["why"] and job["blame_side"] == "application"
    assert (
        "NHWC" in busy_lab.client.get(f"/api/v1/jobs/{job['id']}/page").text
        and "NHWC" in busy_lab.client.get("/inbox").text
    )
    assert busy_lab.ended(same)["verdict"] == "PASSED"
    broken = hand_in(busy_lab, b"no numbers", npy(right)).json()["id"]
    assert busy_lab.ended(broken)["verdict"] == "INCONCLUSIVE"


@pytest.mark.parametrize(
    "more",
    [
        {"decoder": "evil.py:run"},
        {"decoder": "os:system"},
        {"written": "names=/etc/passwd"},
        {"models": ["outputs/ref.npy"]},
        {"outputs": ""},
        {"device_outputs": ""},
        {"description": "outputs/ref.npy"},
    ],
)
def test_a_case_of_outputs_names_no_code_no_file_and_one_reference(busy_lab: Lab, more: dict[str, Any]) -> None:
    assert hand_in(busy_lab, npy(np.zeros(3)), npy(np.zeros(3)), **more).status_code == 422


@pytest.mark.parametrize(
    "document",
    [None, {}, [], {"schema": "qverify.outputs_diff/1", "parts": []}, {"schema": "x", "parts": [{"verdict": "EQUAL"}]}]
    + [{"schema": "qverify.outputs_diff/1", "parts": [{"verdict": verdict}]} for verdict in (None, "PASSED", 1)],
)
def test_a_comparison_of_nothing_is_never_passed(document: Any) -> None:
    assert outputs_fields(document)["verdict"] == "INCONCLUSIVE"
    assert "INCONCLUSIVE" in outputs_page(document)


def test_runs_of_a_suite_here_by_name_and_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(f'models = ["{MODEL}"]\nboards = ["local"]\n')
    for firmware in ("1.9", "1.10"):
        assert main(["suite", "run", "s.toml", "--database", "farm.db", "--label", f"firmware={firmware}"]) == 0
    capsys.readouterr()
    words = ["report", "matrix", "--database", "farm.db", "--columns", "firmware", "-q", "--suite"]
    assert main([*words, "s"]) == 0 and main([*words, "all"]) == 0
    assert "2 PASSED" in capsys.readouterr().out
    assert main([*words, "none"]) == 2 and capsys.readouterr().err.count("\n") == 1
