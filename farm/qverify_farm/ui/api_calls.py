"""Calls the HTTP API for a page, in this process and as the page's visitor, so that the API's rules apply."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
from starlette.requests import Request

from qverify_farm.service.access import COOKIE
from qverify_farm.service.sessions import SESSION_ID

API = "/api/v1"
# Headers that the API's access rules need.
FORWARDED_HEADERS = ("host", "origin", "sec-fetch-site", "forwarded", "x-forwarded-for", "via")
TIMEOUT_S = 60.0


class RefusedError(Exception):
    """The API refused a call. `status` is the HTTP status; `text` is the reason as one line."""

    def __init__(self, status: int, text: str):
        super().__init__(text)
        self.status, self.text = status, text


class ApiCalls:
    """Calls the API as the visitor who sent a request, with the same session and address. Every method raises RefusedError if
    the API refuses the call."""

    def __init__(self, request: Request):
        headers = {name: request.headers[name] for name in FORWARDED_HEADERS if name in request.headers}
        session_id = request.cookies.get(COOKIE, "")
        if SESSION_ID.fullmatch(session_id):
            headers |= {"cookie": f"{COOKIE}={session_id}"}
        client = (request.client.host, request.client.port) if request.client else ("unknown", 0)
        state = {"request_id": getattr(request.state, "request_id", "")}
        app = _with_state(request.app, state)
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app, client=client, raise_app_exceptions=False),
            base_url=f"{request.url.scheme}://page",
            headers=headers,
            timeout=TIMEOUT_S,
        )

    async def get(self, path: str, **query: str | int | list[str] | None) -> Any:
        """Returns the JSON at a path of the API. Query parameters that are None or "" are left out."""
        parameters = {key: value for key, value in query.items() if value not in (None, "", [])}
        if not path.isprintable():
            raise RefusedError(404, "no such page")
        return _json_of(await self._client.get(f"{API}{path}", params=parameters))

    async def post(self, path: str, body: Mapping[str, Any] | None) -> Any:
        """Posts JSON, or nothing, to a path of the API and returns the JSON of the reply."""
        return _json_of(await self._client.post(f"{API}{path}", json=body))

    async def log_in(self, token: str) -> list[str]:
        """Begins a session and returns the Set-Cookie headers of the reply."""
        reply = await self._client.post(f"{API}/session", json={"token": token})
        _json_of(reply)
        return reply.headers.get_list("set-cookie")

    async def log_out(self) -> list[str]:
        """Ends the session and returns the Set-Cookie headers of the reply."""
        reply = await self._client.delete(f"{API}/session")
        _json_of(reply)
        return reply.headers.get_list("set-cookie")

    async def put_file(self, pieces: AsyncIterator[bytes], name: str) -> str:
        """Stores bytes as an artifact, piece by piece, and returns their SHA-256."""
        artifact = _json_of(await self._client.post(f"{API}/artifacts", content=pieces, params={"name": name[:200]}))
        return str(artifact["sha256"])


def _with_state(app: Any, state: dict[str, Any]) -> Any:
    async def wrapped_app(scope: Any, receive: Any, send: Any) -> None:
        scope["state"] = dict(state)
        await app(scope, receive, send)

    return wrapped_app


def _json_of(reply: httpx.Response) -> Any:
    if reply.is_success:
        return reply.json()
    try:
        error = json.loads(reply.content)["error"]
        text = str(error["what"])
        text = f"{error['where']}: {text}" if error.get("where") else text
        text += f": got {error['got']}" if error.get("got") else ""
        text += f", wanted {error['wanted']}" if error.get("wanted") else ""
        text += f". Next: {error['next']}" if error.get("next") else ""
    except (ValueError, KeyError, TypeError):
        text = f"HTTP {reply.status_code}"
    raise RefusedError(reply.status_code, text)
