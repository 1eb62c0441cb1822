"""Hostile requests to the service: each is refused with a 4xx, without an effect on other clients."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from qverify_farm.service.app import create_app
from qverify_farm.service.farm import Farm
from qverify_farm.service.server import open_socket, server_of
from qverify_farm.store.database import open_database

from tests.farm.service_app import Service, error_of, farm_with

TEXTS = [
    "' OR '1'='1",
    "'; DROP TABLE projects; --",
    '" UNION SELECT hash FROM tokens --',
    "%' ESCAPE '\\",
    "<script>alert(1)</script>",
    "{{7*7}}${7*7}",
    "../../../etc/passwd",
    "卷积\u202egnp.exe",
    "\U0001f600" * 40,
    "a" * 20_000,
    "\x00",
    "a\nb\r\nSet-Cookie: x=y",
    "\x1b[2J",
]
QUERIES = [
    *(
        ("GET", "/runs", "suite"),
        ("GET", "/history", "model"),
        ("GET", "/history", "board"),
        ("GET", "/history", "job"),
    ),
    *(("GET", "/history", "node"), ("GET", "/history/nodes", "node"), ("GET", "/baselines", "suite")),
    *(("DELETE", "/baselines", "suite"), ("POST", "/artifacts", "name"), ("GET", "/runs", "project")),
    *(("GET", "/events", "after"), ("GET", "/events", "run"), ("GET", "/audit", "before"), ("GET", "/runs", "limit")),
]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text)[:20])
def test_a_hostile_text_in_every_place_is_data_or_a_mistake(any_service: Service, text: str) -> None:
    client = any_service.client
    for method, path, name in QUERIES:
        reply = client.request(method, f"/api/v1{path}", params={name: text})
        assert reply.status_code < 500, (path, reply.text)
        if reply.status_code >= 400:
            error_of(reply, reply.status_code)
    bodies: list[tuple[str, str, Any]] = [
        *(("POST", "/projects", {"name": text}), ("POST", "/tokens", {"name": text, "role": text})),
        *(("POST", "/session", {"token": text}), ("POST", "/boards/j5-0/drain", {"reason": text})),
        ("POST", "/webhooks", {"url": f"http://{text}/", "suite": text}),
        ("POST", f"/runs/{'0' * 32}/cancel", {"why": text}),
        ("POST", "/verifications", any_service.verification(name=text, labels={text: text}, boards=[text])),
        ("POST", "/verifications", any_service.verification(options={text: text, "seed": text, "gate": text})),
        ("POST", "/verifications", any_service.verification(inputs=text)),
        ("POST", "/triages", {"files": {text: "0" * 64}, "models": [text], "note": text}),
    ]
    for method, path, body in bodies:
        reply = client.request(method, f"/api/v1{path}", json=body)
        assert reply.status_code < 500, (path, reply.text)
    for path in ("/runs/{}", "/jobs/{}", "/boards/{}", "/artifacts/{}", "/projects/{}", "/{}"):
        quoted = "".join(f"%{byte:02x}" for byte in text[:500].encode())
        assert client.get(f"/api/v1{path.format(quoted)}").status_code < 500
    assert client.get("/api/v1/projects").json()["projects"][0]["name"] == "default"


def test_text_is_returned_unchanged_and_not_as_a_page(any_service: Service) -> None:
    text = "<script>alert(1)</script>'; DROP TABLE jobs; --"
    run = any_service.submit(name=text, labels={"firmware": text})
    any_service.ended(run)
    reply = any_service.client.get(f"/api/v1/runs/{run}")
    assert (reply.json()["name"], reply.json()["labels"]) == (text, {"firmware": text})
    assert reply.headers["Content-Type"] == "application/json" and reply.headers["X-Content-Type-Options"] == "nosniff"
    assert reply.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert [one["id"] for one in any_service.client.get("/api/v1/runs", params={"suite": text}).json()["runs"]] == [run]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'"x"',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b'{"name": "\\ud800", "files": {}, "jobs": []}',
        b'{"name": "\\u0000", "files": {}, "jobs": []}',
        b'{"priority": ' + b"9" * 5000 + b', "name": "n", "files": {}, "jobs": []}',
        b'{"timeout_s": NaN, "name": "n", "files": {}, "jobs": []}',
        b'{"timeout_s": 1e999, "name": "n", "files": {}, "jobs": []}',
        b'{"name": "n", "files": {}, "jobs": [{}], "unknown": 1}',
    ],
    ids=lambda body: str(body[:24]),
)
def test_a_malformed_body_is_refused(service: Service, body: bytes) -> None:
    reply = service.client.post("/api/v1/suites", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code in (400, 422), reply.text[:300]
    error_of(reply, reply.status_code)


def test_unknown_methods_and_addresses_are_refused(service: Service) -> None:
    for method, path, status in (
        ("TRACE", "/api/v1/runs", 405),
        ("DELETE", "/api/v1/runs", 405),
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/docs", 404),
        ("GET", "/api/v1/../../etc/passwd", 404),
        ("POST", "/health", 405),
        ("OPTIONS", "/api/v1/runs", 405),
    ):
        error_of(service.client.request(method, path), status)


# over real sockets


@contextlib.contextmanager
def listening(folder: Path, **settings: Any) -> Iterator[tuple[int, Farm]]:
    """Yields the port of a real server, and its farm."""
    farm = farm_with(open_database(str(folder / "farm.db"), "a test"), folder, **settings)
    server = server_of(create_app(farm), farm.settings, farm.feed.close)
    with open_socket("127.0.0.1", 0) as opened:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
        thread.start()
        try:
            yield opened.getsockname()[1], farm
        finally:
            server.should_exit = True
            thread.join()
            farm.close()


def answer_to(port: int, *pieces: bytes, pause_s: float = 0.0) -> bytes:
    """Returns everything that the server sends until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        with contextlib.suppress(OSError):
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause_s)
        found = b""
        with contextlib.suppress(ConnectionError):
            while piece := connection.recv(65536):
                found += piece
        return found


