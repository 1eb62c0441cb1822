"""Error replies, and their documentation in OpenAPI."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from qverify.errors import BlockedError, QVerifyError
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from starlette.exceptions import HTTPException

from qverify_farm.errors import ArtifactError, StoreFullError, StoreUnavailableError
from qverify_farm.service.errors import MAX_WRONG_FIELDS, ApiError, ErrorReply, too_busy

DESCRIPTIONS = {
    400: "the request cannot be read",
    401: "no token, or one that is unknown, expired or revoked",
    403: "the token's role may not do this",
    404: "there is nothing of this name that the caller may see",
    405: "not a method of this address",
    408: "the request took too long",
    409: "it conflicts with the present state",
    413: "larger than a limit or a quota allows",
    416: "no such range of bytes",
    422: "a field is wrong",
    429: "too many requests, or a full quota; Retry-After says when again",
    503: "the service is busy, or its database is not reached; Retry-After says when again",
    507: "the artifact store is full",
}
USUAL_ERRORS = (400, 401, 403, 404, 405, 408, 413, 422, 429, 503)


def error_responses(*more: int) -> dict[int | str, dict[str, Any]]:
    """Returns the `responses` of a route for OpenAPI: the usual errors and these."""
    return {
        status: {"model": ErrorReply, "description": DESCRIPTIONS[status]} for status in sorted({*USUAL_ERRORS, *more})
    }


def error_reply(error: ApiError, request: str) -> Response:
    """Returns the reply for an error. request: the request's id."""
    body = ErrorReply(error=error.body, request=request)
    return JSONResponse(body.model_dump(), error.status, headers=error.headers)


def handle_errors(app: FastAPI) -> None:
    """Registers a handler that turns every exception of a route into an error reply."""

    async def reply(request: Request, error: Exception) -> Response:
        return error_reply(api_error(error), getattr(request.state, "request_id", ""))

    for kind in (ApiError, HTTPException, RequestValidationError, QVerifyError, SQLAlchemyError):
        app.add_exception_handler(kind, reply)


def api_error(error: Exception) -> ApiError:
    """Returns the API error for an exception."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, RequestValidationError):
        return _invalid(error)
    if isinstance(error, HTTPException):
        what = DESCRIPTIONS.get(error.status_code, str(error.detail))
        return ApiError(error.status_code, what, got=error.detail, headers=error.headers)
    if isinstance(error, StoreFullError):
        return ApiError(507, "the artifact store is full", got=error, next="ask the administrator for room")
    if isinstance(error, StoreUnavailableError):
        return too_busy(str(error), 10, 503)
    if isinstance(error, ArtifactError):
        return ApiError(409, "the artifact's bytes are not as they should be", got=error)
    if isinstance(error, BlockedError):
        return ApiError(422, error.header, got="; ".join(error.lines))
    if isinstance(error, QVerifyError):
        return ApiError(422, str(error))
    if isinstance(error, IntegrityError):
        return ApiError(409, "somebody changed it at the same time", next="try again")
    return too_busy("the database is not reached", 5, 503)


def _invalid(error: RequestValidationError) -> ApiError:
    """Returns an error 422, or 400 for a body that is not JSON. It describes the first wrong field, and lists the others in
    `next`."""
    errors = error.errors()[:MAX_WRONG_FIELDS]
    first = errors[0]
    if first["type"] == "json_invalid":
        return ApiError(400, "the body is no JSON", where=_where(first), got=first.get("ctx", {}).get("error", ""))
    more = "; ".join(f"{_where(item)}: {item['msg']}" for item in errors[1:])
    value = first.get("input")
    got = repr(value)[:80] if isinstance(value, (str, int, float, bool)) or value is None else ""
    return ApiError(
        422,
        "a field is wrong" if not more else f"{len(error.errors())} fields are wrong",
        where=_where(first),
        got=got if first["type"] != "missing" else "nothing",
        wanted=first["msg"],
        next=f"also: {more}" if more else "",
    )


def _where(item: dict[str, Any]) -> str:
    return ".".join(str(part) for part in item["loc"])
