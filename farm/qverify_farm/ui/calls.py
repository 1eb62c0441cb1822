"""The HTTP API, asked by a page for the person who looks at it: in this process, under the API's own rules."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
from starlette.requests import Request

from qverify_farm.service.access import COOKIE
from qverify_farm.service.sessions import SESSION_ID

API = "/api/v1"
TOLD = ("host", "origin", "sec-fetch-site", "forwarded", "x-forwarded-for", "via")  # what the API decides by
LONGEST_S = 60.0


class RefusedError(Exception):
    """The API refused. status: of HTTP. text: one line."""

    def __init__(self, status: int, text: str):
        super().__init__(text)
        self.status, self.text = status, text


class Calls:
    """Calls of the API as the visitor who sent this request, with his session, from his address."""

    def __init__(self, request: Request):
        headers = {name: request.headers[name] for name in TOLD if name in request.headers}
        known = request.cookies.get(COOKIE, "")
        if SESSION_ID.fullmatch(known):
            headers |= {"cookie": f"{COOKIE}={known}"}
        client = (request.client.host, request.client.port) if request.client else ("unknown", 0)
        state = {"request_id": getattr(request.state, "request_id", "")}
        app = _with_state(request.app, state)
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app, client=client, raise_app_exceptions=False),
            base_url=f"{request.url.scheme}://page",
            headers=headers,
            timeout=LONGEST_S,
        )

    async def get(self, path: str, **query: str | int | None) -> Any:
        """Returns the JSON at a path of the API. RefusedError."""
        given = {key: value for key, value in query.items() if value not in (None, "")}
        if not path.isprintable():
            raise RefusedError(404, "no such page")
        return _read(await self._client.get(f"{API}{path}", params=given))

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Returns what the API answers to this JSON. RefusedError."""
        return _read(await self._client.post(f"{API}{path}", json=body))

    async def log_in(self, token: str) -> list[str]:
        """Begins a session and returns the reply's Set-Cookie. RefusedError."""
        reply = await self._client.post(f"{API}/session", json={"token": token})
        _read(reply)
        return reply.headers.get_list("set-cookie")

    async def log_out(self) -> list[str]:
        """Ends the session and returns the reply's Set-Cookie. RefusedError."""
        reply = await self._client.delete(f"{API}/session")
        _read(reply)
        return reply.headers.get_list("set-cookie")

    async def put_file(self, pieces: AsyncIterator[bytes], name: str) -> str:
        """Stores bytes as an artifact, piece by piece, and returns their SHA-256. RefusedError."""
        found = _read(await self._client.post(f"{API}/artifacts", content=pieces, params={"name": name[:200]}))
        return str(found["sha256"])


def _with_state(app: Any, state: dict[str, Any]) -> Any:
    async def called(scope: Any, receive: Any, send: Any) -> None:
        scope["state"] = dict(state)
        await app(scope, receive, send)

    return called


def _read(reply: httpx.Response) -> Any:
    if reply.is_success:
        return reply.json()
    try:
        error = json.loads(reply.content)["error"]
        said = str(error["what"])
        said = f"{error['where']}: {said}" if error.get("where") else said
        said += f": got {error['got']}" if error.get("got") else ""
        said += f", wanted {error['wanted']}" if error.get("wanted") else ""
        said += f". Next: {error['next']}" if error.get("next") else ""
    except (ValueError, KeyError, TypeError):
        said = f"HTTP {reply.status_code}"
    raise RefusedError(reply.status_code, said)
