"""Use cases of golden sets: create, change and delete them, and add and remove items."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from app.audit.repository import AuditRepository
from app.audit.types import Actor, AuditAction, AuditEvent
from app.db.session import Session, TenantDatabase
from app.errors import ForbiddenError, InvalidInputError
from app.evaluations.golden_set_repository import GoldenSetRepository
from app.evaluations.types import (
    MAX_ITEMS,
    MAX_RELEVANT,
    GoldenItem,
    GoldenItemDraft,
    GoldenItemNotFound,
    GoldenSet,
    GoldenSetNotFound,
    LastRelevance,
    LocatedItem,
    LocatedRelevance,
    Position,
    Relevance,
    RelevanceNotFound,
    TooManyGoldenItems,
    TooManyRelevant,
)
from app.principal import Principal


@dataclass(frozen=True, slots=True)
class GoldenSetService:
    """Service for golden sets of a tenant. Callers are writers; a restricted key cannot use the service."""

    db: TenantDatabase
    principal: Principal

    async def create(self, name: str, description: str | None) -> GoldenSet:
        """Create a golden set without items.

        Args:
            name: Name for people.
            description: Description for people, or None.

        Raises:
            RowQuotaExceeded: The quota of golden sets is used up.
            ForbiddenError: The API key is restricted.
        """
        require_unrestricted_key(self.principal)
        async with self.db.transaction() as session:
            added = await self._create_repository(session).add(name, description)
            await self._record(session, AuditAction.GOLDEN_SET_CREATE, added.id)
        return added

    async def get(self, set_id: UUID) -> GoldenSet:
        """Return a golden set. Raises GoldenSetNotFound, ForbiddenError."""
        require_unrestricted_key(self.principal)
        async with self.db.transaction() as session:
            return _require_set(await self._create_repository(session).find(set_id))

    async def list_sets(self, *, after: Position | None, limit: int) -> Sequence[GoldenSet]:
        """Return a page of the golden sets, newest first. Raises ForbiddenError."""
        require_unrestricted_key(self.principal)
        async with self.db.transaction() as session:
            return await self._create_repository(session).list_sets(after=after, limit=limit)

    async def update(
        self, set_id: UUID, changes: Mapping[str, Any], *, check: Callable[[GoldenSet], None] | None = None
    ) -> GoldenSet:
        """Change the name or the description of a golden set.

        Args:
            set_id: ID of the golden set.
            changes: New values by field.
            check: Check of the stored golden set under its lock, before the change; None without one.

        Returns:
            The changed golden set.

        Raises:
            GoldenSetNotFound: The golden set does not exist.
            ForbiddenError: The API key is restricted.
        """
        require_unrestricted_key(self.principal)
        async with self.db.transaction() as session:
            repository = self._create_repository(session)
            before = _require_set(await repository.lock(set_id))
            if check is not None:
                check(before)
            after = replace(before, **changes)
            if after == before:
                return before
            await self._record(session, AuditAction.GOLDEN_SET_UPDATE, set_id)
            return _require_set(await repository.update(set_id, after.name, after.description))

    async def delete(self, set_id: UUID) -> None:
        """Delete a golden set with its items and evaluations. Raises GoldenSetNotFound, ForbiddenError."""
        require_unrestricted_key(self.principal)
        async with self.db.transaction() as session:
            if not await self._create_repository(session).remove(set_id):
                raise GoldenSetNotFound
            await self._record(session, AuditAction.GOLDEN_SET_DELETE, set_id)

    async def list_items(self, set_id: UUID, *, after: Position | None, limit: int) -> Sequence[LocatedItem]:
        """Return a page of the items of a golden set, newest first. Raises GoldenSetNotFound, ForbiddenError."""
        require_unrestricted_key(self.principal)
        async with self.db.transaction(snapshot=True) as session:
            repository = self._create_repository(session)
            _require_set(await repository.find(set_id))
            return await locate_items(repository, await repository.list_items(set_id, after=after, limit=limit))

    async def add_items(self, set_id: UUID, drafts: Sequence[GoldenItemDraft]) -> Sequence[LocatedItem]:
        """Add items to a golden set. If an item has the same query, what is relevant is added to that item.

        Args:
            set_id: ID of the golden set.
            drafts: The items; the same query may occur several times.

        Returns:
            The items with these queries, in the order of their first occurrence.

        Raises:
            GoldenSetNotFound: The golden set does not exist.
            InvalidInputError: A document or a chunk does not exist.
            TooManyGoldenItems: The golden set would have too many items.
            TooManyRelevant: An item would have too many relevant documents and chunks.
            RowQuotaExceeded: The quota of golden items is used up.
            ForbiddenError: The API key is restricted.
        """
        require_unrestricted_key(self.principal)
        async with self.db.transaction() as session:
            repository = self._create_repository(session)
            golden_set = _require_set(await repository.lock(set_id))
            await _check_relevant(repository, drafts)
            existing = await repository.find_items(set_id, {draft.digest for draft in drafts})
            merged = merge_drafts(drafts, existing)
            if golden_set.item_count + len(merged.keys() - existing.keys()) > MAX_ITEMS:
                raise TooManyGoldenItems
            stored = await repository.upsert_items(set_id, list(merged.values()))
            await self._record(session, AuditAction.GOLDEN_SET_ADD_ITEMS, set_id, items=len(merged))
            return await locate_items(repository, [stored[digest] for digest in merged])

    async def delete_item(self, set_id: UUID, item_id: UUID) -> None:
        """Delete an item of a golden set. Raises GoldenSetNotFound, GoldenItemNotFound, ForbiddenError."""
        require_unrestricted_key(self.principal)
        async with self.db.transaction() as session:
            repository = self._create_repository(session)
            _require_set(await repository.lock(set_id))
            if not await repository.remove_item(set_id, item_id):
                raise GoldenItemNotFound
            await self._record(session, AuditAction.GOLDEN_SET_DELETE_ITEM, set_id, items=1)

    async def remove_relevance(self, set_id: UUID, item_id: UUID, relevance: Relevance) -> None:
        """Remove one relevant document or chunk from an item of a golden set.

        Args:
            set_id: ID of the golden set.
            item_id: ID of the item.
            relevance: Entry to remove. It may name a deleted document. Without a chunk, entries of chunks stay.

        Raises:
            GoldenSetNotFound: The golden set does not exist.
            GoldenItemNotFound: The golden set has no such item.
            RelevanceNotFound: The item has no such entry.
            LastRelevance: The item has no other entry.
            ForbiddenError: The API key is restricted.
        """
        require_unrestricted_key(self.principal)
        async with self.db.transaction() as session:
            repository = self._create_repository(session)
            _require_set(await repository.lock(set_id))
            item = await repository.find_item(set_id, item_id)
            if item is None:
                raise GoldenItemNotFound
            if relevance not in item.relevant:
                raise RelevanceNotFound
            remaining = [entry for entry in item.relevant if entry != relevance]
            if not remaining:
                raise LastRelevance
            await repository.replace_relevant(set_id, item_id, remaining)
            await self._record(session, AuditAction.GOLDEN_SET_REMOVE_RELEVANT, set_id, items=1)

    async def _record(self, session: Session, action: AuditAction, set_id: UUID, **counts: int) -> None:
        event = AuditEvent(action, [set_id], counts=counts)
        await AuditRepository(session, self.db.tenant_id).add(event, Actor.from_principal(self.principal))

    def _create_repository(self, session: Session) -> GoldenSetRepository:
        return GoldenSetRepository(session, self.db.tenant_id)


def require_unrestricted_key(principal: Principal) -> None:
    """Refuse a restricted API key, because golden sets name documents of the whole tenant. Raises ForbiddenError."""
    if principal.knowledge_base_ids is not None or principal.user_id is not None:
        raise ForbiddenError("A restricted API key cannot use golden sets and evaluations; use an unrestricted key.")


def merge_drafts(
    drafts: Iterable[GoldenItemDraft], existing: Mapping[bytes, GoldenItem]
) -> dict[bytes, GoldenItemDraft]:
    """Return one draft for each query, with what is relevant in the existing item and in all drafts of the query.

    Args:
        drafts: Drafts in their order.
        existing: Existing items by the hash of their query.

    Raises:
        TooManyRelevant: A query has too many relevant documents and chunks.
    """
    merged: dict[bytes, GoldenItemDraft] = {}
    for draft in drafts:
        digest = draft.digest
        before = merged.get(digest) or existing.get(digest)
        relevant = tuple(dict.fromkeys([*(before.relevant if before else ()), *draft.relevant]))
        if len(relevant) > MAX_RELEVANT:
            raise TooManyRelevant
        merged[digest] = replace(draft, relevant=relevant)
    return merged


async def locate_items(repository: GoldenSetRepository, items: Sequence[GoldenItem]) -> list[LocatedItem]:
    """Return items with the knowledge bases of what is relevant. A deleted document or chunk has none."""
    relevant = {relevance for item in items for relevance in item.relevant}
    document_ids = {relevance.document_id for relevance in relevant}
    chunk_ids = {relevance.chunk_id for relevance in relevant if relevance.chunk_id is not None}
    places = await repository.locate_documents(document_ids) if document_ids else {}
    chunks = await repository.find_live_chunks(document_ids, chunk_ids) if chunk_ids else set()

    def locate(relevance: Relevance) -> LocatedRelevance:
        is_live = relevance.chunk_id is None or (relevance.document_id, relevance.chunk_id) in chunks
        return LocatedRelevance(relevance, places.get(relevance.document_id) if is_live else None)

    return [LocatedItem(item, [locate(relevance) for relevance in item.relevant]) for item in items]


async def _check_relevant(repository: GoldenSetRepository, drafts: Sequence[GoldenItemDraft]) -> None:
    """Check that all documents and chunks exist. Raises InvalidInputError."""
    relevant = {relevance for draft in drafts for relevance in draft.relevant}
    document_ids = {relevance.document_id for relevance in relevant}
    chunk_ids = {relevance.chunk_id for relevance in relevant if relevance.chunk_id is not None}
    places = await repository.locate_documents(document_ids)
    chunks = await repository.find_live_chunks(document_ids, chunk_ids) if chunk_ids else set()
    for number, draft in enumerate(drafts):
        for index, relevance in enumerate(draft.relevant):
            loc = ("body", "items", number, "relevant", index)
            if relevance.document_id not in places:
                raise InvalidInputError("The document does not exist.", loc=(*loc, "document"))
            if relevance.chunk_id is not None and (relevance.document_id, relevance.chunk_id) not in chunks:
                raise InvalidInputError("The document has no such chunk.", loc=(*loc, "chunk"))


def _require_set(golden_set: GoldenSet | None) -> GoldenSet:
    if golden_set is None:
        raise GoldenSetNotFound
    return golden_set
