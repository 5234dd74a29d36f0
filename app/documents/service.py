"""Reading, changing and reindexing documents."""

import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy.exc import IntegrityError

from app.audit.types import AuditAction, AuditEvent
from app.db.models.tenant_data import DocumentRow
from app.db.session import Session, TenantDatabase
from app.documents.access import claim_scope, require_writable
from app.documents.change_feed import DocumentChangeFeed
from app.documents.expiry import find_unexpired_document
from app.documents.lookup import find_readable_document
from app.documents.metadata_backfill.repository import MetadataBackfillRepository
from app.documents.pending_repository import WaitingRepository
from app.documents.promotion import promote_document
from app.documents.repository import DocumentRepository, DocumentRowFilters
from app.documents.scopes import SHARED_SCOPE
from app.documents.types import (
    DocumentNotFound,
    DuplicateIdentity,
    build_document_filter_metadata,
)
from app.jobs.queue import INTERACTIVE, URGENT, JobQueue
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseView
from app.object_store import ObjectStore
from app.principal import Principal

INGEST_JOB = "ingest_document"
FINAL_STATUSES = ("ready", "failed")


def build_ingest_payload(version: int, principal: Principal) -> dict[str, Any]:
    """Return the payload of an ingestion job: the version, and the API key whose quotas apply."""
    return {"version": version} | ({"key": str(principal.key_id)} if principal.key_id else {})


@dataclass(frozen=True, slots=True)
class OriginalDownload:
    """The original of a document: a presigned link, or the object key to stream if the object store has no links."""

    key: str
    document: DocumentRow
    link: str | None


