"""Determines the caller and the project of a request, for every route."""

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
READ_ONLY_METHODS = ("GET", "HEAD", "OPTIONS")
_bearer = HTTPBearer(auto_error=False, description="a token of `qverify serve token create`")
_cookie = APIKeyCookie(name=COOKIE, auto_error=False, description="a session that POST /api/v1/session began")


@dataclass(frozen=True, slots=True)
class Scope:
    """The context of a request: the farm, the caller, the project's id and name, and the request's id."""

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
    """Returns the caller. Raises ApiError 401 without a valid token or session, 403 if a page of another site uses the access of
    this host or of a browser's session, and 429 above the limits."""
    farm = farm_of(request)
    secret = bearer.credentials if bearer is not None else cookie or ""
    is_foreign = (
        bearer is None and request.method not in READ_ONLY_METHODS and not same_origin(request) and bool(cookie)
    )
    secret, caller = "" if is_foreign else secret, None
    if secret:
        if (SECRET if bearer is not None else SESSION_ID).fullmatch(secret):
            caller = farm.known_callers.recall(secret) or await run_in_threadpool(farm.known_callers.find, secret)
    elif "authorization" not in request.headers and _is_local(request, farm):
        if not await run_in_threadpool(farm.known_callers.any_tokens):
            is_foreign = not same_origin(request)
            caller = None if is_foreign else LOCAL_ADMIN
    return admit(request, caller, secret, is_foreign)


def admit(request: Request, caller: Caller | None, secret: str, is_foreign: bool = False) -> Caller:
    """Returns the caller, who was found by the secret. Raises ApiError 401 if it is None (403 if a page of another site sent the
    request), and 429 above the limits."""
    farm, now = farm_of(request), time.monotonic()
    address = request.client.host if request.client else "unknown"
    if caller is None:
        if secret and (wait := farm.failures.wait_s(address, now)):
            raise too_busy("too many wrong tokens came from this address", wait)
        if not secret and (wait := farm.requests.wait_s(f"no token, {address}", now)):
            raise too_busy("too many requests without a token came from this address", wait)
        if is_foreign:
            origin = request.headers.get("origin", "another site")
            raise ApiError(
                403, "a page of another site sent the request", got=origin, next="open this service's own page"
            )
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


def _is_local(request: Request, farm: Farm) -> bool:
    """Returns whether a request without a token may count as the administrator's while no token exists, unless a page of another
    site sent it: it comes from this host, and its Host header names this host (against DNS rebinding)."""
    if farm.settings.behind_proxy or request.client is None or not is_loopback(request.client.host):
        return False
    if not is_loopback(_host_name(request.headers.get("host", ""))):
        return False
    return not any(name in request.headers for name in ("forwarded", "x-forwarded-for", "via"))


def same_origin(request: Request) -> bool:
    """Returns whether a request does not come from a page of another site, by the headers that browsers send."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return True
    parts, host = urlsplit(origin), request.headers.get("host", "").lower()
    same_scheme = parts.scheme == request.url.scheme or farm_of(request).settings.behind_proxy  # the proxy may end TLS
    return same_scheme and parts.netloc.lower() == host != ""


def is_secure(request: Request) -> bool:
    """Returns whether browsers reach the service by https, so that its cookies may be restricted to https."""
    return request.url.scheme == "https" or farm_of(request).settings.behind_proxy


def _host_name(host: str) -> str:
    return (urlsplit(f"//{host}").hostname or "") if "@" not in host else ""


def is_loopback(host: str) -> bool:
    """Returns whether a host name or address is a loopback address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


CurrentCaller = Annotated[Caller, Depends(caller_from)]
ProjectName = Annotated[
    str | None,
    Query(pattern=NAME, description="project, for a token of all projects [default: default]"),
]


async def scope_of(request: Request, caller: CurrentCaller, project: ProjectName = None) -> Scope:
    """Returns the context of a request. Raises ApiError 404 for a project that the caller may not see."""
    known_callers = farm_of(request).known_callers
    name = project or DEFAULT_PROJECT
    project_row = known_callers.recall_project(name, caller.project)
    if project_row is None:
        project_row = await run_in_threadpool(known_callers.find_project, name, caller.project)
    if project_row is None or (project is not None and project_row[1] != project):
        raise not_found("project", project or "")
    return Scope(farm_of(request), caller, *project_row, request.state.request_id)


Scoped = Annotated[Scope, Depends(scope_of)]


def needs(role: Role) -> Callable[[Caller], Awaitable[Caller]]:
    """Returns a dependency that refuses callers with a lower role."""

    async def check(caller: CurrentCaller) -> Caller:
        if not caller.may(role):
            raise ApiError(403, "the token's role may not do this", got=caller.role, wanted=f"{role} or higher")
        return caller

    return check


async def needs_all_projects(caller: CurrentCaller) -> Caller:
    """Refuses callers other than administrators of all projects; for use as a dependency."""
    if not caller.may("admin") or caller.project is not None:
        got = caller.role if caller.project is None else f"{caller.role} of one project"
        raise ApiError(403, "only an administrator of all projects may do this", got=got)
    return caller


SUBMITTER, ADMIN, ADMIN_OF_ALL = Depends(needs("submitter")), Depends(needs("admin")), Depends(needs_all_projects)
