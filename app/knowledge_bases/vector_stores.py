"""Knowledge bases as vector stores: free text as the name, labels, and numbers of files by status."""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from app.audit.types import AuditAction, AuditEvent
from app.db.session import Session
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseExists, KnowledgeBaseView, NewKnowledgeBase
from app.knowledge_bases.vector_store_repository import VectorStoreRepository

UNNAMED_STORE = "vector-store"
# A name has at most 63 characters. The remaining 13 are for a suffix that makes it unique.
MAX_NAME_LENGTH = 50
MAX_NAME_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class VectorStore:
    """A knowledge base with its labels, its documents by status, and the bytes of all documents.

    Files that wait for the job of a batch count as queued.
    """

    view: KnowledgeBaseView
    labels: Mapping[str, Any] = field(default_factory=dict)
    status_counts: Mapping[str, int] = field(default_factory=dict)
    bytes: int = 0


def slugify_title(title: str | None) -> str:
    """Return a valid knowledge base name made from a free text."""
    words = re.sub(r"[^a-z0-9]+", "-", (title or "").lower()).strip("-")
    return words[:MAX_NAME_LENGTH].strip("-") or UNNAMED_STORE


@dataclass(frozen=True, slots=True)
class VectorStoreService:
    """Use cases for knowledge bases as vector stores."""

    knowledge_bases: KnowledgeBaseService

    async def create(self, new: NewKnowledgeBase, labels: Mapping[str, str]) -> VectorStore:
        """Create a knowledge base with a unique name made from its title.

        Args:
            new: The knowledge base. Its name is replaced.
            labels: The labels.

        Returns:
            The vector store. Raises the errors of ``KnowledgeBaseService.create``.
        """
        name = slugify_title(new.title)
        view = await self._create_with_unique_name(replace(new, name=name))
        if labels:
            async with self.knowledge_bases.db.transaction() as session:
                await self._create_repository(session).set_labels(view.row.id, labels)
        return VectorStore(view, labels)

    async def _create_with_unique_name(self, new: NewKnowledgeBase) -> KnowledgeBaseView:
        for attempt in range(MAX_NAME_ATTEMPTS):
            candidate = f"{new.name}-{secrets.token_hex(4)}" if attempt or new.name == UNNAMED_STORE else new.name
            try:
                return await self.knowledge_bases.create(replace(new, name=candidate))
            except KnowledgeBaseExists:
                if attempt == MAX_NAME_ATTEMPTS - 1:
                    raise
        raise KnowledgeBaseExists

    async def get(self, reference: str) -> VectorStore:
        """Return a vector store by id or name. Raises KnowledgeBaseNotFound."""
        async with self.knowledge_bases.db.transaction(snapshot=True) as session:
            view = await self.knowledge_bases.find_in_session(session, reference)
            return (await self._build_stores(session, [view]))[0]

    async def list_stores(self, *, cursor_id: UUID | None, newest_first: bool, limit: int) -> Sequence[VectorStore]:
        """List the vector stores that the key may read, in the order of creation.

        Args:
            cursor_id: Id of the last vector store of the previous page, or None.
            newest_first: Whether the order is descending.
            limit: The maximum number of vector stores.

        Returns:
            The vector stores.
        """
        allowed = self.knowledge_bases.principal.knowledge_base_ids
        async with self.knowledge_bases.db.transaction(snapshot=True) as session:
            ids = await self._create_repository(session).list_ids(
                allowed_ids=None if allowed is None else list(allowed),
                cursor_id=cursor_id,
                newest_first=newest_first,
                limit=limit,
            )
            repository = KnowledgeBaseRepository(session, self.knowledge_bases.db.tenant_id)
            views = await repository.find_up_to(ids, max_count=len(ids))
            by_id = {view.row.id: view for view in views}
            return await self._build_stores(session, [by_id[kb_id] for kb_id in ids if kb_id in by_id])

    async def update(self, reference: str, changes: Mapping[str, Any], labels: Mapping[str, str] | None) -> VectorStore:
        """Change a vector store.

        Args:
            reference: Name or id of the knowledge base.
            changes: New values by field.
            labels: The new labels, or None to keep them.

        Returns:
            The vector store. Raises the errors of ``KnowledgeBaseService.update``.
        """
        view = await self.knowledge_bases.update(reference, dict(changes))
        if labels is not None:
            async with self.knowledge_bases.db.transaction() as session:
                if await self._create_repository(session).set_labels(view.row.id, labels):
                    event = AuditEvent(AuditAction.KNOWLEDGE_BASE_UPDATE, [view.row.id], view.row.id)
                    await self.knowledge_bases.record_event(session, event)
        return await self.get(reference)

    async def _build_stores(self, session: Session, views: Sequence[KnowledgeBaseView]) -> list[VectorStore]:
        ids = [view.row.id for view in views]
        repository = self._create_repository(session)
        principal = self.knowledge_bases.principal
        labels, files = await repository.load_labels(ids), await repository.count_files(ids, reader=principal.user_id)
        waiting = await repository.count_waiting_files(
            ids, key_lineage_id=None if principal.user_id is None else principal.key_lineage_id
        )
        stores = []
        for view in views:
            status_counts, size = files.get(view.row.id, ({}, 0))
            if waiting_count := waiting.get(view.row.id):
                status_counts["queued"] = status_counts.get("queued", 0) + waiting_count
            stores.append(VectorStore(view, labels.get(view.row.id, {}), status_counts, size))
        return stores

    def _create_repository(self, session: Session) -> VectorStoreRepository:
        return VectorStoreRepository(session, self.knowledge_bases.db.tenant_id)
