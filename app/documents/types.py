"""The nouns of documents: an upload that was received, what a caller says about it, and the room's errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from app.db.models.tenant_data import DocumentRow
from app.documents.scopes import DocumentScope
from app.errors import (
    AppError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    TooLargeError,
    UnsupportedMediaTypeError,
)
from app.filters import EXPIRY, build_filter_metadata
from app.ids import derive_id, encode_id

# What a document of ready chunks is stored as: a JSON list of them. No file is ever taken for it.
CHUNKS_TYPE = "application/vnd.carrel.chunks+json"
MAX_PROVIDED_CHUNKS = 10_000


class DocumentNotFound(NotFoundError):
    """There is no such document."""

    code = "document_not_found"


class NodeNotFound(NotFoundError):
    """There is no such node."""

    code = "node_not_found"


class ChunkNotFound(NotFoundError):
    """There is no such chunk."""

    code = "chunk_not_found"


class DuplicateIdentity(ConflictError):
    """Another document with the same identity is in that scope already."""

    code = "duplicate_identity"


class EmptyUpload(InvalidInputError):
    """The file is empty."""

    code = "empty"


class EncryptedUpload(InvalidInputError):
    """The file is encrypted; upload a copy without a password."""

    code = "encrypted"


class UploadTooLarge(TooLargeError):
    """The upload is larger than the limit."""

    code = "too_large"


class UnsupportedFileType(UnsupportedMediaTypeError):
    """No parser reads this kind of file."""

    code = "unsupported_media_type"


class UploadConflict(ConflictError):
    """Another upload to the same document won; try again."""

    code = "upload_conflict"


@dataclass(frozen=True, slots=True)
class DocumentFields:
    """What a caller may say about a document; ``None`` leaves what is there."""

    metadata: dict[str, Any] | None = None
    title: str | None = None
    external_id: str | None = None
    source_uri: str | None = None
    source_created_at: datetime | None = None
    encoding: str | None = None
    dynamic: bool | None = None
    expires_at: datetime | None = None
    scope: DocumentScope = field(default_factory=DocumentScope)


@dataclass(frozen=True, slots=True)
class ProvidedChunk:
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
class UploadResult:
    """The document of an upload; ``created`` is False where the same bytes were there already."""

    document: DocumentRow
    knowledge_base_name: str
    created: bool


@dataclass(frozen=True, slots=True)
class BatchItemResult:
    """What became of one file of many: it was taken in, or why not."""

    filename: str
    result: UploadResult | None = None
    error: AppError | None = None


def build_object_key(tenant_id: UUID, document_id: UUID, upload_id: UUID) -> str:
    """Where an original is kept: below its document, and each upload's its own, so that racing ones never meet."""
    return f"{tenant_id}/{document_id}/{upload_id}"


def build_chunk_id(document_id: UUID, version: int, ordinal: int) -> UUID:
    """The same bytes indexed again give the same ids."""
    return derive_id("chunk", document_id, version, ordinal)


def build_node_id(document_id: UUID, version: int, path: tuple[int, ...]) -> UUID:
    """The same bytes indexed again give the same ids."""
    return derive_id("node", document_id, version, *path)


def build_document_filter_metadata(document: DocumentRow, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What filters see of a document, or of a chunk with ``metadata`` of its own: metadata and reserved names."""
    created = document.source_created_at
    reserved_values = {
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
    reserved = {name: value for name, value in reserved_values.items() if value is not None}
    return build_filter_metadata({**document.attributes, **(metadata or {})}, reserved=reserved)