def test_slow_and_flooding_clients_are_ended_and_others_served(tmp_path: Path) -> None:
    with listening(tmp_path, header_s=0.3, idle_s=0.3, body_s=0.6) as (port, _):
        url = f"http://127.0.0.1:{port}"
        head = b"HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        assert answer_to(port) == b""  # says nothing
        assert answer_to(port, b"GET /health HTTP/1.1\r\n") == b""  # never ends its headers
        assert answer_to(port, b"GET /health HTTP/1.1\r\n", *[b"X: y\r\n"] * 20, pause_s=0.05) == b""
        stalled = answer_to(port, b"POST /api/v1/suites " + head + b"Content-Length: 100\r\n\r\n{")
        assert b" 408 " in stalled and b"did not arrive in time" in stalled
        stalled = answer_to(port, b"POST /api/v1/artifacts " + head + b"Content-Length: 100\r\n\r\nx")
        assert b" 408 " in stalled
        dripped = b"POST /api/v1/suites " + head + b"Content-Length: 100\r\n\r\n"
        assert b" 408 " in answer_to(port, dripped, *[b" "] * 20, pause_s=0.05)
        flood = answer_to(port, b"GET /health " + head + b"".join(b"X-%d: y\r\n" % n for n in range(20_000)))
        assert (b" 400 " in flood and b'"error"' in flood) or flood == b""
        for wrong in (b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"A" * 100_000):
            assert answer_to(port, wrong)[:12] in (b"HTTP/1.1 400", b"")
        smuggled = b"POST /health " + head + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        twice = answer_to(port, smuggled, b"GET /api/v1/tokens " + head + b"\r\n")
        assert twice.startswith(b"HTTP/1.1 400 ") and b" 200 " not in twice
        assert not list((tmp_path / "artifacts" / "parts").iterdir())
        assert httpx.get(f"{url}/health", timeout=10).status_code == 200
        assert httpx.post(f"{url}/api/v1/artifacts", content=b"x" * 100_000, timeout=10).status_code == 201


def test_idle_connections_beyond_the_limit_are_closed_and_others_served(tmp_path: Path) -> None:
    with listening(tmp_path, header_s=0.5, max_connections=2) as (port, _):
        with contextlib.ExitStack() as many:
            idle = [many.enter_context(socket.create_connection(("127.0.0.1", port), 20)) for _ in range(80)]
            closed = [one for one in idle if _is_closed(one)]
            assert len(closed) >= 10
        end = time.monotonic() + 10
        while True:  # the idle ones go at the deadline
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"http://127.0.0.1:{port}/health", timeout=10).status_code == 200:
                    break
            assert time.monotonic() < end


def _is_closed(connection: socket.socket) -> bool:
    connection.settimeout(0.01)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_a_client_that_leaves_in_the_middle_of_an_upload_leaves_nothing(tmp_path: Path) -> None:
    with listening(tmp_path) as (port, farm):
        request = b"POST /api/v1/artifacts HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5000000\r\n\r\n"
        with socket.create_connection(("127.0.0.1", port), 20) as connection:
            connection.sendall(request + b"x" * 2_000_000)
        end = time.monotonic() + 10
        while list((tmp_path / "artifacts" / "parts").iterdir()):
            assert time.monotonic() < end
            time.sleep(0.01)
        assert json.loads(httpx.get(f"http://127.0.0.1:{port}/api/v1/artifacts").content) == {"artifacts": []}
        assert farm.artifacts.usage().files == 0
        assert b'"5xx"' not in farm.metrics.text()


def test_a_stream_of_events_ends_when_the_service_does(tmp_path: Path) -> None:
    found: list[bytes] = []
    with listening(tmp_path, stop_s=15.0) as (port, _):
        head = b"HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        reader = threading.Thread(target=lambda: found.append(answer_to(port, b"GET /api/v1/events/stream " + head)))
        reader.start()
        time.sleep(0.3)
        begun = time.monotonic()
    reader.join(20)
    assert found and found[0].startswith(b"HTTP/1.1 200") and b": qverify" in found[0]
    assert time.monotonic() - begun < 14  # not at the deadline for other requests
