"""Settings of HTTP sources: the addresses that tenants may search, and secret headers of the search requests."""

import re
from typing import Annotated, Literal
from urllib.parse import unquote

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic_settings import NoDecode

from app.settings.settings_group import SettingsGroup, env_field, parse_bindings

_URL = re.compile(
    r"(https?)://([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?(/[!-~]*)?", re.IGNORECASE
)
_PORTS = {"https": 443, "http": 80}
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
# Tenants may not set these headers: the HTTP client sets them, or they change the meaning of the request.
# The header cookie is one of them: requests never carry cookies.
RESERVED_HEADERS = frozenset(
    """host content-length content-type content-encoding transfer-encoding connection keep-alive te trailer upgrade
    expect accept accept-encoding proxy-connection cookie http2-settings""".split()  # noqa: SIM905
)
# Characters of a path segment; others are encoded as `%` and two hexadecimal digits.
_SEGMENT = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%[0-9A-Fa-f]{2})+")


def format_origin(scheme: str, host: str, port: int | None) -> str:
    """Return scheme, host and port in one form: lower case, always with the port."""
    return f"{scheme}://{host}:{port or _PORTS[scheme]}".lower()


def is_plain_path(path: str) -> bool:
    """Return whether every server interprets this path in the same way.

    The path has no dot segments, no empty segments and no path parameters. It has no encoded form of a character that
    separates segments, not even one that is encoded several times.
    """
    segments = path.split("/")
    if segments[0] != "" or not all(segments[1:-1]):
        return False
    return all(_is_plain_segment(segment) for segment in segments[1:] if segment)


def _is_plain_segment(segment: str) -> bool:
    decoded = unquote(segment, errors="replace")
    return bool(
        _SEGMENT.fullmatch(segment)
        and decoded.strip(".")
        and decoded.isprintable()
        and not set(decoded) & set("/\\%;?#\ufffd")
    )


def _parse_binding_url(value: str) -> str:
    match = _URL.fullmatch(value.strip())
    if match is None or int(match[3] or 1) not in range(1, 65536):
        raise ValueError("takes an address such as https://search.example.com/search, without user, query and fragment")
    if match[4] is None:
        raise ValueError("needs a path: /search allows that path alone, /search/ all below it, / the whole host")
    if not is_plain_path(match[4]):
        raise ValueError("takes a path without dot segments, empty segments and path parameters")
    return format_origin(match[1].lower(), match[2], int(match[3]) if match[3] else None) + match[4]


def _check_header_name(value: str) -> str:
    if not _HEADER.fullmatch(value) or value.lower() in RESERVED_HEADERS:
        raise ValueError("takes the name of a header that Carrel does not set itself")
    return value.lower()


def _check_open_header_name(value: str) -> str:
    if value.lower() in ("authorization", "proxy-authorization"):
        raise ValueError("credentials are sent as a secret: name the header in secrets")
    return _check_header_name(value)


def _check_tenant(value: str) -> str:
    if not re.fullmatch(r"\*|ten_[0-9a-z]{26}", value):
        raise ValueError("takes ids of tenants (ten_…), or * for all tenants")
    return value


TenantName = Annotated[str, AfterValidator(_check_tenant)]


def _check_secret(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[!-~](?:[ -~]*[!-~])?", value.get_secret_value()):
        raise ValueError("a secret's value is sent in a header: printable ASCII, no space at its ends")
    return value


class SourceSecret(BaseModel):
    """Secret header of requests. A tenant's source names the secret; the value is never shown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    header: Annotated[str, AfterValidator(_check_header_name)] = Field(description="Name of the header.")
    value: Annotated[SecretStr, AfterValidator(_check_secret)] = Field(description="Value of the header.")


class SourceBinding(BaseModel):
    """Permission of the operator: the tenants that may send requests to one address, and the form of the requests."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: Annotated[str, AfterValidator(_parse_binding_url)] = Field(
        description="Allowed address. With a / at its end it allows every path below it, otherwise this path alone."
    )
    tenants: tuple[TenantName, ...] = Field(
        min_length=1, description="IDs of the tenants (ten_…) that may use the address; * for all tenants."
    )
    methods: tuple[Literal["GET", "POST"], ...] = Field(("GET",), min_length=1, description="Allowed HTTP methods.")
    headers: tuple[Annotated[str, AfterValidator(_check_open_header_name)], ...] = Field(
        (), description="Names of the headers that tenants may set."
    )
    params: tuple[str, ...] | None = Field(
        None, description="Query parameters that tenants may set; null allows every parameter."
    )
    secrets: dict[Annotated[str, Field(min_length=1, max_length=100)], SourceSecret] = Field(
        default_factory=dict, description="Secret headers by the name that tenants use for them."
    )
    allow_private: bool = Field(
        False,
        strict=True,
        description="Whether the host's name may resolve to addresses outside the public internet. "
        "A literal IP address needs no permission.",
    )


class HttpSourceSettings(SettingsGroup):
    """HTTP sources: search services that knowledge bases of kind http may call. By default none is allowed."""

    bindings: Annotated[tuple[SourceBinding, ...], NoDecode, BeforeValidator(parse_bindings)] = env_field(
        "HTTP_SOURCES",
        (),
        description="Allowed addresses as a JSON list. Each entry binds an address to tenants, methods, headers and "
        "secrets.",
        examples=[
            '[{"url": "https://search.example.com/search", "tenants": ["*"], '
            '"secrets": {"NAME": {"header": "X-Api-Key", "value": "…"}}}]'
        ],
        read_by="API",
    )
