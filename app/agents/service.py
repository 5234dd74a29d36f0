"""Use cases of agents: bind them to knowledge bases and search settings, and find a binding for a search."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
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
    """Service for agent bindings of a tenant. Admins manage bindings; every API key can use a binding in a search."""

    db: TenantDatabase
    principal: Principal

    async def resolve_binding(
        self, agent_id: str, *, timeout_seconds: float = LOOKUP_TIMEOUT_SECONDS
    ) -> BoundAgent | None:
        """Return the binding of an agent for a search, or None if the agent has no binding.

        Args:
            agent_id: ID that the agent's platform gives the agent.
            timeout_seconds: Maximum time, because a caller waits for the search.

        Raises:
            DatabaseUnavailable: The database does not answer in time.
        """
        try:
            async with asyncio.timeout(timeout_seconds), self.db.transaction(allow_generic_plans=True) as session:
                return await self._create_repository(session).find(agent_id)
        except TimeoutError as exc:
            raise DatabaseUnavailable from exc

    async def get(self, agent_id: str) -> BoundAgent:
        """Return the binding of an agent. Raises AgentNotFound, ForbiddenError."""
        self.require_unrestricted_key()
        async with self.db.transaction() as session:
            return _require_binding(await self._create_repository(session).find(agent_id))

    async def list_bindings(self, *, after: tuple[datetime, UUID] | None, limit: int) -> Sequence[BoundAgent]:
        """Return a page of the bindings, newest first. Raises ForbiddenError."""
        self.require_unrestricted_key()
        async with self.db.transaction() as session:
            return await self._create_repository(session).list_bindings(after=after, limit=limit)

    async def upsert(
        self, agent_id: str, knowledge_base_ids: Sequence[UUID], settings: BindingSettings
    ) -> tuple[BoundAgent, bool]:
        """Create or replace the binding of an agent.

        Args:
            agent_id: ID that the agent's platform gives the agent.
            knowledge_base_ids: Knowledge bases to search; ids that do not exist are ignored.
            settings: Search settings of the agent.

        Returns:
            The binding, and whether the agent had no binding before.

        Raises:
            ForbiddenError: The API key is restricted.
        """
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
        self,
        agent_id: str,
        knowledge_base_ids: Sequence[UUID] | None,
        changes: Mapping[str, Any],
        *,
        check: Callable[[BoundAgent], None] | None = None,
    ) -> BoundAgent:
        """Change a binding.

        Args:
            agent_id: ID that the agent's platform gives the agent.
            knowledge_base_ids: New knowledge bases; None keeps the present knowledge bases.
            changes: New values of search settings; other settings stay.
            check: Check of the stored binding under its lock, before the change; None without one.

        Raises:
            AgentNotFound: The agent has no binding.
            ForbiddenError: The API key is restricted.
        """
        self.require_unrestricted_key()
        async with self.db.transaction() as session:
            repository = self._create_repository(session)
            # Lock the knowledge bases before the binding, in the same order as the deletion of a knowledge base.
            locked_ids = (
                None if knowledge_base_ids is None else await repository.lock_knowledge_bases(knowledge_base_ids)
            )
            previous = _require_binding(await repository.find(agent_id, lock=True))
            if check is not None:
                check(previous)
            settings = replace(previous.settings, **changes)
            return await self._update_locked_binding(
                session, agent_id, previous.knowledge_base_ids if locked_ids is None else locked_ids, settings
            )

    async def delete(self, agent_id: str) -> None:
        """Delete the binding of an agent. Raises AgentNotFound, ForbiddenError."""
        self.require_unrestricted_key()
        async with self.db.transaction() as session:
            binding_id = await self._create_repository(session).remove(agent_id)
            if binding_id is None:
                raise AgentNotFound
            await self._record_event(session, AuditAction.AGENT_DELETE, binding_id)

    async def list_prompt_versions(
        self, agent_id: str, name: PromptName | None, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> Sequence[PromptVersionInfo]:
        """Return a page of the versions of an agent's prompts, newest first.

        Args:
            agent_id: ID that the agent's platform gives the agent.
            name: Name of a prompt; None for all prompts.
            after: Creation time and ID of the last version of the previous page.
            limit: Maximum number of versions.

        Raises:
            AgentNotFound: The agent has no binding.
            ForbiddenError: The API key is restricted.
        """
        self.require_unrestricted_key()
        async with self.db.transaction(snapshot=True) as session:
            binding = _require_binding(await self._create_repository(session).find(agent_id))
            in_use = binding.settings.get_version_numbers()
            return await self._create_prompt_repository(session, agent_id).list_versions(
                name, in_use, after=after, limit=limit
            )

    async def pin_prompt(self, agent_id: str, name: PromptName, number: int) -> PromptVersionInfo:
        """Put a version of an agent's prompt into use, and return the version.

        Args:
            agent_id: ID that the agent's platform gives the agent.
            name: Name of the prompt.
            number: Number of the version.

        Raises:
            AgentNotFound: The agent has no binding.
            PromptVersionNotFound: The prompt has no such version.
            ForbiddenError: The API key is restricted.
        """
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
        """Refuse a restricted API key, because a binding applies to all keys of the tenant. Raises ForbiddenError."""
        if self.principal.knowledge_base_ids is not None or self.principal.user_id is not None:
            raise ForbiddenError("A restricted API key cannot manage agents; use an unrestricted key of an admin.")

    async def _update_locked_binding(
        self, session: Session, agent_id: str, knowledge_base_ids: Sequence[UUID], settings: BindingSettings
    ) -> BoundAgent:
        """Change a locked binding, and record an audit event if something changes."""
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
