"""Allowlist of HTTP sources. Each binding of CARREL_HTTP_SOURCES allows requests to an address for some tenants.

A binding also limits the method, parameters, headers and secrets of these requests.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import httpx2

from app.errors import InvalidInputError
from app.http_sources.types import HeaderValue, HttpSource
from app.ids import encode_id
from app.settings.http_sources import SourceBinding, format_origin, is_plain_path

# URLs without user, query, fragment, template placeholder, and characters that programs interpret in different ways.
_PLAIN = re.compile(r"https?://[!-~]+", re.IGNORECASE)
_ODD = re.compile(r"[\\?#@{}<>\"^`|;]")
EVERY_TENANT = "*"
URL, HEADERS = ("body", "source", "url"), ("body", "source", "headers")


@dataclass(frozen=True, slots=True)
class AllowedRequest:
    """Request that a binding (an entry of the allowlist) allows.

    ``headers`` include the values of secrets. ``secrets`` are these values; no response may repeat them. With
    ``allows_private`` the host name may resolve to an address outside the public internet.
    """

    address: httpx2.URL
    headers: Mapping[str, str]
    secrets: Sequence[str]
    allows_private: bool


@dataclass(frozen=True, slots=True)
class SourceAllowlist:
    """Allowlist that checks a source when it is stored, and again before every request."""

    bindings: Sequence[SourceBinding] = ()

    def authorize(self, source: HttpSource, tenant_id: UUID) -> AllowedRequest:
        """Return the allowed request of a tenant's source.

        A single binding must allow address, method, parameters, headers and secrets.

        Args:
            source: Source that the tenant configured.
            tenant_id: Tenant of the knowledge base.

        Raises:
            InvalidInputError: No binding of this tenant allows the source. The message never contains permissions of
                other tenants or values of secrets.
        """
        address = self._parse_address(source.url)
        tenant_names = (EVERY_TENANT, encode_id("ten", tenant_id))
        matching = [
            binding
            for binding in self.bindings
            if _covers(binding, address) and any(name in binding.tenants for name in tenant_names)
        ]
        if not matching:
            message = "This service does not allow this tenant to ask this address (scheme, host, port and path)."
            raise InvalidInputError(message, loc=URL)
        matching = [binding for binding in matching if source.method in binding.methods]
        if not matching:
            message = f"This service does not allow {source.method} at this address."
            raise InvalidInputError(message, loc=("body", "source", "method"))
        matching = [
            binding for binding in matching if binding.params is None or set(source.params) <= set(binding.params)
        ]
        if not matching:
            message = "This service does not allow all of these parameters at this address."
            raise InvalidInputError(message, loc=("body", "source", "params"))
        return _select_binding(matching, source.headers, address)

    def _parse_address(self, url: str) -> httpx2.URL:
        """Return the URL for the request. Raises InvalidInputError."""
        if not self.bindings:
            raise InvalidInputError("This service allows no HTTP sources: see CARREL_HTTP_SOURCES.", loc=URL)
        if not _PLAIN.fullmatch(url) or _ODD.search(url):
            message = "Give an http or https URL without user, query and fragment; put what is asked into params."
            raise InvalidInputError(message, loc=URL)
        try:
            address = httpx2.URL(url)
        except httpx2.InvalidURL:
            raise InvalidInputError("This is not a URL.", loc=URL) from None
        if not is_plain_path(_extract_path(url)) or not is_plain_path(address.raw_path.decode("ascii")):
            message = "Give a path without dot segments, empty segments and path parameters."
            raise InvalidInputError(message, loc=URL)
        return address


def _extract_path(url: str) -> str:
    """Return the path of an unparsed URL, because the parser would resolve dot segments."""
    return "/" + url.split("://", 1)[1].partition("/")[2]


def _covers(binding: SourceBinding, address: httpx2.URL) -> bool:
    requested = _format_origin(address) + address.raw_path.decode("ascii")
    return requested.startswith(binding.url) if binding.url.endswith("/") else requested == binding.url


def _select_binding(
    bindings: Sequence[SourceBinding], requested_headers: Mapping[str, HeaderValue], address: httpx2.URL
) -> AllowedRequest:
    """Return the request of the first binding that allows all headers; else raise the error of the first binding."""
    refusal: InvalidInputError | None = None
    for binding in bindings:
        try:
            headers = {name: _resolve_header(binding, name, value) for name, value in requested_headers.items()}
        except InvalidInputError as exc:
            refusal = refusal or exc
            continue
        secrets = [headers[name] for name, value in requested_headers.items() if not isinstance(value, str)]
        return AllowedRequest(address, headers, secrets, binding.allow_private)
    assert refusal is not None  # there is at least one binding
    raise refusal


def _resolve_header(binding: SourceBinding, name: str, value: HeaderValue) -> str:
    if isinstance(value, str):
        if name.lower() not in binding.headers:
            raise InvalidInputError(f"This service does not allow the header {name!r} at this address.", loc=HEADERS)
        return value
    secret = binding.secrets.get(value["secret"])
    if secret is None or secret.header != name.lower():
        message = f"There is no secret {value['secret']!r} that may be sent to this address in the header {name!r}."
        raise InvalidInputError(message, loc=HEADERS)
    return secret.value.get_secret_value()


def _format_origin(address: httpx2.URL) -> str:
    host = address.raw_host.decode()
    return format_origin(address.scheme, f"[{host}]" if ":" in host else host, address.port)
