"""What goes wrong between us and an OpenAI-compatible endpoint, in our own words: never the server's, which may repeat
the text.
"""

import re
from email.utils import parsedate_to_datetime
from time import time

from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError

from app.inference.embedding import EmbeddingRejected
from app.inference.embedding.circuit import EndpointFailed

WORTH_RETRYING = frozenset({408, 409, 425, 429})
CODE = re.compile(r"[A-Za-z0-9_.-]{1,40}")
NUMBER = re.compile(r"\d{1,9}(\.\d+)?")
# Nobody is believed who sends us away for longer: jobs come back and ask.
LONGEST_WAIT = 3600.0


def is_refusal(error: Exception) -> bool:
    """Whether the endpoint understood the request and will not serve it, now or later."""
    return isinstance(error, APIStatusError) and error.status_code < 500 and error.status_code not in WORTH_RETRYING


def failure(error: APIError) -> EndpointFailed:
    """Anything else."""
    return EndpointFailed(_reason(error), _retry_after(error))


def rejected(error: APIStatusError, **fields: int) -> EmbeddingRejected:
    """A refusal, with the setting to look at."""
    code = f", {error.code}" if error.code and CODE.fullmatch(error.code) else ""
    hint = {
        401: "check CARREL_EMBEDDING_API_KEY",
        403: "check what CARREL_EMBEDDING_API_KEY may do",
        404: "check CARREL_EMBEDDING_BASE_URL and CARREL_EMBEDDING_MODEL",
    }.get(error.status_code, "it does not take this input or these settings")
    return EmbeddingRejected(f"The embedding endpoint refuses (HTTP {error.status_code}{code}): {hint}.", **fields)


def _reason(error: APIError) -> str:
    if isinstance(error, APIStatusError):
        return f"HTTP {error.status_code}"
    if isinstance(error, APITimeoutError):
        return "no answer in time"
    return "no connection" if isinstance(error, APIConnectionError) else "no usable answer"


def _retry_after(error: APIError) -> float | None:
    """Seconds that the server asks for, from a number or a date; None where it says nothing readable."""
    value = error.response.headers.get("retry-after", "") if isinstance(error, APIStatusError) else ""
    if NUMBER.fullmatch(value):
        return min(LONGEST_WAIT, float(value))
    try:
        return min(LONGEST_WAIT, max(0.0, parsedate_to_datetime(value).timestamp() - time()))
    except (ValueError, OverflowError):
        return None
