"""Knowledge-base queries."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import func, select, text

from app.db.document_visibility import READABLE_CONDITION
from app.db.models.tenant_data import DocumentRow, KnowledgeBaseRow, SearchIndex
from app.db.session import Session
from app.db.statements import Record, Statement, parse_statement
from app.knowledge_bases.generation_repository import GenerationRepository
from app.knowledge_bases.stored_rows import LiveIndex, StoredKnowledgeBase
from app.knowledge_bases.types import KnowledgeBaseView

# The columns stand in the order of StoredKnowledgeBase and LiveIndex. The last says which versions of the rows they
# are, as require_unchanged looks for it.
_SELECT = """
select k.tenant_id, k.id, k.name, k.title, k.description, k.language, k.chunking, k.retrieval, k.metadata_filter,
       k.pending_metadata_filter, k.routing, k.created_at, k.updated_at, k.source, k.filter_revision, i.id as index_id,
       i.identity, i.dim, i.avgdl, i.vector_index, i.skip_reason, i.index_bytes, i.languages,
       concat_ws(' ', k.xmin, k.ctid, i.xmin, i.ctid) as state
  from knowledge_base k join search_index i on i.tenant_id = k.tenant_id and i.kb_id = k.id and i.state = 'live'
       and k.deleted_at is null"""
# With its twin, the system tenant's of the same name, as a second row where there is one. The system tenant has none.
_SELECT_WITH_SHARED = f"{_SELECT} where k.tenant_id = any(array[:tenant::uuid, system_tenant()])"
_FIND_BY_NAME = parse_statement(f"{_SELECT_WITH_SHARED} and k.name = :reference")
_FIND_BY_ID = parse_statement(f"""{_SELECT_WITH_SHARED}
   and k.name = (select o.name from knowledge_base o where o.tenant_id = :tenant and o.id = :reference)""")  # noqa: S608


def _build_find_up_to(condition: str) -> Statement:
    return parse_statement(f"""{_SELECT_WITH_SHARED}
   and k.name = any(array(select o.name from knowledge_base o where o.tenant_id = :tenant{condition}))
   and (select count(*) from (select from knowledge_base o
                               where o.tenant_id = :tenant and o.deleted_at is null{condition} limit :most::int + 1) n)
       <= :most::int
 order by k.name""")  # noqa: S608


# First those that can have results: of kind http, with documents, or with a shared one of that name; then the newest.
_FIND_FIRST_NAMES = parse_statement("""
select o.name, (o.source is not null
                or exists (select from document d where d.tenant_id = o.tenant_id and d.kb_id = o.id)
                or exists (select from knowledge_base s where s.tenant_id = system_tenant() and s.name = o.name))
         as holds
  from knowledge_base o
 where o.tenant_id = :tenant and o.deleted_at is null and (:only::uuid[] is null or o.id = any(:only))
 order by holds desc, o.created_at desc, o.id desc limit :most::int + 1""")
_FIND_BY_NAMES = parse_statement(f"{_SELECT_WITH_SHARED} and k.name = any(:names::text[]) order by k.name")

# Apart: a statement for both has no plan that is worth keeping, and planning is most of what it costs.
_IS_ALLOWED = " and o.id = any(:only::uuid[])"
_FIND_UP_TO, _FIND_ALLOWED_UP_TO = _build_find_up_to(""), _build_find_up_to(_IS_ALLOWED)
_PAGE = parse_statement(f"""{_SELECT} where k.tenant_id = :tenant and (:only::uuid[] is null or k.id = any(:only))
   and (:after_time::timestamptz is null or (k.created_at, k.id) < (:after_time, :after_id::uuid))
 order by k.created_at desc, k.id desc limit :limit""")
_ROUTING_TEXTS = parse_statement("""
select id, routing_texts from knowledge_base where tenant_id = :tenant and id = any(:ids::uuid[])""")
_LOCK_INDEXES = parse_statement("""
select id, avgdl, state from search_index where tenant_id = :tenant and kb_id = :kb for key share""")
_ADD_LANGUAGE = parse_statement("""
update search_index set languages = array_append(languages, :language::text)
 where tenant_id = :tenant and id = :index and not languages @> array[:language::text]""")


class LockedIndex(NamedTuple):
    """A search index that nobody re-weighs now, and whether it is being built."""

    avgdl: float
    is_building: bool


class KnowledgeBaseRepository:
    """Queries in one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def add(self, row: KnowledgeBaseRow, index: SearchIndex) -> None:
        """Insert a knowledge base and its first, empty, live index."""
        self.session.add(row)
        await self.session.flush()
        self.session.add(index)
        await self.session.flush()

    async def update(self, kb_id: UUID, changes: Mapping[str, Any]) -> bool:
        """Set columns of one that is still there; False where nothing differs, and nothing is written."""
        kb = select(KnowledgeBaseRow).where(KnowledgeBaseRow.tenant_id == self.tenant_id, KnowledgeBaseRow.id == kb_id)
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
        kb = select(KnowledgeBaseRow.id).where(
            KnowledgeBaseRow.tenant_id == self.tenant_id, KnowledgeBaseRow.id == kb_id
        )
        await self.session.execute(kb.with_for_update(key_share=True))

    async def find(self, reference: UUID | str) -> KnowledgeBaseView | None:
        """By id or by name, with its twin."""
        query = _FIND_BY_ID if isinstance(reference, UUID) else _FIND_BY_NAME
        rows = await self.session.fetch_rows(query, {"tenant": self.tenant_id, "reference": reference})
        return next(iter(self._attach_shared(rows)), None)

    async def find_up_to(self, allowed_ids: Sequence[UUID] | None, *, max_count: int) -> list[KnowledgeBaseView]:
        """Return every knowledge base by name, or those of ``allowed_ids`` that exist.

        The list is empty if there are more than ``max_count``.
        """
        query, values = (
            _FIND_UP_TO if allowed_ids is None else _FIND_ALLOWED_UP_TO,
            {"tenant": self.tenant_id, "only": allowed_ids, "most": max_count},
        )
        return self._attach_shared(await self.session.fetch_rows(query, values))

    async def find_first(
        self, allowed_ids: Sequence[UUID] | None, *, max_count: int
    ) -> tuple[list[KnowledgeBaseView], bool]:
        """Return ``max_count`` knowledge bases that can have results at most, and whether others of them were left out.

        If none can, return the newest one.
        """
        values = {"tenant": self.tenant_id, "only": allowed_ids, "most": max_count}
        rows = await self.session.fetch_rows(_FIND_FIRST_NAMES, values)
        names = [row["name"] for row in rows[:max_count] if row["holds"]] or [row["name"] for row in rows[:1]]
        values = {"tenant": self.tenant_id, "names": names}
        views = self._attach_shared(await self.session.fetch_rows(_FIND_BY_NAMES, values))
        return views, len(rows) > max_count and rows[max_count]["holds"]

    def _attach_shared(self, rows: Sequence[Record]) -> list[KnowledgeBaseView]:
        """The tenant's own, each with the shared one of its name; one that is the system tenant's alone is left out."""
        views = [_parse_view(row) for row in rows]
        shared_by_name = {view.row.name: view for view in views if view.row.tenant_id != self.tenant_id}
        own_views = [view for view in views if view.row.tenant_id == self.tenant_id]
        return [
            replace(view, shared_counterpart=shared_by_name[view.row.name]) if view.row.name in shared_by_name else view
            for view in own_views
        ]

    async def list_knowledge_bases(
        self,
        *,
        allowed_ids: Sequence[UUID] | None,
        after: tuple[datetime, UUID] | None,
        limit: int,
        reader: str | None,
    ) -> list[KnowledgeBaseView]:
        """Newest first, with counts of what the reader's key may see; None is a key that is not narrowed to a user."""
        after_time, after_id = after or (None, None)
        cursor_params = {"after_time": after_time, "after_id": after_id, "limit": limit}
        rows = await self.session.fetch_rows(_PAGE, {"tenant": self.tenant_id, "only": allowed_ids, **cursor_params})
        return await self._add_counts([_parse_view(row) for row in rows], reader)

    async def add_counts(self, view: KnowledgeBaseView, *, reader: str | None) -> KnowledgeBaseView:
        """The same with its counts, as in ``list_knowledge_bases``, and what is known of its other generations."""
        return (await self._add_counts([view], reader))[0]

    async def _add_counts(self, views: Sequence[KnowledgeBaseView], reader: str | None) -> list[KnowledgeBaseView]:
        ids = [view.row.id for view in views]
        counts = await self._load_counts(ids, reader)
        states = await GenerationRepository(self.session, self.tenant_id).load_reindex_states(ids)
        values = {"tenant": self.tenant_id, "ids": ids}
        texts = {row[0]: row[1] for row in await self.session.fetch_rows(_ROUTING_TEXTS, values)}
        counted_views = []
        for view in views:
            documents, chunks = counts.get(view.row.id, (0, 0))
            reindex_progress, retired_at = states.get(view.row.id, (None, None))
            counted_views.append(
                replace(
                    view,
                    document_count=documents,
                    chunk_count=chunks,
                    reindex_progress=reindex_progress,
                    retired_at=retired_at,
                    routing_texts=texts.get(view.row.id, {}),
                )
            )
        return counted_views

    async def _load_counts(self, ids: Sequence[UUID], reader: str | None) -> dict[UUID, tuple[int, int]]:
        statement = (
            select(DocumentRow.kb_id, func.count(), func.coalesce(func.sum(DocumentRow.chunk_count), 0))
            .where(DocumentRow.tenant_id == self.tenant_id, DocumentRow.kb_id.in_(ids))
            .group_by(DocumentRow.kb_id)
        )
        if reader is not None:
            statement = statement.where(text(READABLE_CONDITION).bindparams(reader=reader))
        return {kb: (documents, chunks) for kb, documents, chunks in await self.session.execute(statement)}

    async def lock_indexes(self, kb_id: UUID) -> dict[UUID, LockedIndex]:
        """Its search indexes; the mean lengths that their weights are made with stay until the end.

        For whoever adds, changes or removes chunks, before the first of them: else it and a re-weighing would come to
        wait for each other.
        """
        rows = await self.session.fetch_rows(_LOCK_INDEXES, {"tenant": self.tenant_id, "kb": kb_id})
        return {row["id"]: LockedIndex(row["avgdl"], row["state"] == "building") for row in rows}

    async def add_language(self, index_id: UUID, language: str) -> None:
        """From now on queries in this index are analysed in this language too.

        It goes beside everybody who holds the index, and waits for those alone who add a language themselves.
        """
        values = {"tenant": self.tenant_id, "index": index_id, "language": language}
        await self.session.fetch_rows(_ADD_LANGUAGE, values)


def _parse_view(row: Record) -> KnowledgeBaseView:
    """Of a row of ``_SELECT``."""
    return KnowledgeBaseView(StoredKnowledgeBase(*row[:15]), LiveIndex(*row[15:-1]), row_version=row[-1])
