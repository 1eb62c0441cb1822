"""What every page has: its template, the visitor, the token of its forms, the headers."""

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
from qverify_farm.ui.calls import Calls, RefusedError

FORM_COOKIE = "qverify_form"
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
DAY_S = 86400
EARLIER_COOKIE = "qverify_token"  # held the token itself, before there were sessions


@cache
def environment() -> jinja2.Environment:
    """Returns Jinja with the templates of this package; every value is escaped."""
    loader = jinja2.PackageLoader("qverify_farm.ui", "templates")
    made = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    made.filters |= {"when": when, "ago": ago, "short": lambda text: str(text)[:12], "seconds": seconds}
    return made


def when(stamp: float | None) -> str:
    """Returns seconds since 1970 as a date, UTC; "" for None."""
    if stamp is None:
        return ""
    try:
        return datetime.datetime.fromtimestamp(stamp, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return "?"


def ago(stamp: float | None) -> str:
    """Returns how long ago it was, in one unit."""
    return "" if stamp is None else f"{seconds(max(0.0, time.time() - stamp))} ago"


def seconds(value: float | None) -> str:
    """Returns a time in the largest unit that it has."""
    if value is None:
        return ""
    for unit, size in (("d", DAY_S), ("h", 3600), ("min", 60)):
        if value >= 2 * size:
            return f"{value / size:.0f} {unit}"
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


async def show(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """Returns a page. values: of its template, beside who looks at it and the token of its forms."""
    token = request.cookies.get(FORM_COOKIE, "")
    fresh = not (token.isascii() and token.isalnum() and len(token) == 64)
    token = secrets.token_hex(32) if fresh else token
    who = values.pop("who", None) or await visitor(request)
    text = environment().get_template(template).render(who=who, form_token=token, path=request.url.path, **values)
    reply = HTMLResponse(text, status, headers={"Content-Security-Policy": POLICY, "Cache-Control": "no-store"})
    if fresh:
        set_cookie(request, reply, FORM_COOKIE, token)
    if EARLIER_COOKIE in request.cookies:
        reply.delete_cookie(EARLIER_COOKIE)
    return reply


def set_cookie(request: Request, reply: Response, name: str, value: str, days: float = 30) -> None:
    """Sets a cookie that no script reads and no other site sends."""
    age, secure = int(days * DAY_S), is_secure(request)
    reply.set_cookie(name, value, max_age=age, httponly=True, samesite="strict", secure=secure, path="/")


async def visitor(request: Request) -> Mapping[str, Any] | None:
    """Returns who looks at the page; None for nobody that the API knows."""
    try:
        found: Mapping[str, Any] = await Calls(request).get("/whoami")
        request.state.caller = str(found.get("name", ""))  # for the log
        return found
    except RefusedError:
        return None


def check_form(request: Request, form: FormData) -> None:
    """Raises RefusedError for a form that was not one of this service's own pages."""
    known, given = request.cookies.get(FORM_COOKIE, ""), form.get("form_token")
    if not known or not isinstance(given, str) or not hmac.compare_digest(known.encode(), given.encode()):
        raise RefusedError(403, "the form is older than the browser's session; load the page again")


def go(address: str) -> Response:
    """Returns the reply that leads a browser on after a form."""
    return RedirectResponse(address, 303)


async def refused(request: Request, error: Exception) -> Response:
    """Returns the page of a refusal; who is not logged in gets the form for it."""
    assert isinstance(error, RefusedError)
    if error.status == 401 and request.method == "GET":
        return await show(request, "login.html", 401, wrong="", who={})
    return await show(request, "refused.html", error.status, text=error.text)


def asset(name: str) -> bytes:
    """Returns a file of static/."""
    return (files("qverify_farm.ui") / "static" / name).read_bytes()
