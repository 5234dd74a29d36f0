"""Errors in the form of the OpenAI API, with a hint to its clients whether a retry can succeed."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi.responses import JSONResponse, Response

PREFIX = "/openai/v1"
# Statuses for which the OpenAI API uses another status.
STATUS_OVERRIDES = {422: 400, 415: 400}
ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 409: "conflict_error", 429: "rate_limit_error"}
# OpenAI's clients retry 408, 409, 429 and 5xx automatically. Of the 409 and 429 errors, only these codes can soon pass.
RETRYABLE_CODES = frozenset({"upload_conflict", "idempotency_in_progress", "rate_limited", "too_many_failed_sign_ins"})
# With a longer wait, clients are asked not to retry.
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
# With this placeholder, FastAPI adds no response 422 to the OpenAPI document. ``app.api.api_docs`` replaces the
# placeholder by one response per status.
ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {"default": {"description": "Error"}}


def create_error_response(
    status: int, code: str, detail: str, errors: Sequence[Mapping[str, Any]], headers: dict[str, str]
) -> Response:
    """Create the response to an error, in the form of the OpenAI API.

    Args:
        status: HTTP status of the other APIs; some are replaced.
        code: Stable error code.
        detail: Message for people.
        errors: Faults of the request; the location of the first becomes ``param``.
        headers: Headers of the response. A 409 or 429 that cannot soon pass gets ``x-should-retry: false``.

    Returns:
        The response.
    """
    status = STATUS_OVERRIDES.get(status, status)
    loc = [str(part) for part in errors[0]["loc"]] if errors else []
    error_type = "server_error" if status >= 500 else ERROR_TYPES.get(status, "invalid_request_error")
    error = {"message": detail, "type": error_type, "param": ".".join(loc[1:]) or None, "code": code}
    if status in (409, 429) and not _is_retryable(code, headers):
        headers["x-should-retry"] = "false"
    return JSONResponse({"error": error}, status, headers)


def _is_retryable(code: str, headers: Mapping[str, str]) -> bool:
    return code in RETRYABLE_CODES and int(headers.get("Retry-After", "0")) <= MAX_RETRY_AFTER_SECONDS
