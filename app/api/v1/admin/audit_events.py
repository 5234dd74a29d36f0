"""The audit: page by page as JSON, or all of it as JSON Lines."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from app.api.dependencies import (
    AuthenticatedRoute,
    CurrentAdmin,
    CurrentOperator,
    CurrentPageParams,
    CurrentResources,
    PageParams,
    encode_cursor,
)
from app.api.http.request_models import Text
from app.api.v1.admin.tenants import decode_tenant_id
from app.api.v1.schemas import ListResponse, Time
from app.audit.service import AuditService
from app.audit.types import ActorKind, AuditAction, EventFilters, RecordedEvent
from app.errors import ForbiddenError, InvalidInputError
from app.ids import decode_id, encode_id
from app.tenants.types import TenantNotFound
from app.times import TIME_RANGE, ProvidedTime

router = APIRouter(tags=["audit"], route_class=AuthenticatedRoute)
JSON_LINES = "application/x-ndjson"
# The prefixes of the ids of what something is done to, by the word before the dot of the action.
OBJECT_ID_PREFIXES = {
    "tenant": "ten", "key": "key", "sign_in": "key", "knowledge_base": "kb", "document": "doc", "agent": "bnd",
    "webhook": "whk", "file": "file", "file_batch": "vsfb", "sql_view": "sqlv",
}  # fmt: skip


class AuditActorOut(BaseModel):
    """Who did it; ``id`` is a key's, ``name`` a key's name or a token's subject. ``service`` is Carrel itself."""

    kind: ActorKind
    id: str | None
    name: str | None


class AuditObjectOut(BaseModel):
    """What it was done to."""

    type: str
    ids: list[str]


class AuditEventOut(BaseModel):
    """An event; ``counts`` has numbers by name, such as how many documents were deleted."""

    id: str
    created_at: Time
    action: AuditAction
    actor: AuditActorOut
    object: AuditObjectOut
    knowledge_base: str | None
    deletion: str | None
    counts: dict[str, int]
    request_id: str | None
    address: str | None


class AuditEventList(ListResponse[AuditEventOut]):
    """A page of audit events."""


def _to_event_out(recorded: RecordedEvent) -> AuditEventOut:
    event, actor = recorded.event, recorded.actor
    kind = event.action.object_type
    key = actor.id if actor.kind is ActorKind.KEY else None
    return AuditEventOut(
        id=encode_id("evt", recorded.id),
        created_at=recorded.created_at,
        action=event.action,
        actor=AuditActorOut(kind=actor.kind, id=encode_id("key", key) if key else None, name=actor.name),
        object=AuditObjectOut(
            type=kind, ids=[encode_id(OBJECT_ID_PREFIXES[kind], object_id) for object_id in event.object_ids]
        ),
        knowledge_base=encode_id("kb", event.kb_id) if event.kb_id else None,
        deletion=encode_id("del", event.deletion_id) if event.deletion_id else None,
        counts=dict(event.counts),
        request_id=actor.origin.request_id,
        address=actor.origin.address,
    )


def _parse_filters(
    action: AuditAction | None = None,
    actor: Annotated[
        Text | None, Query(max_length=512, description="A key's id, an actor's name, or a kind of actor")
    ] = None,
    object_id: Annotated[
        Text | None,
        Query(max_length=64, description="The id of a key, document, knowledge base, binding, deletion or tenant"),
    ] = None,
    since: Annotated[
        ProvidedTime | None, Query(alias="from", description=f"At this time or later. {TIME_RANGE}")
    ] = None,
    until: Annotated[ProvidedTime | None, Query(alias="to", description=f"Before this time. {TIME_RANGE}")] = None,
) -> EventFilters:
    actor_filter = None if actor is None else decode_id("key", actor) or actor
    return EventFilters(action, actor_filter, None if object_id is None else _decode_object_id(object_id), since, until)


def _decode_object_id(text: str) -> UUID:
    for prefix in ("doc", "kb", "key", "del", "ten", "bnd"):
        if (object_id := decode_id(prefix, text)) is not None:
            return object_id
    raise InvalidInputError("That is the id of nothing that events are about.", loc=("query", "object_id"))


def _is_json_lines_requested(
    format: Annotated[Literal["json", "jsonl"] | None, Query(description="All as JSON Lines, or a page")] = None,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
) -> bool:
    return format == "jsonl" or (format is None and JSON_LINES in accept)


CurrentEventFilters = Annotated[EventFilters, Depends(_parse_filters)]
AsJsonLines = Annotated[bool, Depends(_is_json_lines_requested)]
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "A page, or with `format=jsonl` all: an event a line", "content": {JSON_LINES: {}}}
}


@router.get("/audit-events", response_model=AuditEventList, responses=_RESPONSES)
async def list_audit_events(
    filters: CurrentEventFilters, page: CurrentPageParams, as_json_lines: AsJsonLines, tenant: CurrentAdmin
) -> Response:
    """Who did what, when, and from where, newest first; the operator's list has what was done to tenants too."""
    if tenant.principal.knowledge_base_ids is not None or tenant.principal.user_id is not None:
        raise ForbiddenError("A narrowed key cannot read the audit.")
    return await _respond(tenant.audit, filters, page, as_json_lines)


@router.get("/tenants/{tenant}/audit-events", response_model=AuditEventList, responses=_RESPONSES)
async def list_tenant_audit_events(
    tenant: str,
    filters: CurrentEventFilters,
    page: CurrentPageParams,
    as_json_lines: AsJsonLines,
    resources: CurrentResources,
    _: CurrentOperator,
) -> Response:
    """The same of one tenant, as long as events are kept: also when the tenant is gone."""
    audit = resources.create_audit_service(decode_tenant_id(tenant))
    if not await audit.has_events():
        raise TenantNotFound
    return await _respond(audit, filters, page, as_json_lines)


async def _respond(audit: AuditService, filters: EventFilters, page: PageParams, as_json_lines: bool) -> Response:
    if as_json_lines:
        stream = _stream_lines(audit.stream_pages(filters, after=page.parse_cursor()))
        return StreamingResponse(stream, media_type=JSON_LINES, headers={"X-Accel-Buffering": "no"})
    events = await audit.list_events(filters, after=page.parse_cursor(), limit=page.limit + 1)
    items = events[: page.limit]
    cursor = encode_cursor(items[-1].created_at, items[-1].id) if events[page.limit :] else None
    return Response(await asyncio.to_thread(_format_page, items, cursor), media_type="application/json")


# Both are written out in a thread: a deletion by filter names 500 documents an event, so a page may have 100,000 ids.
async def _stream_lines(pages: AsyncIterator[Sequence[RecordedEvent]]) -> AsyncIterator[str]:
    async for page in pages:
        yield await asyncio.to_thread(_format_lines, page)


def _format_page(events: Sequence[RecordedEvent], cursor: str | None) -> str:
    return AuditEventList(items=[_to_event_out(recorded) for recorded in events], next_cursor=cursor).model_dump_json()


def _format_lines(events: Sequence[RecordedEvent]) -> str:
    return "".join(f"{_to_event_out(recorded).model_dump_json()}\n" for recorded in events)
