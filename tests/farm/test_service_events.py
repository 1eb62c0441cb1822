"""Events of the service: every one once and in order, also after a break; only one's own; told to webhooks when a verdict
changes."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from qverify.errors import UsageError
from qverify_farm.service import event_feed, webhook_sender
from qverify_farm.service.access import Scope
from qverify_farm.service.event_feed import EventFeed
from qverify_farm.service.routes import events as events_route
from qverify_farm.service.routes.events import stream
from qverify_farm.service.tokens import LOCAL_ADMIN, Caller
from qverify_farm.service.webhook_sender import Delivery, WebhookSender, check_url, deliver, signature
from qverify_farm.store.database import Database
from qverify_farm.store.events import add_event
from qverify_farm.store.runs import ensure_project
from qverify_farm.store.tables import EventRecord

from tests.farm.scripted_engine import passed
from tests.farm.service_app import Service, error_of, farm_with, serving


@pytest.fixture(autouse=True)
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_feed, "POLL_S", 0.02)
    monkeypatch.setattr(event_feed, "GAP_S", 0.1)


def say(database: Database, text: str, project: str | None, number: int | None = None) -> None:
    with database.write() as session:
        if number is None:
            add_event(session, "run", {"said": text}, project=project)
        else:
            session.add(EventRecord(number=number, time=0.0, kind="run", content={"said": text}, project=project))


async def said_by(pieces: AsyncIterator[bytes], most: int) -> list[tuple[int, str]]:
    """Returns the number and the text of the next events of a stream."""
    found = []
    async for piece in pieces:
        lines = dict(line.partition(": ")[::2] for line in piece.decode().splitlines() if line)
        if "data" in lines:
            content = json.loads(lines["data"])["content"]
            found.append((int(lines["id"]), str(content.get("said"))))
        if len(found) == most:
            break
    return found


def with_stream(database: Database, folder: Path, test: Callable[[Callable[..., Any], str], Any]) -> Any:
    """Runs a test with streams over a farm without a server: test(open_stream, project)."""
    farm = farm_with(database, folder)
    with database.write() as session:
        project = ensure_project(session).id

    def open_stream(begin: int | None = None, caller: Caller = LOCAL_ADMIN, run: str | None = None) -> Any:
        return stream(Scope(farm, caller, project, "default", ""), begin, run)

    async def run() -> Any:
        await farm.feed.start()
        reader = asyncio.create_task(farm.feed.run())
        try:
            return await asyncio.wait_for(test(open_stream, project), 20)
        finally:
            farm.feed.close()
            await reader

    return asyncio.run(run())


def test_a_stream_misses_nothing_before_between_and_after(database: Database, tmp_path: Path) -> None:
    async def test(open_stream: Callable[..., Any], project: str) -> None:
        for n in range(3):
            say(database, f"before {n}", project)
        pieces = open_stream(begin=1)
        assert await said_by(pieces, 2) == [(2, "before 1"), (3, "before 2")]
        say(database, "live", project)
        say(database, "of another", None)
        assert await said_by(open_stream(begin=3), 2) == [(4, "live"), (5, "of another")]

    with_stream(database, tmp_path, test)


def test_live_events_arrive_and_silence_has_a_heartbeat(database: Database, tmp_path: Path) -> None:
    async def test(open_stream: Callable[..., Any], project: str) -> None:
        pieces = open_stream()
        assert (await anext(pieces)).startswith(b": qverify\nretry: 2000\n")
        assert await anext(pieces) == b": \n\n"
        say(database, "a", project)
        say(database, "of others", "0" * 32)
        say(database, "b", project)
        assert [text for _, text in await said_by(pieces, 2)] == ["a", "b"]

    with_stream(database, tmp_path, test)


def test_the_feed_waits_for_an_event_that_is_committed_late(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(open_stream: Callable[..., Any], project: str) -> None:
        monkeypatch.setattr(event_feed, "GAP_S", 60.0)
        pieces = open_stream()
        await anext(pieces)
        say(database, "second", project, 2)
        await asyncio.sleep(0.05)
        say(database, "first", project, 1)
        assert await said_by(pieces, 2) == [(1, "first"), (2, "second")]
        monkeypatch.setattr(event_feed, "GAP_S", 0.1)
        say(database, "after a number that never comes", project, 4)
        assert await said_by(pieces, 1) == [(4, "after a number that never comes")]

    with_stream(database, tmp_path, test)


def test_a_slow_listener_is_disconnected_and_the_others_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from qverify_farm.store.database import open_database

    monkeypatch.setattr(event_feed, "MAX_BACKLOG", 2)
    database = open_database(str(tmp_path / "farm.db"), "a test")
    feed = EventFeed(database)

    async def run() -> None:
        await feed.start()
        with feed.listening() as slow, feed.listening() as quick:
            for n in range(3):
                say(database, str(n), None)
                found = feed._read()
                feed._distribute(found)
                assert (await anext(quick)).content == {"said": str(n)}
            assert [one.content["said"] async for one in slow] == ["1"]
            assert feed.listeners == 1
            feed.close()
            assert [one async for one in quick] == []

    asyncio.run(run())
    database.close()


def test_the_stream_over_http_ends_with_the_feed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = events_route._live

    def closed(scope: Scope, *of: Any) -> AsyncIterator[bytes]:  # when all that happened before has been sent
        scope.farm.feed.close()
        return live(scope, *of)

    monkeypatch.setattr(events_route, "_live", closed)
    with serving(str(tmp_path / "farm.db"), tmp_path, max_streams=0) as service:
        assert error_of(service.client.get("/api/v1/events/stream"), 429)
    with serving(str(tmp_path / "b.db"), tmp_path / "b") as service:
        run = service.submit()
        service.ended(run)
        reply = service.client.get("/api/v1/events/stream", params={"run": run}, headers={"Last-Event-ID": "0"})
        assert reply.headers["Content-Type"].startswith("text/event-stream")
        assert reply.text.count("event: job") == 2 and reply.text.count("event: run") == 2
        error_of(service.client.get("/api/v1/events/stream", headers={"Last-Event-ID": "x"}), 422)


# webhooks


@pytest.mark.parametrize(
    "address",
    [
        *(
            "127.0.0.1",
            "127.9.9.9",
            "10.1.2.3",
            "192.168.0.1",
            "172.16.0.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
        ),
        *("::1", "fe80::1%eth0", "fc00::1", "::ffff:127.0.0.1", "2002:7f00:1::", "::", "224.0.0.1", "255.255.255.255"),
        *("64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::808:808", "2002:a00:1::1", "::7f00:1", "::ffff:a00:1"),
    ],
)
def test_a_webhook_to_this_host_or_its_network_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="an address of this host or its network"):
        check_url("http://name.example/hook", False, lambda *_: ["93.184.215.14", "64:ff9b::5db8:d70e", address])


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h/",
        "http://",
        "http://user:pw@h.example/",
        "http://h.example:99999/",
        "file:///etc/passwd",
        "http://h.example:x/",
    ],
)
def test_a_wrong_webhook_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        check_url(url, True, lambda *_: ["93.184.215.14"])


def test_the_delivery_goes_to_the_checked_address() -> None:
    """DNS rebinding, a second answer with another address, has no effect, since the name is resolved only once."""
    answers = iter([["93.184.215.14"], ["127.0.0.1"]])
    address, port, path, tls = check_url("https://h.example/a?b=c", False, lambda *_: next(answers))
    assert (address, port, path, tls) == ("93.184.215.14", 443, "/a?b=c", True)


class Receiver(HTTPServer):
    """Records deliveries and answers with `status`."""

    status = 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.got: list[tuple[dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Receiver)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((dict(self.headers), body))
        self.send_response(self.server.status)
        self.send_header("Location", "http://127.0.0.1:1/")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_delivery_is_signed_and_follows_no_redirection(receiver: Receiver) -> None:
    delivery = Delivery("id", receiver.url, "secret", b'{"a":1}')
    assert deliver(delivery, private=True) == ""
    headers, body = receiver.got[0]
    assert headers["X-QVerify-Signature"] == "sha256=" + hmac.new(b"secret", body, hashlib.sha256).hexdigest()
    assert signature("secret", body) == headers["X-QVerify-Signature"] and body == b'{"a":1}'
    receiver.status = 302
    assert deliver(delivery, private=True) == "status 302" and len(receiver.got) == 2
    assert "an address of this host" in deliver(delivery, private=False) and len(receiver.got) == 2


def test_a_delivery_to_a_silent_receiver_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_sender, "DEADLINE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        assert deliver(Delivery("id", url, "s", b""), private=True) != ""


def test_webhooks_are_called_only_for_a_changed_verdict(tmp_path: Path, receiver: Receiver) -> None:
    with serving(str(tmp_path / "farm.db"), tmp_path, private_webhooks=True) as service:
        client = service.client
        made = client.post("/api/v1/webhooks", json={"url": receiver.url, "suite": "nightly"})
        assert made.status_code == 201 and made.json()["secret"] not in client.get("/api/v1/webhooks").text
        engine = service.farm.engine._engine  # type: ignore[attr-defined]
        for verdict in ("PASSED", "PASSED", "FAILED", "FAILED", "PASSED"):
            engine._act = lambda task, verdict=verdict: passed(task, verdict=verdict)
            service.ended(service.submit(name="nightly"))
            service.ended(service.submit(name="other"))
        _wait(lambda: len(receiver.got) == 2)
        told = [json.loads(body) for _, body in receiver.got]
        assert [(one["before"], one["verdict"]) for one in told] == [("PASSED", "FAILED"), ("FAILED", "PASSED")]
        assert {one["suite"] for one in told} == {"nightly"}
        _wait(lambda: client.get("/api/v1/webhooks").json()["webhooks"][0]["last_status"] == "delivered")
        assert client.delete(f"/api/v1/webhooks/{made.json()['id']}").status_code == 200
        assert client.get("/api/v1/webhooks").json() == {"webhooks": []}


def test_a_webhook_is_called_for_a_first_run_that_fails(tmp_path: Path, receiver: Receiver) -> None:
    with serving(str(tmp_path / "farm.db"), tmp_path, private_webhooks=True) as service:
        service.client.post("/api/v1/webhooks", json={"url": receiver.url})
        engine = service.farm.engine._engine  # type: ignore[attr-defined]
        engine._act = lambda task: passed(task, verdict="FAILED")
        service.ended(service.submit(name="nightly"))
        _wait(lambda: len(receiver.got) == 1)
        told = json.loads(receiver.got[0][1])
        assert (told["before"], told["verdict"]) == (None, "FAILED")


def test_a_failed_delivery_is_retried(service: Service, receiver: Receiver) -> None:
    receiver.status = 500
    told: list[bool] = []
    sender = WebhookSender(service.farm.database, True, told.append, retry_delays_s=(0.01, 0.01))
    sender.start()
    sender.put(Delivery("0" * 32, receiver.url, "s", b"{}"))
    _wait(lambda: told == [False])
    assert len(receiver.got) == 3
    receiver.status = 204
    sender.put(Delivery("0" * 32, receiver.url, "s", b"{}"))
    _wait(lambda: told == [False, True])
    sender.close()


def test_a_webhook_to_a_private_address_is_refused_when_it_is_made(service: Service) -> None:
    for url in (
        "http://127.0.0.1:1/",
        "http://[::1]/",
        "http://169.254.169.254/latest",
        "http://localhost/",
        "http://2130706433/",
    ):
        reply = service.client.post("/api/v1/webhooks", json={"url": url})
        assert "this host or its network" in error_of(reply, 422)["what"]


def _wait(until: Callable[[], bool]) -> None:
    import time

    end = time.monotonic() + 15
    while not until():
        assert time.monotonic() < end
        time.sleep(0.01)
