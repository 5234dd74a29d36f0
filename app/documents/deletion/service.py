"""Deletion of documents. A transaction removes them from searches, then a job deletes the originals."""

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
from app.documents.deletion.receipt_repository import DeletionState, ReceiptFilters, ReceiptRepository
from app.documents.deletion.remove import remove_documents
from app.documents.deletion.repository import DeletionRepository
from app.documents.lookup import find_readable_document
from app.documents.repository import DocumentRowFilters
from app.documents.scopes import DocumentScope
from app.documents.types import DocumentNotFound
from app.errors import InvalidInputError, NotFoundError
from app.filters import CHUNK_NAMES, compile_filter
from app.ids import decode_id, generate_id
from app.jobs.queue import JobQueue
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseNotFound

BATCH_SIZE = 500


class DeletionNotFound(NotFoundError):
    """The deletion receipt does not exist, or this API key may not read it. Check the id of the deletion."""

    code = "deletion_not_found"


@dataclass(frozen=True, slots=True)
class DeletionSelection:
    """Selection of the documents to delete; exactly one of the three fields is set."""

    ids: Sequence[UUID] | None = None
    external_id: str | None = None
    filter: Mapping[str, Any] | None = None

    def to_filters(self) -> DocumentRowFilters:
        """Return the conditions on the documents.

        Raises:
            InvalidInputError: The filter is not valid, or names metadata that only chunks have. A condition that such
                metadata is missing would match every document.
        """
        compiled_filter = compile_filter(self.filter, loc=("query", "filter"), excluded_names=CHUNK_NAMES)
        return DocumentRowFilters(
            ids=self.ids, external_id=self.external_id, contains=compiled_filter.contains, path=compiled_filter.path
        )


@dataclass(frozen=True, slots=True)
class DeletionService:
    """Use cases that delete documents and read receipts."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    queue: JobQueue

    async def delete(self, reference: str, document_id: UUID, *, with_file: UUID | None = None) -> UUID:
        """Delete one document.

        Args:
            reference: Name or id of the knowledge base.
            document_id: The document.
            with_file: The stored file of the document, if the caller deletes the file as well.

        Returns:
            The id of the deletion.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            DocumentNotFound: The document does not exist, or the caller may not read it.
            ForbiddenError: The caller may not change the document.
        """
        filters = DocumentRowFilters(ids=[document_id])
        deletion_id, removed = await self._delete(
            reference, filters, AuditAction.DOCUMENT_DELETE, document_id, with_file
        )
        if not removed:
            await self._raise_not_deletable(reference, document_id)
        return deletion_id

    async def _raise_not_deletable(self, reference: str, document_id: UUID) -> NoReturn:
        """Raise SharedDocument or ForbiddenError if the key may read the document, otherwise DocumentNotFound."""
        principal = self.knowledge_bases.principal
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            document, _ = await find_readable_document(session, kb, document_id, reader=principal.user_id)
        require_writable(principal, document)
        raise DocumentNotFound

    async def delete_many(
        self, reference: str, selection: DeletionSelection, *, confirm: str | None
    ) -> tuple[UUID, int]:
        """Delete all documents that match a selection.

        Args:
            reference: Name or id of the knowledge base.
            selection: The selection. An empty filter selects all documents.
            confirm: The name of the knowledge base. An empty filter requires it.

        Returns:
            The id of the deletion and the number of deleted documents.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            InvalidInputError: The selection or its filter is not valid, or the confirmation is missing.
        """
        kb = await self.knowledge_bases.find(reference)
        if sum(value is not None for value in (selection.ids, selection.external_id, selection.filter)) != 1:
            raise InvalidInputError(
                "The selection is not clear. Send exactly one of ids, external_id and filter.", loc=("query",)
            )
        if selection.filter is not None and not selection.filter and confirm != kb.row.name:
            message = "An empty filter deletes all documents. Set confirm to the knowledge base's name."
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
        """Delete matching documents in batches, each with an audit event.

        Documents that arrive during the deletion stay.
        """
        deletion_id, total = generate_id(), 0
        filters = replace(
            filters, reader=self.knowledge_bases.principal.user_id, only_writable=True, include_expired=True
        )
        # Only documents that exist at the start are deleted. The time is from the database, because clocks of hosts
        # differ.
        newest: datetime | None = None
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
        """Return the receipt of a deletion: the deleted amounts, and the counts that remained at its end.

        The operator reads the receipt of a tenant's deletion. A key restricted to knowledge bases reads the receipts of
        these knowledge bases. A key restricted to a user reads only receipts of deletions by keys with the same user.

        Args:
            deletion_id: The deletion.

        Returns:
            The receipt.

        Raises:
            DeletionNotFound: The receipt does not exist, or the caller may not read it.
        """
        principal = self.knowledge_bases.principal
        async with self.db.transaction() as session:
            receipt = await ReceiptRepository(session, self.db.tenant_id).get(deletion_id)
        if receipt is None or (receipt.kb_id is not None and not principal.can_access(receipt.kb_id)):
            raise DeletionNotFound
        if principal.user_id is not None and receipt.user_key != DocumentScope(principal.user_id).to_key():
            raise DeletionNotFound
        return receipt

    async def list_receipts(
        self,
        *,
        state: DeletionState | None,
        knowledge_base: str | None,
        after: tuple[datetime, UUID] | None,
        limit: int,
    ) -> Sequence[DeletionRow]:
        """Return a page of the receipts that ``get_receipt`` returns to the caller, newest first.

        Args:
            state: Only unfinished, or only finished deletions; None for both.
            knowledge_base: Only deletions of this knowledge base and in it. The id also finds receipts of a deleted
                knowledge base, the name does not.
            after: Request time and id of the last receipt of the previous page; None for the first page.
            limit: Maximum number of receipts.

        Raises:
            KnowledgeBaseNotFound: No knowledge base has this name, or the key may not read the knowledge base.
        """
        principal = self.knowledge_bases.principal
        async with self.db.transaction() as session:
            kb_id = None
            if knowledge_base is not None:
                kb_id = decode_id("kb", knowledge_base)
                if kb_id is None:
                    kb_id = (await self.knowledge_bases.find_in_session(session, knowledge_base)).row.id
                if not principal.can_access(kb_id):
                    raise KnowledgeBaseNotFound
            filters = ReceiptFilters(
                state=state,
                kb_id=kb_id,
                allowed_kb_ids=self.knowledge_bases.get_allowed_ids(),
                user_key=None if principal.user_id is None else DocumentScope(principal.user_id).to_key(),
            )
            return await ReceiptRepository(session, self.db.tenant_id).list_receipts(filters, after=after, limit=limit)
