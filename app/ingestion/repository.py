"""Replace a document's nodes, chunks and lanes in one transaction."""

import json
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Self
from uuid import UUID

import numpy as np
from pgvector import HalfVector, SparseVector

from app.db.models.media import DocumentMedia
from app.db.models.tenant_data import Document
from app.db.session import Session
from app.db.statements import statement
from app.documents.deletion_repository import NEGATIVE_DELTAS
from app.documents.scopes import OPEN_LEVELS
from app.documents.types import chunk_id, filterable, node_id
from app.ids import encode_id
from app.inference.embedding import Vectors
from app.ingestion.flags import suspicions
from app.ingestion.tree import walk
from app.ingestion.types import ChunkDraft, DocumentTree, PrintedLines, TreeNode
from app.lexical.weights import DIMENSIONS, LexicalEntry, reweighed_entries

_json = json.JSONEncoder(ensure_ascii=False).encode
# A hostile file may nest for ever; nobody's headings go so deep.
MOST_ABOVE = 32
BATCH = 2_000
"""Chunks that one statement writes: more of them would take hundreds of megabytes on their way."""


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """Everything that ingestion made of one version; the sequences run parallel to ``drafts``.

    ``unembedded`` are positions in ``vectors`` that hold none; ``media`` are the pictures by their chunks' positions.
    """

    tree: DocumentTree
    title: str | None
    page_count: int | None
    warnings: list[str]
    language: str
    drafts: Sequence[ChunkDraft]
    token_counts: Sequence[int]
    vectors: Vectors
    entries: Sequence[LexicalEntry]
    unembedded: Collection[int] = ()
    media: Mapping[int, DocumentMedia] = field(default_factory=dict)

    def weighed(self, before: float, now: float) -> Self:
        """The same for a search index that was re-weighed since this was made."""
        return self if before == now else replace(self, entries=reweighed_entries(self.entries, avgdl=(before, now)))


@dataclass(frozen=True, slots=True)
class IndexPlace:
    """Where a document's chunks go."""

    kb_id: UUID
    document_id: UUID
    version: int
    index_id: UUID
    dim: int


@dataclass(frozen=True, slots=True)
class Stamps:
    """Whom a document belongs to and what filters see of it, as JSON; ``own`` is that of chunks that have their own."""

    scope_key: UUID
    filterable: str
    own: Sequence[str | None]


class IngestionRepository:
    """Writes in one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def replace(self, document: Document, made: IndexedDocument, *, index_id: UUID, dim: int) -> None:
        """Put the new version in the place of the live one. The caller holds the document's row."""
        document.filterable = filterable(document)
        values = {"t": self.tenant_id, "kb": document.kb_id, "d": document.id, "v": document.version}
        if document.live_version is not None:  # all that follows was written in one transaction, or was not
            for each in (NEGATIVE_DELTAS, _REMOVE_CHUNKS, _REMOVE_NODES, _REMOVE_PAGES):
                await self.session.rows(each, {**values, "ds": [document.id]})
        nodes = list(walk(made.tree.root))
        node_ids = {node.path: node_id(document.id, document.version, node.path) for node in nodes}
        tree = {**values, **_nodes(nodes, node_ids), "content": made.tree.text}
        await self.session.rows(_TREE, tree)
        if made.tree.printed:
            await self.session.rows(_PAGES, {**values, **_pages(made.tree.printed)})
        own = [_json(filterable(document, draft.metadata)) if draft.metadata else None for draft in made.drafts]
        stamps = Stamps(document.scope_key, _json(document.filterable), own)
        place = IndexPlace(document.kb_id, document.id, document.version, index_id, dim)
        await self.add_chunks(place, made, node_ids, stamps)

    async def add_chunks(
        self, place: IndexPlace, made: IndexedDocument, nodes: Mapping[tuple[int, ...], UUID], stamps: Stamps
    ) -> None:
        """Write a document's chunks into one search index, which has none of it; ``nodes`` are its nodes' ids."""
        ids = [chunk_id(place.document_id, place.version, ordinal) for ordinal in range(len(made.drafts))]
        values = {
            "t": self.tenant_id,
            "kb": place.kb_id,
            "d": place.document_id,
            "v": place.version,
            "i": place.index_id,
            "dim": place.dim,
            "scope": stamps.scope_key,
            "filterable": stamps.filterable,
        }
        add = _OPEN_CHUNKS if stamps.scope_key in OPEN_LEVELS else _PRIVATE_CHUNKS
        for start in range(0, len(ids), BATCH):
            batch = slice(start, start + BATCH)
            entries = made.entries[batch]
            rows = {**_chunks(made, batch), **_lanes(made, batch, entries, nodes), **_deltas(entries)}
            await self.session.rows(add, {**values, "ids": ids[batch], "own": stamps.own[batch], **rows})
        if made.media:
            shown = _shown(made.media, ids)
            await self.session.rows(_MEDIA, {"t": self.tenant_id, "i": place.index_id, **shown})

    async def add_nodes(
        self, document_id: UUID, nodes: Sequence[TreeNode], ids: Mapping[tuple[int, ...], UUID], *, after: int
    ) -> None:
        """Further nodes of a tree that is stored, as far as they are not there; ``after`` is the last one's ordinal."""
        added = _nodes(nodes, ids)
        added["ordinals"] = [after + 1 + ordinal for ordinal in added["ordinals"]]
        await self.session.rows(_ADD_NODES, {"t": self.tenant_id, "d": document_id, **added})


