"""SQL of agent bindings."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from app.agents.types import BindingSettings, BoundAgent
from app.db.page_counts import fetch_page
from app.db.session import Session
from app.db.statements import Record, parse_statement
from app.ids import generate_id


class AgentRepository:
    """Repository of the agent bindings of one tenant, in one transaction."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def find(self, agent_id: str, *, lock: bool = False) -> BoundAgent | None:
        """Return the binding of an agent, or None. With ``lock`` no other transaction can change the binding."""
        values = {"tenant": self.tenant_id, "agent": agent_id}
        row = await self.session.fetch_row(_LOCK if lock else _FIND, values)
        return None if row is None else _binding_from_row(row)

    async def list_bindings(self, *, after: tuple[datetime, UUID] | None, limit: int) -> Sequence[BoundAgent]:
        """Return a page of the bindings, newest first."""
        after_time, after_id = after or (None, None)
        values = {"tenant": self.tenant_id, "after_time": after_time, "after_id": after_id, "limit": limit}
        return [_binding_from_row(row) for row in await fetch_page(self.session, _PAGE, values)]

    async def lock_knowledge_bases(self, knowledge_base_ids: Sequence[UUID]) -> list[UUID]:
        """Lock knowledge bases, and return the ids that exist, in the same order.

        The deletion of a locked knowledge base waits until the transaction ends.
        """
        values = {"tenant": self.tenant_id, "ids": list(knowledge_base_ids)}
        existing = {row["id"] for row in await self.session.fetch_rows(_LOCK_KNOWLEDGE_BASES, values)}
        return [
            knowledge_base_id
            for knowledge_base_id in dict.fromkeys(knowledge_base_ids)
            if knowledge_base_id in existing
        ]

    async def add(
        self, agent_id: str, knowledge_base_ids: Sequence[UUID], settings: BindingSettings
    ) -> BoundAgent | None:
        """Insert a binding and return it; None if the agent has a binding already."""
        values = {
            "agent": agent_id,
            "id": generate_id(),
            "kbs": list(knowledge_base_ids),
            "settings": _serialize_settings(settings),
        }
        row = await self.session.fetch_row(_ADD, {"tenant": self.tenant_id, **values})
        return None if row is None else _binding_from_row(row)

    async def update(
        self, agent_id: str, knowledge_base_ids: Sequence[UUID], settings: BindingSettings
    ) -> BoundAgent | None:
        """Change a binding and return it; None if nothing changes, or the agent has no binding."""
        values = {"agent": agent_id, "kbs": list(knowledge_base_ids), "settings": _serialize_settings(settings)}
        row = await self.session.fetch_row(_UPDATE, {"tenant": self.tenant_id, **values})
        return None if row is None else _binding_from_row(row)

    async def remove(self, agent_id: str) -> UUID | None:
        """Delete a binding and return its ID; None if the agent has no binding."""
        row = await self.session.fetch_row(_REMOVE, {"tenant": self.tenant_id, "agent": agent_id})
        return None if row is None else row["id"]


def _serialize_settings(settings: BindingSettings) -> str:
    values: Mapping[str, Any] = asdict(settings)
    return json.dumps(values)


def _binding_from_row(row: Record) -> BoundAgent:
    return BoundAgent(
        id=row["id"],
        agent_id=row["agent_id"],
        knowledge_base_ids=row["knowledge_base_ids"],
        settings=BindingSettings.from_stored(row["settings"]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


_COLUMNS = "id, agent_id, knowledge_base_ids, settings, created_at, updated_at"
_FIND = parse_statement(f"select {_COLUMNS} from agent_binding where tenant_id = :tenant and agent_id = :agent")  # noqa: S608
_LOCK = parse_statement(
    f"select {_COLUMNS} from agent_binding where tenant_id = :tenant and agent_id = :agent for update"  # noqa: S608
)
_PAGE = parse_statement(f"""
select {_COLUMNS} from agent_binding
 where tenant_id = :tenant and (:after_time::timestamptz is null or (created_at, id) < (:after_time, :after_id::uuid))
 order by created_at desc, id desc limit :limit""")  # noqa: S608
_LOCK_KNOWLEDGE_BASES = parse_statement("""
select id from knowledge_base where tenant_id = :tenant and id = any(:ids::uuid[]) and deleted_at is null
 order by id for key share""")
_ADD = parse_statement(f"""
insert into agent_binding (tenant_id, agent_id, id, knowledge_base_ids, settings)
values (:tenant, :agent, :id, :kbs::uuid[], :settings::jsonb) on conflict do nothing returning {_COLUMNS}""")  # noqa: S608
_UPDATE = parse_statement(f"""
update agent_binding set knowledge_base_ids = :kbs::uuid[], settings = :settings::jsonb, updated_at = now()
 where tenant_id = :tenant and agent_id = :agent
   and (knowledge_base_ids, settings) is distinct from (:kbs::uuid[], :settings::jsonb) returning {_COLUMNS}""")  # noqa: S608
_REMOVE = parse_statement("delete from agent_binding where tenant_id = :tenant and agent_id = :agent returning id")
