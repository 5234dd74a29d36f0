"""Bind agents to knowledge bases and limits, and look their bindings up for a search."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from app.access import Principal
from app.agents.repository import AgentRepository
from app.agents.types import AgentBinding, AgentNotFound, BindingSettings
from app.audit.repository import AuditRepository
from app.audit.types import Action, Actor, Event
from app.db.session import DatabaseUnavailable, Session, TenantDatabase
from app.errors import Forbidden
from app.prompts.repository import PromptRepository
from app.prompts.types import PromptName, PromptOwner, PromptVersion, PromptVersionNotFound, pinned

LOOKUP_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class AgentService:
    """What a tenant's admin can do with agents; and for every key, what the agent that it speaks for is bound to."""

    db: TenantDatabase
    principal: Principal

    async def bound(self, agent_id: str, *, seconds: float = LOOKUP_SECONDS) -> AgentBinding | None:
        """What an agent is bound to, for a search in its name by any key; None for one without a binding.

        Raises DatabaseUnavailable, also where that takes longer: somebody waits for the search.
        """
        try:
            async with asyncio.timeout(seconds), self.db.transaction(kept_plans=True) as session:
                return await self._repository(session).find(agent_id)
        except TimeoutError as exc:
            raise DatabaseUnavailable from exc

    async def get(self, agent_id: str) -> AgentBinding:
        """Raises AgentNotFound, Forbidden."""
        self.require_whole()
        async with self.db.transaction() as session:
            return _there(await self._repository(session).find(agent_id))

    async def page(self, *, after: tuple[datetime, UUID] | None, limit: int) -> Sequence[AgentBinding]:
        """Newest first. Raises Forbidden."""
        self.require_whole()
        async with self.db.transaction() as session:
            return await self._repository(session).page(after=after, limit=limit)

    async def put(
        self, agent_id: str, knowledge_base_ids: Sequence[UUID], settings: BindingSettings
    ) -> tuple[AgentBinding, bool]:
        """Bind an agent, in place of what it was bound to; and whether it was not bound yet. Raises Forbidden."""
        self.require_whole()
        async with self.db.transaction() as session:
            repository = self._repository(session)
            held = await repository.hold(knowledge_base_ids)
            made = await repository.add(agent_id, held, settings)
            if made is not None:
                numbered = await self._numbered(session, agent_id, settings)
                await self._record(session, Action.AGENT_CREATE, made.id)
                return await repository.change(agent_id, held, numbered) or made, True
            _there(await repository.find(agent_id, lock=True))
            return await self._set(session, agent_id, held, settings), False

    async def change(
        self, agent_id: str, knowledge_base_ids: Sequence[UUID] | None, changes: Mapping[str, Any]
    ) -> AgentBinding:
        """Set what is named and leave the rest; None leaves the knowledge bases. Raises AgentNotFound, Forbidden."""
        self.require_whole()
        async with self.db.transaction() as session:
            repository = self._repository(session)
            # Knowledge bases are held before the binding is, as whoever deletes one does it.
            held = None if knowledge_base_ids is None else await repository.hold(knowledge_base_ids)
            before = _there(await repository.find(agent_id, lock=True))
            settings = replace(before.settings, **changes)
            return await self._set(session, agent_id, before.knowledge_base_ids if held is None else held, settings)

    async def delete(self, agent_id: str) -> None:
        """From now on it is an agent without a binding. Raises AgentNotFound, Forbidden."""
        self.require_whole()
        async with self.db.transaction() as session:
            removed = await self._repository(session).remove(agent_id)
            if removed is None:
                raise AgentNotFound
            await self._record(session, Action.AGENT_DELETE, removed)

    async def prompts(
        self, agent_id: str, name: PromptName | None, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> Sequence[PromptVersion]:
        """The versions of its prompts, newest first. Raises AgentNotFound, Forbidden."""
        self.require_whole()
        async with self.db.transaction(snapshot=True) as session:
            binding = _there(await self._repository(session).find(agent_id))
            in_use = binding.settings.numbers()
            return await self._prompts(session, agent_id).page(name, in_use, after=after, limit=limit)

    async def pin_prompt(self, agent_id: str, name: PromptName, number: int) -> PromptVersion:
        """From now on this version is in use. Raises AgentNotFound, PromptVersionNotFound, Forbidden."""
        self.require_whole()
        async with self.db.transaction() as session:
            before = _there(await self._repository(session).find(agent_id, lock=True))
            version = await self._prompts(session, agent_id).find(name, number)
            if version is None:
                raise PromptVersionNotFound
            settings = BindingSettings(**pinned(asdict(before.settings), version))
            await self._set(session, agent_id, before.knowledge_base_ids, settings)
            return version

    def require_whole(self) -> None:
        """Raises Forbidden for a narrowed key: a binding is for every key of the tenant."""
        if self.principal.knowledge_base_ids is not None or self.principal.user_id is not None:
            raise Forbidden("A key that is narrowed cannot manage agents.")

    async def _set(
        self, session: Session, agent_id: str, knowledge_base_ids: Sequence[UUID], settings: BindingSettings
    ) -> AgentBinding:
        """Of a binding that is locked."""
        repository = self._repository(session)
        numbered = await self._numbered(session, agent_id, settings)
        changed = await repository.change(agent_id, knowledge_base_ids, numbered)
        if changed is None:
            return _there(await repository.find(agent_id))
        await self._record(session, Action.AGENT_UPDATE, changed.id)
        return changed

    async def _numbered(self, session: Session, agent_id: str, settings: BindingSettings) -> BindingSettings:
        numbered = await self._prompts(session, agent_id).numbered(asdict(settings), key_id=self.principal.key_id)
        return BindingSettings(**numbered)

    async def _record(self, session: Session, action: Action, binding_id: UUID) -> None:
        event = Event(action, [binding_id])
        await AuditRepository(session, self.db.tenant_id).add(event, Actor.of(self.principal))

    def _repository(self, session: Session) -> AgentRepository:
        return AgentRepository(session, self.db.tenant_id)

    def _prompts(self, session: Session, agent_id: str) -> PromptRepository:
        return PromptRepository(session, self.db.tenant_id, PromptOwner(agent_id=agent_id))


def _there(found: AgentBinding | None) -> AgentBinding:
    if found is None:
        raise AgentNotFound
    return found
