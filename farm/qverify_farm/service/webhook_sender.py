"""Tells webhooks that the verdict of a suite has changed: signed, with a deadline, tried again; never to an address of
this host or its network unless the administrator allowed it."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import logging
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from qverify.errors import UsageError
from sqlalchemy import select

from qverify_farm.service.event_feed import Happened
from qverify_farm.service.json_log import log
from qverify_farm.store.database import Database
from qverify_farm.store.states import CANCELLED
from qverify_farm.store.tables import SuiteRun, Webhook

DEADLINE_S = 10.0  # of one delivery
AGAIN_S = (5.0, 30.0, 120.0, 600.0)  # after a failed one
MOST_WAITING = 1000
Resolve = Callable[[str, int], list[str]]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A webhook to tell. tries: made before. due: monotonic seconds."""

    webhook: str
    url: str
    secret: str
    body: bytes
    tries: int = 0
    due: float = 0.0


def signature(secret: str, body: bytes) -> str:
    """Returns what X-QVerify-Signature says of a body."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def resolve(host: str, port: int) -> list[str]:
    """Returns the addresses of a host's name."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def check_url(url: str, private: bool, resolver: Resolve = resolve) -> tuple[str, int, str, bool]:
    """Returns an address of the URL's host, its port, the path to ask for, and whether it is https. private: addresses of
    this host and its network are allowed. UsageError for a URL that is not."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise UsageError(f"url {url[:200]!r}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise UsageError(f"url {url[:200]!r}: wanted http:// or https://, a host, and no user name")
    try:
        addresses = resolver(parts.hostname, port)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"url: {parts.hostname[:200]}: {error}") from None
    if not private and (wrong := [one for one in addresses if not _is_public(one)]):
        raise UsageError(
            f"url: {parts.hostname[:200]} is {wrong[0]}, an address of this host or its network; the administrator may "
            "allow it: qverify serve --allow-private-webhooks"
        )
    if not addresses:
        raise UsageError(f"url: {parts.hostname[:200]}: it has no address")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return addresses[0], port, path, parts.scheme == "https"


def _is_public(address: str) -> bool:
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(found, "ipv4_mapped", None) or getattr(found, "sixtofour", None)
    found = mapped or found
    return found.is_global and not found.is_multicast


def deliver(delivery: Delivery, private: bool, resolver: Resolve = resolve) -> str:
    """Sends a delivery and returns "" where it was taken, else why not. The connection goes to the address that was
    checked; redirections are not followed, and the answer's body is not read."""
    try:
        address, port, path, is_tls = check_url(delivery.url, private, resolver)
        host = urlsplit(delivery.url).hostname or ""
        headers = {
            "Host": host if port in (80, 443) else f"{host}:{port}",
            "Content-Type": "application/json",
            "User-Agent": "qverify",
            "X-QVerify-Signature": signature(delivery.secret, delivery.body),
        }
        connection = _Tls(address, port, host) if is_tls else HTTPConnection(address, port, timeout=DEADLINE_S)
        ender = threading.Timer(DEADLINE_S, _end, (connection,))
        ender.daemon = True
        ender.start()
        try:
            connection.request("POST", path, delivery.body, headers)
            status = connection.getresponse().status
        finally:
            ender.cancel()
            connection.close()
        return "" if 200 <= status < 300 else f"status {status}"
    except UsageError as error:
        return str(error)
    except (OSError, HTTPException, ValueError) as error:
        return f"{type(error).__name__}: {error}"[:300]


def _end(connection: HTTPConnection) -> None:
    """Ends a delivery at its deadline: a server that sends a byte now and then keeps no thread."""
    if connection.sock is not None:
        try:
            connection.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class _Tls(HTTPSConnection):
    """To an address, with the certificate of a name."""

    def __init__(self, address: str, port: int, name: str):
        self._tls = ssl.create_default_context()
        super().__init__(address, port, timeout=DEADLINE_S, context=self._tls)
        self._name = name

    def connect(self) -> None:
        plain = socket.create_connection((self.host, self.port), DEADLINE_S)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self._name)


