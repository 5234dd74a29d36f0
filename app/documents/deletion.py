"""Delete documents: out of every search in the same transaction, their originals by a job, and the receipts of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NoReturn
from uuid import UUID

from app.audit.types import Action, Event
from app.db.models.ingestion_state import Deletion
from app.db.receipts import Amount
from app.db.session import TenantDatabase
from app.documents.batches import BATCH_CHUNKS
from app.documents.deletion_repository import DeletionRepository
from app.documents.finding import find_readable
from app.documents.narrowing import require_own
from app.documents.receipt_repository import ReceiptRepository
from app.documents.removing import remove_documents
from app.documents.repository import DocumentFilters
from app.documents.scopes import Scope
from app.documents.settling import settle_documents
from app.documents.types import DocumentNotFound
from app.errors import InvalidInput, NotFound
from app.filters import CHUNK_NAMES, compile_filter
from app.ids import new_id
from app.job_queue import JobQueue
from app.knowledge_bases.service import KnowledgeBaseService

BATCH = 500


class DeletionNotFound(NotFound):
    """There is no such deletion."""

    code = "deletion_not_found"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which documents are meant; exactly one of the three is given."""

    ids: Sequence[UUID] | None = None
    external_id: str | None = None
    filter: Mapping[str, Any] | None = None

    def filters(self) -> DocumentFilters:
        """What the documents are found by.

        Raises InvalidInput, also for what only chunks have: that it is missing is true of every document.
        """
        compiled = compile_filter(self.filter, loc=("query", "filter"), without=CHUNK_NAMES)
        return DocumentFilters(
            ids=self.ids, external_id=self.external_id, contains=compiled.contains, path=compiled.path
        )


@dataclass(frozen=True, slots=True)
class DeletionService:
    """How documents go."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    queue: JobQueue

    async def delete(self, reference: str, document_id: UUID, *, with_file: UUID | None = None) -> UUID:
        """One document; returns the deletion's id. ``with_file`` is the kept file of it that is about to go as well.

        Raises KnowledgeBaseNotFound, DocumentNotFound, Forbidden.
        """
        filters = DocumentFilters(ids=[document_id])
        deletion, removed = await self._delete(reference, filters, Action.DOCUMENT_DELETE, document_id, with_file)
        if not removed:
            await self._refuse(reference, document_id)
        return deletion

    async def _refuse(self, reference: str, document_id: UUID) -> NoReturn:
        """Raises SharedDocument or Forbidden for a document that the key may read, DocumentNotFound for any other."""
        principal = self.knowledge_bases.principal
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in(session, reference)
            document, _ = await find_readable(session, kb, document_id, reader=principal.user_id)
        require_own(principal, document)
        raise DocumentNotFound

    async def delete_many(self, reference: str, selection: Selection, *, confirm: str | None) -> tuple[UUID, int]:
        """All that the selection means; returns the deletion's id and how many went.

        An empty filter means everything, and is believed only with the knowledge base's name as ``confirm``.
        Raises KnowledgeBaseNotFound, InvalidInput.
        """
        kb = await self.knowledge_bases.find(reference)
        if sum(given is not None for given in (selection.ids, selection.external_id, selection.filter)) != 1:
            raise InvalidInput("Say what to delete: one of ids, external_id and filter.", loc=("query",))
        if selection.filter is not None and not selection.filter and confirm != kb.row.name:
            message = "An empty filter deletes everything: add confirm with the knowledge base's name."
            raise InvalidInput(message, loc=("query", "confirm"))
        deletion, deleted = await self._delete(reference, selection.filters(), Action.DOCUMENT_DELETE_MANY)
        if not deleted:
            async with self.db.transaction() as session:
                await DeletionRepository(session, self.db.tenant_id).record(
                    deletion, kb.row.id, Amount(), user_id=self.knowledge_bases.principal.user_id
                )
            await settle_documents(self.db, [], deletion_id=deletion, job_id=deletion, objects=0)
        return deletion, deleted

    async def _delete(
        self,
        reference: str,
        filters: DocumentFilters,
        action: Action,
        document_id: UUID | None = None,
        with_file: UUID | None = None,
    ) -> tuple[UUID, int]:
        """In batches, each gone at once and an event of its own; what comes in meanwhile stays."""
        deletion, total = new_id(), 0
        filters = replace(filters, reader=self.knowledge_bases.principal.user_id, own=True, expired=True)
        newest: datetime | None = None  # of those that are there at first: no clock is asked, for hosts differ
        while True:
            async with self.db.transaction() as session:
                kb = await self.knowledge_bases.find_in(session, reference)
                repository = DeletionRepository(session, self.db.tenant_id)
                found, goes_on = await repository.lock(
                    kb.row.id, filters, until=newest, limit=BATCH, chunks=BATCH_CHUNKS
                )
                if goes_on and newest is None:
                    newest = await repository.newest(kb.row.id, filters)
                if found:
                    counts = await remove_documents(
                        session, self.queue, self.db.tenant_id, kb.row.id, found,
                        deletion=deletion, document_id=document_id, with_file=with_file,
                        user_id=filters.reader,
                    )  # fmt: skip
                    await self.knowledge_bases.record(session, Event(action, found, kb.row.id, deletion, counts))
            total += len(found)
            if not goes_on:
                return deletion, total

    async def receipt(self, deletion_id: UUID) -> Deletion:
        """What was deleted, and what was left of it when all was removed. Raises DeletionNotFound.

        The operator reads a tenant's own. A key restricted to knowledge bases reads the receipts of those. A key
        restricted to a user reads only the receipts of deletions that keys restricted to the same user asked for.
        """
        principal = self.knowledge_bases.principal
        async with self.db.transaction() as session:
            found = await ReceiptRepository(session, self.db.tenant_id).get(deletion_id)
        if found is None or (found.kb_id is not None and not principal.may_see(found.kb_id)):
            raise DeletionNotFound
        if principal.user_id is not None and found.user_key != Scope(principal.user_id).key():
            raise DeletionNotFound
        return found
