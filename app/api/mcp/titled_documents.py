"""Titles, addresses and text of documents in the MCP API."""

import re
from typing import Protocol
from uuid import UUID

from app.bootstrap import TenantServices
from app.documents.content.catalog import TextPage
from app.documents.types import DocumentNotFound
from app.ids import decode_id, encode_id

MAX_TEXT_CHARACTERS = 100_000
URI_TEMPLATE = "carrel://documents/{document}"
PART_URI_TEMPLATE = URI_TEMPLATE + "/from/{start}"
_URI_PATTERN = re.compile(r"carrel://documents/([^/]{1,64})(?:/from/([0-9]{1,9}))?")


class TitledDocument(Protocol):
    """Document in the result of a search or a list."""

    @property
    def id(self) -> UUID: ...
    @property
    def source(self) -> str: ...
    @property
    def title(self) -> str | None: ...
    @property
    def source_uri(self) -> str | None: ...


def get_display_title(document: TitledDocument) -> str:
    """Return the title of a document for people; without a title, its name."""
    return document.title or document.source


def build_uri(document: UUID, *, start: int = 0) -> str:
    """Return the address of a document's resource, or of its part from character ``start`` on."""
    document_uri = URI_TEMPLATE.replace("{document}", encode_id("doc", document))
    return f"{document_uri}/from/{start}" if start else document_uri


def get_source_url(document: TitledDocument) -> str:
    """Return the address to cite: the origin of the document; if it is unknown, the address of its resource."""
    return document.source_uri or build_uri(document.id)


async def read_document(tenant: TenantServices, reference: str) -> TextPage:
    """Return the first ``MAX_TEXT_CHARACTERS`` characters of a document, by its id. Raises DocumentNotFound."""
    document_id = decode_id("doc", reference)
    if document_id is None:
        raise DocumentNotFound
    return await tenant.catalog.read_text(document_id, start=0, max_characters=MAX_TEXT_CHARACTERS)


async def read_document_uri(tenant: TenantServices, resource_uri: str) -> tuple[TextPage, str | None]:
    """Return the text of a document or of its part.

    Args:
        tenant: Services of the caller.
        resource_uri: Address of the document or the part.

    Returns:
        At most ``MAX_TEXT_CHARACTERS`` characters, and the address of the next part; None if no text follows.

    Raises:
        DocumentNotFound: The address is not valid, or the caller may not read the document.
    """
    match = _URI_PATTERN.fullmatch(resource_uri)
    document_id = None if match is None else decode_id("doc", match[1])
    if match is None or document_id is None:
        raise DocumentNotFound
    start = int(match[2] or 0)
    library_text = await tenant.catalog.read_text(document_id, start=start, max_characters=MAX_TEXT_CHARACTERS)
    return library_text, build_uri(document_id, start=start + MAX_TEXT_CHARACTERS) if library_text.has_more else None
