"""The versions of a knowledge base's prompts: listed, and pinned."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.audit.types import AuditAction, AuditEvent
from app.db.session import Session, TenantDatabase
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.service import KnowledgeBaseService
from app.prompts.repository import PromptRepository
from app.prompts.types import PromptName, PromptOwner, PromptVersionInfo, PromptVersionNotFound, pin_version


@dataclass(frozen=True, slots=True)
class KnowledgeBasePromptService:
    """What a tenant's admin can do with them; setting one is a change of the knowledge base."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService

    async def list_versions(
        self, reference: str, name: PromptName | None, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> Sequence[PromptVersionInfo]:
        """Newest first, of one prompt or of both. Raises KnowledgeBaseNotFound, ForbiddenError."""
        self.knowledge_bases.require_unrestricted_key()
        async with self.db.transaction(snapshot=True) as session:
            view = await self.knowledge_bases.find_in_session(session, reference)
            active_numbers = view.retrieval.get_version_numbers()
            return await self._create_repository(session, view.row.id).list_versions(
                name, active_numbers, after=after, limit=limit
            )

    async def pin_version(self, reference: str, name: PromptName, number: int) -> PromptVersionInfo:
        """From now on this version is in use. Raises KnowledgeBaseNotFound, PromptVersionNotFound, ForbiddenError."""
        self.knowledge_bases.require_unrestricted_key()
        async with self.db.transaction() as session:
            repository = KnowledgeBaseRepository(session, self.db.tenant_id)
            kb_id = (await self.knowledge_bases.find_in_session(session, reference)).row.id
            await repository.lock(kb_id)
            retrieval = (await self.knowledge_bases.find_in_session(session, reference)).row.retrieval
            version = await self._create_repository(session, kb_id).find(name, number)
            if version is None:
                raise PromptVersionNotFound
            if await repository.update(kb_id, {"retrieval": pin_version(retrieval, version)}):
                event = AuditEvent(AuditAction.KNOWLEDGE_BASE_UPDATE, [kb_id], kb_id)
                await self.knowledge_bases.record_event(session, event)
            return version

    def _create_repository(self, session: Session, kb_id: UUID) -> PromptRepository:
        return PromptRepository(session, self.db.tenant_id, PromptOwner(kb_id=kb_id))
