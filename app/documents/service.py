"""Read, change and reindex documents."""

import time
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy.exc import IntegrityError

from app.access import Principal
from app.audit.types import Action, Event
from app.db.models.tenant_data import Document
from app.db.session import Session, TenantDatabase
from app.documents.expiring import find_lasting
from app.documents.finding import find_readable
from app.documents.narrowing import claim, require_own
from app.documents.promotion import promote
from app.documents.repository import DocumentFilters, DocumentRepository
from app.documents.restamp_repository import RestampRepository
from app.documents.scopes import SHARED
from app.documents.types import (
    DocumentNotFound,
    IdentityTaken,
    filterable,
)
from app.documents.waiting_repository import WaitingRepository
from app.documents.watching import DocumentWatch
from app.job_queue import INTERACTIVE, URGENT, JobQueue
from app.knowledge_bases.service import KnowledgeBaseService
from app.object_store import ObjectStore

INGEST_JOB = "ingest_document"
FINAL = ("ready", "failed")


def ingest_payload(version: int, principal: Principal) -> dict[str, Any]:
    """What a document's job says: the version, and the key by whose quotas it is ingested."""
    return {"version": version} | ({"key": str(principal.key_id)} if principal.key_id else {})


@dataclass(frozen=True, slots=True)
class Original:
    """The bytes that were uploaded: a link where the object store makes links, else what to stream."""

    key: str
    document: Document
    link: str | None


