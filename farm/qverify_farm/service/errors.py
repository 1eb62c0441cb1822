"""Errors of the HTTP API: one JSON shape for all, made of what the house's one line is made of."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import BaseModel, Field
from qverify.printable import printable
from starlette.exceptions import HTTPException

MOST, MOST_GOT = 500, 4000  # characters of one part; several mistakes stand in the second
MOST_WRONG = 20  # fields told of one request


class ErrorBody(BaseModel):
    """What is wrong, where it stands in the request, what was got and wanted there, and what to do next."""

    what: str
    where: str = ""
    got: str = ""
    wanted: str = ""
    next: str = ""


class ErrorReply(BaseModel):
    """The body of every reply that is no success. request: the request's id, also in the log and in X-Request-Id."""

    error: ErrorBody
    request: str = Field(default="", description="the request's id, as in the log and in the header X-Request-Id")


class ApiError(HTTPException):
    """A reply that is no success. headers: of the reply, such as Retry-After. An HTTPException, since FastAPI makes
    anything else that is raised while it reads a body a reply of its own."""

    def __init__(
        self,
        status: int,
        what: str,
        *,
        where: str = "",
        got: object = "",
        wanted: str = "",
        next: str = "",
        headers: Mapping[str, str] | None = None,
    ):
        super().__init__(status, what, dict(headers or {}))
        self.status = status
        self.body = ErrorBody(
            what=_safe(what), where=_safe(where), got=_safe(str(got), MOST_GOT), wanted=_safe(wanted), next=_safe(next)
        )


def not_found(what: str, got: str = "") -> ApiError:
    """Returns 404: nothing of this name that the caller may see."""
    return ApiError(404, f"there is no such {what}", got=got)


def too_busy(what: str, seconds: float, status: int = 429) -> ApiError:
    """Returns 429 or 503 with Retry-After. seconds: until it may be tried again."""
    wait = max(1, round(seconds + 0.5))
    return ApiError(status, what, next=f"try again in {wait} s", headers={"Retry-After": str(wait)})


def _safe(text: str, most: int = MOST) -> str:
    """Returns one line without control characters and lone surrogates, of bounded length."""
    line = printable(re.sub(r"\s+", " ", text[: 2 * most]))
    return line if len(line) <= most else line[: most - 3] + "..."
