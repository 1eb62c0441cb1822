"""Who asks, and of which project: what every route depends on."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Query, Request
from fastapi.security import APIKeyCookie, HTTPBearer
from fastapi.security.http import HTTPAuthorizationCredentials
from starlette.concurrency import run_in_threadpool

from qverify_farm.service.errors import ApiError, not_found, too_busy
from qverify_farm.service.farm import Farm
from qverify_farm.service.sessions import SESSION_ID
from qverify_farm.service.tokens import LOCAL_ADMIN, NAME, SECRET, Caller, Role
from qverify_farm.store.runs import DEFAULT_PROJECT

COOKIE = "qverify_session"
SAFE = ("GET", "HEAD", "OPTIONS")
_bearer = HTTPBearer(auto_error=False, description="a token of `qverify serve token create`")
_cookie = APIKeyCookie(name=COOKIE, auto_error=False, description="a session, as POST /api/v1/session begins it")


@dataclass(frozen=True, slots=True)
class Scope:
    """A request: who asks, the project (id and name) that is asked of, and the request's id."""

    farm: Farm
    caller: Caller
    project: str
    project_name: str
    request: str


def farm_of(request: Request) -> Farm:
    farm: Farm = request.app.state.farm
    return farm


async def caller_from(
    request: Request,
    bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)] = None,
    cookie: Annotated[str | None, Depends(_cookie)] = None,
) -> Caller:
    """Returns who asks. ApiError 401 without a token that is valid, 429 above the limits."""
    farm = farm_of(request)
    secret = bearer.credentials if bearer is not None else _of_own_page(request, cookie)
    caller = None
    if secret:
        if (SECRET if bearer is not None else SESSION_ID).fullmatch(secret):
            caller = farm.known.recall(secret) or await run_in_threadpool(farm.known.find, secret)
    elif "authorization" not in request.headers and _is_local(request, farm):
        caller = None if await run_in_threadpool(farm.known.any_tokens) else LOCAL_ADMIN
    return admit(request, caller, secret)


def admit(request: Request, caller: Caller | None, secret: str) -> Caller:
    """Returns the caller that a secret led to. ApiError 401 without one, 429 above the limits."""
    farm, now = farm_of(request), time.monotonic()
    address = request.client.host if request.client else "unknown"
    if caller is None:
        if secret and (wait := farm.failures.wait_s(address, now)):
            raise too_busy("too many wrong tokens came from this address", wait)
        if not secret and (wait := farm.requests.wait_s(f"no token, {address}", now)):
            raise too_busy("too many requests without a token came from this address", wait)
        raise ApiError(
            401,
            "no token, or one that is unknown, expired or revoked",
            wanted="Authorization: Bearer TOKEN",
            next="ask the administrator for one: qverify serve token create",
            headers={"WWW-Authenticate": "Bearer"},
        )
    if wait := farm.requests.wait_s(caller.token or address, now):
        raise too_busy("too many requests of this token", wait)
    request.state.caller = caller.name
    return caller


def _of_own_page(request: Request, cookie: str | None) -> str:
    """Returns the cookie's session, unless the page of another site may have sent it along."""
    if not cookie or (request.method not in SAFE and not same_origin(request)):
        return ""
    return cookie


def _is_local(request: Request, farm: Farm) -> bool:
    """Returns whether a request without a token is the administrator's, if no token was ever made: it comes from this
    host and names it (so that no foreign name leads here), and no page of another site sent it."""
    if farm.settings.behind_proxy or request.client is None or not is_loopback(request.client.host):
        return False
    if not is_loopback(_host_name(request.headers.get("host", ""))) or not same_origin(request):
        return False
    return not any(name in request.headers for name in ("forwarded", "x-forwarded-for", "via"))


def same_origin(request: Request) -> bool:
    """Returns whether no page of another site sent a request: browsers say where theirs come from."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return True
    parts, host = urlsplit(origin), request.headers.get("host", "").lower()
    same_scheme = parts.scheme == request.url.scheme or farm_of(request).settings.behind_proxy  # which may end TLS
    return same_scheme and parts.netloc.lower() == host != ""


def is_secure(request: Request) -> bool:
    """Returns whether browsers reach the service by https: its cookies are sent by nothing else then."""
    return request.url.scheme == "https" or farm_of(request).settings.behind_proxy


def _host_name(host: str) -> str:
    return (urlsplit(f"//{host}").hostname or "") if "@" not in host else ""


def is_loopback(host: str) -> bool:
    """Returns whether this name or address is this host's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


Asking = Annotated[Caller, Depends(caller_from)]
ProjectName = Annotated[
    str | None,
    Query(pattern=NAME, description="project, where the token is one of all projects [default: default]"),
]


async def scope_of(request: Request, caller: Asking, project: ProjectName = None) -> Scope:
    """Returns what is asked of. ApiError 404 for a project that the caller may not see."""
    known = farm_of(request).known
    name = project or DEFAULT_PROJECT
    found = known.recall_project(name, caller.project)
    if found is None:
        found = await run_in_threadpool(known.find_project, name, caller.project)
    if found is None or (project is not None and found[1] != project):
        raise not_found("project", project or "")
    return Scope(farm_of(request), caller, *found, request.state.request_id)


Scoped = Annotated[Scope, Depends(scope_of)]


def needs(role: Role) -> Callable[[Caller], Awaitable[Caller]]:
    """Returns a dependency that refuses callers below a role."""

    async def check(caller: Asking) -> Caller:
        if not caller.may(role):
            raise ApiError(403, "the token's role may not do this", got=caller.role, wanted=f"{role} or higher")
        return caller

    return check


async def needs_all_projects(caller: Asking) -> Caller:
    """A dependency that refuses all but administrators of all projects."""
    if not caller.may("admin") or caller.project is not None:
        got = caller.role if caller.project is None else f"{caller.role} of one project"
        raise ApiError(403, "only an administrator of all projects may do this", got=got)
    return caller


SUBMITTER, ADMIN, ADMIN_OF_ALL = Depends(needs("submitter")), Depends(needs("admin")), Depends(needs_all_projects)
