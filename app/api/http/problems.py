"""Responses to errors: application/problem+json (RFC 9457), or the error format of another API."""

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
    PreconditionFailedError,
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
# For a union type, pydantic adds the name of the type that it tried to the location of a fault.
_PYDANTIC_LOC_PART = re.compile(
    r"constrained-str|source kind [a-z_]+|(literal|list|dict|query)\[.*\]|function-(after|before|plain|wrap)\[.*\]",
    re.DOTALL,
)
HTTP_STATUSES: Sequence[tuple[type[AppError], int]] = (
    (InvalidInputError, 422),
    (UnauthorizedError, 401),
    (ForbiddenError, 403),
    (NotFoundError, 404),
    (ConflictError, 409),
    (PreconditionFailedError, 412),
    (TooLargeError, 413),
    (UnsupportedMediaTypeError, 415),
    (TooManyRequestsError, 429),
    (UnavailableError, 503),
)
# Codes of the framework's own errors.
HTTP_ERROR_CODES = {404: "not_found", 405: "method_not_allowed", 413: "too_large", 415: "unsupported_content_encoding"}
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
# Function of an API with its own error format. It takes status, code, detail, errors and headers of a problem.
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
    """Create the response to an error, in the error format of the requested API.

    Args:
        request: The request.
        status: HTTP status.
        code: Stable error code.
        detail: Message for people: what is wrong and what to do.
        errors: Faults of the request, each with ``loc`` and ``msg``; only for status 422.
        headers: Headers of the response.

    Returns:
        A problem document, unless the path belongs to an API with another error format.
    """
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
    """Return the error format for the request's path, or None for problem documents.

    The path decides, because a request may match no route.
    """
    app: FastAPI | None = request.scope.get("app")
    envelopes: Mapping[str, ErrorEnvelope] = {} if app is None else getattr(app.state, "envelopes", {})
    return next(
        (envelope for prefix, envelope in envelopes.items() if request.scope["path"].startswith(f"{prefix}/")), None
    )


def _to_encodable(part: Any) -> Any:
    """Shorten a part of a location or a message, and replace unpaired surrogates, which UTF-8 cannot encode."""
    return part if isinstance(part, int) else str(part)[:MAX_TEXT_CHARACTERS].encode("utf-8", "replace").decode()


def format_validation_errors(errors: Sequence[Mapping[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """Format the validation errors of a request. The sent values are left out; only their names are included.

    Args:
        errors: Errors of pydantic.

    Returns:
        A sentence about the first three errors, and a list of at most ``MAX_ERRORS`` faults with ``loc`` and ``msg``.
    """
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
    """Return the HTTP status of an error by its base class; 500 for an error whose message callers must not see."""
    return next((status for kind, status in HTTP_STATUSES if isinstance(error, kind)), 500)


def _format_rate_limit_headers(error: TooManyRequestsError) -> dict[str, str]:
    seconds = str(ceil(error.retry_after))
    limit = error.fields.get("limit")
    limit_headers = {"RateLimit-Limit": str(limit), "RateLimit-Remaining": "0", "RateLimit-Reset": seconds}
    return {"Retry-After": seconds, **({} if limit is None else limit_headers)}


async def handle_app_error(request: Request, error: Exception) -> Response:
    """Respond to an ``AppError`` with the status and headers of its base class.

    Args:
        request: The request.
        error: The exception. An exception that is no ``AppError`` is handled as an unexpected error.

    Returns:
        The response. Rate limits and unavailable services have ``Retry-After``.
    """
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
    """Respond to a body or a parameter that does not match the schema. The response leaves out the sent values."""
    if not isinstance(error, RequestValidationError):
        return await handle_unexpected_error(request, error)
    detail, errors = format_validation_errors(error.errors())
    return create_problem_response(request, 422, "invalid", detail, errors=errors)


async def handle_http_error(request: Request, error: Exception) -> Response:
    """Respond to an error of the framework: unknown path, wrong method, or a body that is too large or unreadable.

    Args:
        request: The request.
        error: The exception.

    Returns:
        The response. An unreadable JSON body has status 422 instead of 400.
    """
    if not isinstance(error, HTTPException):
        return await handle_unexpected_error(request, error)
    if (
        error.status_code == 400
    ):  # FastAPI could not parse the JSON body: it is nested too deeply or has too long a number
        fault = {"loc": ["body"], "msg": str(error.detail)}
        return create_problem_response(request, 422, "invalid", str(error.detail), errors=[fault])
    code = HTTP_ERROR_CODES.get(error.status_code, OTHER_HTTP_ERROR_CODE)
    return create_problem_response(request, error.status_code, code, str(error.detail), headers=error.headers)


async def handle_unexpected_error(request: Request, error: Exception) -> Response:
    """Log an unexpected exception. The response has only the request id, and the log has the traceback."""
    logger.error("request.failed", error=error)
    return create_problem_response(
        request, 500, "internal", "Something went wrong inside Carrel. Search the log for the request id."
    )


def register_exception_handlers(app: FastAPI) -> None:
    """Register the handlers that respond to errors."""
    app.add_exception_handler(AppError, handle_app_error)
    app.add_exception_handler(RequestValidationError, handle_invalid_request)
    app.add_exception_handler(HTTPException, handle_http_error)
