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

from app.api.http import example_values
from app.api.http.server_timing import format_server_timing
from app.errors import (
    AppError,
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    TooLargeError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
    UnsupportedMediaTypeError,
)
from app.logging import get_logger

logger = get_logger(__name__)

MAX_TEXT_CHARACTERS = 500
MAX_ERRORS = 50
# Where a value may be one thing or another, pydantic puts into the place how it has tried to read it.
_PYDANTIC_LOC_PART = re.compile(
    r"constrained-str|(literal|list|dict|query)\[.*\]|function-(after|before|plain|wrap)\[.*\]", re.DOTALL
)
HTTP_STATUSES: Sequence[tuple[type[AppError], int]] = (
    (InvalidInputError, 422),
    (UnauthorizedError, 401),
    (ForbiddenError, 403),
    (NotFoundError, 404),
    (ConflictError, 409),
    (TooLargeError, 413),
    (UnsupportedMediaTypeError, 415),
    (TooManyRequestsError, 429),
    (UnavailableError, 503),
)
# Codes of the framework's own errors.
HTTP_ERROR_CODES = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}
OTHER_HTTP_ERROR_CODE = "error"
PROBLEM_SCHEMA: dict[str, Any] = {
    "title": "Problem",
    "description": "Error of a request, as problem details of RFC 9457.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "request_id"],
    "properties": {
        "type": {
            "type": "string",
            "description": "Stable URN of the problem type. Its last part is the error code.",
            "examples": ["urn:carrel:problem:document_not_found"],
        },
        "title": {"type": "string", "description": "Phrase of the HTTP status.", "examples": ["Not Found"]},
        "status": {"type": "integer", "description": "HTTP status.", "examples": [404]},
        "detail": {
            "type": "string",
            "description": "What is wrong and what to do next, for people.",
            "examples": ["The document does not exist."],
        },
        "request_id": {
            "type": "string",
            "description": "Id of the request, as in the header `X-Request-Id` and in the log.",
            "examples": [example_values.REQUEST_ID],
        },
        "errors": {
            "type": "array",
            "description": "Faults of an invalid request, at most 50. Only with status 422.",
            "items": {
                "type": "object",
                "properties": {
                    "loc": {
                        "type": "array",
                        "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                        "description": "Path: `body`, `query`, `path` or `header`, then names or indices.",
                        "examples": [["body", "top_k"]],
                    },
                    "msg": {
                        "type": "string",
                        "description": "What is wrong there.",
                        "examples": ["Input should be less than or equal to 500"],
                    },
                },
            },
        },
    },
}
# A door that speaks otherwise makes its replies from what a problem says: status, code, detail, errors, headers.
ErrorEnvelope = Callable[[int, str, str, Sequence[Mapping[str, Any]], dict[str, str]], Response]
PROBLEM_RESPONSE: dict[str, Any] = {
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
}


