"""Documents: list, read, change, delete, and the original."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal
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
from app.api.http.problems import PROBLEM_RESPONSE, create_problem_response
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
# Shown in a browser without a risk to the page's origin; anything else is a download.
INLINE_MEDIA_TYPES = frozenset({"application/pdf", "text/plain", "image/png", "image/jpeg", "image/gif", "image/webp"})


class DocumentUpdate(StrictRequestModel):
    """What can be changed without uploading again."""

    metadata: Metadata | None = None
    title: Title | None = None
    source_uri: WebAddress | None = None
    source_created_at: ProvidedTime | None = None
    scope: ScopePromotionRequest | None = None


class DocumentOut(BaseModel):
    """A document; ``status`` and ``error`` are the newest version's, ``live_version`` is what searches see.

    ``language`` is the one that its words are analysed in, null until it is ready.
    """

    id: str
    knowledge_base: str
    source: str
    title: str | None
    external_id: str | None
    source_uri: str | None
    source_created_at: Time | None
    media_type: str
    bytes: int
    sha256: str
    version: int
    live_version: int | None
    status: Literal["queued", "parsing", "chunking", "embedding", "ready", "failed"]
    progress: dict[str, Any] | None = Field(
        description="`done`, `total` and `unit` of the stage. A document that is `queued` for over three seconds has "
        "`waiting_for`: `worker`, `tenant_limit`, `rate_limit`, `embedding_endpoint`, `vision_endpoint`, "
        "`object_store` or `retry`."
    )
    error: dict[str, Any] | None
    warnings: list[WarningOut]
    chunk_count: int
    page_count: int | None
    language: str | None
    metadata: dict[str, Any]
    scope: ScopeOut
    dynamic: bool
    expires_at: Time | None
    created_at: Time
    updated_at: Time


class DocumentList(ListResponse[DocumentOut]):
    """A page of documents."""


def to_document_out(document: DocumentRow, knowledge_base: str) -> DocumentOut:
    """The wire form of a document."""
    fields = {
        name: getattr(document, name)
        for name in DocumentOut.model_fields
        if name not in ("id", "knowledge_base", "sha256", "warnings", "metadata", "scope")
    }
    return DocumentOut(
        **fields,
        id=encode_id("doc", document.id),
        knowledge_base=knowledge_base,
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
    """The id in a path. Raises DocumentNotFound for what is no document's id, as for one that is not there."""
    decoded = decode_id("doc", text)
    if decoded is None:
        raise DocumentNotFound
    return decoded


@router.get("", response_model=DocumentList)
async def list_documents(
    kb: str,
    page: CurrentPageParams,
    tenant: CurrentReader,
    status: Literal["queued", "parsing", "chunking", "embedding", "ready", "failed"] | None = None,
    external_id: Identifier | None = None,
    filter: Annotated[Text | None, Query(max_length=65536, description="A metadata filter as JSON")] = None,
    user_id: ScopeId | None = None,
    chat_id: ScopeId | None = None,
    agent_id: ScopeId | None = None,
    level: Annotated[Literal["shared"] | None, Query(description="What the operator shares under this name")] = None,
) -> dict[str, Any]:
    """Documents, newest first."""
    scope = DocumentScope(user_id, chat_id, agent_id, shared=level is not None)
    compiled = compile_filter(parse_filter(filter), loc=("query", "filter"))
    filters = DocumentRowFilters(
        status=status,
        external_id=external_id,
        scope_key=scope.to_key(loc=("query",)) if scope != DocumentScope() else None,
        contains=compiled.contains,
        path=compiled.path,
    )
    name, rows = await tenant.documents.list_documents(kb, filters, after=page.parse_cursor(), limit=page.limit + 1)
    items = rows[: page.limit]
    cursor = encode_cursor(items[-1].created_at, items[-1].id) if rows[page.limit :] else None
    return {"items": [to_document_out(document, name) for document in items], "next_cursor": cursor}


def parse_filter(text: str | None) -> Mapping[str, object] | None:
    """A filter in a query. Raises InvalidInputError."""
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidInputError("The filter must be a JSON object.", loc=("query", "filter"))
    return value


@router.get("/{document}", response_model=DocumentOut)
async def get_document(kb: str, document: str, tenant: CurrentReader) -> DocumentOut:
    """One document with its status."""
    row = await tenant.documents.get(kb, decode_document_id(document))
    return to_document_out(row, (await tenant.knowledge_bases.find(kb)).row.name)


@router.patch(
    "/{document}",
    response_model=DocumentOut,
    responses={
        409: {
            "description": "Another document with the same identity is in that scope already, or a title would need an "
            "embedding model that is not configured",
            **PROBLEM_RESPONSE,
        }
    },
)
async def update_document(kb: str, document: str, body: DocumentUpdate, tenant: CurrentWriter) -> DocumentOut:
    """Change metadata (as a whole), title or source; null takes one away. A scope can only widen.

    Filters, scopes and what results show have it at once. A title is also among the words that passages are found by:
    another one takes the document back to `queued`, and it is found by the old one's words until it is `ready` again.
    Without a title it then has the file's own, if there is one. That may fail, as any ingestion: the old words stay.
    """
    changes = body.model_dump(exclude_unset=True)
    if changes.get("metadata", ...) is None:
        raise InvalidInputError("metadata cannot be null; {} empties it.", loc=("body", "metadata"))
    if body.scope is not None:
        changes["scope"] = body.scope.to_scope()
    elif "scope" in changes:
        raise InvalidInputError("scope cannot be null; the tenant's level is the widest.", loc=("body", "scope"))
    row = await tenant.documents.update(kb, decode_document_id(document), changes)
    return to_document_out(row, (await tenant.knowledge_bases.find(kb)).row.name)


@router.post(
    "/{document}/reindex",
    status_code=202,
    response_model=DocumentOut,
    responses={409: {"description": "The knowledge base belongs to another embedding model", **PROBLEM_RESPONSE}},
)
async def reindex_document(kb: str, document: str, tenant: CurrentWriter) -> DocumentOut:
    """Ingest it again: brings back one that failed; searches see what is there until the new index of it is whole."""
    row = await tenant.documents.reindex(kb, decode_document_id(document))
    return to_document_out(row, (await tenant.knowledge_bases.find(kb)).row.name)


@router.get(
    "/{document}/content",
    response_class=StreamingResponse,
    responses={
        200: {"description": "All of it", "content": {"*/*": {}}},
        206: {"description": "The bytes of `Range`", "content": {"*/*": {}}},
        302: {"description": "A link for a few minutes"},
        416: {"description": "The range begins behind the end", **PROBLEM_RESPONSE},
    },
)
async def get_document_content(
    kb: str, document: str, request: Request, tenant: CurrentReader, resources: CurrentResources
) -> Response:
    """The original: a link where the object store makes links, else a stream with Range."""
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
    """Start and length of a single byte range (RFC 9110, section 14); None for the whole, length 0 behind the end."""
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
