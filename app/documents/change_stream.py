"""Stream of the changes of all documents of a knowledge base, which a caller can resume."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy import func, select, tuple_

from app.db.models.ingestion_state import DeletionRow
from app.db.models.tenant_data import DocumentRow
from app.db.session import Session, TenantDatabase
from app.documents.change_feed import DocumentChangeFeed
from app.documents.pending_repository import WaitingRepository
from app.documents.repository import DocumentRowFilters, apply_filters
from app.documents.scopes import DocumentScope
from app.ids import encode_id
from app.knowledge_bases.service import KnowledgeBaseService

# A transaction sets the time of a change when it begins, and others see the change when it commits.
MAX_COMMIT_DELAY = timedelta(minutes=2)
PAGE_SIZE = 500
# Changes in quick succession are read together.
MIN_SCAN_INTERVAL_SECONDS = 0.25
NIL = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Change:
    """State of a document, a receipt of a deletion, or neither at the begin of a stream.

    ``position`` is the time at which a stream can be resumed without a gap.
    """

    position: datetime
    knowledge_base: str
    document: DocumentRow | None = None
    deletion: DeletionRow | None = None


@dataclass(slots=True)
class _Progress:
    """Position of a stream. ``sent`` has the time of the last state that was sent, by document or deletion."""

    position: datetime
    sent: dict[UUID, datetime] = field(default_factory=dict)

    def add(self, object_id: UUID, changed_at: datetime) -> bool:
        """Record a state and return whether it was not sent before."""
        if self.sent.get(object_id) == changed_at:
            return False
        self.sent[object_id] = changed_at
        self.position = max(self.position, changed_at)
        return True

    def get_scan_begin(self, now: datetime) -> datetime:
        """Return the time from which changes may have become visible since the last scan, and forget older ones."""
        begin = min(self.position, now - MAX_COMMIT_DELAY)
        self.sent = {key: changed_at for key, changed_at in self.sent.items() if changed_at >= begin}
        return begin


@dataclass(frozen=True, slots=True)
class DocumentChangeService:
    """Use case that follows the documents of a knowledge base."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    change_feed: DocumentChangeFeed
    tenant_concurrency: int

    async def stream_changes(
        self, reference: str, resumed_at: datetime | None, timeout_seconds: float
    ) -> AsyncGenerator[Change]:
        """Yield the begin of the stream, then the last state of each changed document, and each deletion.

        A state can be yielded twice after a resumption. Between two scans, only the last state of a document counts.

        Args:
            reference: Name or id of the knowledge base.
            resumed_at: Position of the last change that the caller has seen; None begins now.
            timeout_seconds: Maximum duration of the stream.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist, or was deleted.
        """
        kb = (await self.knowledge_bases.find(reference)).row
        deadline = time.monotonic() + timeout_seconds
        async with self.change_feed.subscribe(kb.tenant_id, kb.id) as subscription:
            async with self.db.transaction() as session:
                now = await _read_time(session)
            progress = _Progress(now if resumed_at is None else min(resumed_at, now))
            if resumed_at is None:
                # Without this, the first scan would send what changed shortly before.
                progress.sent = await self._list_sent(kb.id, now)
            else:
                progress.position -= MAX_COMMIT_DELAY
            yield Change(progress.position, kb.name)
            while True:
                async for change in self._scan(kb.id, progress):
                    yield change
                if time.monotonic() >= deadline or self.change_feed.is_ending:
                    return
                await subscription.wait(deadline - time.monotonic())
                await asyncio.sleep(MIN_SCAN_INTERVAL_SECONDS)

    async def _list_sent(self, kb_id: UUID, now: datetime) -> dict[UUID, datetime]:
        """Return the present states of documents and deletions that the first scan would find."""
        begin = now - MAX_COMMIT_DELAY
        async with self.db.transaction() as session:
            documents = select(DocumentRow.id, DocumentRow.updated_at).filter_by(tenant_id=self.db.tenant_id)
            deletions = select(DeletionRow.id, DeletionRow.requested_at).filter_by(tenant_id=self.db.tenant_id)
            rows = [
                *await session.execute(documents.where(DocumentRow.kb_id == kb_id, DocumentRow.updated_at >= begin)),
                *await session.execute(deletions.where(DeletionRow.kb_id == kb_id, DeletionRow.requested_at >= begin)),
            ]
        return {row[0]: row[1] for row in rows}

    async def _scan(self, kb_id: UUID, progress: _Progress) -> AsyncGenerator[Change]:
        """Yield the changes since the last scan, oldest first, with a transaction for each page."""
        after: tuple[datetime, UUID] | None = None
        while True:
            async with self.db.transaction() as session:
                kb = (await self.knowledge_bases.find_in_session(session, encode_id("kb", kb_id))).row
                if after is None:
                    begin = progress.get_scan_begin(await _read_time(session))
                    after = begin, NIL
                    receipts = await self._list_deletions(session, kb_id, begin)
                else:
                    receipts = []
                page = await self._list_changed(session, kb_id, after)
                documents = [row for row in page if progress.add(row.id, row.updated_at)]
                await self._add_waiting_reasons(session, documents)
            for document in documents:
                yield Change(progress.position, kb.name, document=document)
            for receipt in receipts:
                if progress.add(receipt.id, receipt.requested_at):
                    yield Change(progress.position, kb.name, deletion=receipt)
            if len(page) < PAGE_SIZE:
                return
            after = page[-1].updated_at, page[-1].id

    async def _list_changed(self, session: Session, kb_id: UUID, after: tuple[datetime, UUID]) -> Sequence[DocumentRow]:
        """Return documents that the caller may read, in the order of their last change."""
        filters = DocumentRowFilters(reader=self.knowledge_bases.principal.user_id)
        query = apply_filters(select(DocumentRow).filter_by(tenant_id=self.db.tenant_id, kb_id=kb_id), filters)
        key = tuple_(DocumentRow.updated_at, DocumentRow.id)
        # The first condition lets Postgres use the index on the time.
        query = query.where(DocumentRow.updated_at >= after[0], key > after).order_by(key).limit(PAGE_SIZE)
        return (await session.scalars(query)).all()

    async def _list_deletions(self, session: Session, kb_id: UUID, begin: datetime) -> Sequence[DeletionRow]:
        """Return receipts of the knowledge base that the caller may read, oldest first."""
        query = select(DeletionRow).filter_by(tenant_id=self.db.tenant_id, kb_id=kb_id)
        query = query.where(DeletionRow.requested_at >= begin, DeletionRow.kind != "knowledge_base")
        user_id = self.knowledge_bases.principal.user_id
        if user_id is not None:
            query = query.where(DeletionRow.user_key == DocumentScope(user_id).to_key())
        return (await session.scalars(query.order_by(DeletionRow.requested_at, DeletionRow.id))).all()

    async def _add_waiting_reasons(self, session: Session, documents: Sequence[DocumentRow]) -> None:
        waiting = WaitingRepository(session, self.db.tenant_id, tenant_concurrency=self.tenant_concurrency)
        await waiting.add_waiting_reasons(documents)


async def _read_time(session: Session) -> datetime:
    """Return the time of the database, which also sets the times of changes."""
    now: datetime = (await session.execute(select(func.now()))).scalar_one()
    return now.astimezone(UTC)
