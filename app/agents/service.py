"""Bind agents to knowledge bases and limits, and look their bindings up for a search."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from app.agents.repository import AgentRepository
from app.agents.types import AgentNotFound, BindingSettings, BoundAgent
from app.audit.repository import AuditRepository
from app.audit.types import Actor, AuditAction, AuditEvent
from app.db.session import DatabaseUnavailable, Session, TenantDatabase
from app.errors import ForbiddenError
from app.principal import Principal
from app.prompts.repository import PromptRepository
from app.prompts.types import PromptName, PromptOwner, PromptVersionInfo, PromptVersionNotFound, pin_version

LOOKUP_TIMEOUT_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class AgentService:
    """What a tenant's admin can do with agents; and for every key, what the agent that it speaks for is bound to."""

    db: TenantDatabase
    principal: Principal

    async def resolve_binding(
        self, agent_id: str, *, timeout_seconds: float = LOOKUP_TIMEOUT_SECONDS
    ) -> BoundAgent | None:
        """What an agent is bound to, for a search in its name by any key; None for one without a binding.

        Raises DatabaseUnavailable, also where that takes longer: somebody waits for the search.
        """
        try:
            async with asyncio.timeout(timeout_seconds), self.db.transaction(allow_generic_plans=True) as session:
                return await self._create_repository(session).find(agent_id)
        except TimeoutError as exc:
            raise DatabaseUnavailable from exc

    async def get(self, agent_id: str) -> BoundAgent:
        """Raises AgentNotFound, ForbiddenError."""
        self.require_unrestricted_key()
        async with self.db.transaction() as session:
            return _require_binding(await self._create_repository(session).find(agent_id))

    async def list_bindings(self, *, after: tuple[datetime, UUID] | None, limit: int) -> Sequence[BoundAgent]:
        """Newest first. Raises ForbiddenError."""
        self.require_unrestricted_key()
        async with self.db.transaction() as session:
            return await self._create_repository(session).list_bindings(after=after, limit=limit)

    async def upsert(
        self, agent_id: str, knowledge_base_ids: Sequence[UUID], settings: BindingSettings
    ) -> tuple[BoundAgent, bool]:
        """Bind an agent, in place of what it was bound to; and whether it was not bound yet. Raises ForbiddenError."""
        self.require_unrestricted_key()
        async with self.db.transaction() as session:
            repository = self._create_repository(session)
            locked_ids = await repository.lock_knowledge_bases(knowledge_base_ids)
            created = await repository.add(agent_id, locked_ids, settings)
            if created is not None:
                versioned_settings = await self._save_prompt_versions(session, agent_id, settings)
                await self._record_event(session, AuditAction.AGENT_CREATE, created.id)
                return await repository.update(agent_id, locked_ids, versioned_settings) or created, True
            _require_binding(await repository.find(agent_id, lock=True))
            return await self._update_locked_binding(session, agent_id, locked_ids, settings), False

    async def update(
        self, agent_id: str, knowledge_base_ids: Sequence[UUID] | None, changes: Mapping[str, Any]
    ) -> BoundAgent:
        """Set what is named and leave the rest; None leaves the knowledge bases.

        Raises AgentNotFound, ForbiddenError.
        """
        self.require_unrestricted_key()
        async with self.db.transaction() as session:
            repository = self._create_repository(session)
            # Knowledge bases are held before the binding is, as whoever deletes one does it.
            locked_ids = (
                None if knowledge_base_ids is None else await repository.lock_knowledge_bases(knowledge_base_ids)
            )
            previous = _require_binding(await repository.find(agent_id, lock=True))
            settings = replace(previous.settings, **changes)
            return await self._update_locked_binding(
                session, agent_id, previous.knowledge_base_ids if locked_ids is None else locked_ids, settings
            )

    async def delete(self, agent_id: str) -> None:
        """From now on it is an agent without a binding. Raises AgentNotFound, ForbiddenError."""
        self.require_unrestricted_key()
        async with self.db.transaction() as session:
            binding_id = await self._create_repository(session).remove(agent_id)
            if binding_id is None:
                raise AgentNotFound
            await self._record_event(session, AuditAction.AGENT_DELETE, binding_id)

    async def list_prompt_versions(
        self, agent_id: str, name: PromptName | None, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> Sequence[PromptVersionInfo]:
        """The versions of its prompts, newest first. Raises AgentNotFound, ForbiddenError."""
        self.require_unrestricted_key()
        async with self.db.transaction(snapshot=True) as session:
            binding = _require_binding(await self._create_repository(session).find(agent_id))
            in_use = binding.settings.get_version_numbers()
            return await self._create_prompt_repository(session, agent_id).list_versions(
                name, in_use, after=after, limit=limit
            )

    async def pin_prompt(self, agent_id: str, name: PromptName, number: int) -> PromptVersionInfo:
        """From now on this version is in use. Raises AgentNotFound, PromptVersionNotFound, ForbiddenError."""
        self.require_unrestricted_key()
        async with self.db.transaction() as session:
            previous = _require_binding(await self._create_repository(session).find(agent_id, lock=True))
            version = await self._create_prompt_repository(session, agent_id).find(name, number)
            if version is None:
                raise PromptVersionNotFound
            settings = BindingSettings(**pin_version(asdict(previous.settings), version))
            await self._update_locked_binding(session, agent_id, previous.knowledge_base_ids, settings)
            return version

    def require_unrestricted_key(self) -> None:
        """Raises ForbiddenError for a narrowed key: a binding is for every key of the tenant."""
        if self.principal.knowledge_base_ids is not None or self.principal.user_id is not None:
            raise ForbiddenError("A key that is narrowed cannot manage agents.")

    async def _update_locked_binding(
        self, session: Session, agent_id: str, knowledge_base_ids: Sequence[UUID], settings: BindingSettings
    ) -> BoundAgent:
        """Of a binding that is locked."""
        repository = self._create_repository(session)
        versioned_settings = await self._save_prompt_versions(session, agent_id, settings)
        updated = await repository.update(agent_id, knowledge_base_ids, versioned_settings)
        if updated is None:
            return _require_binding(await repository.find(agent_id))
        await self._record_event(session, AuditAction.AGENT_UPDATE, updated.id)
        return updated

    async def _save_prompt_versions(
        self, session: Session, agent_id: str, settings: BindingSettings
    ) -> BindingSettings:
        versioned = await self._create_prompt_repository(session, agent_id).save_versions(
            asdict(settings), key_id=self.principal.key_id
        )
        return BindingSettings(**versioned)

    async def _record_event(self, session: Session, action: AuditAction, binding_id: UUID) -> None:
        event = AuditEvent(action, [binding_id])
        await AuditRepository(session, self.db.tenant_id).add(event, Actor.from_principal(self.principal))

    def _create_repository(self, session: Session) -> AgentRepository:
        return AgentRepository(session, self.db.tenant_id)

    def _create_prompt_repository(self, session: Session, agent_id: str) -> PromptRepository:
        return PromptRepository(session, self.db.tenant_id, PromptOwner(agent_id=agent_id))


def _require_binding(binding: BoundAgent | None) -> BoundAgent:
    if binding is None:
        raise AgentNotFound
    return binding
