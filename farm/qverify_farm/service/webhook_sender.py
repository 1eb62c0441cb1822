"""Calls webhooks when the verdict of a suite has changed. Deliveries are signed, have a deadline, and are retried. They never go
to an address of this host or its network, unless the administrator allowed it."""

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

from qverify_farm.service.event_feed import FeedEvent
from qverify_farm.service.json_log import log
from qverify_farm.store.database import Database
from qverify_farm.store.runs import passed_with_caveats
from qverify_farm.store.states import CANCELLED, PASSED
from qverify_farm.store.tables import SuiteRunRecord, WebhookRecord

DEADLINE_S = 10.0  # for one delivery
RETRY_DELAYS_S = (5.0, 30.0, 120.0, 600.0)  # after failed deliveries
MAX_WAITING = 1000
# networks of IPv6 whose last 32 bits are an IPv4 address: IPv4-mapped, IPv4-compatible, NAT64
IPV4_AT_THE_END = tuple(ipaddress.IPv6Network(text) for text in ("::ffff:0:0/96", "::/96", "64:ff9b::/96"))
LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
Resolve = Callable[[str, int], list[str]]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery to a webhook. tries: the number of earlier tries. due: when to send it, in monotonic seconds."""

    webhook: str
    url: str
    secret: str
    body: bytes
    tries: int = 0
    due: float = 0.0


def signature(secret: str, body: bytes) -> str:
    """Returns the value of the header X-QVerify-Signature for a body."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def resolve(host: str, port: int) -> list[str]:
    """Returns the IP addresses of a host name."""
    results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(delivery[4][0]) for delivery in results))


def check_url(url: str, private: bool, resolver: Resolve = resolve) -> tuple[str, int, str, bool]:
    """Returns an IP address of the URL's host, the port, the path of the request, and whether it is https. private: whether
    addresses of this host and its network are allowed. Raises UsageError for a URL that is not allowed."""
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
    if not private and (private_addresses := [delivery for delivery in addresses if not _is_public(delivery)]):
        raise UsageError(
            f"url: {parts.hostname[:200]} is {private_addresses[0]}, an address of this host or its network; the administrator may "
            "allow it: qverify serve --allow-private-webhooks"
        )
    if not addresses:
        raise UsageError(f"url: {parts.hostname[:200]}: it has no address")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return addresses[0], port, path, parts.scheme == "https"


def _is_public(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if any(ip in network for network in IPV4_AT_THE_END):
            ip = ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
        elif ip.sixtofour is not None:
            ip = ip.sixtofour
    return ip.is_global and not ip.is_multicast and ip not in LOCAL_NAT64


def deliver(delivery: Delivery, private: bool, resolver: Resolve = resolve) -> str:
    """Sends a delivery. Returns "" if it was accepted, otherwise the reason why not. It connects to the address that was checked,
    follows no redirections, and does not read the body of the reply."""
    try:
        address, port, path, is_tls = check_url(delivery.url, private, resolver)
        host = urlsplit(delivery.url).hostname or ""
        headers = {
            "Host": host if port in (80, 443) else f"{host}:{port}",
            "Content-Type": "application/json",
            "User-Agent": "qverify",
            "X-QVerify-Signature": signature(delivery.secret, delivery.body),
        }
        connection = (
            _TlsConnection(address, port, host) if is_tls else HTTPConnection(address, port, timeout=DEADLINE_S)
        )
        timer = threading.Timer(DEADLINE_S, _abort, (connection,))
        timer.daemon = True
        timer.start()
        try:
            connection.request("POST", path, delivery.body, headers)
            status = connection.getresponse().status
        finally:
            timer.cancel()
            connection.close()
        return "" if 200 <= status < 300 else f"status {status}"
    except UsageError as error:
        return str(error)
    except (OSError, HTTPException, ValueError) as error:
        return f"{type(error).__name__}: {error}"[:300]


def _abort(connection: HTTPConnection) -> None:
    """Ends a delivery at its deadline, so that a server that sends a byte now and then cannot block the thread."""
    if connection.sock is not None:
        try:
            connection.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class _TlsConnection(HTTPSConnection):
    """A TLS connection to an IP address that checks the certificate for a host name."""

    def __init__(self, address: str, port: int, name: str):
        self._tls = ssl.create_default_context()
        super().__init__(address, port, timeout=DEADLINE_S, context=self._tls)
        self._name = name

    def connect(self) -> None:
        plain = socket.create_connection((self.host, self.port), DEADLINE_S)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self._name)


