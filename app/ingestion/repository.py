"""Replace a document's nodes, chunks and lanes in one transaction."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from pgvector import HalfVector, SparseVector
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models.media import DocumentMedia
from app.db.models.tenant_data import Document, SearchIndex
from app.documents.deletion_repository import NEGATIVE_DELTAS
from app.documents.types import chunk_id, filterable, node_id
from app.ids import encode_id
from app.inference.embedding import Vectors
from app.ingestion.types import ChunkDraft, DocumentTree, PrintedLines, TreeNode
from app.lexical.weights import LexicalEntry

DIMENSIONS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """Everything that ingestion made of one version; the sequences run parallel to ``drafts``.

    ``unembedded`` are positions in ``vectors`` that hold none; ``media`` are the pictures by their chunks' positions.
    """

    tree: DocumentTree
    title: str | None
    page_count: int | None
    warnings: list[str]
    drafts: Sequence[ChunkDraft]
    token_counts: Sequence[int]
    vectors: Vectors
    entries: Sequence[LexicalEntry]
    unembedded: Collection[int] = ()
    media: Mapping[int, DocumentMedia] = field(default_factory=dict)


class IngestionRepository:
    """Writes in one tenant."""

    def __init__(self, session: AsyncSession, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def replace(self, document: Document, index: SearchIndex, made: IndexedDocument) -> None:
        """Put the new version in the place of the live one. The caller holds the document's row."""
        document.filterable = filterable(document)
        values = {"t": self.tenant_id, "kb": document.kb_id, "d": document.id, "ds": [document.id]}
        await self.session.execute(text(NEGATIVE_DELTAS), values)
        await self.session.execute(
            text("delete from chunk where tenant_id = :t and kb_id = :kb and document_id = :d"), values
        )
        await self.session.execute(text("delete from node where tenant_id = :t and document_id = :d"), values)
        await self.session.execute(text("delete from document_page where tenant_id = :t and document_id = :d"), values)
        await self._insert_tree(document, made.tree)
        await self._insert_pages(document, made.tree.printed)
        ids = [chunk_id(document.id, document.version, ordinal) for ordinal in range(len(made.drafts))]
        await self._insert_chunks(document, index, made, ids)
        await self._insert_lanes(document, index, made, ids)
        await self._insert_deltas(index.id, made.entries)
        document.status, document.live_version = "ready", document.version
        document.error = document.progress = None
        document.warnings, document.page_count = made.warnings, made.page_count
        document.chunk_count = len(made.drafts)
        await self.session.flush()

    async def _insert_tree(self, document: Document, tree: DocumentTree) -> None:
        nodes: list[tuple[TreeNode, tuple[int, ...] | None]] = []
        pending: list[tuple[TreeNode, tuple[int, ...] | None]] = [(tree.root, None)]
        while pending:
            node, parent = pending.pop()
            nodes.append((node, parent))
            pending.extend((child, node.path) for child in reversed(node.children))

        def key(path: tuple[int, ...]) -> UUID:
            return node_id(document.id, document.version, path)

        values = {
            "t": self.tenant_id,
            "d": document.id,
            "ids": [key(node.path) for node, _ in nodes],
            "parents": [None if parent is None else key(parent) for _, parent in nodes],
            "ordinals": list(range(len(nodes))),
            "kinds": [node.kind.value for node, _ in nodes],
            "levels": [node.level for node, _ in nodes],
            "titles": [node.title for node, _ in nodes],
            "starts": [node.start for node, _ in nodes],
            "ends": [node.end for node, _ in nodes],
            "pages": [node.page for node, _ in nodes],
            "page_ends": [node.page_end for node, _ in nodes],
            "slides": [node.slide for node, _ in nodes],
            "blocks": [node.block.value if node.block else None for node, _ in nodes],
        }
        await self.session.execute(text(_NODES), values)
        await self.session.execute(
            text(_TEXT), {"t": self.tenant_id, "d": document.id, "v": document.version, "content": tree.text}
        )

    async def _insert_pages(self, document: Document, printed: Mapping[int, PrintedLines]) -> None:
        if not printed:
            return
        values = {
            "t": self.tenant_id,
            "d": document.id,
            "pages": list(printed),
            "widths": [page.width / 10 for page in printed.values()],
            "heights": [page.height / 10 for page in printed.values()],
            "starts": [_int_array(page.lines[::6]) for page in printed.values()],
            "ends": [_int_array(page.lines[1::6]) for page in printed.values()],
            "boxes": [_int_array(_boxes(page.lines)) for page in printed.values()],
        }
        await self.session.execute(text(_PAGES), values)

    async def _insert_chunks(
        self, document: Document, index: SearchIndex, made: IndexedDocument, ids: Sequence[UUID]
    ) -> None:
        drafts = made.drafts
        values = {
            "t": self.tenant_id,
            "kb": document.kb_id,
            "i": index.id,
            "d": document.id,
            "v": document.version,
            "ids": ids,
            "ordinals": list(range(len(drafts))),
            "contents": [draft.text for draft in drafts],
            "starts": [draft.start for draft in drafts],
            "ends": [draft.end for draft in drafts],
            "tokens": list(made.token_counts),
            "pages": [draft.page for draft in drafts],
            "page_ends": [draft.page_end for draft in drafts],
            "slides": [draft.slide for draft in drafts],
            "sections": [json.dumps(draft.section_titles, ensure_ascii=False) for draft in drafts],
            "paths": [_int_array(draft.node_path) for draft in drafts],
            "metadata": [json.dumps(dict(draft.metadata), ensure_ascii=False) for draft in drafts],
        }
        await self.session.execute(text(_CHUNKS), values)
        if made.media:
            shown = {
                "ids": [ids[position] for position in made.media],
                "numbers": [one.ordinal for one in made.media.values()],
                "types": [one.media_type for one in made.media.values()],
            }
            await self.session.execute(text(_MEDIA), {"t": self.tenant_id, "i": index.id, **shown})

    async def _insert_lanes(
        self, document: Document, index: SearchIndex, made: IndexedDocument, ids: Sequence[UUID]
    ) -> None:
        values: dict[str, Any] = {
            "t": self.tenant_id,
            "i": index.id,
            "scope": document.scope_key,
            "ids": ids,
            "metadata": _stamped(document, made.drafts),
        }
        embedded = [position for position in range(len(ids)) if position not in made.unembedded]
        dense = {
            **values,
            "ids": [ids[position] for position in embedded],
            "metadata": [values["metadata"][position] for position in embedded],
        }
        vectors = [HalfVector(made.vectors[position]) for position in embedded]
        await self.session.execute(text(_EMBEDDINGS), {**dense, "dim": index.dim, "vectors": vectors})
        entries = made.entries
        terms = [SparseVector(dict(zip(e.term_ids, e.weights, strict=True)), DIMENSIONS) for e in entries]
        keys = [_int_array(entry.keys) for entry in entries]
        lengths = [entry.length for entry in entries]
        await self.session.execute(text(_LEXICAL), {**values, "lengths": lengths, "terms": terms, "keys": keys})

    async def _insert_deltas(self, index_id: UUID, entries: Sequence[LexicalEntry]) -> None:
        frequencies: dict[int, int] = {}
        for entry in entries:
            for key in entry.keys:
                frequencies[key] = frequencies.get(key, 0) + 1
        values = {"t": self.tenant_id, "i": index_id}
        await self.session.execute(
            text(
                "insert into lex_df select :t, :i, k, df from unnest(cast(:k as int4[]), cast(:df as int4[])) u(k, df)"
            ),
            {**values, "k": list(frequencies), "df": list(frequencies.values())},
        )
        await self.session.execute(
            text("insert into lex_totals values (:t, :i, :chunks, :tokens)"),
            {**values, "chunks": len(entries), "tokens": sum(entry.length for entry in entries)},
        )