class _Terms(SparseVector):
    """An entry of the lexical lane for the driver: its terms are sorted and packed at once, not term by term."""

    def __init__(self, entry: LexicalEntry) -> None:
        self._entry = entry

    def to_binary(self) -> bytes:
        """As pgvector's sparsevec_recv reads it."""
        entry = self._entry
        count = len(entry.term_ids)
        return struct.pack(f">iii{count}i{count}f", DIMENSIONS, count, 0, *entry.term_ids, *entry.weights)


def _nodes(nodes: Sequence[TreeNode], ids: Mapping[tuple[int, ...], UUID]) -> dict[str, Any]:
    return {
        "ids": [ids[node.path] for node in nodes],
        "parents": [ids[node.path[:-1]] if node.path else None for node in nodes],
        "ordinals": list(range(len(nodes))),
        "kinds": [node.kind.value for node in nodes],
        "levels": [node.level for node in nodes],
        "titles": [node.title for node in nodes],
        "starts": [node.start for node in nodes],
        "ends": [node.end for node in nodes],
        "pages": [node.page for node in nodes],
        "page_ends": [node.page_end for node in nodes],
        "slides": [node.slide for node in nodes],
        "blocks": [node.block.value if node.block else None for node in nodes],
    }


def _pages(printed: Mapping[int, PrintedLines]) -> dict[str, Any]:
    return {
        "pages": list(printed),
        "widths": [page.width / 10 for page in printed.values()],
        "heights": [page.height / 10 for page in printed.values()],
        "starts": [_array(page.lines[::6]) for page in printed.values()],
        "ends": [_array(page.lines[1::6]) for page in printed.values()],
        "boxes": [_array(_boxes(page.lines)) for page in printed.values()],
    }


def _chunks(made: IndexedDocument, batch: slice) -> dict[str, Any]:
    drafts = made.drafts[batch]
    return {
        "ordinals": list(range(batch.start, batch.start + len(drafts))),
        "contents": [draft.text for draft in drafts],
        "starts": [draft.start for draft in drafts],
        "ends": [draft.end for draft in drafts],
        "tokens": list(made.token_counts[batch]),
        "pages": [draft.page for draft in drafts],
        "page_ends": [draft.page_end for draft in drafts],
        "slides": [draft.slide for draft in drafts],
        "sections": [_json(draft.section_titles) for draft in drafts],
        "paths": [_array(draft.node_path) for draft in drafts],
        "metadata": [_json(dict(draft.metadata)) for draft in drafts],
    }


def _lanes(
    made: IndexedDocument, batch: slice, entries: Sequence[LexicalEntry], nodes: Mapping[tuple[int, ...], UUID]
) -> dict[str, Any]:
    halves = made.vectors[batch].astype(np.float16)
    return {
        "places": [_json(_place(draft, nodes)) for draft in made.drafts[batch]],
        "vectors": [
            None if position in made.unembedded else HalfVector(half)
            for position, half in enumerate(halves, start=batch.start)
        ],
        "lengths": [entry.length for entry in entries],
        "terms": [_Terms(entry) for entry in entries],
        "keys": [_array(entry.keys) for entry in entries],
    }


def _place(draft: ChunkDraft, nodes: Mapping[tuple[int, ...], UUID]) -> dict[str, Any]:
    """Its node and those above it, so that a filter finds everything under one of them; its page and suspicions."""
    path = tuple(draft.node_path)
    line = [encode_id("nod", nodes[path[:depth]]) for depth in range(max(0, len(path) - MOST_ABOVE), len(path) + 1)]
    place: dict[str, Any] = {"$node": line} if draft.page is None else {"$node": line, "$page": draft.page}
    suspicious = suspicions(draft.text)
    return {**place, "$suspicious": suspicious} if suspicious else place


def _deltas(entries: Sequence[LexicalEntry]) -> dict[str, Any]:
    """In how many chunks each key is, and its greatest weight in them, as it is stored."""
    count = sum(len(entry.keys) for entry in entries)
    keys = np.fromiter(chain.from_iterable(entry.keys for entry in entries), np.int32, count)
    weights = np.fromiter(chain.from_iterable(entry.weights for entry in entries), np.float32, count)
    distinct, places, df = np.unique(keys, return_inverse=True, return_counts=True)
    tops = np.zeros(len(distinct), np.float32)
    np.maximum.at(tops, places, weights)
    return {"df_keys": _array(distinct.tolist()), "df": _array(df.tolist()), "df_tops": _array(tops.tolist())}


def _shown(media: Mapping[int, DocumentMedia], ids: Sequence[UUID]) -> dict[str, Any]:
    return {
        "ids": [ids[position] for position in media],
        "numbers": [one.ordinal for one in media.values()],
        "types": [one.media_type for one in media.values()],
    }


