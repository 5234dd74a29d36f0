"""How the client commands reach a running service: its address and its key, and what can be sent to it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from carrel_client import Client
from pydantic import TypeAdapter, ValidationError

from app.cli.runtime import Credentials, read_credentials
from app.errors import InvalidInput
from app.settings import HttpUrl
from app.settings.environment import sources

RETRIES = 2  # somebody waits


class NoService(InvalidInput):
    """No service is named and none has left its credentials here; give --url and --key."""

    code = "no_service"


def read_json(text: str) -> Any:
    """What it says, where a request can carry it: no NaN, no half of a character. Raises ValueError, RecursionError."""
    found = json.loads(text)
    json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
    return found


@dataclass(frozen=True, slots=True)
class _Given:
    """What one place says: an address, a key, both or neither."""

    place: str
    url: str | None
    key: str | None


def find_service(url: str | None, key: str | None) -> Credentials:
    """Find the service and its key in one place, the first that names either.

    The places are the command line, the environment, the file ``.env`` and what ``serve`` left. A key goes to the
    address that stands beside it, and to no other: a file in the current directory may be somebody else's.

    Args:
        url: The option ``--url``.
        key: The option ``--key``.

    Raises:
        NoService: Nothing is named, or a key and its address would come from different places.
    """
    given = [one for one in _places(url, key) if one.url or one.key]
    if not given:
        raise NoService
    first, *others = given
    if first.url is None:
        raise NoService(_without_address(first, others))
    if first.key is not None:
        return Credentials(first.url, first.key)
    # The address is named once more, beside a key: that key was meant for it.
    for other in others:
        if other.key is not None and other.url == first.url:
            return Credentials(first.url, other.key)
    raise NoService(_without_key(first, others))


def _places(url: str | None, key: str | None) -> Iterator[_Given]:
    yield _Given("the command line", _checked("--url", url), key or None)
    for place, variables in sources().items():
        address = _checked("CARREL_URL", variables.get("CARREL_URL"))
        yield _Given(place, address, variables.get("CARREL_API_KEY"))
    directory = next(
        (found["CARREL_DATA_DIR"] for found in sources().values() if "CARREL_DATA_DIR" in found), ".carrel"
    )
    if found := read_credentials(Path(directory).expanduser()):
        yield _Given(str(Path(directory) / "credentials.json"), found.url.rstrip("/"), found.api_key)


def _checked(name: str, address: str | None) -> str | None:
    """Return the address without a slash at its end; None for none. Raises NoService."""
    try:
        return TypeAdapter(HttpUrl).validate_python(address) if address else None
    except ValidationError as exc:
        reason = exc.errors(include_input=False, include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise NoService(f"{name} {reason}") from None


def _without_address(first: _Given, others: Sequence[_Given]) -> str:
    elsewhere = next((f"; {one.place} names {one.url}, but no key goes there" for one in others if one.url), "")
    if first.place == "the command line":
        return f"--key is given without an address{elsewhere}: give --url too"
    return (
        f"CARREL_API_KEY is set in {first.place} without an address{elsewhere}: set CARREL_URL in the same place, "
        "or give --url and --key"
    )


def _without_key(first: _Given, others: Sequence[_Given]) -> str:
    elsewhere = next((f"; the key of {one.place} is not sent there" for one in others if one.key), "")
    place = "--url" if first.place == "the command line" else f"CARREL_URL in {first.place}"
    return (
        f"no key for {first.url}, which is named by {place}{elsewhere}: give --url and --key, or set both in one place"
    )


def connect(url: str | None, key: str | None) -> Client:
    """A client of the service that ``find_service`` finds; to be used by ``with``. Raises NoService."""
    found = find_service(url, key)
    return Client(found.url, found.api_key, retries=RETRIES)
