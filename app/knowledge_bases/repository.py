"""Queries for knowledge bases, with their live search indexes and shared counterparts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import func, select, text

from app.db.document_visibility import READABLE_CONDITION
from app.db.models.tenant_data import DocumentRow, KnowledgeBaseRow, SearchIndex
from app.db.page_counts import fetch_page
from app.db.session import Session
from app.db.statements import Record, Statement, parse_statement
from app.knowledge_bases.generation_repository import GenerationRepository
from app.knowledge_bases.stored_rows import LiveIndex, StoredKnowledgeBase
from app.knowledge_bases.types import KnowledgeBaseView

# The columns are in the order of StoredKnowledgeBase and LiveIndex. The last column identifies the row versions, which
# ``require_unchanged`` compares.
_SELECT = """
select k.tenant_id, k.id, k.name, k.title, k.description, k.language, k.chunking, k.retrieval, k.metadata_filter,
       k.pending_metadata_filter, k.routing, k.created_at, k.updated_at, k.source, k.filter_revision, k.graph,
       k.enrichment,
       i.id as index_id,
       i.identity, i.dim, i.avgdl, i.vector_index, i.skip_reason, i.index_bytes, i.languages,
       coalesce(i.settings ? 'automatic_model', false) as chooses_model, i.graph as index_graph, i.recall,
       concat_ws(' ', k.xmin, k.ctid, i.xmin, i.ctid) as state
  from knowledge_base k join search_index i on i.tenant_id = k.tenant_id and i.kb_id = k.id and i.state = 'live'
       and k.deleted_at is null"""
# Selects also the shared counterpart: the system tenant's knowledge base with the same name. The system tenant's own
# knowledge bases have no counterparts.
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


# Knowledge bases that can have results come first: of kind http, with documents, or with a shared counterpart. The
# newest come first among equals.
_FIND_FIRST_NAMES = parse_statement("""
select o.name, (o.source is not null
                or exists (select from document d where d.tenant_id = o.tenant_id and d.kb_id = o.id)
                or exists (select from knowledge_base s where s.tenant_id = system_tenant() and s.name = o.name))
         as holds
  from knowledge_base o
 where o.tenant_id = :tenant and o.deleted_at is null and (:only::uuid[] is null or o.id = any(:only))
 order by holds desc, o.created_at desc, o.id desc limit :most::int + 1""")
_FIND_BY_NAMES = parse_statement(f"{_SELECT_WITH_SHARED} and k.name = any(:names::text[]) order by k.name")

# Separate statements with and without a restriction to allowed ids. Postgres would cache no plan of a combined
# statement, and planning takes most of its time.
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
    """A locked search index. No job recomputes its BM25 term weights until then."""

    avgdl: float
    is_building: bool


class KnowledgeBaseRepository:
    """Queries for knowledge bases and search indexes of one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def add(self, row: KnowledgeBaseRow, index: SearchIndex) -> None:
        """Insert a knowledge base and its first search index, which is live and empty."""
        self.session.add(row)
        await self.session.flush()
        self.session.add(index)
        await self.session.flush()

    async def update(self, kb_id: UUID, changes: Mapping[str, Any]) -> bool:
        """Set columns of a knowledge base.

        Args:
            kb_id: The knowledge base.
            changes: New values by column.

        Returns:
            False if the knowledge base does not exist or no value differs. Nothing is written then.
        """
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
        """Lock a knowledge base against other changes until the transaction ends.

        Documents can still be added and deleted.
        """
        kb = select(KnowledgeBaseRow.id).where(
            KnowledgeBaseRow.tenant_id == self.tenant_id, KnowledgeBaseRow.id == kb_id
        )
        await self.session.execute(kb.with_for_update(key_share=True))

    async def find(self, reference: UUID | str) -> KnowledgeBaseView | None:
        """Return a knowledge base by id or name, with its shared counterpart, or None."""
        query = _FIND_BY_ID if isinstance(reference, UUID) else _FIND_BY_NAME
        rows = await self.session.fetch_rows(query, {"tenant": self.tenant_id, "reference": reference})
        return next(iter(self._attach_shared(rows)), None)

    async def find_up_to(self, allowed_ids: Sequence[UUID] | None, *, max_count: int) -> list[KnowledgeBaseView]:
        """Return all knowledge bases, ordered by name.

        Args:
            allowed_ids: Only knowledge bases with these ids are returned. None allows all.
            max_count: If more knowledge bases match, the result is empty.

        Returns:
            The knowledge bases, or an empty list if there are too many.
        """
        query, values = (
            _FIND_UP_TO if allowed_ids is None else _FIND_ALLOWED_UP_TO,
            {"tenant": self.tenant_id, "only": allowed_ids, "most": max_count},
        )
        return self._attach_shared(await self.session.fetch_rows(query, values))

    async def find_first(
        self, allowed_ids: Sequence[UUID] | None, *, max_count: int
    ) -> tuple[list[KnowledgeBaseView], bool]:
        """Return the first knowledge bases that can have results. If no knowledge base can, return the newest.

        Args:
            allowed_ids: Only knowledge bases with these ids are returned. None allows all.
            max_count: The maximum number of knowledge bases.

        Returns:
            The knowledge bases, and whether other knowledge bases that can have results were left out.
        """
        values = {"tenant": self.tenant_id, "only": allowed_ids, "most": max_count}
        rows = await self.session.fetch_rows(_FIND_FIRST_NAMES, values)
        names = [row["name"] for row in rows[:max_count] if row["holds"]] or [row["name"] for row in rows[:1]]
        values = {"tenant": self.tenant_id, "names": names}
        views = self._attach_shared(await self.session.fetch_rows(_FIND_BY_NAMES, values))
        return views, len(rows) > max_count and rows[max_count]["holds"]

    def _attach_shared(self, rows: Sequence[Record]) -> list[KnowledgeBaseView]:
        """Return the tenant's knowledge bases with their shared counterparts; counterparts alone are left out."""
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
        """List knowledge bases with counts, newest first.

        Args:
            allowed_ids: Only knowledge bases with these ids are listed. None allows all.
            after: Creation time and id of the last knowledge base of the previous page, or None.
            limit: The maximum number of knowledge bases.
            reader: The user that the caller's key is restricted to. Only documents that this user may read are counted.

        Returns:
            The knowledge bases.
        """
        after_time, after_id = after or (None, None)
        cursor_params = {"after_time": after_time, "after_id": after_id, "limit": limit}
        rows = await fetch_page(self.session, _PAGE, {"tenant": self.tenant_id, "only": allowed_ids, **cursor_params})
        return await self._add_counts([_parse_view(row) for row in rows], reader)

    async def add_counts(self, view: KnowledgeBaseView, *, reader: str | None) -> KnowledgeBaseView:
        """Return a knowledge base with its counts and the state of its other generations.

        Only documents that ``reader`` may read are counted. None counts all.
        """
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
        """Lock the search indexes of a knowledge base, so that no job changes their average chunk length for BM25.

        A caller that adds, changes or removes chunks locks them first. Otherwise it could deadlock with a job that
        recomputes the weights.

        Args:
            kb_id: The knowledge base.

        Returns:
            The search indexes by id.
        """
        rows = await self.session.fetch_rows(_LOCK_INDEXES, {"tenant": self.tenant_id, "kb": kb_id})
        return {row["id"]: LockedIndex(row["avgdl"], row["state"] == "building") for row in rows}

    async def add_language(self, index_id: UUID, language: str) -> None:
        """Add a language to a search index, so that queries are analyzed in this language too.

        The update waits only for other callers that add a language, not for callers that have locked the search index.
        """
        values = {"tenant": self.tenant_id, "index": index_id, "language": language}
        await self.session.fetch_rows(_ADD_LANGUAGE, values)


def _parse_view(row: Record) -> KnowledgeBaseView:
    """Return the knowledge base of a row of ``_SELECT``."""
    return KnowledgeBaseView(StoredKnowledgeBase(*row[:17]), LiveIndex(*row[17:-1]), row_version=row[-1])
