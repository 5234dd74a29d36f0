"""How requests are made, tried again and read; nothing here talks to anybody."""

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import httpx2

from carrel_client.errors import BY_STATUS, ApiError, BadReply

# Beyond the 60 seconds that an upload may wait.
TIMEOUT_SECONDS = 90.0
RETRIES = 4
LONGEST_PAUSE = 20.0
# What may be gone in a moment.
PASSING = frozenset({429, 502, 503, 504})
SAFE = frozenset({"GET", "PUT", "DELETE", "HEAD"})

Source = Path | str | bytes | IO[bytes]


@dataclass(frozen=True, slots=True)
class Request:
    """One request; ``source`` is a file, sent as ``file`` in a form together with ``form``.

    ``archive`` is sent as it is.
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

    @property
    def repeatable(self) -> bool:
        """Whether it may be sent again: a stream can be read once only."""
        return self.source is None or isinstance(self.source, (Path, str, bytes))


def path_of(*parts: str) -> str:
    """A path of these parts, each of them one whole."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def compact(values: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of an address: what is None is left out, objects become JSON."""
    return {
        name: json.dumps(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if value is not None
    }


def upload(path: str, source: Source, filename: str | None, options: Mapping[str, Any], wait: float) -> Request:
    """Raises ValueError where bytes or a stream come without a name."""
    name = filename or (str(source) if isinstance(source, (Path, str)) else str(getattr(source, "name", "")))
    if not name:
        raise ValueError("bytes and streams need a filename")
    form = {key: value if isinstance(value, str) else json.dumps(value) for key, value in options.items()}
    params = {"wait": wait} if wait else {}
    return Request("POST", path, params, source=source, filename=Path(name).name, form=form)


def arguments(request: Request, opened: IO[bytes] | bytes | None) -> dict[str, Any]:
    """What httpx2 is called with; ``opened`` is the file to send."""
    headers = {} if request.idempotency_key is None else {"Idempotency-Key": request.idempotency_key}
    content: dict[str, Any] = {"params": request.params, "headers": headers}
    if opened is not None:
        return {**content, "files": {"file": (request.filename, opened)}, "data": request.form}
    if request.archive is not None:
        return {**content, "headers": {**headers, "Content-Type": "application/x-tar"}, "content": request.archive}
    return content if request.body is None else {**content, "json": request.body}


def keyed(request: Request) -> Request:
    """A write that the service would do twice gets an ``Idempotency-Key``, the same in every attempt."""
    is_safe = request.method in SAFE or request.archive is not None  # documents that are there are passed over
    return request if is_safe else replace(request, idempotency_key=uuid.uuid4().hex)


@contextmanager
def opened(request: Request) -> Iterator[IO[bytes] | bytes | None]:
    """The file to send, from its beginning."""
    if isinstance(request.source, (Path, str)):
        with Path(request.source).open("rb") as file:
            yield file
    else:
        yield request.source


def pause(attempt: int, reply: httpx2.Response | None) -> float | None:
    """Seconds before the next attempt, of which ``attempt`` counts from 1: as the service asks, else growing.

    None where it asks for more patience than a caller has: a quota that is used up is no matter of seconds.
    """
    asked: str = "" if reply is None else reply.headers.get("retry-after", "")
    if not asked.isdecimal():
        return min(0.25 * 2.0**attempt, LONGEST_PAUSE)
    return float(asked) if float(asked) <= LONGEST_PAUSE else None


def answer(reply: httpx2.Response) -> Any:
    """The JSON of a reply, None of one without a body. Raises ApiError, BadReply."""
    if reply.is_success and not reply.content:
        return None
    try:
        found = reply.json()
    except ValueError:
        found = None
    if reply.is_success and found is not None:
        return found
    if reply.is_success or not isinstance(found, dict):
        raise BadReply(f"{reply.status_code} without JSON from {reply.url.host}; is it Carrel?")
    raise refusal(reply, found)


def refusal(reply: httpx2.Response, problem: Mapping[str, Any]) -> ApiError:
    """The error for a reply that is none of success."""
    asked = reply.headers.get("retry-after", "")
    kind = BY_STATUS.get(reply.status_code, ApiError)
    return kind(reply.status_code, problem, retry_after=float(asked) if asked.isdecimal() else None)


def search_body(query: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a search; what is not given is left to the service."""
    return {**({} if query is None else {"query": query}), **options}


def document_ids(ids: Sequence[str] | None) -> str | None:
    """Several ids as one parameter."""
    return None if ids is None else ",".join(ids)
