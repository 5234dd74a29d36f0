"""Validation of a source before it is stored: allowlist, request template and response paths."""

import re
from collections.abc import Mapping
from uuid import UUID

from app.errors import InvalidInputError
from app.http_sources.allowlist import HEADERS, SourceAllowlist
from app.http_sources.paths import InvalidPath, compile_path
from app.http_sources.templates import iterate_strings
from app.http_sources.types import HeaderValue, HttpSource
from app.settings.http_sources import RESERVED_HEADERS

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
# Headers that need a reference to a secret. Every reader of the knowledge base could see a literal value.
_SECRET_HEADERS = frozenset({"authorization", "proxy-authorization"})


def check_source(source: HttpSource, allowlist: SourceAllowlist, tenant_id: UUID) -> None:
    """Check a source of a tenant. Raises InvalidInputError with the location of the fault."""
    _check_headers(source.headers)
    allowlist.authorize(source, tenant_id)
    _check_templates(source)
    for name in ("items", "text", "title", "url", "score"):
        path = getattr(source.response, name)
        try:
            if path is not None:
                compile_path(path)
        except InvalidPath as exc:
            raise InvalidInputError(str(exc), loc=("body", "source", "response", name)) from None
    if source.domains and source.response.url is None:
        message = "`domains` needs a path to the URL of each result: set `response.url` too."
        raise InvalidInputError(message, loc=("body", "source", "domains"))


def _check_headers(headers: Mapping[str, HeaderValue]) -> None:
    if len({name.lower() for name in headers}) < len(headers):
        raise InvalidInputError("A header occurs twice; names are not case-sensitive.", loc=HEADERS)
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or (isinstance(value, str) and not _VALUE.fullmatch(value)):
            raise InvalidInputError(f"{name!r} is not a valid header.", loc=HEADERS)
        if name.lower() in RESERVED_HEADERS:
            raise InvalidInputError(f"The header {name!r} is set by the service; remove it.", loc=HEADERS)
        if name.lower() in _SECRET_HEADERS and isinstance(value, str):
            raise InvalidInputError(
                f'The header {name!r} takes the name of a secret: {{"secret": "NAME"}}.', loc=HEADERS
            )


def _check_templates(source: HttpSource) -> None:
    if source.method == "GET" and source.body is not None:
        raise InvalidInputError(
            "A GET request has no body: use params, or the method POST.", loc=("body", "source", "body")
        )
    if not any("{query}" in text for part in (source.params, source.body) for text in iterate_strings(part)):
        raise InvalidInputError(
            "Neither params nor body contains the placeholder {query}; add it.", loc=("body", "source", "params")
        )
