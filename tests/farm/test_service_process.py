"""`qverify serve` as a process: real boards of this host, TLS, signals, a triage."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from qverify.cli.main import main

from tests.farm import certificates
from tests.farm.service_app import error_of

TOKEN = [sys.executable, "-m", "qverify", "serve", "token", "create", "a", "--role", "viewer"]


@contextlib.contextmanager
def served(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yields the process of a service with one board, and its URL."""
    at = ["--database", str(folder / "farm.db"), "--artifacts", str(folder / "artifacts")]
    command = [sys.executable, "-m", "qverify", "serve", "--port", "0", "-b", "local", *at, *words]
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=around(folder))
    try:
        assert process.stdout is not None
        match = re.match(r"qverify serve: (https?://\S+?:\d+)(;|$)", process.stdout.readline())
        assert match, (folder / "log").read_text()
        yield process, match.group(1)
    finally:
        process.kill()
        process.communicate(timeout=30)


def around(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "XDG_STATE_HOME": str(folder)}


def put(client: httpx.Client, path: Path) -> str:
    data = path.read_bytes()
    sha256 = hashlib.sha256(data).hexdigest()
    assert client.put(f"/api/v1/artifacts/{sha256}", content=data).status_code == 201
    return sha256


def submit(client: httpx.Client, path: str, **body: Any) -> str:
    reply = client.post(f"/api/v1/{path}", json=body)
    assert reply.status_code == 201, reply.text
    return str(reply.json()["id"])


def job_of(client: httpx.Client, run: str) -> dict[str, Any]:
    end = time.monotonic() + 100
    while client.get(f"/api/v1/runs/{run}").json()["state"] == "running":
        assert time.monotonic() < end
        time.sleep(0.05)
    return dict(client.get(f"/api/v1/runs/{run}/jobs").json()["jobs"][0])