@dataclass(frozen=True, slots=True)
class DocumentService:
    """Use cases that read, change and reindex documents of one tenant."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    objects: ObjectStore
    queue: JobQueue
    change_feed: DocumentChangeFeed
    tenant_concurrency: int

    async def get(self, reference: str, document_id: UUID) -> DocumentRow:
        """Return one document, with the reason for its wait if it is queued.

        Raises KnowledgeBaseNotFound, DocumentNotFound.
        """
        async with self.db.transaction() as session:
            document = await self._get_in_session(session, reference, document_id)
            await self._add_waiting_reasons(session, [document])
            return document

    async def _add_waiting_reasons(self, session: Session, documents: Sequence[DocumentRow]) -> None:
        """Add the reasons why queued documents wait to their ``progress``."""
        waiting = WaitingRepository(session, self.db.tenant_id, tenant_concurrency=self.tenant_concurrency)
        await waiting.add_waiting_reasons(documents)

    async def _get_in_session(self, session: Session, reference: str, document_id: UUID) -> DocumentRow:
        kb = await self.knowledge_bases.find_in_session(session, reference)
        document, _ = await find_readable_document(
            session, kb, document_id, reader=self.knowledge_bases.principal.user_id
        )
        return document

    async def lock_writable(self, session: Session, reference: str, document_id: UUID) -> DocumentRow:
        """Lock a document before a change.

        Raises KnowledgeBaseNotFound, DocumentNotFound, SharedDocument, ForbiddenError.
        """
        kb = await self.knowledge_bases.find_in_session(session, reference)
        repository, principal = DocumentRepository(session, self.db.tenant_id), self.knowledge_bases.principal
        document = await repository.get(kb.row.id, document_id, reader=principal.user_id, lock=True)
        if document is None:
            readable_document, _ = await find_readable_document(session, kb, document_id, reader=principal.user_id)
            require_writable(principal, readable_document)
            raise DocumentNotFound  # the document was created between the two queries
        require_writable(principal, document)
        return document

    async def wait_until_final(self, document: DocumentRow, timeout_seconds: float) -> DocumentRow:
        """Wait until the newest version of a document is ready or has failed, or until the timeout.

        Args:
            document: The document, as the caller has read it.
            timeout_seconds: The maximum wait.

        Returns:
            The document's state at the end of the wait.

        Raises:
            DocumentNotFound: The document was deleted.
        """
        async with aclosing(self._iter_states(document, timeout_seconds, until_statuses=FINAL_STATUSES)) as states:
            last_state = [state async for state in states][-1]
        if last_state is None:
            raise DocumentNotFound
        return last_state

    async def stream_states(
        self, reference: str, document_id: UUID, timeout_seconds: float, *, repeat_interval_seconds: float | None = None
    ) -> AsyncGenerator[DocumentRow | None]:
        """Yield the present state of a document's newest version, then each later state that is seen.

        The stream ends with a final status or at the timeout. If the document is deleted, the last item is None.

        Args:
            reference: Name or id of the knowledge base.
            document_id: The document.
            timeout_seconds: The maximum duration of the stream.
            repeat_interval_seconds: The interval at which an unchanged state is yielded again. None never repeats it.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            DocumentNotFound: The document does not exist at the start.
        """
        document = await self.get(reference, document_id)
        async with aclosing(
            self._iter_states(document, timeout_seconds, repeat_interval_seconds=repeat_interval_seconds)
        ) as states:
            async for state in states:
                yield state

    async def _iter_states(
        self,
        first: DocumentRow,
        timeout_seconds: float,
        *,
        repeat_interval_seconds: float | None = None,
        until_statuses: Collection[str] = (),
    ) -> AsyncGenerator[DocumentRow | None]:
        reader, now = self.knowledge_bases.principal.user_id, time.monotonic()
        deadline, last_sent = now + timeout_seconds, now
        last_state: tuple[object, ...] | None = None
        # A shared document belongs to the system tenant, so the document's tenant can differ from the caller's.
        async with self.change_feed.subscribe(first.tenant_id, first.id) as subscription:
            while True:
                async with self.db.transaction() as session:
                    repository = DocumentRepository(session, first.tenant_id)
                    document = await repository.get(first.kb_id, first.id, reader=reader)
                    if document is not None:
                        await self._add_waiting_reasons(session, [document])
                if document is None:
                    if last_state is None:
                        raise DocumentNotFound
                    yield None
                    return
                state, now = (document.version, document.status, document.progress), time.monotonic()
                if state != last_state or (
                    repeat_interval_seconds is not None and now - last_sent > repeat_interval_seconds
                ):
                    last_state, last_sent = state, now
                    yield document
                if document.status in FINAL_STATUSES or now >= deadline or self.change_feed.is_ending:
                    return
                await subscription.wait(deadline - now, until_statuses=until_statuses)

    async def list_documents(
        self, reference: str, filters: DocumentRowFilters, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> tuple[str, list[DocumentRow]]:
        """List documents of a knowledge base, newest first.

        If the filters name the shared scope, the documents of the shared counterpart are listed.

        Args:
            reference: Name or id of the knowledge base.
            filters: The conditions on the documents.
            after: Creation time and id of the last document of the previous page. None begins with the newest document.
            limit: The maximum number of documents.

        Returns:
            The name of the knowledge base, and the documents.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            InvalidInputError: The database rejects the filter.
        """
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            listed_kb = (
                kb
                if filters.scope_key != SHARED_SCOPE.to_key() or kb.shared_counterpart is None
                else kb.shared_counterpart
            )
            repository = DocumentRepository(session, listed_kb.row.tenant_id)
            filters = replace(filters, reader=self.knowledge_bases.principal.user_id)
            documents = await repository.list_documents(listed_kb.row.id, filters, after=after, limit=limit)
            await self._add_waiting_reasons(session, documents)
            return kb.row.name, documents

    async def update(
        self,
        reference: str,
        document_id: UUID,
        changes: Mapping[str, Any],
        *,
        retry_failed: bool = True,
        check: Callable[[DocumentRow], None] | None = None,
    ) -> DocumentRow:
        """Change fields of a document, in its row and in the search index.

        All changes apply when the transaction ends, except a new title. The title's words are embedded and indexed with
        every chunk, so a new title starts ingestion again. So does a new value of a metadata key whose values are
        entities. If the document is being ingested already, the present job uses the new values.

        Args:
            reference: Name or id of the knowledge base.
            document_id: The document.
            changes: New values by field: ``metadata``, ``title``, ``source_uri``, ``scope`` or another column.
            check: Check of the stored document under its lock, before the change; None without one.
            retry_failed: Whether a new title also starts ingestion of a document that has failed.

        Returns:
            The changed document.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            DocumentNotFound: The document does not exist, or the caller may not read it.
            SharedDocument: The document belongs to the system tenant.
            ForbiddenError: The caller's key is restricted to a user who owns neither the document nor the new scope.
            DuplicateIdentity: Another document of the new scope has the same identity.
            InvalidInputError: The new scope is not wider than the present scope.
            IndexMismatch: Ingestion must start again, and no configured embedding model fits the search index.
        """
        try:
            async with self.db.transaction() as session:
                document = await self.lock_writable(session, reference, document_id)
                # The knowledge base is read after the lock of the document. A metadata backfill has updated the
                # document already, or waits for the lock.
                kb = await self.knowledge_bases.find_in_session(session, reference)
                if document.metadata_revision < kb.row.metadata_revision:
                    await MetadataBackfillRepository(session, self.db.tenant_id, kb.row.id).apply_to_document(
                        document.id
                    )
                    await session.refresh(document)
                if check is not None:
                    check(document)
                if "scope" in changes:
                    scope = changes["scope"].with_tenant(self.db.tenant_id)
                    await claim_scope(session, self.knowledge_bases.principal, scope)
                    changes = {**changes, "scope": scope}
                    # An expired document with the same identity must not prevent the move.
                    location = (self.db.tenant_id, kb.row.id, scope.to_key(loc=("body", "scope")))
                    external_id, sha256 = document.external_id, document.sha256
                    await find_unexpired_document(
                        session, self.queue, *location, external_id=external_id, sha256=sha256
                    )
                if document.title is None and changes.get("title") == document.source:
                    # Responses have the name in place of a missing title, and a client may send it back.
                    changes = {name: value for name, value in changes.items() if name != "title"}
                is_settled = document.status in (FINAL_STATUSES if retry_failed else ("ready",))
                is_retitled = is_settled and changes.get("title", document.title) != document.title
                former_entities = _list_metadata_entities(kb, document)
                if _apply_changes(document, changes, kb.row.enforced_metadata):
                    document.updated_at = datetime.now(UTC)
                    document.filterable = build_document_filter_metadata(document)
                    await session.flush()
                    await DocumentRepository(session, self.db.tenant_id).update_search_metadata(document)
                    await self.record_event(session, AuditAction.DOCUMENT_UPDATE, document)
                if is_retitled or (is_settled and _list_metadata_entities(kb, document) != former_entities):
                    kb.require_match(self.knowledge_bases.settings.embedders.identities)
                    await self._restart_ingestion(session, document)
        except IntegrityError as exc:
            raise DuplicateIdentity from exc  # only the unique constraints on identity can fail in an update
        return document

    async def get_original(
        self, reference: str, document_id: UUID, *, inline_types: Collection[str]
    ) -> OriginalDownload:
        """Return the original of a document's newest version.

        Args:
            reference: Name or id of the knowledge base.
            document_id: The document.
            inline_types: Media types that browsers show in place. Links to other types download the file.

        Returns:
            A presigned link, or the object key if the object store has no links.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            DocumentNotFound: The document does not exist, or its original is not stored.
        """
        async with self.db.transaction() as session:
            document = await self._get_in_session(session, reference, document_id)
            key = await DocumentRepository(session, document.tenant_id).find_object_key(document.id, document.version)
        if key is None:
            raise DocumentNotFound
        media_type = document.media_type
        link = await self.objects.presign(
            key, filename=document.source, media_type=media_type, inline=media_type in inline_types
        )
        return OriginalDownload(key, document, link)

    async def reindex(self, reference: str, document_id: UUID) -> DocumentRow:
        """Ingest the newest version of a document again.

        If the version has a waiting or running job, no second job is created, and a waiting job runs now. Searches read
        the live version until the new index entries are complete.

        Args:
            reference: Name or id of the knowledge base.
            document_id: The document.

        Returns:
            The document.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            DocumentNotFound: The document does not exist, or the caller may not read it.
            SharedDocument: The document belongs to the system tenant.
            IndexMismatch: No configured embedding model fits the search index.
        """
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            kb.require_match(self.knowledge_bases.settings.embedders.identities)
            document = await self.lock_writable(session, reference, document_id)
            # A ready or failed document may still have a job that was not removed yet. That job does nothing any more.
            if document.status in FINAL_STATUSES or not await self.queue.run_now(
                session, tenant_id=self.db.tenant_id, document_id=document.id, version=document.version
            ):
                await self._restart_ingestion(session, document)
            await self.record_event(session, AuditAction.DOCUMENT_REINDEX, document)
        return document

    async def _restart_ingestion(self, session: Session, document: DocumentRow) -> None:
        """Set the newest version back to ``queued`` and enqueue its ingestion. The caller has locked the row."""
        await DocumentRepository(session, self.db.tenant_id).restart(document.id)
        await self.enqueue(session, document, INTERACTIVE)
        await session.refresh(document)

    async def enqueue(self, session: Session, document: DocumentRow, priority: int) -> None:
        """Enqueue the ingestion of a document's newest version, counted against the caller's API key.

        Args:
            session: The transaction that stores the document.
            document: The document.
            priority: The job's priority. A dynamic document with INTERACTIVE gets URGENT.
        """
        await self.queue.enqueue(
            session,
            INGEST_JOB,
            tenant_id=self.db.tenant_id,
            document_id=document.id,
            payload=build_ingest_payload(document.version, self.knowledge_bases.principal),
            # A dynamic document is an agent's note for its next turn, so it goes before other single uploads.
            priority=URGENT if document.dynamic and priority == INTERACTIVE else priority,
            concurrency_key=self.knowledge_bases.principal.ingestion_quota_key_id,
        )

    async def record_event(self, session: Session, action: AuditAction, document: DocumentRow) -> None:
        """Add an audit event about the document in this transaction."""
        await self.knowledge_bases.record_event(session, AuditEvent(action, [document.id], document.kb_id))


def _list_metadata_entities(kb: KnowledgeBaseView, document: DocumentRow) -> dict[str, Any]:
    """Return the metadata of a document whose values are entities of its chunks in the search index."""
    keys = kb.index_graph.metadata_keys if kb.index_graph else ()
    return {key: document.attributes[key] for key in keys if key in document.attributes}


def _apply_changes(document: DocumentRow, changes: Mapping[str, Any], enforced_metadata: Mapping[str, Any]) -> bool:
    """Set the named fields; return whether any value changed. Raises InvalidInputError."""
    values = dict(changes)
    is_promoted = "scope" in values and promote_document(document, values.pop("scope"))
    if "metadata" in values:
        values["attributes"] = {**values.pop("metadata"), **enforced_metadata}
    different = {name: value for name, value in values.items() if value != getattr(document, name)}
    for name, value in different.items():
        setattr(document, name, value)
    return is_promoted or bool(different)
