"""Types of documents: received files, fields that a caller provides, results of uploads, and errors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from app.db.models.tenant_data import DocumentRow
from app.documents.provided_graph import NO_PROVIDED_GRAPH, ProvidedGraph
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

# The media type under which provided chunks are stored, as a JSON list. No uploaded file is detected as this type.
CHUNKS_TYPE = "application/vnd.carrel.chunks+json"
PARSE_RESULT_SUFFIX = ".parsed"
"""End of the object key of a parse result, after the key of its original."""

MAX_PROVIDED_CHUNKS = 10_000


class DocumentNotFound(NotFoundError):
    """The document does not exist, or this API key may not read it. Check the document id and the knowledge base."""

    code = "document_not_found"


class NodeNotFound(NotFoundError):
    """The document has no node with this id. List the document's nodes to get valid ids."""

    code = "node_not_found"


class ChunkNotFound(NotFoundError):
    """The document has no chunk with this id. List the document's chunks to get valid ids."""

    code = "chunk_not_found"


class ChunksNotProvided(ConflictError):
    """The service made the chunks of this document. Only chunks that were uploaded can be changed one by one."""

    code = "chunks_not_provided"


class LastChunk(ConflictError):
    """This is the only chunk of its document. Delete the document instead."""

    code = "last_chunk"


class DocumentInProgress(ConflictError):
    """The document is being ingested. Wait until it is ready or has failed, then try again."""

    code = "document_in_progress"


class DuplicateIdentity(ConflictError):
    """Another document in this scope has the same external_id or bytes. Delete it or choose another scope."""

    code = "duplicate_identity"


class EmptyUpload(InvalidInputError):
    """The file is empty. Upload a file with contents."""

    code = "empty"


class EncryptedUpload(InvalidInputError):
    """The file is encrypted. Upload a copy without a password."""

    code = "encrypted"


class UploadTooLarge(TooLargeError):
    """The upload is larger than the limit. Split the file, or ask an administrator to raise the limit."""

    code = "too_large"


class UnsupportedFileType(UnsupportedMediaTypeError):
    """No parser reads files of this type. Convert the file to a supported format."""

    code = "unsupported_media_type"


class UploadConflict(ConflictError):
    """Another upload to the same document was faster. Try again."""

    code = "upload_conflict"


@dataclass(frozen=True, slots=True)
class DocumentFields:
    """Fields of a document that a caller provides. None leaves the stored value unchanged."""

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
    """A chunk that the caller provides instead of a file.

    ``page`` counts from 1. ``vector`` is an embedding by the knowledge base's model; without it, ingestion computes
    one. ``graph`` has entities and relations of the chunk.
    """

    text: str
    metadata: dict[str, Any] = field(default_factory=dict)
    section_titles: tuple[str, ...] = ()
    page: int | None = None
    vector: Sequence[float] | None = None
    graph: ProvidedGraph = NO_PROVIDED_GRAPH


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """An uploaded file on the local disk, with its size and hash."""

    path: Path
    filename: str
    declared_type: str | None
    size: int
    sha256: bytes


@dataclass(frozen=True, slots=True)
class ReceivedForm:
    """A received form: at least one file, and the other fields."""

    files: Sequence[ReceivedFile]
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UploadResult:
    """The document of an upload; ``created`` is False if the same bytes were stored already.

    ``provided_chunks`` is the number of uploaded chunks, or None for an upload of a file or a text.
    """

    document: DocumentRow
    knowledge_base_name: str
    created: bool
    provided_chunks: int | None = None


@dataclass(frozen=True, slots=True)
class BatchItemResult:
    """Result of one file of an upload of many files: the upload's result, or the error."""

    filename: str
    result: UploadResult | None = None
    error: AppError | None = None


def build_object_key(tenant_id: UUID, document_id: UUID, upload_id: UUID) -> str:
    """Return the object key of an original. Each upload has a separate key, so parallel uploads do not collide."""
    return f"{tenant_id}/{document_id}/{upload_id}"


def build_parse_result_key(object_key: str) -> str:
    """Return the object key of the parse result of an original. It is deleted together with the original."""
    return f"{object_key}{PARSE_RESULT_SUFFIX}"


def build_chunk_id(document_id: UUID, version: int, ordinal: int) -> UUID:
    """Return the id of a chunk. Ingesting the same version again yields the same ids."""
    return derive_id("chunk", document_id, version, ordinal)


def build_chunk_ids(document: DocumentRow, ordinals: Iterable[int]) -> list[UUID]:
    """Return the ids of the chunks with these indexes, in the newest version of a document."""
    return [build_chunk_id(document.id, document.version, ordinal) for ordinal in ordinals]


def build_node_id(document_id: UUID, version: int, path: tuple[int, ...]) -> UUID:
    """Return the id of a node. Ingesting the same version again yields the same ids."""
    return derive_id("node", document_id, version, *path)


def build_document_filter_metadata(document: DocumentRow, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the metadata that filters compare: the document's metadata and the reserved ``$`` names.

    Args:
        document: The document.
        metadata: The metadata of one chunk. Its values take precedence over the document's.

    Returns:
        The metadata, with reserved names for values that are set.
    """
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
