"""Documents: list, read, change, delete, and the original."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse, StreamingResponse
from pydantic import BaseModel, Field

from app.api.bodies import Text
from app.api.dependencies import CurrentPage, CurrentReader, CurrentResources, CurrentWriter, GuardedRoute, next_cursor
from app.api.problems import PROBLEM, problem
from app.api.v1.schemas import Identifier, Input, Listing, Metadata, ScopeId, Time, Title, WebAddress
from app.api.v1.scopes import Promotion, ScopeOut
from app.db.models.tenant_data import Document
from app.documents.repository import DocumentFilters
from app.documents.scopes import Scope
from app.documents.types import DocumentNotFound
from app.errors import InvalidInput
from app.filters import compile_filter
from app.ids import decode_id, encode_id
from app.object_store.disposition import content_disposition
from app.times import GivenTime

router = APIRouter(prefix="/knowledge-bases/{kb}/documents", tags=["documents"], route_class=GuardedRoute)
MAX_DIGITS = 18
# Shown in a browser without a risk to the page's origin; anything else is a download.
INLINE = frozenset({"application/pdf", "text/plain", "image/png", "image/jpeg", "image/gif", "image/webp"})


class DocumentChanges(Input):
    """What can be changed without uploading again."""

    metadata: Metadata | None = None
    title: Title | None = None
    source_uri: WebAddress | None = None
    source_created_at: GivenTime | None = None
    scope: Promotion | None = None


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
    warnings: list[str]
    chunk_count: int
    page_count: int | None
    language: str | None
    metadata: dict[str, Any]
    scope: ScopeOut
    dynamic: bool
    expires_at: Time | None
    created_at: Time
    updated_at: Time


def document_out(document: Document, knowledge_base: str) -> DocumentOut:
    """The wire form of a document."""
    plain = {
        name: getattr(document, name)
        for name in DocumentOut.model_fields
        if name not in ("id", "knowledge_base", "sha256", "metadata", "scope")
    }
    return DocumentOut(
        **plain,
        id=encode_id("doc", document.id),
        knowledge_base=knowledge_base,
        sha256=document.sha256.hex(),
        metadata=document.attributes,
        scope=ScopeOut(
            level=document.scope_level,
            user_id=document.user_id,
            chat_id=document.chat_id,
            agent_id=document.agent_id,
        ),
    )


def document_id(text: str) -> UUID:
    """The id in a path. Raises DocumentNotFound for what is no document's id, as for one that is not there."""
    found = decode_id("doc", text)
    if found is None:
        raise DocumentNotFound
    return found


