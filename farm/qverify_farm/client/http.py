"""The farm's HTTP API as a client sees it: one request at a time, with deadlines, every refusal one line."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import httpx
from qverify import __version__
from qverify.errors import UsageError
from qverify.printable import printable

from qverify_farm.errors import ServerError

MOST_JSON = 1 << 25  # bytes of a reply that is no report
MOST_REPORT = 1 << 28
CONNECT_S, READ_S, WRITE_S = 10.0, 60.0, 60.0
PATIENCE_S = 60.0  # for a server that is too busy, or is away while a job runs
LONGEST_PAUSE_S = 15.0
BUSY = (429, 503)
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def server_url(text: str) -> str:
    """Returns the address of a server without a slash at its end. UsageError for what is none."""
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError as error:
        raise UsageError(f"--server {printable(text[:200])}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise UsageError(f"--server {printable(text[:200])}: wanted http://HOST:PORT or https://HOST")
    if parts.username is not None or parts.password is not None:
        raise UsageError("--server: an address with a password in it; give the token with --token or qverify login")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def is_open_to_listeners(url: str) -> bool:
    """Returns whether a token would cross a network unencrypted."""
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in LOOPBACK


class FarmServer:
    """A server and the token it is asked with. patience_s: for one that is too busy. Raises, from every method:
    UsageError (exit 2) where it refuses the request, ServerError (exit 3) where it is away or fails."""

    def __init__(self, url: str, token: str = "", patience_s: float = PATIENCE_S):
        self.url, self._patience_s = server_url(url), patience_s
        headers = {"User-Agent": f"qverify/{__version__}", "Accept": "application/json"}
        if token:
            if not token.isascii() or not token.isprintable() or " " in token:
                raise UsageError("the token has characters that no token has (was it copied whole?)")
            headers["Authorization"] = f"Bearer {token}"
        self._client = httpx.Client(
            base_url=self.url,
            headers=headers,
            timeout=httpx.Timeout(READ_S, connect=CONNECT_S, write=WRITE_S),
            follow_redirects=False,
            trust_env=urlsplit(self.url).hostname not in LOOPBACK,
        )

    def __enter__(self) -> FarmServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def get(self, path: str, most: int = MOST_JSON, **query: str | int) -> Any:
        """Returns the JSON at a path."""
        return self._json("GET", path, most, params=query)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Returns what the server answers to this JSON."""
        return self._json("POST", path, MOST_JSON, json=body)

    def has(self, path: str) -> bool:
        """Returns whether there is something at a path."""
        status, _ = self._ask("HEAD", path, MOST_JSON, allowed=(404,))
        return status != 404

    def put(self, path: str, pieces: Iterable[bytes], size: int, **query: str) -> None:
        """Uploads `size` bytes, which are read once; it is not tried again."""
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        self._once("PUT", path, MOST_JSON, (), content=pieces, headers=headers, params=query)

    def _json(self, method: str, path: str, most: int, **how: Any) -> Any:
        _, data = self._ask(method, path, most, **how)
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise ServerError(f"{self.url}{path}: the answer is not JSON; is this a qverify server?") from None

    def _ask(self, method: str, path: str, most: int, allowed: tuple[int, ...] = (), **how: Any) -> tuple[int, bytes]:
        """Returns status and body. Tries again while the server is too busy."""
        until = time.monotonic() + self._patience_s
        while True:
            try:
                return self._once(method, path, most, allowed, **how)
            except TooBusyError as error:
                if time.monotonic() + error.pause_s > until:
                    raise
                time.sleep(error.pause_s)

    def _once(self, method: str, path: str, most: int, allowed: tuple[int, ...], **how: Any) -> tuple[int, bytes]:
        with self._told(), self._client.stream(method, path, **how) as reply:
            data = bytearray()
            for piece in reply.iter_bytes():
                data += piece
                if len(data) > most:
                    raise ServerError(f"{self.url}{path}: an answer of more than {most >> 20} MiB")
        if reply.status_code >= 300 and reply.status_code not in allowed:
            raise self._refusal(reply, bytes(data), path)
        return reply.status_code, bytes(data)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Turns what httpx raises into one line."""
        try:
            yield
        except httpx.ConnectTimeout:
            raise AwayError(f"{self.url}: no answer within {CONNECT_S:g} s") from None
        except httpx.TimeoutException:
            raise AwayError(f"{self.url}: it does not go on; waited {READ_S:g} s") from None
        except httpx.TransportError as error:
            why = printable(" ".join(str(error).split())[:200]) or type(error).__name__
            raise AwayError(f"{self.url}: not reached: {why}. Is `qverify serve` running there?") from None
        except httpx.InvalidURL as error:
            raise UsageError(f"{self.url}: {error}") from None

    def _refusal(self, reply: httpx.Response, data: bytes, path: str) -> UsageError | ServerError:
        status, said = reply.status_code, said_by(data)
        if status in BUSY:
            pause = _pause(reply.headers.get("retry-after", ""))
            return TooBusyError(f"{self.url}: {said or 'too busy'} (HTTP {status})", pause)
        if status == 401:
            return UsageError(
                f"{self.url}: {said or 'the token is not valid'}. Next: qverify login {self.url}, --token, or "
                "QVERIFY_TOKEN"
            )
        if status == 403:
            return UsageError(f"{self.url}: {said or 'this token may not do that'} (HTTP 403)")
        if status == 413:
            return UsageError(f"{self.url}: {said or 'more bytes than the server takes'} (HTTP 413)")
        if 400 <= status < 500:
            return UsageError(f"{self.url}: {said or f'{path}: refused'} (HTTP {status})")
        if status < 400:
            return ServerError(
                f"{self.url}{path}: it redirects elsewhere (HTTP {status}); give the address it redirects to"
            )
        return ServerError(f"{self.url}: {said or 'the server failed'} (HTTP {status})")


class AwayError(ServerError):
    """The server is not reached; it may come back."""


class TooBusyError(ServerError):
    """pause_s: after which it may be tried again."""

    def __init__(self, text: str, pause_s: float):
        super().__init__(text)
        self.pause_s = pause_s


def said_by(data: bytes) -> str:
    """Returns what an error's body says, one line; "" where it is no body of the farm."""
    try:
        error = json.loads(data[:MOST_JSON])["error"]
        parts = {key: printable(" ".join(str(error.get(key, "")).split())[:500]) for key in ("where", "what", "got")}
        more = {key: printable(" ".join(str(error.get(key, "")).split())[:500]) for key in ("wanted", "next")}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""
    text = f"{parts['where']}: {parts['what']}" if parts["where"] else parts["what"]
    text += f": got {parts['got']}" if parts["got"] else ""
    text += f", wanted {more['wanted']}" if more["wanted"] else ""
    return text + (f". Next: {more['next']}" if more["next"] else "")


def _pause(text: str) -> float:
    """Returns the seconds of Retry-After, bounded."""
    return min(float(text), LONGEST_PAUSE_S) if text.isdigit() and text.isascii() else 1.0
