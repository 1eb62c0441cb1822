"""The HTTP server of the application. It has deadlines for slow clients, and a signal ends it cleanly."""

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

KEEP_ALIVE_S = 30  # lifetime of an idle connection
MAX_HEADER_BYTES = 32 << 10
REFUSED_CONNECTIONS = 64  # connections beyond the limit that get an error reply; further ones are closed
BACKLOG = 512


def open_socket(host: str, port: int) -> socket.socket:
    """Returns a listening socket. Raises UsageError if the address is not this host's, or is in use."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = addresses[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--host {host}: {getattr(error, 'strerror', None) or error}") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise UsageError(f"--host {host} --port {port}: {error.strerror}") from None
    listener.set_inheritable(False)
    return listener


def check_tls(certificate: str | None, key: str | None) -> None:
    """Raises UsageError unless the files are a certificate and its key, or both are None."""
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


class ServiceServer(uvicorn.Server):
    """A server that calls on_stop, in the loop's thread, when it begins to shut down. `exit_signal` is the signal that ended it, or 0."""

    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None]):
        super().__init__(config)
        self._on_stop = on_stop
        self.exit_signal = 0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.exit_signal = self.exit_signal or sig
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stop()
        await super().shutdown(sockets)
        self._captured_signals.clear()  # otherwise uvicorn would raise them again after the shutdown


def server_of(
    app: FastAPI,
    settings: ServiceSettings,
    on_stop: Callable[[], None],
    tls: tuple[str | None, str | None] = (None, None),
) -> ServiceServer:
    """Returns the server of an application. on_stop: called when it begins to shut down. tls: the paths of certificate and key,
    or None for plain HTTP."""
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
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        ssl_certfile=tls[0],
        ssl_keyfile=tls[1],
    )
    return ServiceServer(config, on_stop)


class PatientProtocol(H11Protocol):
    """HTTP/1.1 with a deadline for the headers of each request, and a limit on connections."""

    settings = ServiceSettings()

    def __init__(self, *arguments: Any, **keywords: Any):
        super().__init__(*arguments, **keywords)
        self._headers_end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.settings.max_connections + REFUSED_CONNECTIONS:
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
        """Replies to a request that is not HTTP with an error in the usual form."""
        self._stop_waiting()
        body = b'{"error":{"what":"this is no HTTP request, or its headers are too long","where":"","got":"","wanted":"","next":""},"request":""}'
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        headers.append((b"content-length", str(len(body)).encode()))
        try:
            for event in (
                h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
                h11.Data(data=body),
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
