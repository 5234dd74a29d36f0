"""Audit events: by page as JSON, or all as JSON Lines."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from app.api.dependencies import (
    AuthenticatedRoute,
    CurrentAdmin,
    CurrentOperator,
    CurrentPageParams,
    CurrentResources,
    PageParams,
    encode_cursor,
)
from app.api.http import example_values
from app.api.http.path_parameters import TenantPath
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
# Prefixes of the ids of objects, by the kind of object. The kind is the word before the dot in the name of the action.
OBJECT_ID_PREFIXES = {
    "tenant": "ten", "key": "key", "sign_in": "key", "knowledge_base": "kb", "document": "doc", "agent": "bnd",
    "webhook": "whk", "file": "file", "file_batch": "vsfb", "sql_view": "sqlv",
    "golden_set": "gold", "evaluation": "eval", "job": "job",
}  # fmt: skip


class AuditActorOut(BaseModel):
    """Actor of an audit event."""

    kind: ActorKind = Field(
        description="Kind of actor: `key`, `token`, `operator`, `service` (Carrel itself) or `unknown`.",
        examples=["key"],
    )
    id: str | None = Field(
        description="Id of the API key; null for other actors.", examples=[example_values.API_KEY_ID]
    )
    name: str | None = Field(
        description="Name of the API key, or subject of the token; null if it is not known.", examples=["backend"]
    )


class AuditObjectOut(BaseModel):
    """Objects of an audit event."""

    type: str = Field(description="Kind of the objects.", examples=["document"])
    ids: list[str] = Field(description="Ids of the objects.", examples=[[example_values.DOCUMENT_ID]])


class AuditEventOut(BaseModel):
    """Audit event."""

    id: str = Field(description="Id of the event.", examples=[example_values.EVENT_ID])
    created_at: Time = Field(description="Time of the event, in UTC.", examples=[example_values.CREATED_AT])
    action: AuditAction = Field(
        description="Action: the kind of object, a dot and a verb.", examples=["document.delete"]
    )
    actor: AuditActorOut = Field(description="Actor.")
    object: AuditObjectOut = Field(description="Objects that the action changed.")
    knowledge_base: str | None = Field(
        description="Id of the knowledge base of the objects; null without one.",
        examples=[example_values.KNOWLEDGE_BASE_ID],
    )
    deletion: str | None = Field(
        description="Id of the deletion, for its receipt; null for other actions.",
        examples=[example_values.DELETION_ID],
    )
    counts: dict[str, int] = Field(
        description="Numbers by name, for example how many documents were deleted.", examples=[{"documents": 1}]
    )
    request_id: str | None = Field(
        description="Id of the request; null for actions of the service.", examples=[example_values.REQUEST_ID]
    )
    address: str | None = Field(description="Address of the client; null if it is not known.", examples=["203.0.113.7"])


class AuditEventList(ListResponse[AuditEventOut]):
    """Page of audit events."""


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
    action: Annotated[
        AuditAction | None, Query(description="Only events with this action.", examples=["document.delete"])
    ] = None,
    actor: Annotated[
        Text | None,
        Query(
            max_length=512,
            description="Only events of this actor: id of a key, name of an actor, or kind of an actor.",
            examples=["key"],
        ),
    ] = None,
    object_id: Annotated[
        Text | None,
        Query(
            max_length=64,
            description="Only events of this object: id of a key, document, knowledge base, binding, deletion or "
            "tenant.",
            examples=[example_values.DOCUMENT_ID],
        ),
    ] = None,
    since: Annotated[
        ProvidedTime | None,
        Query(
            alias="from",
            description=f"Only events at this time or later. {TIME_RANGE}.",
            examples=["2026-03-01T00:00:00Z"],
        ),
    ] = None,
    until: Annotated[
        ProvidedTime | None,
        Query(
            alias="to", description=f"Only events before this time. {TIME_RANGE}.", examples=["2026-04-01T00:00:00Z"]
        ),
    ] = None,
) -> EventFilters:
    actor_filter = None if actor is None else decode_id("key", actor) or actor
    return EventFilters(action, actor_filter, None if object_id is None else _decode_object_id(object_id), since, until)


def _decode_object_id(text: str) -> UUID:
    for prefix in ("doc", "kb", "key", "del", "ten", "bnd"):
        if (object_id := decode_id(prefix, text)) is not None:
            return object_id
    raise InvalidInputError(
        "No audit event has such an id. Use that of a key, document, knowledge base, binding, deletion or tenant.",
        loc=("query", "object_id"),
    )


def _is_json_lines_requested(
    format: Annotated[
        Literal["json", "jsonl"] | None,
        Query(description="`jsonl` returns all events as JSON Lines, `json` a page.", examples=["json"]),
    ] = None,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
) -> bool:
    return format == "jsonl" or (format is None and JSON_LINES in accept)


CurrentEventFilters = Annotated[EventFilters, Depends(_parse_filters)]
AsJsonLines = Annotated[bool, Depends(_is_json_lines_requested)]
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A page; with `format=jsonl`, all events as JSON Lines",
        "content": {
            JSON_LINES: {
                "schema": {"type": "string"},
                "example": f'{{"id":"{example_values.EVENT_ID}","action":"document.delete"}}\n',
            }
        },
    }
}


@router.get("/audit-events", summary="List audit events", response_model=AuditEventList, responses=_RESPONSES)
async def list_audit_events(
    filters: CurrentEventFilters, page: CurrentPageParams, as_json_lines: AsJsonLines, tenant: CurrentAdmin
) -> Response:
    """Return the audit events of the tenant, newest first: who did what, when, and from which address.

    The operator's list includes the actions on tenants. With `format=jsonl`, all events come as JSON Lines. A
    restricted key cannot read audit events.
    """
    if tenant.principal.knowledge_base_ids is not None or tenant.principal.user_id is not None:
        raise ForbiddenError("A restricted key cannot read audit events. Use an unrestricted key.")
    return await _respond(tenant.audit, filters, page, as_json_lines)


@router.get(
    "/tenants/{tenant}/audit-events",
    summary="List the audit events of a tenant",
    response_model=AuditEventList,
    responses=_RESPONSES,
)
async def list_tenant_audit_events(
    tenant: TenantPath,
    filters: CurrentEventFilters,
    page: CurrentPageParams,
    as_json_lines: AsJsonLines,
    resources: CurrentResources,
    _: CurrentOperator,
) -> Response:
    """Return the audit events of a tenant, newest first. They remain after the deletion of the tenant, until their
    retention time ends.
    """
    audit = resources.create_audit_service(decode_tenant_id(tenant))
    if not await audit.has_events():
        raise TenantNotFound
    return await _respond(audit, filters, page, as_json_lines)


async def _respond(audit: AuditService, filters: EventFilters, page: PageParams, as_json_lines: bool) -> Response:
    if as_json_lines:
        stream = _stream_lines(audit.stream_pages(filters, after=page.parse_cursor()))
        return StreamingResponse(stream, media_type=JSON_LINES, headers={"X-Accel-Buffering": "no"})
    events = await audit.list_events(filters, after=page.parse_cursor(), limit=page.row_limit)
    items = events[: page.limit]
    cursor = encode_cursor(items[-1].created_at, items[-1].id) if events[page.limit :] else None
    return Response(
        await asyncio.to_thread(_format_page, items, cursor, page.build_count_fields()), media_type="application/json"
    )


# A thread encodes pages and lines. A deletion by filter names 500 documents per event, so a page may have 100,000 ids.
async def _stream_lines(pages: AsyncIterator[Sequence[RecordedEvent]]) -> AsyncIterator[str]:
    async for page in pages:
        yield await asyncio.to_thread(_format_lines, page)


def _format_page(events: Sequence[RecordedEvent], cursor: str | None, count_fields: Mapping[str, Any]) -> str:
    items = [_to_event_out(recorded) for recorded in events]
    return AuditEventList(items=items, next_cursor=cursor, **count_fields).model_dump_json()


def _format_lines(events: Sequence[RecordedEvent]) -> str:
    return "".join(f"{_to_event_out(recorded).model_dump_json()}\n" for recorded in events)
