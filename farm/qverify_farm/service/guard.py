"""Wraps every request: gives it an id, deadlines and size limits, adds reply headers, and writes the log and the metrics."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Callable

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qverify_farm.service.error_replies import error_reply
from qverify_farm.service.errors import ApiError, too_busy
from qverify_farm.service.json_log import REQUEST_LOGGER, log
from qverify_farm.service.settings import ServiceSettings

# Routes with file bodies, which are streamed.
UPLOAD_PATHS = re.compile(r"/api/v1/artifacts(/[^/]*)?|/submit|/inbox/new")
STALL_S = 60.0  # a client that reads nothing for so long is disconnected
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
CountRequest = Callable[[str, str, int, float], None]


class Guard:
    """An ASGI application that wraps another. count: called with the method, route, status and seconds of each request."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings, count: CountRequest):
        self._app, self._settings, self._count = app, settings, count
        self._active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _Request(scope, receive, send, self._settings)
        self._active += 1
        try:
            if self._active > self._settings.max_connections:
                await request.refuse(too_busy("the service has too many requests at a time", 1, 503))
            else:
                await self._run(request)
        finally:
            self._active -= 1
            seconds = time.monotonic() - request.began
            route = getattr(scope.get("route"), "path", "")
            self._count(scope["method"], route, request.status or 499, seconds)
            log_request(scope, request.id, request.status or 499, seconds)

    async def _run(self, request: _Request) -> None:
        try:
            request.check_length()
            await self._app(request.scope, request.receive, request.send)
        except ApiError as error:
            await request.refuse(error)
        except TimeoutError:
            await request.refuse(ApiError(408, "the request took too long"))
        except ClientDisconnect:  # in the middle of its body
            pass
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception:
            logging.getLogger("qverify.service").exception("a bug", extra={"fields": {"request": request.id}})
            await request.refuse(
                ApiError(500, "a bug of the service", next=f"report it; request {request.id} in its log")
            )


class _Request:
    """A request: its id, its status (0 until it is known), and its guarded streams."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, settings: ServiceSettings):
        self.scope, self.id, self.began, self.status = scope, uuid.uuid4().hex[:16], time.monotonic(), 0
        self._receive, self._send, self._settings = receive, send, settings
        self._upload = scope["method"] in ("PUT", "POST") and UPLOAD_PATHS.fullmatch(scope["path"]) is not None
        self._received_bytes, self._body_complete = 0, False
        scope.setdefault("state", {})["request_id"] = self.id

    def check_length(self) -> None:
        """Refuses a body with a Content-Length above the limit, or with both Content-Length and Transfer-Encoding."""
        headers = self.scope["headers"]
        for name, value in headers:
            if name == b"content-length":
                self._check_size(int(value) if value.isdigit() else 0)
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in headers}:
            raise ApiError(400, "Content-Length and Transfer-Encoding together", wanted="one of them")

    def _check_size(self, size: int) -> None:
        limit = self._settings.max_upload_bytes if self._upload else self._settings.max_json_bytes
        if size > limit:
            raise ApiError(413, "the body is too large", got=f"{size} bytes", wanted=f"at most {limit} bytes")

    async def receive(self) -> Message:
        if self._body_complete:  # the only message after the body is the disconnect
            return await self._receive()
        try:
            async with asyncio.timeout(self._deadline()):
                message = await self._receive()
        except TimeoutError:
            raise ApiError(408, "the body did not arrive in time", got=f"{self._received_bytes} bytes") from None
        if message["type"] == "http.request":
            self._received_bytes += len(message.get("body", b""))
            self._check_size(self._received_bytes)
            self._body_complete = not message.get("more_body", False)
        return message

    def _deadline(self) -> float:
        """Returns the seconds within which the next piece of the body must arrive."""
        settings, spent = self._settings, time.monotonic() - self.began
        if not self._upload:
            return max(0.0, min(settings.idle_s, settings.body_s - spent))
        if spent > settings.idle_s and self._received_bytes < spent * settings.upload_bytes_per_s:
            return 0.0
        return settings.idle_s

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = self._headers(list(message.get("headers", [])))
        async with asyncio.timeout(STALL_S):
            await self._send(message)

    def _headers(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        present = {name.lower() for name, _ in headers}
        added = [(b"x-request-id", self.id.encode()), *HEADERS, POLICY]
        if b"cache-control" not in present:
            added.append((b"cache-control", b"no-store"))
        if self.status >= 400 and not self._body_complete:
            added.append((b"connection", b"close"))  # the rest of the body is not read
        return headers + [(name, value) for name, value in added if name not in present]

    async def refuse(self, error: ApiError) -> None:
        """Replies with an error, unless a reply has begun."""
        if not self.status:
            await error_reply(error, self.id)(self.scope, self._receive, self.send)


def log_request(scope: Scope, request: str, status: int, seconds: float) -> None:
    """Writes the log line of a request, without its query, which may contain private data."""
    client = scope.get("client")
    caller = scope.get("state", {}).get("caller", "")
    log(
        "request",
        logger=REQUEST_LOGGER,
        request=request,
        method=scope["method"],
        path=scope["path"][:300],
        status=status,
        ms=round(seconds * 1000, 1),
        caller=caller,
        client=client[0] if client else "",
    )