class WebhookSender:
    """Delivers in a thread of its own. told: called with True for each delivery that was taken, False for one that was
    given up. What waits when the service ends is lost; the receiver may ask the API."""

    def __init__(
        self, database: Database, private: bool, told: Callable[[bool], None], again_s: tuple[float, ...] = AGAIN_S
    ):
        self._database, self._private, self._told, self._again_s = database, private, told, again_s
        self._inbox: queue.Queue[Delivery | None] = queue.Queue(MOST_WAITING)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def heard(self, events: list[Happened]) -> None:
        """Takes the events of runs that ended with another verdict than the run of the same suite before."""
        for event in events:
            if event.kind == "run" and event.run and event.content.get("verdict") is not None:
                for delivery in self._due(event.run):
                    self.put(delivery)

    def put(self, delivery: Delivery) -> None:
        """Has it delivered soon; drops it where too many wait."""
        try:
            self._inbox.put_nowait(delivery)
        except queue.Full:
            log("webhook dropped: too many wait", logging.WARNING, webhook=delivery.webhook)

    def close(self) -> None:
        """Ends the thread after the delivery it is at."""
        self._closed.set()
        try:
            self._inbox.put_nowait(None)
        except queue.Full:
            pass
        if self._thread.is_alive():
            self._thread.join(DEADLINE_S + 1)

    def _due(self, run_id: str) -> list[Delivery]:
        with self._database.read() as session:
            run = session.get(SuiteRun, run_id)
            if run is None or run.verdict is None or run.state == CANCELLED:
                return []
            before = session.scalar(
                select(SuiteRun.verdict)
                .where(SuiteRun.project == run.project, SuiteRun.name == run.name, SuiteRun.kind == run.kind)
                .where(SuiteRun.id != run.id, SuiteRun.verdict.is_not(None), SuiteRun.state != CANCELLED)
                .where(SuiteRun.created <= run.created)
                .order_by(SuiteRun.created.desc())
                .limit(1)
            )
            if before == run.verdict:
                return []
            hooks = session.scalars(
                select(Webhook).where(Webhook.project == run.project, Webhook.suite.in_(("", run.name)))
            ).all()
            body = _body(run, before)
        return [Delivery(hook.id, hook.url, hook.secret, body) for hook in hooks]

    def _run(self) -> None:
        later: list[Delivery] = []
        while not self._closed.is_set():
            now = time.monotonic()
            due = [one for one in later if one.due <= now]
            later = [one for one in later if one.due > now]
            try:
                wait = 0.0 if due else min([1.0, *(one.due - now for one in later)])
                one = self._inbox.get(timeout=max(0.0, wait)) if wait else self._inbox.get_nowait()
                if one is not None:
                    due.append(one)
            except queue.Empty:
                pass
            for delivery in due:
                if not self._closed.is_set() and (again := self._deliver(delivery)) is not None:
                    later.append(again)

    def _deliver(self, one: Delivery) -> Delivery | None:
        """Returns the delivery to try again, if it is."""
        why = deliver(one, self._private)
        if not why or one.tries >= len(self._again_s):
            self._told(not why)
            self._note(one, why or "delivered")
            return None
        wait = self._again_s[one.tries]
        self._note(one, f"{why}; tried again in {wait:g} s")
        return Delivery(one.webhook, one.url, one.secret, one.body, one.tries + 1, time.monotonic() + wait)

    def _note(self, one: Delivery, status: str) -> None:
        log("webhook", webhook=one.webhook, status=status, tries=one.tries + 1)
        try:
            with self._database.write() as session:
                row = session.get(Webhook, one.webhook)
                if row is not None:
                    row.last_status = status[:300]
        except Exception as error:  # the delivery itself counts
            log("webhook's status is not kept", logging.WARNING, why=str(error)[:300])


def _body(run: SuiteRun, before: str | None) -> bytes:
    told: dict[str, Any] = {
        "event": "verdict changed",
        "run": run.id,
        "suite": run.name,
        "kind": run.kind,
        "verdict": run.verdict,
        "before": before,
        "labels": run.labels,
        "ended": run.ended,
    }
    return json.dumps(told, sort_keys=True).encode()
