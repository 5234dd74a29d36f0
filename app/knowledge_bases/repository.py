"""Knowledge-base queries."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import func, select, text

from app.db.models.tenant_data import Document, KnowledgeBase, SearchIndex
from app.db.readable import READABLE
from app.db.session import Session
from app.db.statements import Record, Statement, statement
from app.knowledge_bases.generation_repository import GenerationRepository
from app.knowledge_bases.stored import LiveIndex, StoredKnowledgeBase
from app.knowledge_bases.types import KnowledgeBaseView

# The columns stand in the order of StoredKnowledgeBase and LiveIndex. The last says which versions of the rows they
# are, as require_unchanged looks for it.
_SELECT = """
select k.tenant_id, k.id, k.name, k.title, k.description, k.language, k.chunking, k.retrieval, k.metadata_filter,
       k.pending_filter, k.routing, k.created_at, k.updated_at, k.source, k.filter_number, i.id as index_id,
       i.identity, i.dim, i.avgdl, i.vector_index, i.held_back, i.index_bytes, i.languages,
       concat_ws(' ', k.xmin, k.ctid, i.xmin, i.ctid) as state
  from knowledge_base k join search_index i on i.tenant_id = k.tenant_id and i.kb_id = k.id and i.state = 'live'
       and k.deleted_at is null"""
# With its twin, the system tenant's of the same name, as a second row where there is one. The system tenant has none.
_WITH_TWIN = f"{_SELECT} where k.tenant_id = any(array[:tenant::uuid, system_tenant()])"
_BY_NAME = statement(f"{_WITH_TWIN} and k.name = :reference")
_BY_ID = statement(f"""{_WITH_TWIN}
   and k.name = (select o.name from knowledge_base o where o.tenant_id = :tenant and o.id = :reference)""")  # noqa: S608


def _few(which: str) -> Statement:
    return statement(f"""{_WITH_TWIN}
   and k.name = any(array(select o.name from knowledge_base o where o.tenant_id = :tenant{which}))
   and (select count(*) from (select from knowledge_base o
                               where o.tenant_id = :tenant and o.deleted_at is null{which} limit :most::int + 1) n)
       <= :most::int
 order by k.name""")  # noqa: S608


# First those that can have results: of kind http, with documents, or with a shared one of that name; then the newest.
_CANDIDATES = statement("""
select o.name, (o.source is not null
                or exists (select from document d where d.tenant_id = o.tenant_id and d.kb_id = o.id)
                or exists (select from knowledge_base s where s.tenant_id = system_tenant() and s.name = o.name))
         as holds
  from knowledge_base o
 where o.tenant_id = :tenant and o.deleted_at is null and (:only::uuid[] is null or o.id = any(:only))
 order by holds desc, o.created_at desc, o.id desc limit :most::int + 1""")
_NAMED = statement(f"{_WITH_TWIN} and k.name = any(:names::text[]) order by k.name")

# Apart: a statement for both has no plan that is worth keeping, and planning is most of what it costs.
_SOME = " and o.id = any(:only::uuid[])"
_FEW, _FEW_OF_SOME = _few(""), _few(_SOME)
_PAGE = statement(f"""{_SELECT} where k.tenant_id = :tenant and (:only::uuid[] is null or k.id = any(:only))
   and (:after_time::timestamptz is null or (k.created_at, k.id) < (:after_time, :after_id::uuid))
 order by k.created_at desc, k.id desc limit :limit""")
_ROUTING_TEXTS = statement("""
select id, routing_texts from knowledge_base where tenant_id = :tenant and id = any(:ids::uuid[])""")
_HOLD_INDEXES = statement("""
select id, avgdl, state from search_index where tenant_id = :tenant and kb_id = :kb for key share""")
_ADD_LANGUAGE = statement("""
update search_index set languages = array_append(languages, :language::text)
 where tenant_id = :tenant and id = :index and not languages @> array[:language::text]""")


class HeldIndex(NamedTuple):
    """A search index that nobody re-weighs now, and whether it is being built."""

    avgdl: float
    building: bool


class KnowledgeBaseRepository:
    """Queries in one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def add(self, row: KnowledgeBase, index: SearchIndex) -> None:
        """Insert a knowledge base and its first, empty, live index."""
        self.session.add(row)
        await self.session.flush()
        self.session.add(index)
        await self.session.flush()

    async def change(self, kb_id: UUID, changes: Mapping[str, Any]) -> bool:
        """Set columns of one that is still there; False where nothing differs, and nothing is written."""
        kb = select(KnowledgeBase).where(KnowledgeBase.tenant_id == self.tenant_id, KnowledgeBase.id == kb_id)
        row = await self.session.scalar(kb)
        if row is None:
            return False
        different = {name: value for name, value in changes.items() if value != getattr(row, name)}
        for name, value in different.items():
            setattr(row, name, value)
        await self.session.flush()
        return bool(different)

    async def lock(self, kb_id: UUID) -> None:
        """Keep every other change of it waiting until the transaction ends; documents come and go."""
        kb = select(KnowledgeBase.id).where(KnowledgeBase.tenant_id == self.tenant_id, KnowledgeBase.id == kb_id)
        await self.session.execute(kb.with_for_update(key_share=True))

    async def find(self, reference: UUID | str) -> KnowledgeBaseView | None:
        """By id or by name, with its twin."""
        found = _BY_ID if isinstance(reference, UUID) else _BY_NAME
        rows = await self.session.rows(found, {"tenant": self.tenant_id, "reference": reference})
        return next(iter(self._with_twins(rows)), None)

    async def few(self, only: Sequence[UUID] | None, *, most: int) -> list[KnowledgeBaseView]:
        """Every knowledge base by name, or those of ``only`` that exist; none if there are more than ``most``."""
        found, values = _FEW if only is None else _FEW_OF_SOME, {"tenant": self.tenant_id, "only": only, "most": most}
        return self._with_twins(await self.session.rows(found, values))

    async def first(self, only: Sequence[UUID] | None, *, most: int) -> tuple[list[KnowledgeBaseView], bool]:
        """Return ``most`` knowledge bases that can have results at most, and whether others of them were left out.

        If none can, return the newest one.
        """
        values = {"tenant": self.tenant_id, "only": only, "most": most}
        rows = await self.session.rows(_CANDIDATES, values)
        holding = [row["name"] for row in rows[:most] if row["holds"]] or [row["name"] for row in rows[:1]]
        values = {"tenant": self.tenant_id, "names": holding}
        views = self._with_twins(await self.session.rows(_NAMED, values))
        return views, len(rows) > most and rows[most]["holds"]

    def _with_twins(self, rows: Sequence[Record]) -> list[KnowledgeBaseView]:
        """The tenant's own, each with the shared one of its name; one that is the system tenant's alone is left out."""
        views = [_view(row) for row in rows]
        twins = {view.row.name: view for view in views if view.row.tenant_id != self.tenant_id}
        own = [view for view in views if view.row.tenant_id == self.tenant_id]
        return [replace(view, twin=twins[view.row.name]) if view.row.name in twins else view for view in own]

    async def page(
        self,
        *,
        only: Sequence[UUID] | None,
        after: tuple[datetime, UUID] | None,
        limit: int,
        reader: str | None,
    ) -> list[KnowledgeBaseView]:
        """Newest first, with counts of what the reader's key may see; None is a key that is not narrowed to a user."""
        after_time, after_id = after or (None, None)
        place = {"after_time": after_time, "after_id": after_id, "limit": limit}
        rows = await self.session.rows(_PAGE, {"tenant": self.tenant_id, "only": only, **place})
        return await self._counted([_view(row) for row in rows], reader)

    async def counted(self, view: KnowledgeBaseView, *, reader: str | None) -> KnowledgeBaseView:
        """The same with its counts, as in ``page``, and what is known of its other generations."""
        return (await self._counted([view], reader))[0]

    async def _counted(self, views: Sequence[KnowledgeBaseView], reader: str | None) -> list[KnowledgeBaseView]:
        ids = [view.row.id for view in views]
        counts = await self._counts(ids, reader)
        states = await GenerationRepository(self.session, self.tenant_id).states(ids)
        values = {"tenant": self.tenant_id, "ids": ids}
        texts = {row[0]: row[1] for row in await self.session.rows(_ROUTING_TEXTS, values)}
        found = []
        for view in views:
            documents, chunks = counts.get(view.row.id, (0, 0))
            reindexing, retired_at = states.get(view.row.id, (None, None))
            found.append(
                replace(
                    view,
                    document_count=documents,
                    chunk_count=chunks,
                    reindexing=reindexing,
                    retired_at=retired_at,
                    routing_texts=texts.get(view.row.id, {}),
                )
            )
        return found

    async def _counts(self, ids: Sequence[UUID], reader: str | None) -> dict[UUID, tuple[int, int]]:
        statement = (
            select(Document.kb_id, func.count(), func.coalesce(func.sum(Document.chunk_count), 0))
            .where(Document.tenant_id == self.tenant_id, Document.kb_id.in_(ids))
            .group_by(Document.kb_id)
        )
        if reader is not None:
            statement = statement.where(text(READABLE).bindparams(reader=reader))
        return {kb: (documents, chunks) for kb, documents, chunks in await self.session.execute(statement)}

    async def hold_indexes(self, kb_id: UUID) -> dict[UUID, HeldIndex]:
        """Its search indexes; the mean lengths that their weights are made with stay until the end.

        For whoever adds, changes or removes chunks, before the first of them: else it and a re-weighing would come to
        wait for each other.
        """
        rows = await self.session.rows(_HOLD_INDEXES, {"tenant": self.tenant_id, "kb": kb_id})
        return {row["id"]: HeldIndex(row["avgdl"], row["state"] == "building") for row in rows}

    async def add_language(self, index_id: UUID, language: str) -> None:
        """From now on queries in this index are analysed in this language too.

        It goes beside everybody who holds the index, and waits for those alone who add a language themselves.
        """
        values = {"tenant": self.tenant_id, "index": index_id, "language": language}
        await self.session.rows(_ADD_LANGUAGE, values)


def _view(row: Record) -> KnowledgeBaseView:
    """Of a row of ``_SELECT``."""
    return KnowledgeBaseView(StoredKnowledgeBase(*row[:15]), LiveIndex(*row[15:-1]), state=row[-1])
