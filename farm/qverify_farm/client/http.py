"""A client of the farm's HTTP API: one request at a time, with deadlines; every error is one line of text."""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import httpx
from qverify import __version__
from qverify.errors import UsageError
from qverify.printable import printable

from qverify_farm.errors import ServerError

MAX_JSON_BYTES = 1 << 25  # largest reply that is not a report
MAX_REPORT_BYTES = 1 << 28
CONNECT_S, READ_S, WRITE_S = 10.0, 60.0, 60.0
MAX_WAIT_S = 60.0  # longest wait for a server that is too busy, or that cannot be reached any more
LONGEST_PAUSE_S = 15.0
FIRST_AWAY_PAUSE_S, LONGEST_AWAY_PAUSE_S = 0.1, 2.0  # before a request without an answer is sent again
BUSY_STATUSES, PROXY_STATUSES = (429, 503), (502, 504)
# What httpx says of a connection that was closed before the reply's end.
LOST_REPLIES = ("disconnected", "closed connection")
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def server_url(text: str) -> str:
    """Returns the URL of a server without a final slash. Raises UsageError for anything that is not such a URL."""
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
    """Returns whether a token for this URL would cross a network unencrypted."""
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in LOOPBACK


class FarmServer:
    """A connection to a farm's server. Every method raises UsageError (exit status 2) if the server refuses the request, and
    ServerError (exit status 3) if the server cannot be reached or fails. A request whose reply is lost is sent again for up to
    max_wait_s, if it may be sent twice; so is one that does not reach a server that has answered before."""

    def __init__(self, url: str, token: str = "", max_wait_s: float = MAX_WAIT_S):
        """token: sent with every request, unless it is "". max_wait_s: how long to retry."""
        self.url, self._max_wait_s, self._has_answered = server_url(url), max_wait_s, False
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
            verify=_trusted_authorities() if self.url.startswith("https:") else True,
        )

    def __enter__(self) -> FarmServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def get(self, path: str, max_bytes: int = MAX_JSON_BYTES, **query: str | int) -> Any:
        """Returns the JSON at a path."""
        return self._json("GET", path, max_bytes, params=query)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Posts JSON to a path and returns the JSON of the answer."""
        return self._json("POST", path, MAX_JSON_BYTES, json=body)

    def submit(self, path: str, body: Mapping[str, Any]) -> Any:
        """Posts a submission, of which the server makes one run however often it is sent, and returns the JSON of the answer."""
        return self._json("POST", path, MAX_JSON_BYTES, json=body, headers={"Idempotency-Key": uuid.uuid4().hex})

    def has(self, path: str) -> bool:
        """Returns whether a path exists on the server."""
        status, _ = self._request("HEAD", path, MAX_JSON_BYTES, allowed=(404,))
        return status != 404

    def put(self, path: str, pieces: Callable[[], Iterable[bytes]], size: int, **query: str) -> None:
        """Uploads `size` bytes. pieces: returns them from the beginning; it is called for each try."""
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        self._request("PUT", path, MAX_JSON_BYTES, pieces=pieces, headers=headers, params=query)

    def _json(self, method: str, path: str, max_bytes: int, **arguments: Any) -> Any:
        _, data = self._request(method, path, max_bytes, **arguments)
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise ServerError(f"{self.url}{path}: the answer is not JSON; is this a qverify server?") from None

    def _request(
        self,
        method: str,
        path: str,
        max_bytes: int,
        allowed: tuple[int, ...] = (),
        pieces: Callable[[], Iterable[bytes]] | None = None,
        **arguments: Any,
    ) -> tuple[int, bytes]:
        """Returns the status and the body of the reply. Retries while the server is too busy, and after a lost reply if the
        request may be sent twice. pieces: returns the body, for each try."""
        deadline, away_pause = time.monotonic() + self._max_wait_s, FIRST_AWAY_PAUSE_S
        is_repeatable = method != "POST" or "Idempotency-Key" in arguments.get("headers", {})
        while True:
            try:
                body = {} if pieces is None else {"content": pieces()}
                return self._request_once(method, path, max_bytes, allowed, **arguments, **body)
            except TooBusyError as error:
                pause = error.pause_s
                if time.monotonic() + pause > deadline:
                    raise
            except AwayError as error:
                pause, away_pause = away_pause, min(2 * away_pause, LONGEST_AWAY_PAUSE_S)
                may_be_up = self._has_answered or not error.unreached
                if not is_repeatable or not may_be_up or time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)

    def _request_once(
        self, method: str, path: str, max_bytes: int, allowed: tuple[int, ...], **arguments: Any
    ) -> tuple[int, bytes]:
        with self._one_line_errors(), self._client.stream(method, path, **arguments) as reply:
            data = bytearray()
            for piece in reply.iter_bytes():
                data += piece
                if len(data) > max_bytes:
                    raise ServerError(f"{self.url}{path}: an answer of more than {max_bytes >> 20} MiB")
        self._has_answered = True
        if reply.status_code >= 300 and reply.status_code not in allowed:
            raise self._refusal(reply, bytes(data), path)
        return reply.status_code, bytes(data)

    @contextlib.contextmanager
    def _one_line_errors(self) -> Iterator[None]:
        """Turns exceptions of httpx into errors of one line."""
        try:
            yield
        except httpx.ConnectTimeout:
            raise AwayError(f"{self.url}: no answer within {CONNECT_S:g} s", unreached=True) from None
        except httpx.TimeoutException:
            raise AwayError(f"{self.url}: it does not go on; waited {READ_S:g} s") from None
        except httpx.TransportError as error:
            why = printable(" ".join(str(error).split())[:200]).rstrip(".") or type(error).__name__
            if "CERTIFICATE_VERIFY_FAILED" in why:
                raise ServerError(
                    f"{self.url}: {why}. Next, for an authority of your own: SSL_CERT_FILE=FILE, its certificate"
                ) from None
            text = f"{self.url}: not reached: {why}. Is `qverify serve` running there?"
            if isinstance(error, httpx.ProtocolError) and not any(words in why for words in LOST_REPLIES):
                raise ServerError(text) from None
            raise AwayError(text, unreached=isinstance(error, (httpx.ConnectError, httpx.ProxyError))) from None
        except httpx.InvalidURL as error:
            raise UsageError(f"{self.url}: {error}") from None

    def _refusal(self, reply: httpx.Response, data: bytes, path: str) -> UsageError | ServerError:
        status, text = reply.status_code, error_text(data)
        if status in BUSY_STATUSES:
            pause = _pause(reply.headers.get("retry-after", ""))
            return TooBusyError(f"{self.url}: {text or 'too busy'} (HTTP {status})", pause)
        if status in PROXY_STATUSES:
            return AwayError(f"{self.url}: {text or 'its proxy does not reach the service'} (HTTP {status})")
        if status == 401:
            step = "" if "Next:" in text else f". Next: qverify login {self.url}, --token, or QVERIFY_TOKEN"
            return UsageError(f"{self.url}: {text or 'the token is not valid'}{step}")
        if status == 403:
            return UsageError(f"{self.url}: {text or 'this token may not do that'} (HTTP 403)")
        if status == 413:
            return UsageError(f"{self.url}: {text or 'more bytes than the server takes'} (HTTP 413)")
        if 400 <= status < 500:
            return UsageError(f"{self.url}: {text or f'{path}: refused'} (HTTP {status})")
        if status < 400:
            return ServerError(
                f"{self.url}{path}: it redirects elsewhere (HTTP {status}); give the address it redirects to"
            )
        return ServerError(f"{self.url}: {text or 'the server failed'} (HTTP {status})")


def _trusted_authorities() -> ssl.SSLContext:
    """Returns a context that trusts the authorities of SSL_CERT_FILE and SSL_CERT_DIR or, without these variables, those of this
    host and of certifi."""
    context = ssl.create_default_context()
    if not {"SSL_CERT_FILE", "SSL_CERT_DIR"} & os.environ.keys():
        with contextlib.suppress(ImportError, OSError):
            import certifi

            context.load_verify_locations(certifi.where())
    return context


class AwayError(ServerError):
    """The server cannot be reached at the moment, or its reply was lost. unreached: the request did not reach it."""

    def __init__(self, text: str, unreached: bool = False):
        super().__init__(text)
        self.unreached = unreached


class TooBusyError(ServerError):
    """The server is too busy. `pause_s` is the time in seconds after which the request may be repeated."""

    def __init__(self, text: str, pause_s: float):
        super().__init__(text)
        self.pause_s = pause_s


def error_text(data: bytes) -> str:
    """Returns the message in the body of an error reply as one line, or "" if it is not an error reply of the farm."""
    try:
        error = json.loads(data[:MAX_JSON_BYTES])["error"]
        parts = {key: printable(" ".join(str(error.get(key, "")).split())[:500]) for key in ("where", "what", "got")}
        more = {key: printable(" ".join(str(error.get(key, "")).split())[:500]) for key in ("wanted", "next")}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""
    text = f"{parts['where']}: {parts['what']}" if parts["where"] else parts["what"]
    text += f": got {parts['got']}" if parts["got"] else ""
    text += f", wanted {more['wanted']}" if more["wanted"] else ""
    return text + (f". Next: {more['next']}" if more["next"] else "")


def _pause(text: str) -> float:
    """Returns the seconds of a Retry-After header, at most LONGEST_PAUSE_S; 1 if it has no number."""
    return min(float(text), LONGEST_PAUSE_S) if text.isdigit() and text.isascii() else 1.0