def _array(values: Iterable[float]) -> str:
    """An array as text: arrays of arrays of different lengths cannot be sent, and long ones are slow to send."""
    return "{" + ",".join(map(str, values)) + "}"


def _boxes(lines: Sequence[int]) -> list[int]:
    """The last four of every six numbers."""
    return [number for place, number in enumerate(lines) if place % 6 > 1]


_REMOVE_CHUNKS = statement("delete from chunk where tenant_id = :t and kb_id = :kb and document_id = :d")
_REMOVE_NODES = statement("delete from node where tenant_id = :t and document_id = :d")
_REMOVE_PAGES = statement("delete from document_page where tenant_id = :t and document_id = :d")
_INSERT_NODES = """
  insert into node (tenant_id, document_id, id, parent_id, ordinal, kind, level, title, start_offset, end_offset,
                    page, page_end, slide, block)
  select :t::uuid, :d::uuid, u.*
    from unnest(:ids::uuid[], :parents::uuid[], :ordinals::int[], :kinds::text[], :levels::int[], :titles::text[],
                :starts::int[], :ends::int[], :pages::int[], :page_ends::int[], :slides::int[], :blocks::text[]) u"""
_ADD_NODES = statement(f"{_INSERT_NODES} on conflict do nothing")
_TREE = statement(f"""
with nodes as ({_INSERT_NODES}
)
insert into document_text (tenant_id, document_id, version, content) values (:t, :d, :v, :content)
on conflict (tenant_id, document_id) do update set version = excluded.version, content = excluded.content""")  # noqa: S608
_PAGES = statement("""
insert into document_page (tenant_id, document_id, page, width, height, starts, ends, boxes)
select :t::uuid, :d::uuid, u.page, u.width, u.height, u.starts::int4[], u.ends::int4[], u.boxes::int4[]
  from unnest(:pages::int[], :widths::real[], :heights::real[], :starts::text[], :ends::text[], :boxes::text[])
       u(page, width, height, starts, ends, boxes)""")
# In one statement: its foreign keys are looked at when all of it is done.
_CHUNKS = """
with made as (
  select u.*, coalesce(u.own, :filterable::jsonb) || u.place seen
    from unnest(:ids::uuid[], :ordinals::int[], :contents::text[], :starts::int[], :ends::int[], :tokens::int[],
                :pages::int[], :page_ends::int[], :slides::int[], :sections::jsonb[], :paths::text[],
                :metadata::jsonb[], :own::jsonb[], :places::jsonb[], :vectors::halfvec[], :lengths::int[],
                :terms::sparsevec[], :keys::text[])
         u(id, ordinal, content, start_offset, end_offset, tokens, page, page_end, slide, sections, path, metadata,
           own, place, vector, length, terms, keys)
), chunks as (
  insert into chunk (tenant_id, kb_id, index_id, document_id, version, id, ordinal, content, start_offset, end_offset,
                     token_count, page, page_end, slide, section_titles, node_path, metadata)
  select :t::uuid, :kb::uuid, :i::uuid, :d::uuid, :v::int, id, ordinal, content, start_offset, end_offset, tokens,
         page, page_end, slide, sections, path::int4[], metadata from made
), dense as (
  insert into chunk_embedding (tenant_id, index_id, dim, scope_key, chunk_id, metadata, embedding)
  select :t::uuid, :i::uuid, :dim::int, :scope::uuid, id, seen, vector from made where vector is not null
), lexical as (
  insert into chunk_lexical (tenant_id, index_id, scope_key, chunk_id, metadata, dl, terms, keys)
  select :t::uuid, :i::uuid, :scope::uuid, id, seen, length, terms, keys::int4[] from made
), frequencies as (
  insert into lex_df (tenant_id, index_id, key, df, top)
  select :t::uuid, :i::uuid, u.* from unnest(:df_keys::text::int4[], :df::text::int4[], :df_tops::text::real[]) u
){private}
insert into lex_totals (tenant_id, index_id, chunks, tokens)
select :t::uuid, :i::uuid, count(*), sum(length) from made"""
_PRIVATE = """, private as (
  insert into private_frequency (tenant_id, index_id, scope_key, key, chunks)
  select :t::uuid, :i::uuid, s.scope_key, u.key, u.chunks
    from (select * from unnest(:df_keys::text::int4[], :df::text::int4[])
          union all select null, count(*)::int from made) u(key, chunks)
   cross join (values (:scope::uuid), (all_private_levels())) s(scope_key)
)"""
_OPEN_CHUNKS, _PRIVATE_CHUNKS = (statement(_CHUNKS.replace("{private}", more)) for more in ("", _PRIVATE))
_MEDIA = statement("""
update chunk set media_ordinal = u.number, media_type = u.type
  from unnest(:ids::uuid[], :numbers::int[], :types::text[]) u(id, number, type)
 where tenant_id = :t and index_id = :i and chunk.id = any(:ids::uuid[]) and chunk.id = u.id""")
