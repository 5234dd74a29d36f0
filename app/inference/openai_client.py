"""Client and errors that all adapters of OpenAI-compatible endpoints share.

Error messages never quote the server, because its messages may repeat text of documents or queries.
"""

import re
from email.utils import parsedate_to_datetime
from time import time

from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError, AsyncOpenAI, Omit, Timeout, omit

from app.inference.circuit_breaker import EndpointFailed, FailureKind

CONNECT_TIMEOUT_SECONDS = 5.0
RETRYABLE_STATUS_CODES = frozenset({408, 409, 425, 429})
NUMBER_PATTERN = re.compile(r"\d{1,9}(\.\d+)?")
# Maximum Retry-After that is accepted; a job that waits longer is retried by the job queue.
MAX_RETRY_AFTER_SECONDS = 3600.0


def create_openai_client(base_url: str, api_key: str | None, *, timeout_seconds: float | None) -> AsyncOpenAI:
    """Create a client without retries.

    Args:
        base_url: URL of the endpoint.
        api_key: API key; None if the endpoint needs none.
        timeout_seconds: Timeout of a request; None if the caller limits the time.
    """
    connect_timeout_seconds = (
        CONNECT_TIMEOUT_SECONDS if timeout_seconds is None else min(CONNECT_TIMEOUT_SECONDS, timeout_seconds)
    )
    return AsyncOpenAI(
        base_url=base_url,
        api_key=api_key or "none",
        timeout=Timeout(timeout_seconds, connect=connect_timeout_seconds),
        max_retries=0,
    )


def build_headers(api_key: str | None) -> dict[str, Omit]:
    """Return the headers that each request omits, as arguments of the openai package.

    The openai package fills some headers from environment variables, which are meant for other programs. The
    Authorization header is omitted if no API key is configured.
    """
    headers = {"OpenAI-Organization": omit, "OpenAI-Project": omit}
    return headers if api_key else {**headers, "Authorization": omit}


def is_refusal(error: Exception) -> bool:
    """Return whether the endpoint understood the request and will never serve it."""
    return (
        isinstance(error, APIStatusError)
        and error.status_code < 500
        and error.status_code not in RETRYABLE_STATUS_CODES
    )


def to_endpoint_failure(error: APIError) -> EndpointFailed:
    """Convert an error that is not a refusal to EndpointFailed."""
    reason, kind = _classify_error(error)
    return EndpointFailed(reason, _parse_retry_after(error), kind=kind)


def _classify_error(error: APIError) -> tuple[str, FailureKind]:
    if isinstance(error, APIStatusError):
        return f"HTTP {error.status_code}", "rate_limited" if error.status_code == 429 else "failed"
    if isinstance(error, APITimeoutError):
        return "no answer in time", "timeout"
    if isinstance(error, APIConnectionError):
        return "no connection", "unreachable"
    return "no usable answer", "invalid_response"


def _parse_retry_after(error: APIError) -> float | None:
    """Return the seconds of a Retry-After, a number or a date, or None if it is unreadable."""
    value = error.response.headers.get("retry-after", "") if isinstance(error, APIStatusError) else ""
    if NUMBER_PATTERN.fullmatch(value):
        return min(MAX_RETRY_AFTER_SECONDS, float(value))
    try:
        return min(MAX_RETRY_AFTER_SECONDS, max(0.0, parsedate_to_datetime(value).timestamp() - time()))
    except (ValueError, OverflowError):
        return None