def test_a_verification_a_triage_and_a_clean_shutdown(digits: Path, tmp_path: Path) -> None:
    with np.load(digits / "digits.npz") as pictures:
        np.save(tmp_path / "one.npy", pictures["digit_3"])
    with served(tmp_path) as (process, url), httpx.Client(base_url=url, timeout=60) as client:
        files = {name: put(client, digits / name) for name in ("digits_float.onnx", "digits_quant.onnx")}
        files["in/one.npy"] = put(client, tmp_path / "one.npy")
        run = submit(
            client, "verifications", files=files, models=["digits_quant.onnx"], inputs="in/one.npy", boards=["local"]
        )
        job = job_of(client, run)
        assert (job["verdict"], job["board"]) == ("PASSED", "local"), job
        page = client.get(f"/api/v1/jobs/{job['id']}/page")
        assert page.headers["Content-Type"].startswith("text/html") and "digits_quant" in page.text
        assert "sandbox" in page.headers["Content-Security-Policy"]
        points = client.get("/api/v1/history/nodes", params={"node": "prob"}).json()["points"]
        assert {point["pair"] for point in points} == {
            "reference ~ simulator",
            "reference ~ board",
            "simulator ~ board",
        }

        models = ["digits_float.onnx", "digits_quant.onnx"]
        case = submit(client, "triages", kind="bad-case", files=files, models=models, inputs="in/one.npy", note="a 3")
        job = job_of(client, case)
        assert job["verdict"] == "PASSED" and job["board"] is None
        assert client.get(f"/api/v1/jobs/{job['id']}/report").json()["schema"] == "qverify.triage/1"
        assert "<html" in client.get(f"/api/v1/jobs/{job['id']}/page").text
        bundle = client.get(f"/api/v1/artifacts/{job['capture']}").content
        names = zipfile.ZipFile(io.BytesIO(bundle)).namelist()
        assert {"triage.html", "triage.json", "capture/capture.json"} <= set(names)
        # its capture is triaged again; what is no model is said, and ends no service
        again = {}
        for name in (one for one in names if one.startswith("capture/")):
            data = zipfile.ZipFile(io.BytesIO(bundle)).read(name)
            again[name] = hashlib.sha256(data).hexdigest()
            assert client.put(f"/api/v1/artifacts/{again[name]}", content=data).status_code == 201
        assert job_of(client, submit(client, "triages", files=again, capture="capture/"))["verdict"] == "PASSED"
        wrong = job_of(client, submit(client, "triages", files={"m.onnx": files["in/one.npy"]}, models=["m.onnx"]))
        assert wrong["verdict"] == "INCONCLUSIVE" and "m.onnx" in wrong["why"] and str(tmp_path) not in wrong["why"]

        refused = subprocess.run(
            [sys.executable, "-m", "qverify", "serve", "--port", "0", "--database", str(tmp_path / "farm.db")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=around(tmp_path),
        )
        assert refused.returncode == 2 and re.fullmatch(
            r"qverify: .*farm.db: in use by qverify serve .*\n", refused.stderr
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    last = json.loads((tmp_path / "log").read_text().splitlines()[-1])
    assert (last["what"], last["signal"]) == ("stopped", signal.SIGTERM)


def test_a_killed_service_leaves_its_jobs_to_the_next(digits: Path, tmp_path: Path) -> None:
    with served(tmp_path) as (process, url), httpx.Client(base_url=url, timeout=60) as client:
        model = put(client, digits / "digits_quant.onnx")
        body = {"files": {"m.onnx": model}, "models": ["m.onnx"], "boards": ["local"]}
        runs = [submit(client, "verifications", **body) for _ in range(4)]
        process.kill()
    with served(tmp_path) as (_, url), httpx.Client(base_url=url, timeout=60) as client:
        assert [job_of(client, run)["verdict"] for run in runs] == ["PASSED"] * 4


def test_over_tls_with_a_token(tmp_path: Path) -> None:
    files = certificates.make(tmp_path / "tls", "a farm")
    made = subprocess.run(
        [*TOKEN, "--database", str(tmp_path / "farm.db")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=around(tmp_path),
    )
    context = ssl.create_default_context(cafile=files.ca)
    with served(tmp_path, "--tls-cert", files.cert, "--tls-key", files.key) as (process, url):
        assert url.startswith("https://127.0.0.1:")
        token = {"Authorization": f"Bearer {made.stdout.strip()}"}
        assert httpx.get(f"{url}/api/v1/whoami", headers=token, verify=context, timeout=30).json()["role"] == "viewer"
        error_of(httpx.get(f"{url}/api/v1/whoami", verify=context, timeout=30), 401)
        with pytest.raises(httpx.HTTPError):
            httpx.get(url.replace("https", "http"), timeout=30)
        log_in = [sys.executable, "-m", "qverify", "login", url, "--token", made.stdout.strip()]
        own = {**around(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
        for variables, status, said in (
            ({}, 3, "certificate verify failed.* SSL_CERT_FILE=FILE, its certificate$"),
            ({"SSL_CERT_FILE": files.ca}, 0, "logged in as a "),
        ):
            done = subprocess.run(log_in, capture_output=True, text=True, timeout=60, check=False, env=own | variables)
            assert done.returncode == status and re.search(said, done.stdout + done.stderr, re.MULTILINE), done
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


@pytest.mark.parametrize("words", [["serve", "--port", "0"], ["worker", "--scheduler", "tcp://127.0.0.1:1"]])
def test_an_address_that_no_board_has_is_refused_at_the_start(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main([*words, "-b", "bogus://x"]) == 2
    assert "no board kind 'bogus'; known: " in capsys.readouterr().err
    (tmp_path / "boards.toml").write_text('[boards.good]\nuri = "local"\n[boards.wrong]\nuri = "bogus://x"\n')
    monkeypatch.setenv("QVERIFY_BOARDS", str(tmp_path / "boards.toml"))
    assert main(words) == 2
    assert "boards.toml: wrong: " in capsys.readouterr().err