def create_problem_response(
    request: Request,
    status: int,
    code: str,
    detail: str,
    *,
    errors: Sequence[Mapping[str, Any]] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """One problem document, or the same in the words of the door that was asked."""
    envelope = _find_envelope(request)
    if envelope is not None:
        locations = [{"loc": [_to_encodable(part) for part in fault["loc"]]} for fault in errors or ()]
        return envelope(status, code, _to_encodable(detail), locations, dict(headers or {}))
    body: dict[str, Any] = {
        "type": f"urn:carrel:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": _to_encodable(detail),
        "request_id": getattr(request.state, "request_id", ""),
    }
    if errors is not None:
        body["errors"] = [
            {"loc": [_to_encodable(part) for part in fault["loc"]], "msg": _to_encodable(fault["msg"])}
            for fault in errors
        ]
    return JSONResponse(body, status, dict(headers or {}), media_type="application/problem+json")


def _find_envelope(request: Request) -> ErrorEnvelope | None:
    """By the address, because there may be no route: of the doors that the application was made with."""
    app: FastAPI | None = request.scope.get("app")
    envelopes: Mapping[str, ErrorEnvelope] = {} if app is None else getattr(app.state, "envelopes", {})
    return next(
        (envelope for prefix, envelope in envelopes.items() if request.scope["path"].startswith(f"{prefix}/")), None
    )


def _to_encodable(part: Any) -> Any:
    """Names that a caller sent may hold half a surrogate pair, which no reply can carry, and may be of any length."""
    return part if isinstance(part, int) else str(part)[:MAX_TEXT_CHARACTERS].encode("utf-8", "replace").decode()


def format_validation_errors(errors: Sequence[Mapping[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """A sentence and the list for what a schema did not accept; what was sent is not repeated, but for its names."""
    formatted = [
        {
            "loc": [
                part for part in fault["loc"] if not (isinstance(part, str) and _PYDANTIC_LOC_PART.fullmatch(part))
            ],
            "msg": fault["msg"].removeprefix("Value error, "),
        }
        for fault in errors[:MAX_ERRORS]
    ]
    return "; ".join(
        f"{'.'.join(str(part)[:64] for part in fault['loc'])}: {fault['msg']}" for fault in formatted[:3]
    ), formatted


def get_http_status(error: AppError) -> int:
    """The HTTP status of an error, by kind; 500 for one that no caller is told."""
    return next((status for kind, status in HTTP_STATUSES if isinstance(error, kind)), 500)


def _format_rate_limit_headers(error: TooManyRequestsError) -> dict[str, str]:
    seconds = str(ceil(error.retry_after))
    limit = error.fields.get("limit")
    limit_headers = {"RateLimit-Limit": str(limit), "RateLimit-Remaining": "0", "RateLimit-Reset": seconds}
    return {"Retry-After": seconds, **({} if limit is None else limit_headers)}


async def handle_app_error(request: Request, error: Exception) -> Response:
    """Our own errors, by kind."""
    if not isinstance(error, AppError):
        return await handle_unexpected_error(request, error)
    status = get_http_status(error)
    if status == 500:
        return await handle_unexpected_error(request, error)
    headers = {}
    if isinstance(error, UnauthorizedError):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, TooManyRequestsError):
        headers |= _format_rate_limit_headers(error)
    if isinstance(error, UnavailableError):
        headers["Retry-After"] = str(ceil(error.retry_after))
        logger.warning("request.unavailable", code=error.code, error=error)
    if "timings_ms" in error.fields:  # of a search
        headers["Server-Timing"] = format_server_timing(error.fields["timings_ms"], error.fields["degraded"])
    errors = [{"loc": list(error.loc), "msg": error.message}] if isinstance(error, InvalidInputError) else None
    return create_problem_response(request, status, error.code, error.message, errors=errors, headers=headers)


async def handle_invalid_request(request: Request, error: Exception) -> Response:
    """A body or a parameter that does not fit the schema; what was sent is not repeated."""
    if not isinstance(error, RequestValidationError):
        return await handle_unexpected_error(request, error)
    detail, errors = format_validation_errors(error.errors())
    return create_problem_response(request, 422, "invalid", detail, errors=errors)


async def handle_http_error(request: Request, error: Exception) -> Response:
    """The framework's own: unknown path, wrong method, a body that is too large or cannot be read."""
    if not isinstance(error, HTTPException):
        return await handle_unexpected_error(request, error)
    if error.status_code == 400:  # raised for a JSON body that is too deep, or holds too long a number, to be read
        fault = {"loc": ["body"], "msg": str(error.detail)}
        return create_problem_response(request, 422, "invalid", str(error.detail), errors=[fault])
    code = HTTP_ERROR_CODES.get(error.status_code, OTHER_HTTP_ERROR_CODE)
    return create_problem_response(request, error.status_code, code, str(error.detail), headers=error.headers)


async def handle_unexpected_error(request: Request, error: Exception) -> Response:
    """The last handler: the caller learns nothing but the request id, the log where it happened."""
    logger.error("request.failed", error=error)
    return create_problem_response(
        request, 500, "internal", "Something went wrong inside Carrel; the request id finds it in the log."
    )


def register_exception_handlers(app: FastAPI) -> None:
    """Make an application answer every error as a problem."""
    app.add_exception_handler(AppError, handle_app_error)
    app.add_exception_handler(RequestValidationError, handle_invalid_request)
    app.add_exception_handler(HTTPException, handle_http_error)
