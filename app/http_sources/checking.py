"""What a source must be before it is kept: allowed, askable, readable."""

import re
from collections.abc import Mapping
from uuid import UUID

from app.errors import InvalidInput
from app.http_sources.gate import HEADERS, SourceGate
from app.http_sources.paths import PathRefused, compiled
from app.http_sources.templates import strings_of
from app.http_sources.types import HeaderValue, HttpSource
from app.settings.http_sources import RESERVED_HEADERS

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
# What is in them is a secret, and everybody who may read the knowledge base could see it.
_SECRET = frozenset({"authorization", "proxy-authorization"})


def check_source(source: HttpSource, gate: SourceGate, tenant_id: UUID) -> None:
    """Raises InvalidInput that says where it is wrong."""
    _check_headers(source.headers)
    gate.allow(source, tenant_id)
    _check_templates(source)
    for name in ("items", "text", "title", "url", "score"):
        path = getattr(source.response, name)
        try:
            if path is not None:
                compiled(path)
        except PathRefused as exc:
            raise InvalidInput(str(exc), loc=("body", "source", "response", name)) from None
    if source.domains and source.response.url is None:
        message = "Without a path to its url nobody knows where a result is from."
        raise InvalidInput(message, loc=("body", "source", "domains"))


def _check_headers(headers: Mapping[str, HeaderValue]) -> None:
    if len({name.lower() for name in headers}) < len(headers):
        raise InvalidInput("A header is named twice.", loc=HEADERS)
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or (isinstance(value, str) and not _VALUE.fullmatch(value)):
            raise InvalidInput(f"{name!r} is no header that can be sent.", loc=HEADERS)
        if name.lower() in RESERVED_HEADERS:
            raise InvalidInput(f"The header {name!r} is not the caller's to set.", loc=HEADERS)
        if name.lower() in _SECRET and isinstance(value, str):
            raise InvalidInput(f'{name!r} is given as a secret: {{"secret": "NAME"}}.', loc=HEADERS)


def _check_templates(source: HttpSource) -> None:
    if source.method == "GET" and source.body is not None:
        raise InvalidInput("A GET has no body.", loc=("body", "source", "body"))
    if not any("{query}" in one for part in (source.params, source.body) for one in strings_of(part)):
        raise InvalidInput("Neither params nor body have a place for {query}.", loc=("body", "source", "params"))
