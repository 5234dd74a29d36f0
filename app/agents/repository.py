"""Queries about agents' bindings."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from app.agents.types import AgentBinding, BindingSettings
from app.db.session import Session
from app.db.statements import Record, statement
from app.ids import new_id


class AgentRepository:
    """Queries in one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def find(self, agent_id: str, *, lock: bool = False) -> AgentBinding | None:
        """The binding of an agent; with ``lock`` nobody else changes it until the transaction ends."""
        values = {"tenant": self.tenant_id, "agent": agent_id}
        row = await self.session.row(_LOCK if lock else _FIND, values)
        return None if row is None else _binding(row)

    async def page(self, *, after: tuple[datetime, UUID] | None, limit: int) -> Sequence[AgentBinding]:
        """Newest first."""
        after_time, after_id = after or (None, None)
        values = {"tenant": self.tenant_id, "after_time": after_time, "after_id": after_id, "limit": limit}
        return [_binding(row) for row in await self.session.rows(_PAGE, values)]

    async def hold(self, knowledge_base_ids: Sequence[UUID]) -> list[UUID]:
        """Those that are there, in the same order; a deletion of one waits until the transaction ends."""
        values = {"tenant": self.tenant_id, "ids": list(knowledge_base_ids)}
        there = {row["id"] for row in await self.session.rows(_HOLD, values)}
        return [one for one in dict.fromkeys(knowledge_base_ids) if one in there]

    async def add(
        self, agent_id: str, knowledge_base_ids: Sequence[UUID], settings: BindingSettings
    ) -> AgentBinding | None:
        """Insert a binding; None where the agent has one."""
        values = {"agent": agent_id, "id": new_id(), "kbs": list(knowledge_base_ids), "settings": _json(settings)}
        row = await self.session.row(_ADD, {"tenant": self.tenant_id, **values})
        return None if row is None else _binding(row)

    async def change(
        self, agent_id: str, knowledge_base_ids: Sequence[UUID], settings: BindingSettings
    ) -> AgentBinding | None:
        """Set what it is bound to; None where nothing differs, or it has no binding."""
        values = {"agent": agent_id, "kbs": list(knowledge_base_ids), "settings": _json(settings)}
        row = await self.session.row(_CHANGE, {"tenant": self.tenant_id, **values})
        return None if row is None else _binding(row)

    async def remove(self, agent_id: str) -> UUID | None:
        """Delete a binding; its id, None where there was none."""
        row = await self.session.row(_REMOVE, {"tenant": self.tenant_id, "agent": agent_id})
        return None if row is None else row["id"]


def _json(settings: BindingSettings) -> str:
    values: Mapping[str, Any] = asdict(settings)
    return json.dumps(values)


def _binding(row: Record) -> AgentBinding:
    return AgentBinding(
        id=row["id"],
        agent_id=row["agent_id"],
        knowledge_base_ids=row["knowledge_base_ids"],
        settings=BindingSettings.stored(row["settings"]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


_COLUMNS = "id, agent_id, knowledge_base_ids, settings, created_at, updated_at"
_FIND = statement(f"select {_COLUMNS} from agent_binding where tenant_id = :tenant and agent_id = :agent")  # noqa: S608
_LOCK = statement(
    f"select {_COLUMNS} from agent_binding where tenant_id = :tenant and agent_id = :agent for update"  # noqa: S608
)
_PAGE = statement(f"""
select {_COLUMNS} from agent_binding
 where tenant_id = :tenant and (:after_time::timestamptz is null or (created_at, id) < (:after_time, :after_id::uuid))
 order by created_at desc, id desc limit :limit""")  # noqa: S608
_HOLD = statement("""
select id from knowledge_base where tenant_id = :tenant and id = any(:ids::uuid[]) and deleted_at is null
 order by id for key share""")
_ADD = statement(f"""
insert into agent_binding (tenant_id, agent_id, id, knowledge_base_ids, settings)
values (:tenant, :agent, :id, :kbs::uuid[], :settings::jsonb) on conflict do nothing returning {_COLUMNS}""")  # noqa: S608
_CHANGE = statement(f"""
update agent_binding set knowledge_base_ids = :kbs::uuid[], settings = :settings::jsonb, updated_at = now()
 where tenant_id = :tenant and agent_id = :agent
   and (knowledge_base_ids, settings) is distinct from (:kbs::uuid[], :settings::jsonb) returning {_COLUMNS}""")  # noqa: S608
_REMOVE = statement("delete from agent_binding where tenant_id = :tenant and agent_id = :agent returning id")