def _int_array(values: Sequence[int]) -> str:
    """An int4[] as text: arrays of arrays of different lengths cannot be sent."""
    return "{" + ",".join(map(str, values)) + "}"


def _boxes(lines: Sequence[int]) -> list[int]:
    """The last four of every six numbers."""
    return [number for place, number in enumerate(lines) if place % 6 > 1]


def _stamped(document: Document, drafts: Sequence[ChunkDraft]) -> list[str]:
    """What filters see of each chunk: the caller's metadata, the document's reserved names, and the chunk's place."""
    shared = document.filterable
    stamped = []
    for draft in drafts:
        node = encode_id("nod", node_id(document.id, document.version, draft.node_path))
        place = {"$node": node} if draft.page is None else {"$node": node, "$page": draft.page}
        seen = filterable(document, draft.metadata) if draft.metadata else shared
        stamped.append(json.dumps({**seen, **place}, ensure_ascii=False))
    return stamped


_NODES = """
insert into node (tenant_id, document_id, id, parent_id, ordinal, kind, level, title, start_offset, end_offset,
                  page, page_end, slide, block)
select :t, :d, u.* from unnest(cast(:ids as uuid[]), cast(:parents as uuid[]), cast(:ordinals as int[]),
  cast(:kinds as text[]), cast(:levels as int[]), cast(:titles as text[]), cast(:starts as int[]), cast(:ends as int[]),
  cast(:pages as int[]), cast(:page_ends as int[]), cast(:slides as int[]), cast(:blocks as text[])) u"""
