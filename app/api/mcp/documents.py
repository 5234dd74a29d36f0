"""Documents as this door names and reads them: by an id, or by the address of a resource."""

import re
from typing import Protocol
from uuid import UUID

from app.bootstrap import TenantServices
from app.documents.library import LibraryText
from app.documents.types import DocumentNotFound
from app.ids import decode_id, encode_id

MOST_CHARACTERS = 100_000
TEMPLATE = "carrel://documents/{document}"
PART_TEMPLATE = TEMPLATE + "/from/{start}"
_ADDRESS = re.compile(r"carrel://documents/([^/]{1,64})(?:/from/([0-9]{1,9}))?")


class Titled(Protocol):
    """A document as a search or a list has it."""

    @property
    def id(self) -> UUID: ...
    @property
    def source(self) -> str: ...
    @property
    def title(self) -> str | None: ...
    @property
    def source_uri(self) -> str | None: ...


def title(document: Titled) -> str:
    """What people know it by."""
    return document.title or document.source


def uri(document: UUID, *, start: int = 0) -> str:
    """Of its resource, or of the part of it that begins there."""
    whole = TEMPLATE.replace("{document}", encode_id("doc", document))
    return f"{whole}/from/{start}" if start else whole


def address(document: Titled) -> str:
    """To cite: where the document came from; the address of its resource where nobody has said so."""
    return document.source_uri or uri(document.id)


async def read_document(tenant: TenantServices, text: str) -> LibraryText:
    """By its id, from its beginning, as far as one answer goes. Raises DocumentNotFound, for no document's id too."""
    document = decode_id("doc", text)
    if document is None:
        raise DocumentNotFound
    return await tenant.library.read(document, start=0, most=MOST_CHARACTERS)


async def read_address(tenant: TenantServices, text: str) -> tuple[LibraryText, str | None]:
    """What the address names, and the address of what follows it. Raises DocumentNotFound."""
    match = _ADDRESS.fullmatch(text)
    document = None if match is None else decode_id("doc", match[1])
    if match is None or document is None:
        raise DocumentNotFound
    start = int(match[2] or 0)
    read = await tenant.library.read(document, start=start, most=MOST_CHARACTERS)
    return read, uri(document, start=start + MOST_CHARACTERS) if read.more else None
