"""Versions of a knowledge base's prompts: list them and pin one."""

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
    """Use cases for prompt versions. A new version is created by a change of the knowledge base."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService

    async def list_versions(
        self, reference: str, name: PromptName | None, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> Sequence[PromptVersionInfo]:
        """List prompt versions, newest first.

        Args:
            reference: Name or id of the knowledge base.
            name: The prompt, or None for all prompts.
            after: Creation time and id of the last version of the previous page, or None.
            limit: The maximum number of versions.

        Returns:
            The versions.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            ForbiddenError: The caller's key is restricted to a user.
        """
        self.knowledge_bases.require_unrestricted_key()
        async with self.db.transaction(snapshot=True) as session:
            view = await self.knowledge_bases.find_in_session(session, reference)
            active_numbers = view.retrieval.get_version_numbers()
            return await self._create_repository(session, view.row.id).list_versions(
                name, active_numbers, after=after, limit=limit
            )

    async def pin_version(self, reference: str, name: PromptName, number: int) -> PromptVersionInfo:
        """Make a stored version of a prompt the active version.

        Args:
            reference: Name or id of the knowledge base.
            name: The prompt.
            number: The number of the version.

        Returns:
            The version.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            PromptVersionNotFound: The prompt has no version with this number.
            ForbiddenError: The caller's key is restricted to a user.
        """
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
