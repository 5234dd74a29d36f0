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
_CODE_SCHEMA = {
    "type": ["string", "null"],
    "description": "Stable error code, as in `docs/reference/errors.md`.",
    "examples": ["file_not_found"],
}
ERROR_SCHEMA: dict[str, Any] = {
    "title": "OpenAiError",
    "description": "Error of a request, in the form of the OpenAI API.",
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "description": "The error.",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {
                    "type": "string",
                    "description": "What is wrong and what to do next, for people.",
                    "examples": ["The file does not exist."],
                },
                "type": {
                    "type": "string",
                    "description": "Kind of the error: `invalid_request_error`, `authentication_error`, "
                    "`permission_error`, `conflict_error`, `rate_limit_error` or `server_error`.",
                    "examples": ["invalid_request_error"],
                },
                "param": {
                    "type": ["string", "null"],
                    "description": "Path of the invalid field; null if no field is to blame.",
                    "examples": ["max_num_results"],
                },
                "code": _CODE_SCHEMA,
            },
        }
    },
}
# The API documentation replaces this response by one per status. With it, FastAPI adds no 422 to the document.
ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {"default": {"description": "Error"}}


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