class WebhookSender:
    """Delivers in a separate thread. on_result: called with True for each accepted delivery, and with False for one that was
    given up. Deliveries that wait when the service ends are lost; the receiver may query the API."""

    def __init__(
        self,
        database: Database,
        private: bool,
        on_result: Callable[[bool], None],
        retry_delays_s: tuple[float, ...] = RETRY_DELAYS_S,
    ):
        self._database, self._private, self._on_result, self._retry_delays_s = (
            database,
            private,
            on_result,
            retry_delays_s,
        )
        self._inbox: queue.Queue[Delivery | None] = queue.Queue(MAX_WAITING)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def take_events(self, events: list[FeedEvent]) -> None:
        """Queues deliveries for runs that ended with another verdict than the previous run of the same suite, and for first runs
        that did not pass."""
        for event in events:
            if event.kind == "run" and event.run and event.content.get("verdict") is not None:
                for delivery in self._deliveries_for(event.run):
                    self.put(delivery)

    def put(self, delivery: Delivery) -> None:
        """Queues a delivery, or drops it if too many are waiting."""
        try:
            self._inbox.put_nowait(delivery)
        except queue.Full:
            log("webhook dropped: too many wait", logging.WARNING, webhook=delivery.webhook)

    def close(self) -> None:
        """Ends the thread after its current delivery."""
        self._closed.set()
        try:
            self._inbox.put_nowait(None)
        except queue.Full:
            pass
        if self._thread.is_alive():
            self._thread.join(DEADLINE_S + 1)

    def _deliveries_for(self, run_id: str) -> list[Delivery]:
        with self._database.read() as session:
            run = session.get(SuiteRunRecord, run_id)
            if run is None or run.verdict is None or run.state == CANCELLED:
                return []
            previous_verdict = session.scalar(
                select(SuiteRunRecord.verdict)
                .where(
                    SuiteRunRecord.project == run.project,
                    SuiteRunRecord.name == run.name,
                    SuiteRunRecord.kind == run.kind,
                )
                .where(
                    SuiteRunRecord.id != run.id, SuiteRunRecord.verdict.is_not(None), SuiteRunRecord.state != CANCELLED
                )
                .where(SuiteRunRecord.created <= run.created)
                .order_by(SuiteRunRecord.created.desc())
                .limit(1)
            )
            if run.verdict == (previous_verdict or PASSED):
                return []
            hooks = session.scalars(
                select(WebhookRecord).where(
                    WebhookRecord.project == run.project, WebhookRecord.suite.in_(("", run.name))
                )
            ).all()
            body = _body(run, previous_verdict, passed_with_caveats(session, [run.id]).get(run.id, 0))
        return [Delivery(hook.id, hook.url, hook.secret, body) for hook in hooks]

    def _run(self) -> None:
        later: list[Delivery] = []
        while not self._closed.is_set():
            now = time.monotonic()
            due = [delivery for delivery in later if delivery.due <= now]
            later = [delivery for delivery in later if delivery.due > now]
            try:
                wait = 0.0 if due else min([1.0, *(delivery.due - now for delivery in later)])
                delivery = self._inbox.get(timeout=max(0.0, wait)) if wait else self._inbox.get_nowait()
                if delivery is not None:
                    due.append(delivery)
            except queue.Empty:
                pass
            for delivery in due:
                if not self._closed.is_set() and (retry := self._deliver(delivery)) is not None:
                    later.append(retry)

    def _deliver(self, delivery: Delivery) -> Delivery | None:
        """Sends a delivery. Returns the delivery for the next try, or None if there is none."""
        why = deliver(delivery, self._private)
        if not why or delivery.tries >= len(self._retry_delays_s):
            self._on_result(not why)
            self._note_status(delivery, why or "delivered")
            return None
        wait = self._retry_delays_s[delivery.tries]
        self._note_status(delivery, f"{why}; tried again in {wait:g} s")
        return Delivery(
            delivery.webhook, delivery.url, delivery.secret, delivery.body, delivery.tries + 1, time.monotonic() + wait
        )

    def _note_status(self, delivery: Delivery, status: str) -> None:
        log("webhook", webhook=delivery.webhook, status=status, tries=delivery.tries + 1)
        try:
            with self._database.write() as session:
                row = session.get(WebhookRecord, delivery.webhook)
                if row is not None:
                    row.last_status = status[:300]
        except Exception as error:  # the delivery itself counts
            log("webhook's status is not kept", logging.WARNING, why=str(error)[:300])


def _body(run: SuiteRunRecord, previous_verdict: str | None, caveats: int) -> bytes:
    """Returns the body of a delivery. caveats: the number of jobs that PASSED with caveats."""
    on_result: dict[str, Any] = {
        "event": "verdict changed",
        "run": run.id,
        "suite": run.name,
        "kind": run.kind,
        "verdict": run.verdict,
        "before": previous_verdict,
        "caveats": caveats,
        "labels": run.labels,
        "ended": run.ended,
    }
    return json.dumps(on_result, sort_keys=True).encode()
