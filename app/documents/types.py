"""The nouns of documents: an upload that was received, what a caller says about it, and the room's errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from app.db.models.tenant_data import Document
from app.documents.scopes import Scope
from app.errors import AppError, Conflict, InvalidInput, NotFound, TooLarge, Unsupported
from app.filters import EXPIRY, filterable_metadata
from app.ids import derived_id, encode_id

# What a document of ready chunks is stored as: a JSON list of them. No file is ever taken for it.
CHUNKS_TYPE = "application/vnd.carrel.chunks+json"
MOST_CHUNKS = 10_000


class DocumentNotFound(NotFound):
    """There is no such document."""

    code = "document_not_found"


class NodeNotFound(NotFound):
    """There is no such node."""

    code = "node_not_found"


class ChunkNotFound(NotFound):
    """There is no such chunk."""

    code = "chunk_not_found"


class IdentityTaken(Conflict):
    """Another document with the same identity is in that scope already."""

    code = "identity_taken"


class EmptyUpload(InvalidInput):
    """The file is empty."""

    code = "empty"


class EncryptedUpload(InvalidInput):
    """The file is encrypted; upload a copy without a password."""

    code = "encrypted"


class UploadTooLarge(TooLarge):
    """The upload is larger than the limit."""

    code = "too_large"


class UnsupportedMediaType(Unsupported):
    """No parser reads this kind of file."""

    code = "unsupported_media_type"


class UploadConflict(Conflict):
    """Another upload to the same document won; try again."""

    code = "upload_conflict"


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """What a caller may say about a document; ``None`` leaves what is there."""

    metadata: dict[str, Any] | None = None
    title: str | None = None
    external_id: str | None = None
    source_uri: str | None = None
    source_created_at: datetime | None = None
    encoding: str | None = None
    dynamic: bool | None = None
    expires_at: datetime | None = None
    scope: Scope = field(default_factory=Scope)


@dataclass(frozen=True, slots=True)
class GivenChunk:
    """A chunk that its owner cut; ``page`` counts from 1, ``vector`` is of the knowledge base's model."""

    text: str
    metadata: dict[str, Any] = field(default_factory=dict)
    section_titles: tuple[str, ...] = ()
    page: int | None = None
    vector: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """One uploaded file on the local disk: counted and hashed while it came in."""

    path: Path
    filename: str
    declared_type: str | None
    size: int
    sha256: bytes


@dataclass(frozen=True, slots=True)
class ReceivedForm:
    """The files of one form, at least one, and its other fields."""

    files: Sequence[ReceivedFile]
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The document of an upload; ``created`` is False where the same bytes were there already."""

    document: Document
    knowledge_base_name: str
    created: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one file of many: it was taken in, or why not."""

    filename: str
    uploaded: Uploaded | None = None
    error: AppError | None = None


def object_key(tenant_id: UUID, document_id: UUID, upload_id: UUID) -> str:
    """Where an original is kept: below its document, and each upload's its own, so that racing ones never meet."""
    return f"{tenant_id}/{document_id}/{upload_id}"


def chunk_id(document_id: UUID, version: int, ordinal: int) -> UUID:
    """The same bytes indexed again give the same ids."""
    return derived_id("chunk", document_id, version, ordinal)


def node_id(document_id: UUID, version: int, path: tuple[int, ...]) -> UUID:
    """The same bytes indexed again give the same ids."""
    return derived_id("node", document_id, version, *path)


def filterable(document: Document, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What filters see of a document, or of a chunk with ``metadata`` of its own: metadata and reserved names."""
    created = document.source_created_at
    found = {
        "$document_id": encode_id("doc", document.id),
        "$source": document.source,
        "$source_uri": document.source_uri,
        "$source_created_at": created.isoformat() if created else None,
        "$media_type": document.media_type,
        "$title": document.title,
        "$created_at": document.created_at.isoformat(),
        "$dynamic": True if document.dynamic else None,
        EXPIRY: document.expires_at.isoformat() if document.expires_at else None,
    }
    reserved = {name: value for name, value in found.items() if value is not None}
    return filterable_metadata({**document.attributes, **(metadata or {})}, reserved=reserved)
