"""The server under the application: a patient client is served, a slow one is not waited for; signals end it cleanly."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from qverify.errors import UsageError
from uvicorn.protocols.http.h11_impl import H11Protocol

from qverify_farm.service.settings import ServiceSettings

KEEP_ALIVE_S = 30  # of an idle connection
MOST_HEADERS = 32 << 10  # bytes
OVER = 64  # connections beyond the limit that are told so; those above are closed
BACKLOG = 512


def open_socket(host: str, port: int) -> socket.socket:
    """Returns a socket that listens. UsageError where the address is not this host's, or in use."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--host {host}: {getattr(error, 'strerror', None) or error}") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise UsageError(f"--host {host} --port {port}: {error.strerror}") from None
    listening.set_inheritable(False)
    return listening


def check_tls(certificate: str | None, key: str | None) -> None:
    """Raises UsageError for files that are no certificate and its key."""
    if (certificate is None) != (key is None):
        raise UsageError("--tls-cert and --tls-key: wanted both")
    if certificate is None or key is None:
        return
    for option, path in (("--tls-cert", certificate), ("--tls-key", key)):
        if not Path(path).is_file():
            raise UsageError(f"{option} {path}: no such file")
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        raise UsageError(f"--tls-cert {certificate}, --tls-key {key}: {error}") from None


class Server(uvicorn.Server):
    """Ends streams of events at once when it is told to end. stopping: called then, in the loop's thread."""

    def __init__(self, config: uvicorn.Config, stopping: Callable[[], None]):
        super().__init__(config)
        self._stopping = stopping
        self.heard = 0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.heard = self.heard or sig
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping()
        await super().shutdown(sockets)
        self._captured_signals.clear()  # uvicorn would raise them again: the command ends by itself


def server_of(
    app: FastAPI,
    settings: ServiceSettings,
    stopping: Callable[[], None],
    tls: tuple[str | None, str | None] = (None, None),
) -> Server:
    """Returns the server of an application. tls: certificate and key, None for plain HTTP."""
    PatientProtocol.settings = settings
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=settings.behind_proxy,
        forwarded_allow_ips="127.0.0.1,::1",
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=int(settings.stop_s),
        h11_max_incomplete_event_size=MOST_HEADERS,
        ssl_certfile=tls[0],
        ssl_keyfile=tls[1],
    )
    return Server(config, stopping)


class PatientProtocol(H11Protocol):
    """HTTP/1.1 with a deadline for each request's headers, and a limit of connections."""

    settings = ServiceSettings()

    def __init__(self, *words: Any, **named: Any):
        super().__init__(*words, **named)
        self._headers_end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.settings.max_connections + OVER:
            transport.abort()
        else:
            self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and self._headers_end is None:
            self._wait_for_headers()
        elif self.conn.their_state is not h11.IDLE:
            self._stop_waiting()

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP in the one shape of errors."""
        self._stop_waiting()
        what = b'{"error":{"what":"this is no HTTP request, or its headers are too long","where":"","got":"","wanted":"","next":""},"request":""}'
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        headers.append((b"content-length", str(len(what)).encode()))
        try:
            for event in (
                h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
                h11.Data(data=what),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            pass
        self.transport.close()

    def _wait_for_headers(self) -> None:
        self._headers_end = self.loop.call_later(self.settings.header_s, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._headers_end is not None:
            self._headers_end.cancel()
            self._headers_end = None

    def _too_slow(self) -> None:
        self._headers_end = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()
