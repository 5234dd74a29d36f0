"""The audit: page by page as JSON, or all of it as JSON Lines."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from app.api.bodies import Text
from app.api.dependencies import (
    CurrentAdmin,
    CurrentOperator,
    CurrentPage,
    CurrentResources,
    GuardedRoute,
    Page,
    next_cursor,
)
from app.api.v1.schemas import Listing, Time
from app.api.v1.tenants import tenant_id
from app.audit.service import AuditService
from app.audit.types import Action, ActorKind, EventFilters, RecordedEvent
from app.errors import Forbidden, InvalidInput
from app.ids import decode_id, encode_id
from app.tenants.types import TenantNotFound
from app.times import TIME_RANGE, GivenTime

router = APIRouter(tags=["audit"], route_class=GuardedRoute)
JSON_LINES = "application/x-ndjson"
# The prefixes of the ids of what something is done to, by the word before the dot of the action.
PREFIXES = {
    "tenant": "ten", "key": "key", "sign_in": "key", "knowledge_base": "kb", "document": "doc", "agent": "bnd",
    "webhook": "whk", "file": "file", "file_batch": "vsfb", "publication": "pub",
}  # fmt: skip


class ActorOut(BaseModel):
    """Who did it; ``id`` is a key's, ``name`` a key's name or a token's subject. ``service`` is Carrel itself."""

    kind: ActorKind
    id: str | None
    name: str | None


class ObjectOut(BaseModel):
    """What it was done to."""

    type: str
    ids: list[str]


class AuditEventOut(BaseModel):
    """An event; ``counts`` has numbers by name, such as how many documents were deleted."""

    id: str
    created_at: Time
    action: Action
    actor: ActorOut
    object: ObjectOut
    knowledge_base: str | None
    deletion: str | None
    counts: dict[str, int]
    request_id: str | None
    address: str | None


def _event_out(recorded: RecordedEvent) -> AuditEventOut:
    event, actor = recorded.event, recorded.actor
    kind = event.action.object_type
    key = actor.id if actor.kind is ActorKind.KEY else None
    return AuditEventOut(
        id=encode_id("evt", recorded.id),
        created_at=recorded.created_at,
        action=event.action,
        actor=ActorOut(kind=actor.kind, id=encode_id("key", key) if key else None, name=actor.name),
        object=ObjectOut(type=kind, ids=[encode_id(PREFIXES[kind], one) for one in event.object_ids]),
        knowledge_base=encode_id("kb", event.kb_id) if event.kb_id else None,
        deletion=encode_id("del", event.deletion_id) if event.deletion_id else None,
        counts=dict(event.counts),
        request_id=actor.origin.request_id,
        address=actor.origin.address,
    )


def _filters(
    action: Action | None = None,
    actor: Annotated[
        Text | None, Query(max_length=512, description="A key's id, an actor's name, or a kind of actor")
    ] = None,
    object_id: Annotated[
        Text | None,
        Query(max_length=64, description="The id of a key, document, knowledge base, binding, deletion or tenant"),
    ] = None,
    since: Annotated[GivenTime | None, Query(alias="from", description=f"At this time or later. {TIME_RANGE}")] = None,
    until: Annotated[GivenTime | None, Query(alias="to", description=f"Before this time. {TIME_RANGE}")] = None,
) -> EventFilters:
    who = None if actor is None else decode_id("key", actor) or actor
    return EventFilters(action, who, None if object_id is None else _object_id(object_id), since, until)


def _object_id(text: str) -> UUID:
    for prefix in ("doc", "kb", "key", "del", "ten", "bnd"):
        if (found := decode_id(prefix, text)) is not None:
            return found
    raise InvalidInput("That is the id of nothing that events are about.", loc=("query", "object_id"))


def _as_lines(
    format: Annotated[Literal["json", "jsonl"] | None, Query(description="All as JSON Lines, or a page")] = None,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
) -> bool:
    return format == "jsonl" or (format is None and JSON_LINES in accept)


CurrentFilters = Annotated[EventFilters, Depends(_filters)]
AsLines = Annotated[bool, Depends(_as_lines)]
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "A page, or with `format=jsonl` all: an event a line", "content": {JSON_LINES: {}}}
}


@router.get("/audit-events", response_model=Listing[AuditEventOut], responses=_RESPONSES)
async def list_audit_events(
    filters: CurrentFilters, page: CurrentPage, lines: AsLines, tenant: CurrentAdmin
) -> Response:
    """Who did what, when, and from where, newest first; the operator's list has what was done to tenants too."""
    if tenant.principal.knowledge_base_ids is not None or tenant.principal.user_id is not None:
        raise Forbidden("A narrowed key cannot read the audit.")
    return await _answer(tenant.audit, filters, page, lines)


@router.get("/tenants/{tenant}/audit-events", response_model=Listing[AuditEventOut], responses=_RESPONSES)
async def list_tenant_audit_events(
    tenant: str,
    filters: CurrentFilters,
    page: CurrentPage,
    lines: AsLines,
    resources: CurrentResources,
    _: CurrentOperator,
) -> Response:
    """The same of one tenant, as long as events are kept: also when the tenant is gone."""
    audit = resources.audit_of(tenant_id(tenant))
    if not await audit.is_known():
        raise TenantNotFound
    return await _answer(audit, filters, page, lines)


async def _answer(audit: AuditService, filters: EventFilters, page: Page, lines: bool) -> Response:
    if lines:
        stream = _lines(audit.pages(filters, after=page.after()))
        return StreamingResponse(stream, media_type=JSON_LINES, headers={"X-Accel-Buffering": "no"})
    found = await audit.page(filters, after=page.after(), limit=page.limit + 1)
    items = found[: page.limit]
    cursor = next_cursor(items[-1].created_at, items[-1].id) if found[page.limit :] else None
    return Response(await asyncio.to_thread(_page_out, items, cursor), media_type="application/json")


# Both are written out in a thread: a deletion by filter names 500 documents an event, so a page may have 100,000 ids.
async def _lines(pages: AsyncIterator[Sequence[RecordedEvent]]) -> AsyncIterator[str]:
    async for page in pages:
        yield await asyncio.to_thread(_lines_out, page)


def _page_out(events: Sequence[RecordedEvent], cursor: str | None) -> str:
    return Listing(items=[_event_out(recorded) for recorded in events], next_cursor=cursor).model_dump_json()


def _lines_out(events: Sequence[RecordedEvent]) -> str:
    return "".join(f"{_event_out(recorded).model_dump_json()}\n" for recorded in events)
