"""Knowledge-base queries."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import Select, and_, delete, func, select, text, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models.tenant_data import Document, KnowledgeBase, SearchIndex
from app.knowledge_bases.types import KnowledgeBaseView

_LIVE = and_(
    SearchIndex.tenant_id == KnowledgeBase.tenant_id,
    SearchIndex.kb_id == KnowledgeBase.id,
    SearchIndex.state == "live",
)


class KnowledgeBaseRepository:
    """Queries in one tenant."""

    def __init__(self, session: AsyncSession, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    def _with_index(self) -> Select[KnowledgeBase, SearchIndex]:
        return (
            select(KnowledgeBase, SearchIndex).join(SearchIndex, _LIVE).where(KnowledgeBase.tenant_id == self.tenant_id)
        )

    async def add(self, row: KnowledgeBase, index: SearchIndex) -> KnowledgeBaseView:
        """Insert a knowledge base and its first, empty, live index."""
        self.session.add(row)
        await self.session.flush()
        self.session.add(index)
        await self.session.flush()
        await self.session.refresh(row)
        await self.session.refresh(index)
        return KnowledgeBaseView(row, index)

    async def find(self, reference: UUID | str) -> KnowledgeBaseView | None:
        """By id or by name."""
        column = KnowledgeBase.id if isinstance(reference, UUID) else KnowledgeBase.name
        row = (await self.session.execute(self._with_index().where(column == reference))).one_or_none()
        return KnowledgeBaseView(row[0], row[1]) if row else None

    async def all(self, only: Sequence[UUID] | None) -> list[KnowledgeBaseView]:
        """Every knowledge base, or those of ``only`` that exist, by name."""
        statement = self._with_index().order_by(KnowledgeBase.name)
        if only is not None:
            statement = statement.where(KnowledgeBase.id.in_(only))
        return [KnowledgeBaseView(row[0], row[1]) for row in await self.session.execute(statement)]

    async def page(
        self, *, only: Sequence[UUID] | None, after: tuple[datetime, UUID] | None, limit: int
    ) -> list[KnowledgeBaseView]:
        """Newest first, with counts."""
        statement = self._with_index()
        if only is not None:
            statement = statement.where(KnowledgeBase.id.in_(only))
        if after is not None:
            statement = statement.where(tuple_(KnowledgeBase.created_at, KnowledgeBase.id) < after)
        statement = statement.order_by(KnowledgeBase.created_at.desc(), KnowledgeBase.id.desc()).limit(limit)
        rows = (await self.session.execute(statement)).all()
        counts = await self._counts([row[0].id for row in rows])
        return [KnowledgeBaseView(row[0], row[1], *counts.get(row[0].id, (0, 0))) for row in rows]

    async def counted(self, view: KnowledgeBaseView) -> KnowledgeBaseView:
        """The same with its counts."""
        counts = await self._counts([view.row.id])
        return KnowledgeBaseView(view.row, view.index, *counts.get(view.row.id, (0, 0)))

    async def _counts(self, ids: Sequence[UUID]) -> dict[UUID, tuple[int, int]]:
        statement = (
            select(Document.kb_id, func.count(), func.coalesce(func.sum(Document.chunk_count), 0))
            .where(Document.tenant_id == self.tenant_id, Document.kb_id.in_(ids))
            .group_by(Document.kb_id)
        )
        return {kb: (documents, chunks) for kb, documents, chunks in await self.session.execute(statement)}

    async def take_documents(self, kb_id: UUID) -> list[UUID]:
        """Every document in it, for its removal: none is added, and what ingestion is about to write waits."""
        kb = select(KnowledgeBase.id).where(KnowledgeBase.tenant_id == self.tenant_id, KnowledgeBase.id == kb_id)
        await self.session.execute(kb.with_for_update())
        documents = select(Document.id).where(Document.tenant_id == self.tenant_id, Document.kb_id == kb_id)
        return list(await self.session.scalars(documents.with_for_update()))

    async def remove(self, kb_id: UUID) -> None:
        """Remove it with everything in it; what has no foreign key first."""
        for table in ("lex_df", "lex_totals"):
            await self.session.execute(
                text(
                    f"delete from {table} d using search_index i where d.tenant_id = :tenant and i.tenant_id = :tenant "  # noqa: S608
                    "and i.kb_id = :kb and d.index_id = i.id"
                ),
                {"tenant": self.tenant_id, "kb": kb_id},
            )
        await self.session.execute(
            delete(KnowledgeBase).where(KnowledgeBase.tenant_id == self.tenant_id, KnowledgeBase.id == kb_id)
        )
