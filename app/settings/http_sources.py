"""Settings of HTTP sources: which hosts knowledge bases may ask, and the secrets that may be sent to them."""

import json
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator
from pydantic_settings import NoDecode

from app.settings.group import Group, env

_HOST = re.compile(
    r"(?:(https?)://)?([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?", re.IGNORECASE
)
_PORTS = {"https": 443, "http": 80}


def origin(scheme: str, host: str, port: int | None) -> str:
    """Where a request goes, in one form: with its port, in small letters."""
    return f"{scheme}://{host}:{port or _PORTS[scheme]}".lower()


def _origin(value: str) -> str:
    """Of one entry; https unless it says otherwise."""
    found = _HOST.fullmatch(value.strip())
    if found is None or int(found[3] or 1) not in range(1, 65536):
        raise ValueError("takes hosts such as search.example.com, search.example.com:8443 or http://10.0.0.5:9200")
    return origin((found[1] or "https").lower(), found[2], int(found[3]) if found[3] else None)


def _sendable(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[!-~](?:[ -~]*[!-~])?", value.get_secret_value()):
        raise ValueError("a secret's value is sent in a header: printable ASCII, no space at its ends")
    return value


Origin = Annotated[str, AfterValidator(_origin)]


class SourceSecret(BaseModel):
    """A header's value, the hosts that it may be sent to, and the tenants (``ten_…``, or ``*`` for all) that may.

    Both are named for each: who may name a secret reads what it opens.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: Annotated[SecretStr, AfterValidator(_sendable)]
    hosts: tuple[Origin, ...] = Field(min_length=1)
    tenants: tuple[str, ...] = Field(min_length=1)


class HttpSourceSettings(Group):
    """Nothing is called without a host in the list."""

    hosts: Annotated[tuple[Origin, ...], NoDecode] = env("HTTP_SOURCE_HOSTS", ())
    secrets: Annotated[dict[str, SourceSecret] | None, NoDecode] = env("HTTP_SOURCE_SECRETS", None)

    @field_validator("hosts", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("secrets", mode="before")
    @classmethod
    def _object(cls, value: Any) -> Any:
        try:
            return json.loads(value) if isinstance(value, str) else value
        except ValueError:
            raise ValueError("must be a JSON object of secrets by name") from None
