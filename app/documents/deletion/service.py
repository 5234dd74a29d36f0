"""Delete documents: out of every search in the same transaction, their originals by a job, and the receipts of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NoReturn
from uuid import UUID

from app.audit.types import AuditAction, AuditEvent
from app.db.deletion_receipts import DeletedCounts
from app.db.models.ingestion_state import DeletionRow
from app.db.session import TenantDatabase
from app.documents.access import require_writable
from app.documents.batch_size import MAX_BATCH_CHUNKS
from app.documents.deletion.completion import complete_document_deletion
from app.documents.deletion.receipt_repository import ReceiptRepository
from app.documents.deletion.remove import remove_documents
from app.documents.deletion.repository import DeletionRepository
from app.documents.lookup import find_readable_document
from app.documents.repository import DocumentRowFilters
from app.documents.scopes import DocumentScope
from app.documents.types import DocumentNotFound
from app.errors import InvalidInputError, NotFoundError
from app.filters import CHUNK_NAMES, compile_filter
from app.ids import generate_id
from app.jobs.queue import JobQueue
from app.knowledge_bases.service import KnowledgeBaseService

BATCH_SIZE = 500


class DeletionNotFound(NotFoundError):
    """There is no such deletion."""

    code = "deletion_not_found"


@dataclass(frozen=True, slots=True)
class DeletionSelection:
    """Which documents are meant; exactly one of the three is given."""

    ids: Sequence[UUID] | None = None
    external_id: str | None = None
    filter: Mapping[str, Any] | None = None

    def to_filters(self) -> DocumentRowFilters:
        """What the documents are found by.

        Raises InvalidInputError, also for what only chunks have: that it is missing is true of every document.
        """
        compiled_filter = compile_filter(self.filter, loc=("query", "filter"), excluded_names=CHUNK_NAMES)
        return DocumentRowFilters(
            ids=self.ids, external_id=self.external_id, contains=compiled_filter.contains, path=compiled_filter.path
        )


@dataclass(frozen=True, slots=True)
class DeletionService:
    """How documents go."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    queue: JobQueue

    async def delete(self, reference: str, document_id: UUID, *, with_file: UUID | None = None) -> UUID:
        """One document; returns the deletion's id. ``with_file`` is the kept file of it that is about to go as well.

        Raises KnowledgeBaseNotFound, DocumentNotFound, ForbiddenError.
        """
        filters = DocumentRowFilters(ids=[document_id])
        deletion_id, removed = await self._delete(
            reference, filters, AuditAction.DOCUMENT_DELETE, document_id, with_file
        )
        if not removed:
            await self._raise_not_deletable(reference, document_id)
        return deletion_id

    async def _raise_not_deletable(self, reference: str, document_id: UUID) -> NoReturn:
        """Raises SharedDocument or ForbiddenError if the key may read the document, else DocumentNotFound."""
        principal = self.knowledge_bases.principal
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            document, _ = await find_readable_document(session, kb, document_id, reader=principal.user_id)
        require_writable(principal, document)
        raise DocumentNotFound

    async def delete_many(
        self, reference: str, selection: DeletionSelection, *, confirm: str | None
    ) -> tuple[UUID, int]:
        """All that the selection means; returns the deletion's id and how many went.

        An empty filter means everything, and is believed only with the knowledge base's name as ``confirm``.
        Raises KnowledgeBaseNotFound, InvalidInputError.
        """
        kb = await self.knowledge_bases.find(reference)
        if sum(value is not None for value in (selection.ids, selection.external_id, selection.filter)) != 1:
            raise InvalidInputError("Say what to delete: one of ids, external_id and filter.", loc=("query",))
        if selection.filter is not None and not selection.filter and confirm != kb.row.name:
            message = "An empty filter deletes everything: add confirm with the knowledge base's name."
            raise InvalidInputError(message, loc=("query", "confirm"))
        deletion_id, deleted_count = await self._delete(
            reference, selection.to_filters(), AuditAction.DOCUMENT_DELETE_MANY
        )
        if not deleted_count:
            async with self.db.transaction() as session:
                await DeletionRepository(session, self.db.tenant_id).record_receipt(
                    deletion_id, kb.row.id, DeletedCounts(), user_id=self.knowledge_bases.principal.user_id
                )
            await complete_document_deletion(self.db, [], deletion_id=deletion_id, job_id=deletion_id, objects=0)
        return deletion_id, deleted_count

    async def _delete(
        self,
        reference: str,
        filters: DocumentRowFilters,
        action: AuditAction,
        document_id: UUID | None = None,
        with_file: UUID | None = None,
    ) -> tuple[UUID, int]:
        """In batches, each gone at once and an event of its own; what comes in meanwhile stays."""
        deletion_id, total = generate_id(), 0
        filters = replace(
            filters, reader=self.knowledge_bases.principal.user_id, only_writable=True, include_expired=True
        )
        newest: datetime | None = None  # of those that are there at first: no clock is asked, for hosts differ
        while True:
            async with self.db.transaction() as session:
                kb = await self.knowledge_bases.find_in_session(session, reference)
                repository = DeletionRepository(session, self.db.tenant_id)
                document_ids, has_more = await repository.lock(
                    kb.row.id, filters, until=newest, limit=BATCH_SIZE, max_chunks=MAX_BATCH_CHUNKS
                )
                if has_more and newest is None:
                    newest = await repository.find_newest_creation_time(kb.row.id, filters)
                if document_ids:
                    counts = await remove_documents(
                        session, self.queue, self.db.tenant_id, kb.row.id, document_ids,
                        deletion_id=deletion_id, document_id=document_id, with_file=with_file,
                        user_id=filters.reader,
                    )  # fmt: skip
                    await self.knowledge_bases.record_event(
                        session, AuditEvent(action, document_ids, kb.row.id, deletion_id, counts)
                    )
            total += len(document_ids)
            if not has_more:
                return deletion_id, total

    async def get_receipt(self, deletion_id: UUID) -> DeletionRow:
        """What was deleted, and what was left of it when all was removed. Raises DeletionNotFound.

        The operator reads a tenant's own. A key restricted to knowledge bases reads the receipts of those. A key
        restricted to a user reads only the receipts of deletions that keys restricted to the same user asked for.
        """
        principal = self.knowledge_bases.principal
        async with self.db.transaction() as session:
            receipt = await ReceiptRepository(session, self.db.tenant_id).get(deletion_id)
        if receipt is None or (receipt.kb_id is not None and not principal.can_access(receipt.kb_id)):
            raise DeletionNotFound
        if principal.user_id is not None and receipt.user_key != DocumentScope(principal.user_id).to_key():
            raise DeletionNotFound
        return receipt