_TEXT = """
insert into document_text (tenant_id, document_id, version, content) values (:t, :d, :v, :content)
on conflict (tenant_id, document_id) do update set version = excluded.version, content = excluded.content"""
_PAGES = """
insert into document_page (tenant_id, document_id, page, width, height, starts, ends, boxes)
select :t, :d, u.page, u.width, u.height, cast(u.starts as int4[]), cast(u.ends as int4[]), cast(u.boxes as int4[])
  from unnest(cast(:pages as int[]), cast(:widths as real[]), cast(:heights as real[]), cast(:starts as text[]),
  cast(:ends as text[]), cast(:boxes as text[])) u(page, width, height, starts, ends, boxes)"""
_CHUNKS = """
insert into chunk (tenant_id, kb_id, index_id, document_id, version, id, ordinal, content, start_offset, end_offset,
                   token_count, page, page_end, slide, section_titles, node_path, metadata)
select :t, :kb, :i, :d, :v, u.id, u.ordinal, u.content, u.start_offset, u.end_offset, u.token_count, u.page, u.page_end,
       u.slide, u.section_titles, cast(u.node_path as int4[]), u.metadata
  from unnest(cast(:ids as uuid[]), cast(:ordinals as int[]), cast(:contents as text[]),
  cast(:starts as int[]), cast(:ends as int[]), cast(:tokens as int[]), cast(:pages as int[]),
  cast(:page_ends as int[]), cast(:slides as int[]), cast(:sections as jsonb[]), cast(:paths as text[]),
  cast(:metadata as jsonb[]))
  u(id, ordinal, content, start_offset, end_offset, token_count, page, page_end, slide, section_titles, node_path,
    metadata)"""
_MEDIA = """
update chunk set media_ordinal = u.number, media_type = u.type
  from unnest(cast(:ids as uuid[]), cast(:numbers as int[]), cast(:types as text[])) u(id, number, type)
 where tenant_id = :t and index_id = :i and chunk.id = u.id"""
_EMBEDDINGS = """
insert into chunk_embedding (tenant_id, index_id, dim, scope_key, chunk_id, metadata, embedding)
select :t, :i, :dim, :scope, u.*
  from unnest(cast(:ids as uuid[]), cast(:metadata as jsonb[]), cast(:vectors as halfvec[])) u"""
_LEXICAL = """
insert into chunk_lexical (tenant_id, index_id, scope_key, chunk_id, metadata, dl, terms, keys)
select :t, :i, :scope, u.id, u.metadata, u.dl, u.terms, cast(u.keys as int4[])
  from unnest(cast(:ids as uuid[]), cast(:metadata as jsonb[]), cast(:lengths as int[]), cast(:terms as sparsevec[]),
              cast(:keys as text[])) u(id, metadata, dl, terms, keys)"""
