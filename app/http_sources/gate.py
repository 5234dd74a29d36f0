"""What the operator allows: which hosts are asked, and which secret goes where, for whom."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

import httpx

from app.errors import InvalidInput
from app.http_sources.types import HeaderValue
from app.ids import encode_id
from app.settings.http_sources import SourceSecret, origin

# No user, query, fragment, place of a template, or character that programs read differently.
_PLAIN = re.compile(r"https?://[!-~]+", re.IGNORECASE)
_ODD = re.compile(r"[\\?#@{}<>\"^`|]")
EVERYBODY = "*"
URL, HEADERS = ("body", "source", "url"), ("body", "source", "headers")


@dataclass(frozen=True, slots=True)
class SourceGate:
    """``hosts`` are origins, with their ports. It is passed when a source is kept, and again by each request."""

    hosts: frozenset[str] = frozenset()
    secrets: Mapping[str, SourceSecret] = field(default_factory=dict)

    def address(self, url: str) -> httpx.URL:
        """The address to ask, as it is read here and sent. Raises InvalidInput."""
        if not self.hosts:
            raise InvalidInput("This service allows no HTTP sources: see CARREL_HTTP_SOURCE_HOSTS.", loc=URL)
        if not _PLAIN.fullmatch(url) or _ODD.search(url):
            message = "It is an http or https URL without user, query and fragment; what is asked stands in params."
            raise InvalidInput(message, loc=URL)
        try:
            address = httpx.URL(url)
        except httpx.InvalidURL:
            raise InvalidInput("It is no URL.", loc=URL) from None
        if _origin(address) not in self.hosts:
            raise InvalidInput("Its scheme, host and port are not among those that this service allows.", loc=URL)
        return address

    def headers(self, given: Mapping[str, HeaderValue], address: httpx.URL, tenant_id: UUID) -> dict[str, str]:
        """As they are sent, secrets filled in. Raises InvalidInput, which names a secret and never holds its value."""
        return {
            name: value if isinstance(value, str) else self._secret(value["secret"], address, tenant_id)
            for name, value in given.items()
        }

    def _secret(self, name: str, address: httpx.URL, tenant_id: UUID) -> str:
        """One answer for all that is not there for this caller: what others have is not told."""
        secret = self.secrets.get(name)
        who = (EVERYBODY, encode_id("ten", tenant_id))
        if secret is None or _origin(address) not in secret.hosts or not any(one in secret.tenants for one in who):
            raise InvalidInput(f"There is no secret {name!r} that may be sent to this host.", loc=HEADERS)
        return secret.value.get_secret_value()


def _origin(address: httpx.URL) -> str:
    host = address.raw_host.decode()
    return origin(address.scheme, f"[{host}]" if ":" in host else host, address.port)
