"""Read, change and reindex documents."""

import time
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
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
from app.object_store import ObjectStore
from app.principal import Principal

INGEST_JOB = "ingest_document"
FINAL_STATUSES = ("ready", "failed")


def build_ingest_payload(version: int, principal: Principal) -> dict[str, Any]:
    """What a document's job says: the version, and the key by whose quotas it is ingested."""
    return {"version": version} | ({"key": str(principal.key_id)} if principal.key_id else {})


@dataclass(frozen=True, slots=True)
class OriginalDownload:
    """The bytes that were uploaded: a link where the object store makes links, else what to stream."""

    key: str
    document: DocumentRow
    link: str | None


@dataclass(frozen=True, slots=True)
class DocumentService:
    """What a tenant can do with documents."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    objects: ObjectStore
    queue: JobQueue
    change_feed: DocumentChangeFeed
    tenant_concurrency: int

    async def get(self, reference: str, document_id: UUID) -> DocumentRow:
        """Raises KnowledgeBaseNotFound, DocumentNotFound."""
        async with self.db.transaction() as session:
            document = await self._get_in_session(session, reference, document_id)
            await self._add_waiting_reasons(session, [document])
            return document

    async def _add_waiting_reasons(self, session: Session, documents: Sequence[DocumentRow]) -> None:
        """Tell what documents wait for, in their progress."""
        waiting = WaitingRepository(session, self.db.tenant_id, tenant_concurrency=self.tenant_concurrency)
        await waiting.add_waiting_reasons(documents)

    async def _get_in_session(self, session: Session, reference: str, document_id: UUID) -> DocumentRow:
        kb = await self.knowledge_bases.find_in_session(session, reference)
        document, _ = await find_readable_document(
            session, kb, document_id, reader=self.knowledge_bases.principal.user_id
        )
        return document

    async def _lock_in_session(self, session: Session, reference: str, document_id: UUID) -> DocumentRow:
        """For a change of it. Raises KnowledgeBaseNotFound, DocumentNotFound, SharedDocument, ForbiddenError."""
        kb = await self.knowledge_bases.find_in_session(session, reference)
        repository, principal = DocumentRepository(session, self.db.tenant_id), self.knowledge_bases.principal
        document = await repository.get(kb.row.id, document_id, reader=principal.user_id, lock=True)
        if document is None:
            readable_document, _ = await find_readable_document(session, kb, document_id, reader=principal.user_id)
            require_writable(principal, readable_document)
            raise DocumentNotFound  # it came just now
        require_writable(principal, document)
        return document

    async def wait_until_final(self, document: DocumentRow, timeout_seconds: float) -> DocumentRow:
        """The document as soon as its newest version is ready or failed, or as it is after ``timeout_seconds``.

        Raises DocumentNotFound, also when it is deleted meanwhile.
        """
        async with aclosing(self._iter_states(document, timeout_seconds, until_statuses=FINAL_STATUSES)) as states:
            last_state = [state async for state in states][-1]
        if last_state is None:
            raise DocumentNotFound
        return last_state

    async def stream_states(
        self, reference: str, document_id: UUID, timeout_seconds: float, *, repeat_interval_seconds: float | None = None
    ) -> AsyncGenerator[DocumentRow | None]:
        """Each state of the newest version: the present one, and every other that is seen, until it is a final one.

        Ends after ``timeout_seconds`` in any case; None is the last where the document is deleted. With
        ``repeat_interval_seconds`` a state that lasts is told again after so many seconds. Raises
        KnowledgeBaseNotFound; DocumentNotFound where it is not there at first.
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
        # A shared document is the system tenant's.
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
        """The knowledge base's name and its documents, newest first, or the shared ones of that name.

        Raises KnowledgeBaseNotFound.
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
        self, reference: str, document_id: UUID, changes: Mapping[str, Any], *, retry_failed: bool = True
    ) -> DocumentRow:
        """Set ``metadata``, ``title``, ``source_uri``, ``scope`` or another field of the row, here and for search.

        All of it holds at once but the words of another title: they are embedded and indexed with every passage, and a
        job makes a document that is ready or has failed anew with them; without ``retry_failed`` one that has failed is
        left to the caller. One that is under way gets them from the job that it has.

        Raises KnowledgeBaseNotFound, DocumentNotFound, SharedDocument, DuplicateIdentity, InvalidInputError for a scope
        that is no promotion, IndexMismatch for a title.
        """
        try:
            async with self.db.transaction() as session:
                document = await self._lock_in_session(session, reference, document_id)
                # Read after the lock: whoever gives a new stamp to all has been here, or comes when this is done.
                kb = await self.knowledge_bases.find_in_session(session, reference)
                if document.metadata_revision < kb.row.metadata_revision:
                    await MetadataBackfillRepository(session, self.db.tenant_id, kb.row.id).apply_to_document(
                        document.id
                    )
                    await session.refresh(document)
                if "scope" in changes:
                    scope = changes["scope"].with_tenant(self.db.tenant_id)
                    await claim_scope(session, self.knowledge_bases.principal, scope)
                    changes = {**changes, "scope": scope}
                    # What has expired there is not in the way.
                    location = (self.db.tenant_id, kb.row.id, scope.to_key(loc=("body", "scope")))
                    external_id, sha256 = document.external_id, document.sha256
                    await find_unexpired_document(
                        session, self.queue, *location, external_id=external_id, sha256=sha256
                    )
                is_settled = document.status in (FINAL_STATUSES if retry_failed else ("ready",))
                is_retitled = is_settled and changes.get("title", document.title) != document.title
                if is_retitled:
                    kb.require_match(self.knowledge_bases.settings.embedders.identities)
                if _apply_changes(document, changes, kb.row.enforced_metadata):
                    document.updated_at = datetime.now(UTC)
                    document.filterable = build_document_filter_metadata(document)
                    await session.flush()
                    await DocumentRepository(session, self.db.tenant_id).update_search_metadata(document)
                    await self.record_event(session, AuditAction.DOCUMENT_UPDATE, document)
                if is_retitled:
                    await self._restart_ingestion(session, document)
        except IntegrityError as exc:
            raise DuplicateIdentity from exc  # the only constraints that an update can break are those of identity
        return document

    async def get_original(
        self, reference: str, document_id: UUID, *, inline_types: Collection[str]
    ) -> OriginalDownload:
        """The newest version's bytes; a link shows the media types of ``inline_types`` in place.

        Raises DocumentNotFound.
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
        """Ingest the newest version again, whatever became of it; one that is under way is not begun a second time.

        What searches see stays until the new index of it is whole. Raises DocumentNotFound, SharedDocument,
        IndexMismatch.
        """
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            kb.require_match(self.knowledge_bases.settings.embedders.identities)
            document = await self._lock_in_session(session, reference, document_id)
            # What is ready or failed may have a job that is not settled yet, and does nothing any more.
            if document.status in FINAL_STATUSES or not await self.queue.run_now(
                session, tenant_id=self.db.tenant_id, document_id=document.id, version=document.version
            ):
                await self._restart_ingestion(session, document)
            await self.record_event(session, AuditAction.DOCUMENT_REINDEX, document)
        return document

    async def _restart_ingestion(self, session: Session, document: DocumentRow) -> None:
        """Take the newest version back to the start, and have a job ingest it; the caller holds the row."""
        await DocumentRepository(session, self.db.tenant_id).restart(document.id)
        await self.enqueue(session, document, INTERACTIVE)
        await session.refresh(document)

    async def enqueue(self, session: Session, document: DocumentRow, priority: int) -> None:
        """Have a job ingest the document's newest version, counted for the key that asks."""
        await self.queue.enqueue(
            session,
            INGEST_JOB,
            tenant_id=self.db.tenant_id,
            document_id=document.id,
            payload=build_ingest_payload(document.version, self.knowledge_bases.principal),
            # An agent's note is for its next turn: whatever else comes one by one waits for it.
            priority=URGENT if document.dynamic and priority == INTERACTIVE else priority,
            concurrency_key=self.knowledge_bases.principal.ingestion_quota_key_id,
        )

    async def record_event(self, session: Session, action: AuditAction, document: DocumentRow) -> None:
        """Tell the audit what is done to the document in this transaction."""
        await self.knowledge_bases.record_event(session, AuditEvent(action, [document.id], document.kb_id))


def _apply_changes(document: DocumentRow, changes: Mapping[str, Any], enforced_metadata: Mapping[str, Any]) -> bool:
    """Set what the changes name; True when anything is another now. Raises InvalidInputError."""
    values = dict(changes)
    is_promoted = "scope" in values and promote_document(document, values.pop("scope"))
    if "metadata" in values:
        values["attributes"] = {**values.pop("metadata"), **enforced_metadata}
    different = {name: value for name, value in values.items() if value != getattr(document, name)}
    for name, value in different.items():
        setattr(document, name, value)
    return is_promoted or bool(different)
