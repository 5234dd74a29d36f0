"""URL and API key of the service for the client commands, and JSON values that requests can carry."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from carrel_client import Client
from pydantic import TypeAdapter, ValidationError

from app.cli.runtime_state import Credentials, read_credentials
from app.errors import InvalidInputError
from app.settings import HttpUrl
from app.settings.environment import read_sources

MAX_RETRIES = 2  # a person waits for the command


class ServiceNotConfigured(InvalidInputError):
    """No service is configured, and none runs on the data directory; give --url and --key, or run carrel serve."""

    code = "service_not_configured"


def parse_json(text: str) -> Any:
    """Parse JSON and return the value. NaN and lone surrogates are refused. Raises ValueError, RecursionError."""
    value = json.loads(text)
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    return value


@dataclass(frozen=True, slots=True)
class _EndpointSource:
    """URL and API key of one source; each may be missing."""

    origin: str
    url: str | None
    key: str | None


def resolve_endpoint(url: str | None, key: str | None) -> Credentials:
    """Return the URL and the API key of the service from the first source that has either.

    The sources are the command line, the environment, the file ``.env`` and the file that ``serve`` wrote, in this
    order. A key is sent only to a URL from the same source: another person may have written a file in the current
    directory.

    Args:
        url: The option ``--url``.
        key: The option ``--key``.

    Returns:
        The URL and the key.

    Raises:
        ServiceNotConfigured: No source has a URL or a key, or URL and key come from different sources.
    """
    candidates = [candidate for candidate in _list_endpoint_sources(url, key) if candidate.url or candidate.key]
    if not candidates:
        raise ServiceNotConfigured
    first, *others = candidates
    if first.url is None:
        raise ServiceNotConfigured(_format_missing_address(first, others))
    if first.key is not None:
        return Credentials(first.url, first.key)
    # Another source has the same URL with a key, so the key belongs to this URL.
    for other in others:
        if other.key is not None and other.url == first.url:
            return Credentials(first.url, other.key)
    raise ServiceNotConfigured(_format_missing_key(first, others))


def _list_endpoint_sources(url: str | None, key: str | None) -> Iterator[_EndpointSource]:
    yield _EndpointSource("the command line", _validate_url("--url", url), key or None)
    for origin, variables in read_sources().items():
        address = _validate_url("CARREL_URL", variables.get("CARREL_URL"))
        yield _EndpointSource(origin, address, variables.get("CARREL_API_KEY"))
    directory = next(
        (credentials["CARREL_DATA_DIR"] for credentials in read_sources().values() if "CARREL_DATA_DIR" in credentials),
        ".carrel",
    )
    if credentials := read_credentials(Path(directory).expanduser()):
        yield _EndpointSource(
            str(Path(directory) / "credentials.json"), credentials.url.rstrip("/"), credentials.api_key
        )


def _validate_url(name: str, address: str | None) -> str | None:
    """Return the URL without a trailing slash, or None if ``address`` is empty. Raises ServiceNotConfigured."""
    try:
        return TypeAdapter(HttpUrl).validate_python(address) if address else None
    except ValidationError as exc:
        reason = exc.errors(include_input=False, include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise ServiceNotConfigured(f"{name} {reason}") from None


def _format_missing_address(first: _EndpointSource, others: Sequence[_EndpointSource]) -> str:
    elsewhere = next(
        (f"; {other.origin} has the URL {other.url}, but the key is not sent to it" for other in others if other.url),
        "",
    )
    if first.origin == "the command line":
        return f"--key is given without a URL{elsewhere}: give --url too"
    return (
        f"CARREL_API_KEY is set in {first.origin} without a URL{elsewhere}: set CARREL_URL in the same place, "
        "or give --url and --key"
    )


def _format_missing_key(first: _EndpointSource, others: Sequence[_EndpointSource]) -> str:
    elsewhere = next((f"; the key of {other.origin} is not sent to it" for other in others if other.key), "")
    origin = "--url" if first.origin == "the command line" else f"CARREL_URL in {first.origin}"
    return f"no key for {first.url} of {origin}{elsewhere}: give --url and --key, or set both in one place"


def connect(url: str | None, key: str | None) -> Client:
    """Create a client of the service that ``resolve_endpoint`` returns. Raises ServiceNotConfigured."""
    credentials = resolve_endpoint(url, key)
    return Client(credentials.url, credentials.api_key, retries=MAX_RETRIES)
