"""Build requests, decide retries and read replies; no function here opens a connection."""

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import httpx2

from carrel_client.errors import BY_STATUS, ApiError, UnexpectedReply

# Timeout of a response. It is longer than the 60 seconds that an upload may wait.
DEFAULT_TIMEOUT_SECONDS = 90.0
DEFAULT_RETRIES = 4
MAX_RETRY_DELAY_SECONDS = 20.0
# Statuses that may be temporary.
RETRYABLE_STATUSES = frozenset({429, 502, 503, 504})
IDEMPOTENT_METHODS = frozenset({"GET", "PUT", "DELETE", "HEAD"})

Source = Path | str | bytes | IO[bytes]


@dataclass(frozen=True, slots=True)
class Request:
    """Request to the service. ``source`` is a file, which is sent together with the fields of ``form``.

    ``archive`` is sent unchanged as the body.
    """

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    source: Source | None = None
    filename: str = ""
    form: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: str | None = None
    archive: bytes | None = None
    if_match: str | None = None

    @property
    def is_repeatable(self) -> bool:
        """Whether the request can be sent again. A request with a stream cannot, because a stream can be read only
        once.
        """
        return self.source is None or isinstance(self.source, (Path, str, bytes))


def build_path(*parts: str) -> str:
    """Return the path below ``/v1`` with quoted parts."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def to_query_params(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are not None as query parameters, with objects as JSON."""
    return {
        name: json.dumps(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if value is not None
    }


def build_upload(path: str, source: Source, filename: str | None, options: Mapping[str, Any], wait: float) -> Request:
    """Return the request that uploads a file. Raises ValueError if bytes or a stream have no filename."""
    name = filename or (str(source) if isinstance(source, (Path, str)) else str(getattr(source, "name", "")))
    if not name:
        raise ValueError("bytes and streams need a filename: pass filename=…")
    form = {key: value if isinstance(value, str) else json.dumps(value) for key, value in options.items()}
    params = {"wait": wait} if wait else {}
    return Request("POST", path, params, source=source, filename=Path(name).name, form=form)


def to_httpx_arguments(request: Request, opened: IO[bytes] | bytes | None) -> dict[str, Any]:
    """Return the arguments of httpx2 for a request; ``opened`` is the file to send."""
    headers = {} if request.idempotency_key is None else {"Idempotency-Key": request.idempotency_key}
    if request.if_match is not None:
        headers["If-Match"] = request.if_match
    content: dict[str, Any] = {"params": request.params, "headers": headers}
    if opened is not None:
        return {**content, "files": {"file": (request.filename, opened)}, "data": request.form}
    if request.archive is not None:
        return {**content, "headers": {**headers, "Content-Type": "application/x-tar"}, "content": request.archive}
    return content if request.body is None else {**content, "json": request.body}


def with_idempotency_key(request: Request) -> Request:
    """Return the request with an ``Idempotency-Key`` if it is not idempotent; every attempt has the same key."""
    is_idempotent = (
        request.method in IDEMPOTENT_METHODS or request.archive is not None
    )  # existing documents are skipped
    return request if is_idempotent else replace(request, idempotency_key=uuid.uuid4().hex)


@contextmanager
def open_source(request: Request) -> Iterator[IO[bytes] | bytes | None]:
    """Open the file of a request, and yield it; None if the request has no file."""
    if isinstance(request.source, (Path, str)):
        with Path(request.source).open("rb") as file:
            yield file
    else:
        yield request.source


def compute_retry_delay(attempt: int, reply: httpx2.Response | None) -> float | None:
    """Return the delay before the next attempt, in seconds, or None if there should be no attempt.

    If the service requests a delay, it is used. Otherwise the delay doubles with each attempt. The result is None if
    the service requests more than ``MAX_RETRY_DELAY_SECONDS``, for example for a used-up daily quota.

    Args:
        attempt: Number of the last attempt, from 1.
        reply: Response of the last attempt, or None if the connection failed.
    """
    requested: str = "" if reply is None else reply.headers.get("retry-after", "")
    if not requested.isdecimal():
        return min(0.25 * 2.0**attempt, MAX_RETRY_DELAY_SECONDS)
    return float(requested) if float(requested) <= MAX_RETRY_DELAY_SECONDS else None


def read_reply(reply: httpx2.Response) -> Any:
    """Return the JSON of a response, or None for an empty response.

    Raises:
        ApiError: The service refuses the request.
        UnexpectedReply: The response is not JSON.
    """
    if reply.is_success and not reply.content:
        return None
    try:
        content = reply.json()
    except ValueError:
        content = None
    if reply.is_success and content is not None:
        return content
    if reply.is_success or not isinstance(content, dict):
        raise UnexpectedReply(
            f"{reply.status_code} without JSON from {reply.url.host}; check that the URL is a Carrel service"
        )
    raise to_api_error(reply, content)


def to_api_error(reply: httpx2.Response, problem: Mapping[str, Any]) -> ApiError:
    """Return the error for a response with an error status."""
    retry_after = reply.headers.get("retry-after", "")
    kind = BY_STATUS.get(reply.status_code, ApiError)
    return kind(reply.status_code, problem, retry_after=float(retry_after) if retry_after.isdecimal() else None)


def build_search_body(query: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a search; the service has defaults for missing fields."""
    return {**({} if query is None else {"query": query}), **options}


def join_ids(ids: Sequence[str] | None) -> str | None:
    """Join ids with commas to the value of one query parameter."""
    return None if ids is None else ",".join(ids)
