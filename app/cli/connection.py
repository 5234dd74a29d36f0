"""How the client commands reach a running service: its address and its key, and what can be sent to it."""

import json
from pathlib import Path
from typing import Annotated, Any

from carrel_client import Client
from pydantic import AfterValidator, Field, SecretStr, ValidationError

from app.cli.runtime import Credentials, read_credentials
from app.errors import InvalidInput
from app.settings import Group, HttpUrl

RETRIES = 2  # somebody waits


class NoService(InvalidInput):
    """No service is named and none has left its credentials here; give --url and --key."""

    code = "no_service"


def read_json(text: str) -> Any:
    """What it says, where a request can carry it: no NaN, no half of a character. Raises ValueError, RecursionError."""
    found = json.loads(text)
    json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
    return found


class ClientSettings(Group):
    """What the client commands read of the environment and of ``.env``."""

    url: HttpUrl | None = Field(None, validation_alias="CARREL_URL")
    api_key: SecretStr | None = Field(None, validation_alias="CARREL_API_KEY")
    data_dir: Annotated[Path, AfterValidator(Path.expanduser)] = Field(
        Path(".carrel"), validation_alias="CARREL_DATA_DIR"
    )


def find_service(url: str | None, key: str | None) -> Credentials:
    """The service named on the command line, else by settings, else by what ``serve`` left. Raises NoService."""
    given: dict[str, Any] = {name: value for name, value in (("CARREL_URL", url), ("CARREL_API_KEY", key)) if value}
    try:
        settings = ClientSettings(**given)
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False)[0]
        raise NoService(f"{first['loc'][0]} {first['msg'].removeprefix('Value error, ')}") from None
    found = read_credentials(settings.data_dir)
    address = settings.url or (found.url if found else None)
    if address is None:
        raise NoService
    if settings.api_key is not None:
        return Credentials(address, settings.api_key.get_secret_value())
    # A key that was left for one service is nobody else's business.
    if found is None or found.url.rstrip("/") != address.rstrip("/"):
        raise NoService(f"no key for {address}; give --key or set CARREL_API_KEY")
    return found


def connect(url: str | None, key: str | None) -> Client:
    """A client of the service that ``find_service`` finds; to be used by ``with``. Raises NoService."""
    found = find_service(url, key)
    return Client(found.url, found.api_key, retries=RETRIES)
