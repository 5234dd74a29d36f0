"""Use cases that correct entities: merge, split, list corrections, and undo one."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.audit.types import AuditAction, AuditEvent
from app.db.session import Session, TenantDatabase
from app.documents.repository import DocumentRepository
from app.documents.types import DocumentNotFound
from app.errors import ConflictError, InvalidInputError, NotFoundError
from app.graph.entities.corrected_keys import CorrectedKeys
from app.graph.entities.correction_repository import Correction, CorrectionRepository
from app.graph.entities.repository import EntityRepository
from app.graph.entities.service import EntityService
from app.graph.entities.types import MAX_CORRECTIONS, EntityNotFound
from app.graph.extraction.names import normalize_name
from app.graph.keys import compute_entity_key
from app.ids import generate_id
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseView


def normalize_target_name(name: str) -> str:
    """Return the normalized name of a split's target. A parenthesis distinguishes entities of the same name here."""
    return normalize_name(name.replace("(", " ").replace(")", " "))


class CorrectionNotFound(NotFoundError):
    """The correction does not exist. List the corrections of the knowledge base."""

    code = "correction_not_found"


class TooManyCorrections(ConflictError):
    """The knowledge base has the maximum number of corrections of entities. Delete some of them."""

    code = "too_many_corrections"


@dataclass(frozen=True, slots=True)
class _LockedBase:
    """Locked knowledge base with its corrections."""

    session: Session
    kb: KnowledgeBaseView
    repository: CorrectionRepository
    corrected: CorrectedKeys


@dataclass(frozen=True, slots=True)
class CorrectionService:
    """Use cases that correct the entities of a knowledge base. Keys restricted to a user may not use them."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    entities: EntityService

    async def merge(self, reference: str, keys: Sequence[int], into: int) -> int:
        """Merge entities into another. Merging again changes nothing.

        Args:
            reference: Name or id of the knowledge base.
            keys: Entities to merge.
            into: Entity that remains.

        Returns:
            Key of the entity that remains, which is another if ``into`` was merged before.

        Raises:
            EntityNotFound: One of the entities does not exist.
            TooManyCorrections: The knowledge base has too many corrections.
        """
        async with self._lock(reference) as locked:
            for key in (*keys, into):
                if not await locked.repository.has_chunks(locked.kb.index.id, key):
                    raise EntityNotFound
            target = locked.corrected.resolve(into)
            for key in dict.fromkeys(map(locked.corrected.resolve, keys)):
                if key != target:
                    await locked.repository.merge(generate_id(), key, target, self._author)
            await self._finish(locked, AuditAction.KNOWLEDGE_BASE_ENTITY_MERGE)
            return target

    async def split(self, reference: str, key: int, document_ids: Sequence[UUID], name: str) -> int:
        """Let an entity count as another in some documents. The same split again changes nothing.

        Args:
            reference: Name or id of the knowledge base.
            key: The entity.
            document_ids: Documents that name the entity and mean another.
            name: Name of the other entity.

        Returns:
            Key of the other entity.

        Raises:
            EntityNotFound: One of the documents does not name the entity.
            DocumentNotFound: A document does not exist.
            InvalidInputError: The name has no words, or it is that of the entity.
            TooManyCorrections: The knowledge base has too many corrections.
        """
        key_text = normalize_target_name(name)
        if not key_text:
            raise InvalidInputError("The name has no words. Choose another name.", loc=("body", "name"))
        async with self._lock(reference) as locked:
            key = locked.corrected.resolve(key)
            target = locked.corrected.resolve(compute_entity_key(locked.kb.row.id, key_text))
            documents = DocumentRepository(locked.session, self.db.tenant_id)
            for document_id in dict.fromkeys(document_ids):
                if await documents.get(locked.kb.row.id, document_id) is None:
                    raise DocumentNotFound
                raw_keys = await locked.repository.list_raw_keys(locked.kb.index.id, document_id, key)
                if target in (key, *raw_keys):
                    raise InvalidInputError(
                        "The name is that of the entity itself. Choose another name.", loc=("body", "name")
                    )
                if raw_keys:
                    ids = [generate_id() for _ in raw_keys]
                    await locked.repository.split(ids, raw_keys, document_id, target, name, self._author)
                elif not await locked.repository.list_raw_keys(locked.kb.index.id, document_id, target):
                    raise EntityNotFound
            await self._finish(locked, AuditAction.KNOWLEDGE_BASE_ENTITY_SPLIT)
            return target

    async def list_corrections(
        self, reference: str, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> Sequence[Correction]:
        """List the corrections of a knowledge base, newest first. Raises KnowledgeBaseNotFound, ForbiddenError."""
        self.knowledge_bases.require_unrestricted_key()
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            repository = CorrectionRepository(session, self.db.tenant_id, kb.row.id)
            return await repository.list_corrections(after=after, limit=limit)

    async def delete(self, reference: str, correction_id: UUID) -> None:
        """Delete a correction. Raises CorrectionNotFound, KnowledgeBaseNotFound, ForbiddenError."""
        async with self._lock(reference) as locked:
            if not await locked.repository.delete(correction_id):
                raise CorrectionNotFound
            await self._finish(locked, AuditAction.KNOWLEDGE_BASE_ENTITY_UNDO)

    @asynccontextmanager
    async def _lock(self, reference: str) -> AsyncIterator[_LockedBase]:
        """Lock the knowledge base, so that two merges at once make no cycle."""
        self.knowledge_bases.require_unrestricted_key()
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            kb.require_documents()
            await KnowledgeBaseRepository(session, self.db.tenant_id).lock(kb.row.id)
            reader = self.entities.build_reader(kb, None)
            corrected = await EntityRepository(session, reader).load_corrected_keys()
            yield _LockedBase(session, kb, CorrectionRepository(session, self.db.tenant_id, kb.row.id), corrected)

    async def _finish(self, locked: _LockedBase, action: AuditAction) -> None:
        if await locked.repository.count() > MAX_CORRECTIONS:
            raise TooManyCorrections
        kb_id = locked.kb.row.id
        await self.knowledge_bases.record_event(locked.session, AuditEvent(action, [kb_id], kb_id))

    @property
    def _author(self) -> str:
        key_id = self.knowledge_bases.principal.key_id
        return "operator" if key_id is None else str(key_id)
