"""Errors as OpenAI's clients read them, and whether asking again is of any use."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi.responses import JSONResponse, Response

PREFIX = "/openai/v1"
# What clients of OpenAI's know by another status.
STATUS_OVERRIDES = {422: 400, 415: 400}
ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 409: "conflict_error", 429: "rate_limit_error"}
# A client tries 408, 409, 429 and 5xx again by itself: these pass with time, and soon.
RETRYABLE_CODES = frozenset({"upload_conflict", "idempotency_in_progress", "rate_limited", "too_many_failed_sign_ins"})
# Nobody waits longer for a reply.
MAX_RETRY_AFTER_SECONDS = 60
ERROR_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
ERROR_CONTENT: dict[str, Any] = {"content": {"application/json": {"schema": ERROR_SCHEMA}}}
ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"description": text, **ERROR_CONTENT}
    for status, text in {
        400: "Not valid, or not what Carrel does",
        401: "No key, or one that is not valid",
        403: "The key's role is too low",
        404: "Nothing there that this key may see",
        409: "It does not fit what is there",
        413: "Too large",
        429: "Too many requests, or a quota is used up",
        431: "The address or a header is too long",
        503: "A dependency is down; try again",
    }.items()
}
# Told, FastAPI does not add its own words of 422, which this door never says.
ERROR_RESPONSES["default"] = {"description": "Another error", **ERROR_CONTENT}


def create_error_response(
    status: int, code: str, detail: str, errors: Sequence[Mapping[str, Any]], headers: dict[str, str]
) -> Response:
    """What every error of this door looks like."""
    status = STATUS_OVERRIDES.get(status, status)
    loc = [str(part) for part in errors[0]["loc"]] if errors else []
    error_type = "server_error" if status >= 500 else ERROR_TYPES.get(status, "invalid_request_error")
    error = {"message": detail, "type": error_type, "param": ".".join(loc[1:]) or None, "code": code}
    if status in (409, 429) and not _is_retryable(code, headers):
        headers["x-should-retry"] = "false"
    return JSONResponse({"error": error}, status, headers)


def _is_retryable(code: str, headers: Mapping[str, str]) -> bool:
    return code in RETRYABLE_CODES and int(headers.get("Retry-After", "0")) <= MAX_RETRY_AFTER_SECONDS
