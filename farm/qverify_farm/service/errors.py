"""Errors of the HTTP API. All have the same JSON form, with the parts of qverify's error messages."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import BaseModel, Field
from qverify.printable import printable
from starlette.exceptions import HTTPException

MAX_LENGTH, MAX_GOT_LENGTH = 500, 4000  # characters of one part; `got` may contain several mistakes
MAX_WRONG_FIELDS = 20  # number of wrong fields that are reported for a request


class ErrorBody(BaseModel):
    """An error: what is wrong, where it is in the request, what was got and wanted there, and what to do next."""

    what: str
    where: str = ""
    got: str = ""
    wanted: str = ""
    next: str = ""


class ErrorReply(BaseModel):
    """The body of every error reply. request: the request's id, also in the log and in X-Request-Id."""

    error: ErrorBody
    request: str = Field(default="", description="the request's id, as in the log and in the header X-Request-Id")


class ApiError(HTTPException):
    """An error reply. headers: further headers of the reply, such as Retry-After. It is an HTTPException, since FastAPI replaces
    any other exception that is raised while it reads a body."""

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
            what=_safe(what),
            where=_safe(where),
            got=_safe(str(got), MAX_GOT_LENGTH),
            wanted=_safe(wanted),
            next=_safe(next),
        )


def not_found(what: str, got: str = "") -> ApiError:
    """Returns an error 404: there is nothing with this name, or the caller may not see it."""
    return ApiError(404, f"there is no such {what}", got=got)


def too_busy(what: str, seconds: float, status: int = 429) -> ApiError:
    """Returns an error 429 or 503 with Retry-After. seconds: when the request may be repeated."""
    wait = max(1, round(seconds + 0.5))
    return ApiError(status, what, next=f"try again in {wait} s", headers={"Retry-After": str(wait)})


def _safe(text: str, max_length: int = MAX_LENGTH) -> str:
    """Returns the text as one line of limited length, without control characters and lone surrogates."""
    line = printable(re.sub(r"\s+", " ", text[: 2 * max_length]))
    return line if len(line) <= max_length else line[: max_length - 3] + "..."
