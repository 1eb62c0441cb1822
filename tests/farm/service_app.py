"""A service in this process for tests, with a scripted engine, a client, and common submissions."""

from __future__ import annotations

import contextlib
import hashlib
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from qverify_farm.service.app import create_app
from qverify_farm.service.farm import Farm, open_farm
from qverify_farm.service.settings import ServiceSettings
from qverify_farm.service.tokens import create_token
from qverify_farm.service.triage_engine import TriageEngine
from qverify_farm.store.artifacts import open_artifacts
from qverify_farm.store.database import Database, open_database
from qverify_farm.store.runs import ensure_project

from tests.farm.scripted_engine import Act, ScriptedEngine, passed

with warnings.catch_warnings():  # Starlette warns that it prefers a successor of httpx
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

BOARDS = {"j5-0": {"soc": "j5"}, "j5-1": {"soc": "j5"}, "rv-0": {"soc": "rv1126"}}
HERE = ("127.0.0.1", 40000)
MODEL, INPUT = b"model bytes", b"input bytes"


@dataclass
class Service:
    """A service. client: sends requests as the administrator of this host, as long as there is no token."""

    app: FastAPI
    farm: Farm
    client: TestClient

    def token(self, role: str = "admin", project: str | None = None, days: float | None = None) -> str:
        """Makes a token and returns its secret."""
        with self.farm.database.write() as session:
            if project is not None:
                ensure_project(session, project)
            name = f"{role}-{project or 'all'}-{time.monotonic_ns()}"
            return create_token(session, name, role, project, days, time.time())[1]

    def bearer(self, role: str = "admin", project: str | None = None) -> dict[str, str]:
        """Makes a token and returns the request headers with it."""
        return {"Authorization": f"Bearer {self.token(role, project)}"}

    def put(self, data: bytes = MODEL, headers: Mapping[str, str] | None = None, name: str = "") -> str:
        """Uploads bytes and returns their digest."""
        sha256 = hashlib.sha256(data).hexdigest()
        reply = self.client.put(f"/api/v1/artifacts/{sha256}", content=data, headers=headers, params={"name": name})
        assert reply.status_code == 201, reply.text
        return sha256

    def verification(self, headers: Mapping[str, str] | None = None, **fields: Any) -> dict[str, Any]:
        """Uploads the files of a verification and returns its body."""
        files = {"m.onnx": self.put(MODEL, headers), "in/a.npy": self.put(INPUT, headers)}
        return {"models": ["m.onnx"], "files": files, "inputs": "in", "boards": ["j5-0"], **fields}

    def submit(self, headers: Mapping[str, str] | None = None, **fields: Any) -> str:
        """Submits a verification and returns the id of its run."""
        body = self.verification(headers, **fields)
        reply = self.client.post("/api/v1/verifications", json=body, headers=headers)
        assert reply.status_code == 201, reply.text
        return str(reply.json()["id"])

    def ended(self, run: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Waits until a run has ended, and returns it."""
        end = time.monotonic() + 20
        while time.monotonic() < end:
            reply = self.client.get(f"/api/v1/runs/{run}", headers=headers)
            assert reply.status_code == 200, reply.text
            if reply.json()["state"] != "running":
                return dict(reply.json())
            time.sleep(0.01)
        raise AssertionError(f"run {run} did not end")


def farm_with(database: Database, folder: Path, act: Act = passed, **settings: Any) -> Farm:
    """Returns a farm over BOARDS in which each attempt is a call of `act`."""
    with database.write() as session:
        ensure_project(session)
    artifacts = open_artifacts(str(folder / "artifacts"))
    service_settings = ServiceSettings(**{"stop_s": 2.0, "heartbeat_s": 0.05, **settings})
    engine = TriageEngine(ScriptedEngine(BOARDS, act), artifacts, folder / "triages", service_settings.triages)
    return open_farm(database, artifacts, engine, service_settings)


@contextlib.contextmanager
def serving(
    database_url: str, folder: Path, act: Act = passed, client: tuple[str, int] = HERE, **settings: Any
) -> Iterator[Service]:
    """Yields a service over a new database."""
    farm = farm_with(open_database(database_url, "a test"), folder, act, **settings)
    app = create_app(farm)
    try:
        with TestClient(
            app, base_url="http://127.0.0.1:8787", client=client, raise_server_exceptions=False
        ) as test_client:
            yield Service(app, farm, test_client)
    finally:
        farm.close()


def error_of(reply: httpx.Response, status: int) -> dict[str, str]:
    """Checks that a reply has this status and the form of an error, and returns the error."""
    assert reply.status_code == status, reply.text
    body = reply.json()
    assert set(body) == {"error", "request"} and set(body["error"]) == {"what", "where", "got", "wanted", "next"}
    assert body["request"] == reply.headers["X-Request-Id"] and body["error"]["what"]
    assert "Traceback" not in reply.text and "\n" not in body["error"]["what"]
    return dict(body["error"])