@router.get("", response_model=Listing[DocumentOut])
async def list_documents(
    kb: str,
    page: CurrentPage,
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
    scope = Scope(user_id, chat_id, agent_id, shared=level is not None)
    compiled = compile_filter(parse_filter(filter), loc=("query", "filter"))
    filters = DocumentFilters(
        status=status,
        external_id=external_id,
        scope_key=scope.key(loc=("query",)) if scope != Scope() else None,
        contains=compiled.contains,
        path=compiled.path,
    )
    name, found = await tenant.documents.page(kb, filters, after=page.after(), limit=page.limit + 1)
    items = found[: page.limit]
    cursor = next_cursor(items[-1].created_at, items[-1].id) if found[page.limit :] else None
    return {"items": [document_out(document, name) for document in items], "next_cursor": cursor}


def parse_filter(text: str | None) -> Mapping[str, object] | None:
    """A filter in a query. Raises InvalidInput."""
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidInput("The filter must be a JSON object.", loc=("query", "filter"))
    return found


@router.get("/{document}", response_model=DocumentOut)
async def get_document(kb: str, document: str, tenant: CurrentReader) -> DocumentOut:
    """One document with its status."""
    found = await tenant.documents.get(kb, document_id(document))
    return document_out(found, (await tenant.knowledge_bases.find(kb)).row.name)


@router.patch(
    "/{document}",
    response_model=DocumentOut,
    responses={
        409: {
            "description": "Another document with the same identity is in that scope already, or a title would need an "
            "embedding model that is not configured",
            **PROBLEM,
        }
    },
)
async def update_document(kb: str, document: str, body: DocumentChanges, tenant: CurrentWriter) -> DocumentOut:
    """Change metadata (as a whole), title or source; null takes one away. A scope can only widen.

    Filters, scopes and what results show have it at once. A title is also among the words that passages are found by:
    another one takes the document back to `queued`, and it is found by the old one's words until it is `ready` again.
    Without a title it then has the file's own, if there is one. That may fail, as any ingestion: the old words stay.
    """
    changes = body.model_dump(exclude_unset=True)
    if changes.get("metadata", ...) is None:
        raise InvalidInput("metadata cannot be null; {} empties it.", loc=("body", "metadata"))
    if body.scope is not None:
        changes["scope"] = body.scope.scope()
    elif "scope" in changes:
        raise InvalidInput("scope cannot be null; the tenant's level is the widest.", loc=("body", "scope"))
    found = await tenant.documents.update(kb, document_id(document), changes)
    return document_out(found, (await tenant.knowledge_bases.find(kb)).row.name)


@router.post(
    "/{document}/reindex",
    status_code=202,
    response_model=DocumentOut,
    responses={409: {"description": "The knowledge base belongs to another embedding model", **PROBLEM}},
)
async def reindex_document(kb: str, document: str, tenant: CurrentWriter) -> DocumentOut:
    """Ingest it again: brings back one that failed; searches see what is there until the new index of it is whole."""
    found = await tenant.documents.reindex(kb, document_id(document))
    return document_out(found, (await tenant.knowledge_bases.find(kb)).row.name)


@router.get(
    "/{document}/content",
    response_class=StreamingResponse,
    responses={
        200: {"description": "All of it", "content": {"*/*": {}}},
        206: {"description": "The bytes of `Range`", "content": {"*/*": {}}},
        302: {"description": "A link for a few minutes"},
        416: {"description": "The range begins behind the end", **PROBLEM},
    },
)
async def get_content(
    kb: str, document: str, request: Request, tenant: CurrentReader, resources: CurrentResources
) -> Response:
    """The original: a link where the object store makes links, else a stream with Range."""
    original = await tenant.documents.original(kb, document_id(document), inline=INLINE)
    if original.link is not None:
        return RedirectResponse(original.link, 302)
    row = original.document
    size = await resources.objects.size(original.key)
    etag = f'"{row.sha256.hex()}"'
    headers = {
        "ETag": etag,
        "Accept-Ranges": "bytes",
        "Content-Disposition": content_disposition(row.source, inline=row.media_type in INLINE),
        "Content-Security-Policy": "sandbox",
    }
    asked = request.headers.get("range", "") if request.headers.get("if-range", etag) == etag else ""
    span = byte_range(asked, size)
    start, length = span or (0, size)
    if length == 0:
        return problem(request, 416, "range", f"There are {size} bytes.", headers={"Content-Range": f"bytes */{size}"})
    if span is not None:
        headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{size}"
    headers["Content-Length"] = str(length)
    stream = resources.objects.stream(original.key, start=start, length=length)
    return StreamingResponse(stream, 200 if span is None else 206, headers, media_type=row.media_type)


def byte_range(header: str, size: int) -> tuple[int, int] | None:
    """Start and length of a single byte range (RFC 9110, section 14); None for the whole, length 0 behind the end."""
    unit, _, spans = header.partition("=")
    first, dash, last = spans.strip().partition("-")
    known = unit.strip().lower() == "bytes" and dash and (first + last).isdecimal()
    if not known or len(first) > MAX_DIGITS or len(last) > MAX_DIGITS:
        return None
    if not first:
        length = min(int(last), size)
        return size - length, length
    start = int(first)
    if last and int(last) < start:
        return None
    end = min(int(last), size - 1) if last else size - 1
    return start, max(0, end - start + 1)
