"""The versions of a knowledge base's prompts: listed, and pinned."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.audit.types import Action, Event
from app.db.session import Session, TenantDatabase
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.service import KnowledgeBaseService
from app.prompts.repository import PromptRepository
from app.prompts.types import PromptName, PromptOwner, PromptVersion, PromptVersionNotFound, pinned


@dataclass(frozen=True, slots=True)
class KnowledgeBasePrompts:
    """What a tenant's admin can do with them; setting one is a change of the knowledge base."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService

    async def page(
        self, reference: str, name: PromptName | None, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> Sequence[PromptVersion]:
        """Newest first, of one prompt or of both. Raises KnowledgeBaseNotFound, Forbidden."""
        self.knowledge_bases.require_whole()
        async with self.db.transaction(snapshot=True) as session:
            view = await self.knowledge_bases.find_in(session, reference)
            in_use = view.retrieval.numbers()
            return await self._versions(session, view.row.id).page(name, in_use, after=after, limit=limit)

    async def pin(self, reference: str, name: PromptName, number: int) -> PromptVersion:
        """From now on this version is in use. Raises KnowledgeBaseNotFound, PromptVersionNotFound, Forbidden."""
        self.knowledge_bases.require_whole()
        async with self.db.transaction() as session:
            repository = KnowledgeBaseRepository(session, self.db.tenant_id)
            kb_id = (await self.knowledge_bases.find_in(session, reference)).row.id
            await repository.lock(kb_id)
            stored = (await self.knowledge_bases.find_in(session, reference)).row.retrieval
            version = await self._versions(session, kb_id).find(name, number)
            if version is None:
                raise PromptVersionNotFound
            if await repository.change(kb_id, {"retrieval": pinned(stored, version)}):
                event = Event(Action.KNOWLEDGE_BASE_UPDATE, [kb_id], kb_id)
                await self.knowledge_bases.record(session, event)
            return version

    def _versions(self, session: Session, kb_id: UUID) -> PromptRepository:
        return PromptRepository(session, self.db.tenant_id, PromptOwner(kb_id=kb_id))
