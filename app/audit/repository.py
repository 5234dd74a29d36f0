"""Queries for audit events. An event is written by its own statement or as part of the statement of the change."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from app.audit.types import Actor, ActorKind, AuditAction, AuditEvent, EventFilters, RecordedEvent
from app.db.page_counts import fetch_page
from app.db.session import Session
from app.db.statements import Record, parse_statement
from app.ids import generate_id
from app.principal import RequestOrigin

_NAMES = "id action object_type object_ids kb_id deletion_id counts actor actor_id actor_name request_id address"
_COLUMNS = _NAMES.split()


def build_insert_event_sql(tenant_id: str, source: str, *, object_ids: str, kb_id: str) -> str:
    """Return the SQL that inserts an event for each row of ``source``, to be embedded in the statement of the change.

    ``build_event_values`` returns the parameters of the SQL. All arguments are SQL constants of the caller.

    Args:
        tenant_id: The expression of the tenant's id.
        source: The table or subquery.
        object_ids: The expression of the objects' ids.
        kb_id: The expression of the knowledge base's id.

    Returns:
        An insert statement.
    """
    expressions = {name: f":event_{name}" for name in _COLUMNS} | {"object_ids": object_ids, "kb_id": kb_id}
    columns = ", ".join(["tenant_id", *_COLUMNS])
    return f"insert into audit_event ({columns}) select {tenant_id}, {', '.join(expressions.values())} from {source}"  # noqa: S608


def build_event_values(event: AuditEvent, actor: Actor) -> dict[str, Any]:
    """Return the statement parameters of an event.

    Args:
        event: The event.
        actor: The actor.

    Returns:
        Values by parameter name.
    """
    return {
        "event_id": generate_id(),
        "event_action": event.action.value,
        "event_object_type": event.action.object_type,
        "event_object_ids": list(event.object_ids),
        "event_kb_id": event.kb_id,
        "event_deletion_id": event.deletion_id,
        "event_counts": json.dumps(dict(event.counts)),
        "event_actor": actor.kind.value,
        "event_actor_id": actor.id,
        "event_actor_name": actor.name,
        "event_request_id": actor.origin.request_id,
        "event_address": actor.origin.address,
    }


class AuditRepository:
    """Queries for the audit events of one tenant. The system tenant also reads events about the tenants themselves."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def add(self, event: AuditEvent, actor: Actor) -> None:
        """Record an event in this transaction."""
        await self.session.fetch_rows(_ADD, {"tenant": self.tenant_id, **build_event_values(event, actor)})

    async def list_events(
        self, filters: EventFilters, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> Sequence[RecordedEvent]:
        """List events, newest first.

        Args:
            filters: The conditions on the events.
            after: Time and id of the last event of the previous page, or None.
            limit: The maximum number of events.

        Returns:
            The events.
        """
        after_time, after_id = after or (None, None)
        values = {
            "tenant": self.tenant_id,
            "action": filters.action,
            "actor_id": filters.actor if isinstance(filters.actor, UUID) else None,
            "actor_name": filters.actor if isinstance(filters.actor, str) else None,
            "object_id": filters.object_id,
            "since": filters.since,
            "until": filters.until,
            "after_time": after_time,
            "after_id": after_id,
            "limit": limit,
        }
        return [_to_recorded_event(row) for row in await fetch_page(self.session, _PAGE, values)]

    async def has_events(self) -> bool:
        """Return whether the tenant exists or still has events."""
        return await self.session.fetch_row(_HAS_EVENTS, {"tenant": self.tenant_id}) is not None


def _to_recorded_event(row: Record) -> RecordedEvent:
    event = AuditEvent(AuditAction(row["action"]), row["object_ids"], row["kb_id"], row["deletion_id"], row["counts"])
    origin = RequestOrigin(row["request_id"], row["address"])
    actor = Actor(ActorKind(row["actor"]), row["actor_id"], row["actor_name"], origin)
    return RecordedEvent(row["id"], row["created_at"], event, actor)


_ADD = parse_statement(
    build_insert_event_sql(
        ":tenant::uuid", "(values (1)) one", object_ids=":event_object_ids::uuid[]", kb_id=":event_kb_id::uuid"
    )
)
# A row-level security policy decides which rows of other tenants the system tenant reads.
_PAGE = parse_statement("""
select id, created_at, action, object_ids, kb_id, deletion_id, counts, actor, actor_id, actor_name, request_id, address
  from audit_event
 where (tenant_id = :tenant or object_type = 'tenant' and :tenant = system_tenant())
   and (:action::text is null or action = :action)
   and (:actor_id::uuid is null or actor_id = :actor_id)
   and (:actor_name::text is null or actor_name = :actor_name or actor = :actor_name)
   and (:object_id::uuid is null or :object_id = any(object_ids) or kb_id = :object_id or deletion_id = :object_id)
   and (:since::timestamptz is null or created_at >= :since)
   and (:until::timestamptz is null or created_at < :until)
   and (:after_time::timestamptz is null or (created_at, id) < (:after_time, :after_id::uuid))
 order by created_at desc, id desc limit :limit""")
_HAS_EVENTS = parse_statement("""
select 1 from tenant where id = :tenant union all (select 1 from audit_event where tenant_id = :tenant limit 1)""")
