"""Documents: list, read, update, reindex, and download of the original."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse, StreamingResponse
from pydantic import BaseModel, Field

from app.api.dependencies import (
    AuthenticatedRoute,
    CurrentPageParams,
    CurrentReader,
    CurrentResources,
    CurrentWriter,
    encode_cursor,
)
from app.api.http import example_values
from app.api.http.etags import CurrentPrecondition
from app.api.http.path_parameters import DocumentPath, KnowledgeBasePath
from app.api.http.problems import create_problem_response
from app.api.http.request_models import Text
from app.api.http.warning_schema import WarningOut, to_warnings_out
from app.api.v1.documents.scopes import ScopeOut, ScopePromotionRequest
from app.api.v1.schemas import Identifier, ListResponse, Metadata, ScopeId, StrictRequestModel, Time, Title, WebAddress
from app.db.models.tenant_data import DocumentRow
from app.documents.repository import DocumentRowFilters
from app.documents.scopes import DocumentScope
from app.documents.types import DocumentNotFound
from app.errors import InvalidInputError
from app.filters import compile_filter
from app.ids import decode_id, encode_id
from app.object_store.content_disposition import format_content_disposition
from app.times import ProvidedTime
from app.warnings import parse_stored_warnings

router = APIRouter(prefix="/knowledge-bases/{kb}/documents", tags=["documents"], route_class=AuthenticatedRoute)
MAX_RANGE_DIGITS = 18
_BINARY = {"type": "string", "format": "binary"}
# Media types that a browser may display without a risk to the origin. Others are downloads.
INLINE_MEDIA_TYPES = frozenset({"application/pdf", "text/plain", "image/png", "image/jpeg", "image/gif", "image/webp"})


class DocumentUpdate(StrictRequestModel):
    """Changes of a document that need no upload. Fields left out do not change."""

    metadata: Metadata | None = Field(
        None,
        description="Metadata of the document, replaced as a whole; `{}` removes it, null is not allowed.",
        examples=[{"department": "hr", "year": 2026}],
    )
    title: Title | None = Field(
        None,
        description="Title, 1 to 500 characters; null removes it, and the title in the file is used. A new title "
        "starts ingestion again.",
        examples=["Staff handbook 2026"],
    )
    source_uri: WebAddress | None = Field(
        None,
        description="Address of the source, http or https; null removes it.",
        examples=["https://intranet.example.com/handbook.pdf"],
    )
    source_created_at: ProvidedTime | None = Field(
        None,
        description="Time at which the source was created; null removes it. A time with an offset, between the "
        "years 2 and 9998 in UTC.",
        examples=["2026-01-15T00:00:00Z"],
    )
    scope: ScopePromotionRequest | None = Field(
        None,
        description="Wider scope to promote the document to; a scope cannot be narrowed.",
        examples=[{"level": "tenant"}],
    )


class DocumentOut(BaseModel):
    """Document with the state of its ingestion. ``status`` and ``error`` describe the newest version. ``live_version``
    is the version that searches use.
    """

    etag_fields: ClassVar = frozenset(DocumentUpdate.model_fields)

    id: str = Field(
        description="Id of the document. It stays the same when other bytes replace the contents.",
        examples=[example_values.DOCUMENT_ID],
    )
    knowledge_base: str = Field(
        description="Name of the knowledge base.", examples=[example_values.KNOWLEDGE_BASE_NAME]
    )
    source: str = Field(description="Name of the document, usually the file name.", examples=["handbook.pdf"])
    title: str = Field(
        description="Title that the uploader gave, else the title in the file, else the name of the document.",
        examples=["Staff handbook"],
    )
    external_id: str | None = Field(
        description="Id that the uploader gave; null without one.", examples=["handbook-2026"]
    )
    source_uri: str | None = Field(
        description="Address of the source that the uploader gave; null without one.",
        examples=["https://intranet.example.com/handbook.pdf"],
    )
    source_created_at: Time | None = Field(
        description="Time at which the source was created, in UTC; null if the uploader gave none.",
        examples=["2026-01-15T00:00:00.000Z"],
    )
    media_type: str = Field(description="Media type, detected from the contents.", examples=["application/pdf"])
    bytes: int = Field(description="Size of the original in bytes.", examples=[48211])
    sha256: str = Field(description="SHA-256 of the original, in hexadecimal digits.", examples=[example_values.SHA256])
    version: int = Field(
        description="Number of the newest version, from 1; other bytes make a new version.", examples=[1]
    )
    live_version: int | None = Field(
        description="Version that searches see; null before the first one is ready.", examples=[1]
    )
    status: Literal["queued", "parsing", "chunking", "embedding", "ready", "failed"] = Field(
        description="State of the newest version: `queued`, `parsing`, `chunking`, `embedding`, then `ready` or "
        "`failed`.",
        examples=["ready"],
    )
    progress: dict[str, Any] | None = Field(
        description="`done`, `total` and `unit` of the current stage; null if none is known. A document that is "
        "`queued` for over three seconds has `waiting_for`: `worker`, `tenant_limit`, `rate_limit`, "
        "`embedding_endpoint`, `vision_endpoint`, `object_store` or `retry`.",
        examples=[{"done": 40, "total": 40, "unit": "chunks"}],
    )
    error: dict[str, Any] | None = Field(
        description="Error of a failed version: `code`, `message`, `stage`, `retryable` and `hint`; null otherwise.",
        examples=[None],
    )
    warnings: list[WarningOut] = Field(
        description="Warnings of ingestion: parts of the file were left out or read in another way.", examples=[[]]
    )
    chunk_count: int = Field(description="Number of chunks of the live version.", examples=[40])
    page_count: int | None = Field(
        description="Number of pages or slides of the live version; null if the format has none.", examples=[12]
    )
    language: str | None = Field(
        description="Language of the lexical analysis; null until the document is ready.", examples=["english"]
    )
    metadata: dict[str, Any] = Field(
        description="Metadata of the document.", examples=[{"department": "hr", "year": 2026}]
    )
    scope: ScopeOut = Field(description="Scope of the document: who can find it.")
    dynamic: bool = Field(
        description="Whether the document is marked as dynamic: searches with `exclude_dynamic` leave it out.",
        examples=[False],
    )
    expires_at: Time | None = Field(
        description="Time at which the document is deleted, in UTC; null if it does not expire.", examples=[None]
    )
    created_at: Time = Field(description="Time of the first upload, in UTC.", examples=[example_values.CREATED_AT])
    updated_at: Time = Field(description="Time of the last change, in UTC.", examples=[example_values.UPDATED_AT])


class DocumentList(ListResponse[DocumentOut]):
    """Page of documents."""


def to_document_out(document: DocumentRow, knowledge_base: str) -> DocumentOut:
    """Convert a stored document to its schema.

    Args:
        document: Row of the document.
        knowledge_base: Name of its knowledge base.
    """
    fields = {
        name: getattr(document, name)
        for name in DocumentOut.model_fields
        if name not in ("id", "knowledge_base", "title", "sha256", "warnings", "metadata", "scope")
    }
    return DocumentOut(
        **fields,
        id=encode_id("doc", document.id),
        knowledge_base=knowledge_base,
        title=document.title or document.source,
        sha256=document.sha256.hex(),
        warnings=to_warnings_out(parse_stored_warnings(document.warnings)),
        metadata=document.attributes,
        scope=ScopeOut(
            level=document.scope_level,
            user_id=document.user_id,
            chat_id=document.chat_id,
            agent_id=document.agent_id,
        ),
    )


def decode_document_id(text: str) -> UUID:
    """Decode the id of a document in a path.

    Raises:
        DocumentNotFound: The text is no id of a document.
    """
    decoded = decode_id("doc", text)
    if decoded is None:
        raise DocumentNotFound
    return decoded


@router.get("", summary="List documents", response_model=DocumentList)
async def list_documents(
    kb: KnowledgeBasePath,
    page: CurrentPageParams,
    tenant: CurrentReader,
    status: Annotated[
        Literal["queued", "parsing", "chunking", "embedding", "ready", "failed"] | None,
        Query(description="Only documents with this status.", examples=["ready"]),
    ] = None,
    external_id: Annotated[
        Identifier | None, Query(description="Only the document with this `external_id`.", examples=["handbook-2026"])
    ] = None,
    filter: Annotated[
        Text | None,
        Query(
            max_length=65536,
            description="Metadata filter as JSON, at most 65,536 characters.",
            examples=['{"department": "hr"}'],
        ),
    ] = None,
    user_id: Annotated[
        ScopeId | None,
        Query(
            description="Only documents of this user. With `chat_id`, only those of this user's chat.",
            examples=[example_values.USER_ID],
        ),
    ] = None,
    chat_id: Annotated[
        ScopeId | None,
        Query(
            description="Only documents of this chat. Without `user_id`, the chat belongs to no user.",
            examples=[example_values.CHAT_ID],
        ),
    ] = None,
    agent_id: Annotated[
        ScopeId | None,
        Query(
            description="Only documents of this agent in the chat. Needs `chat_id`.", examples=[example_values.AGENT_ID]
        ),
    ] = None,
    level: Annotated[
        Literal["shared"] | None,
        Query(
            description="`shared`: documents that the operator shares with all tenants under this name.",
            examples=["shared"],
        ),
    ] = None,
) -> dict[str, Any]:
    """Return the documents of a knowledge base, newest first.

    Without scope parameters, the list has the documents of all levels that the key may read. `level=shared` returns the
    shared documents that the operator provides under the same name.
    """
    scope = DocumentScope(user_id, chat_id, agent_id, shared=level is not None)
    compiled = compile_filter(parse_filter(filter), loc=("query", "filter"))
    filters = DocumentRowFilters(
        status=status,
        external_id=external_id,
        scope_key=scope.to_key(loc=("query",)) if scope != DocumentScope() else None,
        contains=compiled.contains,
        path=compiled.path,
    )
    name, rows = await tenant.documents.list_documents(kb, filters, after=page.parse_cursor(), limit=page.row_limit)
    items = rows[: page.limit]
    cursor = encode_cursor(items[-1].created_at, items[-1].id) if rows[page.limit :] else None
    return page.build_reply([to_document_out(document, name) for document in items], cursor)


def parse_filter(text: str | None) -> Mapping[str, object] | None:
    """Parse a metadata filter of a query string.

    Args:
        text: Filter as JSON; None without one.

    Raises:
        InvalidInputError: The text is no JSON object.
    """
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidInputError("The filter must be a JSON object.", loc=("query", "filter"))
    return value


@router.patch("/{document}", summary="Update a document", response_model=DocumentOut)
async def update_document(
    kb: KnowledgeBasePath,
    document: DocumentPath,
    body: DocumentUpdate,
    tenant: CurrentWriter,
    precondition: CurrentPrecondition,
) -> DocumentOut:
    """Change metadata, title, source or scope of a document. A scope can only be widened.

    Filters, scopes and search results use the change at once. A new title is also searched: the document returns to
    `queued`, and searches find it by the former title until it is `ready` again. If that ingestion fails, the former
    title stays searchable.
    """
    changes = body.model_dump(exclude_unset=True)
    if changes.get("metadata", ...) is None:
        raise InvalidInputError("metadata cannot be null. Send {} to remove it.", loc=("body", "metadata"))
    if body.scope is not None:
        changes["scope"] = body.scope.to_scope()
    elif "scope" in changes:
        raise InvalidInputError("scope cannot be null. The widest scope is the level tenant.", loc=("body", "scope"))
    check = precondition.build_check(DocumentOut, partial(to_document_out, knowledge_base=kb))
    row = await tenant.documents.update(kb, decode_document_id(document), changes, check=check)
    return to_document_out(row, (await tenant.knowledge_bases.find(kb)).row.name)


@router.post(
    "/{document}/reindex",
    summary="Reindex a document",
    status_code=202,
    response_model=DocumentOut,
)
async def reindex_document(kb: KnowledgeBasePath, document: DocumentPath, tenant: CurrentWriter) -> DocumentOut:
    """Ingest the stored original again, for example after a failure. Searches see the live version until the new one is
    complete.
    """
    row = await tenant.documents.reindex(kb, decode_document_id(document))
    return to_document_out(row, (await tenant.knowledge_bases.find(kb)).row.name)


@router.get(
    "/{document}/content",
    summary="Download the original of a document",
    response_class=StreamingResponse,
    responses={
        200: {"description": "The file", "content": {"*/*": {"schema": _BINARY}}},
        206: {"description": "The requested range", "content": {"*/*": {"schema": _BINARY}}},
        302: {"description": "A link that is valid for a few minutes"},
    },
)
async def get_document_content(
    kb: KnowledgeBasePath, document: DocumentPath, request: Request, tenant: CurrentReader, resources: CurrentResources
) -> Response:
    """Return the original file.

    If the object store creates links, the response is a redirect to a link that is valid for a few minutes. Otherwise
    the response is the file, and the header `Range` requests a part of the file.
    """
    original = await tenant.documents.get_original(kb, decode_document_id(document), inline_types=INLINE_MEDIA_TYPES)
    if original.link is not None:
        return RedirectResponse(original.link, 302)
    row = original.document
    size = await resources.objects.get_size(original.key)
    etag = f'"{row.sha256.hex()}"'
    headers = {
        "ETag": etag,
        "Accept-Ranges": "bytes",
        "Content-Disposition": format_content_disposition(row.source, inline=row.media_type in INLINE_MEDIA_TYPES),
        "Content-Security-Policy": "sandbox",
    }
    range_header = request.headers.get("range", "") if request.headers.get("if-range", etag) == etag else ""
    span = parse_byte_range(range_header, size)
    start, length = span or (0, size)
    if length == 0:
        return create_problem_response(
            request, 416, "range", f"There are {size} bytes.", headers={"Content-Range": f"bytes */{size}"}
        )
    if span is not None:
        headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{size}"
    headers["Content-Length"] = str(length)
    stream = resources.objects.stream(original.key, start=start, length=length)
    return StreamingResponse(stream, 200 if span is None else 206, headers, media_type=row.media_type)


def parse_byte_range(header: str, size: int) -> tuple[int, int] | None:
    """Parse a single byte range (RFC 9110, section 14).

    Args:
        header: Value of the header `Range`.
        size: Size of the file in bytes.

    Returns:
        Start and length. None means the whole file. A length of 0 means a range behind the end of the file.
    """
    unit, _, spans = header.partition("=")
    first, dash, last = spans.strip().partition("-")
    is_valid = unit.strip().lower() == "bytes" and dash and (first + last).isdecimal()
    if not is_valid or len(first) > MAX_RANGE_DIGITS or len(last) > MAX_RANGE_DIGITS:
        return None
    if not first:
        length = min(int(last), size)
        return size - length, length
    start = int(first)
    if last and int(last) < start:
        return None
    end = min(int(last), size - 1) if last else size - 1
    return start, max(0, end - start + 1)
