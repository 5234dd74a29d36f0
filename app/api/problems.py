"""Errors as application/problem+json (RFC 9457)."""

import re
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from math import ceil
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from app.api.timings import server_timing
from app.errors import (
    AppError,
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    TooLarge,
    TooMany,
    Unauthorized,
    Unavailable,
    Unsupported,
)
from app.logging import get_logger

logger = get_logger(__name__)

LONGEST = 500
MOST_FAULTS = 50
# Where a value may be one thing or another, pydantic puts into the place how it has tried to read it.
_HOW_READ = re.compile(
    r"constrained-str|(literal|list|dict|query)\[.*\]|function-(after|before|plain|wrap)\[.*\]", re.DOTALL
)
STATUS: Sequence[tuple[type[AppError], int]] = (
    (InvalidInput, 422),
    (Unauthorized, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (Conflict, 409),
    (TooLarge, 413),
    (Unsupported, 415),
    (TooMany, 429),
    (Unavailable, 503),
)
PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "request_id"],
    "properties": {
        "type": {"type": "string", "description": "A stable URN; its last part is the error's code."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "request_id": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"loc": {"type": "array", "items": {}}, "msg": {"type": "string"}},
            },
        },
    },
}
# A door that speaks otherwise makes its replies from what a problem says: status, code, detail, errors, headers.
Envelope = Callable[[int, str, str, Sequence[Mapping[str, Any]], dict[str, str]], Response]
PROBLEM: dict[str, Any] = {"content": {"application/problem+json": {"schema": PROBLEM_SCHEMA}}}


def problem(
    request: Request,
    status: int,
    code: str,
    detail: str,
    *,
    errors: Sequence[Mapping[str, Any]] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """One problem document, or the same in the words of the door that was asked."""
    envelope = _envelope(request)
    if envelope is not None:
        told = [{"loc": [_encodable(part) for part in one["loc"]]} for one in errors or ()]
        return envelope(status, code, _encodable(detail), told, dict(headers or {}))
    body: dict[str, Any] = {
        "type": f"urn:carrel:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": _encodable(detail),
        "request_id": getattr(request.state, "request_id", ""),
    }
    if errors is not None:
        body["errors"] = [
            {"loc": [_encodable(part) for part in one["loc"]], "msg": _encodable(one["msg"])} for one in errors
        ]
    return JSONResponse(body, status, dict(headers or {}), media_type="application/problem+json")


def _envelope(request: Request) -> Envelope | None:
    """By the address, because there may be no route: of the doors that the application was made with."""
    app: FastAPI | None = request.scope.get("app")
    doors: Mapping[str, Envelope] = {} if app is None else getattr(app.state, "envelopes", {})
    return next((door for prefix, door in doors.items() if request.scope["path"].startswith(f"{prefix}/")), None)


def _encodable(part: Any) -> Any:
    """Names that a caller sent may hold half a surrogate pair, which no reply can carry, and may be of any length."""
    return part if isinstance(part, int) else str(part)[:LONGEST].encode("utf-8", "replace").decode()


def faults(errors: Sequence[Mapping[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """A sentence and the list for what a schema did not accept; what was sent is not repeated, but for its names."""
    told = [
        {
            "loc": [part for part in one["loc"] if not (isinstance(part, str) and _HOW_READ.fullmatch(part))],
            "msg": one["msg"].removeprefix("Value error, "),
        }
        for one in errors[:MOST_FAULTS]
    ]
    return "; ".join(f"{'.'.join(str(part)[:64] for part in one['loc'])}: {one['msg']}" for one in told[:3]), told


def status_of(error: AppError) -> int:
    """The HTTP status of an error, by kind; 500 for one that no caller is told."""
    return next((status for kind, status in STATUS if isinstance(error, kind)), 500)


def _nothing_left(error: TooMany) -> dict[str, str]:
    seconds = str(ceil(error.retry_after))
    limit = error.fields.get("limit")
    told = {"RateLimit-Limit": str(limit), "RateLimit-Remaining": "0", "RateLimit-Reset": seconds}
    return {"Retry-After": seconds, **({} if limit is None else told)}


async def on_app_error(request: Request, error: Exception) -> Response:
    """Our own errors, by kind."""
    if not isinstance(error, AppError):
        return await on_unexpected(request, error)
    status = status_of(error)
    if status == 500:
        return await on_unexpected(request, error)
    headers = {}
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, TooMany):
        headers |= _nothing_left(error)
    if isinstance(error, Unavailable):
        headers["Retry-After"] = str(ceil(error.retry_after))
        logger.warning("request.unavailable", code=error.code, error=error)
    if "timings_ms" in error.fields:  # of a search
        headers["Server-Timing"] = server_timing(error.fields["timings_ms"], error.fields["dropped"])
    errors = [{"loc": list(error.loc), "msg": error.message}] if isinstance(error, InvalidInput) else None
    return problem(request, status, error.code, error.message, errors=errors, headers=headers)


async def on_invalid_request(request: Request, error: Exception) -> Response:
    """A body or a parameter that does not fit the schema; what was sent is not repeated."""
    if not isinstance(error, RequestValidationError):
        return await on_unexpected(request, error)
    detail, errors = faults(error.errors())
    return problem(request, 422, "invalid", detail, errors=errors)


async def on_http_error(request: Request, error: Exception) -> Response:
    """The framework's own: unknown path, wrong method, a body that is too large or cannot be read."""
    if not isinstance(error, HTTPException):
        return await on_unexpected(request, error)
    if error.status_code == 400:  # raised for a JSON body that is too deep, or holds too long a number, to be read
        fault = {"loc": ["body"], "msg": str(error.detail)}
        return problem(request, 422, "invalid", str(error.detail), errors=[fault])
    codes = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}
    code = codes.get(error.status_code, "error")
    return problem(request, error.status_code, code, str(error.detail), headers=error.headers)


async def on_unexpected(request: Request, error: Exception) -> Response:
    """The last handler: the caller learns nothing but the request id, the log where it happened."""
    logger.error("request.failed", error=error)
    return problem(request, 500, "internal", "Something went wrong inside Carrel; the request id finds it in the log.")


def install(app: FastAPI) -> None:
    """Make an application answer every error as a problem."""
    app.add_exception_handler(AppError, on_app_error)
    app.add_exception_handler(RequestValidationError, on_invalid_request)
    app.add_exception_handler(HTTPException, on_http_error)
