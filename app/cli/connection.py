"""How the client commands reach a running service: its address and key, and calls that say plainly what went wrong."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

import httpx
from pydantic import AfterValidator, Field, SecretStr, ValidationError

from app.cli.runtime import Credentials, read_credentials
from app.errors import AppError, InvalidInput, Unavailable
from app.settings import Group, HttpUrl

SECONDS = 90
TRIES = 3
LONGEST_WAIT = 30.0
BUSY = (429, 503)


class NoService(InvalidInput):
    """No service is named and none has left its credentials here; give --url and --key."""

    code = "no_service"


class ServiceUnreachable(Unavailable):
    """The service does not answer."""

    code = "service_unreachable"


class ServiceRefused(AppError):
    """The service refused a request."""

    code = "service_refused"

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


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


@dataclass(frozen=True, slots=True)
class Connection:
    """A service and a key; may be used by several threads."""

    client: httpx.Client

    @classmethod
    def open(cls, service: Credentials) -> Self:
        """To be closed by ``with connection.client``."""
        headers = {"Authorization": f"Bearer {service.api_key}"}
        return cls(httpx.Client(base_url=service.url, headers=headers, timeout=SECONDS))

    def get(self, path: str, **params: str | int) -> Any:
        """The JSON of a GET. Raises as ``call``."""
        return self.call("GET", path, params=params)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """The JSON of a POST. Raises as ``call``."""
        return self.call("POST", path, json=body)

    def call(self, method: str, path: str, **content: Any) -> Any:
        """One request, tried again while the service is busy. Raises ServiceRefused, ServiceUnreachable."""
        for attempt in range(1, TRIES + 1):
            try:
                reply = self.client.request(method, path, **content)
            except (httpx.TransportError, httpx.InvalidURL) as exc:
                raise ServiceUnreachable(f"{self.client.base_url} does not answer") from exc
            if reply.status_code not in BUSY or attempt == TRIES:
                return _answer(reply)
            time.sleep(_pause(reply, attempt))
        raise AssertionError  # the last attempt returns or raises


def _pause(reply: httpx.Response, attempt: int) -> float:
    asked = reply.headers.get("retry-after", "")
    return min(float(asked) if asked.isdecimal() else 0.5 * 2**attempt, LONGEST_WAIT)


def _answer(reply: httpx.Response) -> Any:
    try:
        body = reply.json()
    except ValueError as exc:
        raise ServiceRefused(f"{reply.status_code} without JSON; is it Carrel?", status=reply.status_code) from exc
    if reply.is_success:
        return body
    said = body.get("detail") if isinstance(body, dict) else None
    faults = body.get("errors") or [] if isinstance(body, dict) else []
    named = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults]
    message = "; ".join([str(said or reply.reason_phrase), *named])
    raise ServiceRefused(f"{reply.status_code} {message}", status=reply.status_code)
