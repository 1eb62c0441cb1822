"""Renders the pages: templates, the visitor, the token of forms, cookies and headers."""

from __future__ import annotations

import datetime
import hmac
import secrets
import time
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from qverify_farm.service.access import is_secure
from qverify_farm.ui.api_calls import ApiCalls, RefusedError

FORM_COOKIE = "qverify_form"
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
DAY_S = 86400
OLD_TOKEN_COOKIE = "qverify_token"  # of earlier versions, without sessions; it contained the token itself


@cache
def environment() -> jinja2.Environment:
    """Returns the Jinja environment for the templates of this package. Every value is escaped."""
    loader = jinja2.PackageLoader("qverify_farm.ui", "templates")
    templates = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    templates.filters |= {"when": when, "ago": ago, "short": lambda text: str(text)[:12], "seconds": seconds}
    templates.filters["shown"] = shown
    return templates


def when(stamp: float | None) -> str:
    """Returns a time in seconds since 1970 as UTC date and time, or "" for None."""
    if stamp is None:
        return ""
    try:
        return datetime.datetime.fromtimestamp(stamp, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return "?"


def shown(value: str | None) -> str:
    """Returns a fact's value: of a hash, the first digits."""
    text = "none" if value is None else value
    return text[:12] if len(text) == 64 and all(c in "0123456789abcdef" for c in text) else text


def ago(stamp: float | None) -> str:
    """Returns how long ago a time was, in one unit."""
    return "" if stamp is None else f"{seconds(max(0.0, time.time() - stamp))} ago"


def seconds(value: float | None) -> str:
    """Returns a duration in seconds as text, in the largest unit that fits at least twice."""
    if value is None:
        return ""
    for unit, size in (("d", DAY_S), ("h", 3600), ("min", 60)):
        if value >= 2 * size:
            return f"{value / size:.0f} {unit}"
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


async def show(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """Renders a template. values: its values, in addition to the visitor, the form token and the path."""
    token = request.cookies.get(FORM_COOKIE, "")
    is_new = not (token.isascii() and token.isalnum() and len(token) == 64)
    token = secrets.token_hex(32) if is_new else token
    who = values.pop("who", None) or await visitor(request)
    text = environment().get_template(template).render(who=who, form_token=token, path=request.url.path, **values)
    reply = HTMLResponse(text, status, headers={"Content-Security-Policy": POLICY, "Cache-Control": "no-store"})
    if is_new:
        set_cookie(request, reply, FORM_COOKIE, token)
    if OLD_TOKEN_COOKIE in request.cookies:
        reply.delete_cookie(OLD_TOKEN_COOKIE)
    return reply


def set_cookie(request: Request, reply: Response, name: str, value: str, days: float = 30) -> None:
    """Sets a cookie that scripts cannot read and other sites cannot cause to be sent."""
    age, secure = int(days * DAY_S), is_secure(request)
    reply.set_cookie(name, value, max_age=age, httponly=True, samesite="strict", secure=secure, path="/")


async def visitor(request: Request) -> Mapping[str, Any] | None:
    """Returns the visitor, as /whoami describes it, or None if the API does not know the visitor."""
    try:
        user: Mapping[str, Any] = await ApiCalls(request).get("/whoami")
        request.state.caller = str(user.get("name", ""))  # for the log
        return user
    except RefusedError:
        return None


def check_form(request: Request, form: FormData) -> None:
    """Raises RefusedError if a form does not come from a page of this service."""
    expected, given = request.cookies.get(FORM_COOKIE, ""), form.get("form_token")
    if not expected or not isinstance(given, str) or not hmac.compare_digest(expected.encode(), given.encode()):
        raise RefusedError(403, "the form is older than the browser's session; load the page again")


def redirect_to(address: str) -> Response:
    """Returns the reply that redirects a browser after it sent a form."""
    return RedirectResponse(address, 303)


async def refusal_page(request: Request, error: Exception) -> Response:
    """Returns the page for a RefusedError: the login page if the visitor is not logged in, otherwise the reason."""
    assert isinstance(error, RefusedError)
    if error.status == 401 and request.method == "GET":
        return await show(request, "login.html", 401, wrong="", who={})
    return await show(request, "refused.html", error.status, text=error.text)


def static_file(name: str) -> bytes:
    """Returns the bytes of a file in static/."""
    return (files("qverify_farm.ui") / "static" / name).read_bytes()