@dataclass(frozen=True, slots=True)
class DocumentService:
    """What a tenant can do with documents."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    objects: ObjectStore
    queue: JobQueue
    watch: DocumentWatch
    tenant_concurrency: int

    async def get(self, reference: str, document_id: UUID) -> Document:
        """Raises KnowledgeBaseNotFound, DocumentNotFound."""
        async with self.db.transaction() as session:
            document = await self._get_in(session, reference, document_id)
            await self._explain(session, [document])
            return document

    async def _explain(self, session: Session, documents: Sequence[Document]) -> None:
        """Tell what documents wait for, in their progress."""
        waiting = WaitingRepository(session, self.db.tenant_id, tenant_concurrency=self.tenant_concurrency)
        await waiting.explain(documents)

    async def _get_in(self, session: Session, reference: str, document_id: UUID) -> Document:
        kb = await self.knowledge_bases.find_in(session, reference)
        document, _ = await find_readable(session, kb, document_id, reader=self.knowledge_bases.principal.user_id)
        return document

    async def _lock_in(self, session: Session, reference: str, document_id: UUID) -> Document:
        """For a change of it. Raises KnowledgeBaseNotFound, DocumentNotFound, SharedDocument, Forbidden."""
        kb = await self.knowledge_bases.find_in(session, reference)
        repository, principal = DocumentRepository(session, self.db.tenant_id), self.knowledge_bases.principal
        document = await repository.get(kb.row.id, document_id, reader=principal.user_id, lock=True)
        if document is None:
            found, _ = await find_readable(session, kb, document_id, reader=principal.user_id)
            require_own(principal, found)
            raise DocumentNotFound  # it came just now
        require_own(principal, document)
        return document

    async def wait(self, document: Document, seconds: float) -> Document:
        """The document as soon as its newest version is ready or failed, or as it is after ``seconds``.

        Raises DocumentNotFound, also when it is deleted meanwhile.
        """
        async with aclosing(self._states(document, seconds, until=FINAL)) as states:
            found = [state async for state in states][-1]
        if found is None:
            raise DocumentNotFound
        return found

    async def follow(
        self, reference: str, document_id: UUID, seconds: float, *, pulse: float | None = None
    ) -> AsyncGenerator[Document | None]:
        """Each state of the newest version: the present one, and every other that is seen, until it is a final one.

        Ends after ``seconds`` in any case; None is the last where the document is deleted. With ``pulse`` a state that
        lasts is told again after so many seconds. Raises KnowledgeBaseNotFound; DocumentNotFound where it is not there
        at first.
        """
        document = await self.get(reference, document_id)
        async with aclosing(self._states(document, seconds, pulse=pulse)) as states:
            async for state in states:
                yield state

    async def _states(
        self, first: Document, seconds: float, *, pulse: float | None = None, until: Collection[str] = ()
    ) -> AsyncGenerator[Document | None]:
        reader, now = self.knowledge_bases.principal.user_id, time.monotonic()
        deadline, told = now + seconds, now
        seen: tuple[object, ...] | None = None
        # A shared document is the system tenant's.
        async with self.watch.changes(first.tenant_id, first.id) as change:
            while True:
                async with self.db.transaction() as session:
                    repository = DocumentRepository(session, first.tenant_id)
                    document = await repository.get(first.kb_id, first.id, reader=reader)
                    if document is not None:
                        await self._explain(session, [document])
                if document is None:
                    if seen is None:
                        raise DocumentNotFound
                    yield None
                    return
                state, now = (document.version, document.status, document.progress), time.monotonic()
                if state != seen or (pulse is not None and now - told > pulse):
                    seen, told = state, now
                    yield document
                if document.status in FINAL or now >= deadline or self.watch.ending:
                    return
                await change.wait(deadline - now, until=until)

    async def page(
        self, reference: str, filters: DocumentFilters, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> tuple[str, list[Document]]:
        """The knowledge base's name and its documents, newest first, or the shared ones of that name.

        Raises KnowledgeBaseNotFound.
        """
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in(session, reference)
            source = kb if filters.scope_key != SHARED.key() or kb.twin is None else kb.twin
            repository = DocumentRepository(session, source.row.tenant_id)
            filters = replace(filters, reader=self.knowledge_bases.principal.user_id)
            documents = await repository.page(source.row.id, filters, after=after, limit=limit)
            await self._explain(session, documents)
            return kb.row.name, documents

    async def update(
        self, reference: str, document_id: UUID, changes: Mapping[str, Any], *, retries: bool = True
    ) -> Document:
        """Set ``metadata``, ``title``, ``source_uri``, ``scope`` or another field of the row, here and for search.

        All of it holds at once but the words of another title: they are embedded and indexed with every passage, and a
        job makes a document that is ready or has failed anew with them; without ``retries`` one that has failed is left
        to the caller. One that is under way gets them from the job that it has.

        Raises KnowledgeBaseNotFound, DocumentNotFound, SharedDocument, IdentityTaken, InvalidInput for a scope that is
        no promotion, IndexMismatch for a title.
        """
        try:
            async with self.db.transaction() as session:
                document = await self._lock_in(session, reference, document_id)
                # Read after the lock: whoever gives a new stamp to all has been here, or comes when this is done.
                kb = await self.knowledge_bases.find_in(session, reference)
                if document.stamp_number < kb.row.stamp_number:
                    await RestampRepository(session, self.db.tenant_id, kb.row.id).advance(document.id)
                    await session.refresh(document)
                if "scope" in changes:
                    scope = changes["scope"].of_tenant(self.db.tenant_id)
                    await claim(session, self.knowledge_bases.principal, scope)
                    changes = {**changes, "scope": scope}
                    # What has expired there is not in the way.
                    place = (self.db.tenant_id, kb.row.id, scope.key(loc=("body", "scope")))
                    name, sha256 = document.external_id, document.sha256
                    await find_lasting(session, self.queue, *place, name=name, sha256=sha256)
                settled = document.status in (FINAL if retries else ("ready",))
                retitled = settled and changes.get("title", document.title) != document.title
                if retitled:
                    kb.require_match(self.knowledge_bases.settings.embedders.identities)
                if _apply(document, changes, kb.row.stamp):
                    document.updated_at = datetime.now(UTC)
                    document.filterable = filterable(document)
                    await session.flush()
                    await DocumentRepository(session, self.db.tenant_id).restamp(document)
                    await self.record(session, Action.DOCUMENT_UPDATE, document)
                if retitled:
                    await self._begin_again(session, document)
        except IntegrityError as exc:
            raise IdentityTaken from exc  # the only constraints that an update can break are those of identity
        return document

    async def original(self, reference: str, document_id: UUID, *, inline: Collection[str]) -> Original:
        """The newest version's bytes; a link shows the media types of ``inline`` in place. Raises DocumentNotFound."""
        async with self.db.transaction() as session:
            document = await self._get_in(session, reference, document_id)
            key = await DocumentRepository(session, document.tenant_id).object_key(document.id, document.version)
        if key is None:
            raise DocumentNotFound
        media_type = document.media_type
        link = await self.objects.presign(
            key, filename=document.source, media_type=media_type, inline=media_type in inline
        )
        return Original(key, document, link)

    async def reindex(self, reference: str, document_id: UUID) -> Document:
        """Ingest the newest version again, whatever became of it; one that is under way is not begun a second time.

        What searches see stays until the new index of it is whole. Raises DocumentNotFound, SharedDocument,
        IndexMismatch.
        """
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in(session, reference)
            kb.require_match(self.knowledge_bases.settings.embedders.identities)
            document = await self._lock_in(session, reference, document_id)
            # What is ready or failed may have a job that is not settled yet, and does nothing any more.
            if document.status in FINAL or not await self.queue.hasten(
                session, tenant_id=self.db.tenant_id, document_id=document.id, version=document.version
            ):
                await self._begin_again(session, document)
            await self.record(session, Action.DOCUMENT_REINDEX, document)
        return document

    async def _begin_again(self, session: Session, document: Document) -> None:
        """Take the newest version back to the start, and have a job ingest it; the caller holds the row."""
        await DocumentRepository(session, self.db.tenant_id).restart(document.id)
        await self.enqueue(session, document, INTERACTIVE)
        await session.refresh(document)

    async def enqueue(self, session: Session, document: Document, priority: int) -> None:
        """Have a job ingest the document's newest version, counted for the key that asks."""
        await self.queue.enqueue(
            session,
            INGEST_JOB,
            tenant_id=self.db.tenant_id,
            document_id=document.id,
            payload=ingest_payload(document.version, self.knowledge_bases.principal),
            # An agent's note is for its next turn: whatever else comes one by one waits for it.
            priority=URGENT if document.dynamic and priority == INTERACTIVE else priority,
            limited_by=self.knowledge_bases.principal.ingests_for,
        )

    async def record(self, session: Session, action: Action, document: Document) -> None:
        """Tell the audit what is done to the document in this transaction."""
        await self.knowledge_bases.record(session, Event(action, [document.id], document.kb_id))


def _apply(document: Document, changes: Mapping[str, Any], stamp: Mapping[str, Any]) -> bool:
    """Set what the changes name; True when anything is another now. Raises InvalidInput."""
    wanted = dict(changes)
    promoted = "scope" in wanted and promote(document, wanted.pop("scope"))
    if "metadata" in wanted:
        wanted["attributes"] = {**wanted.pop("metadata"), **stamp}
    different = {name: value for name, value in wanted.items() if value != getattr(document, name)}
    for name, value in different.items():
        setattr(document, name, value)
    return promoted or bool(different)
