"""Store the nodes, chunks and search rows of a document in one transaction."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Self
from uuid import UUID

import numpy as np
from pgvector import HalfVector

from app.db.models.images import DocumentImage
from app.db.models.tenant_data import DocumentRow
from app.db.session import Session
from app.db.statements import parse_statement
from app.documents.deletion.repository import NEGATIVE_DELTAS
from app.documents.scopes import OPEN_LEVEL_KEYS
from app.documents.term_counts import ADD_OPEN_COUNTS, ADD_PRIVATE_COUNTS
from app.documents.types import build_chunk_id, build_document_filter_metadata, build_node_id
from app.graph.extraction.types import Entity
from app.graph.repository import GraphLocation, GraphRepository
from app.graph.types import ChunkGraph
from app.ids import encode_id
from app.inference.embedding import Vectors
from app.ingestion.injection_flags import detect_prompt_injection
from app.ingestion.term_vector import TermVector
from app.ingestion.tree import walk_nodes
from app.ingestion.tree_columns import build_node_params, build_page_params, format_array
from app.ingestion.types import ChunkDraft, DocumentTree, TreeNode
from app.lexical.weights import LexicalEntry, recompute_entry_weights
from app.warnings import ServiceWarning

_encode_json = json.JSONEncoder(ensure_ascii=False).encode
MAX_ANCESTORS = 32
"""Number of nodes above a chunk that filters know. Headings are never nested so deep, but a hostile file can be."""

BATCH_SIZE = 2_000
"""Number of chunks that one statement inserts; the parameters of more chunks would take hundreds of megabytes."""


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """Result of ingesting one version. ``token_counts``, ``vectors`` and ``entries`` have one item for each draft.

    Attributes:
        tree: Tree of the document.
        title: Title that the parser found.
        page_count: Number of pages or slides.
        warnings: Warnings for the owner of the document.
        language: Language of the document's analyzer.
        drafts: The chunks.
        token_counts: Number of tokens of each chunk's text, with the repeated head of a table.
        vectors: Vectors of the chunks, of the shape (chunks, dimensions).
        entries: Term weights of the chunks for the lexical retriever.
        unembedded: Positions of chunks without a vector, because the model refused their text.
        images: Rows of the images, by the position of the chunk that represents the image.
        graphs: Entities and relations of each chunk; None if the search index has no graph.
        plugin_entities: Entities that plugins found in each chunk; empty without plugins. ``graphs`` has them too.
    """

    tree: DocumentTree
    title: str | None
    page_count: int | None
    warnings: Sequence[ServiceWarning]
    language: str
    drafts: Sequence[ChunkDraft]
    token_counts: Sequence[int]
    vectors: Vectors
    entries: Sequence[LexicalEntry]
    unembedded: Collection[int] = ()
    images: Mapping[int, DocumentImage] = field(default_factory=dict)
    graphs: Sequence[ChunkGraph] | None = None
    plugin_entities: Sequence[Sequence[Entity]] = ()

    def recompute_weights(self, old_avgdl: float, new_avgdl: float) -> Self:
        """Return the document with term weights for another average chunk length of the search index."""
        return (
            self
            if old_avgdl == new_avgdl
            else replace(self, entries=recompute_entry_weights(self.entries, avgdl=(old_avgdl, new_avgdl)))
        )


@dataclass(frozen=True, slots=True)
class IndexLocation:
    """Target of a document's chunks: knowledge base, document version, search index and its number of dimensions."""

    kb_id: UUID
    document_id: UUID
    version: int
    index_id: UUID
    dim: int


@dataclass(frozen=True, slots=True)
class StoredMetadata:
    """Scope of a document, and the metadata that filters read.

    Attributes:
        scope_key: Scope of the document.
        document_metadata: Filterable metadata of the document, as JSON.
        chunk_metadata: Filterable metadata of each chunk with own metadata, as JSON; None for the other chunks.
    """

    scope_key: UUID
    document_metadata: str
    chunk_metadata: Sequence[str | None]


class IngestionRepository:
    """Repository that stores the results of ingestion for one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def replace_document(
        self, document: DocumentRow, indexed: IndexedDocument, *, index_id: UUID, dim: int
    ) -> None:
        """Replace the nodes, chunks and search rows of the live version with the rows of a new version.

        Args:
            document: Row of the document, which the caller has locked.
            indexed: Result of ingesting the new version.
            index_id: Live search index.
            dim: Number of dimensions of its vectors.
        """
        document.filterable = build_document_filter_metadata(document)
        values = {"t": self.tenant_id, "kb": document.kb_id, "d": document.id, "v": document.version}
        if document.live_version is not None:  # without a live version there are no rows: all are written in one commit
            for delete_statement in (*NEGATIVE_DELTAS, _DELETE_CHUNKS, _DELETE_NODES, _DELETE_PAGES):
                await self.session.fetch_rows(delete_statement, {**values, "ds": [document.id]})
        nodes = list(walk_nodes(indexed.tree.root))
        node_ids = {node.path: build_node_id(document.id, document.version, node.path) for node in nodes}
        tree_params = {**values, **build_node_params(nodes, node_ids), "content": indexed.tree.text}
        tree_params["source_map"] = indexed.tree.source_map and indexed.tree.source_map.to_stored()
        tree_params["place_map"] = indexed.tree.place_map and indexed.tree.place_map.to_stored()
        await self.session.fetch_rows(_INSERT_TREE, tree_params)
        if indexed.tree.line_layouts:
            await self.session.fetch_rows(_INSERT_PAGES, {**values, **build_page_params(indexed.tree.line_layouts)})
        chunk_metadata = [
            _encode_json(build_document_filter_metadata(document, draft.metadata)) if draft.metadata else None
            for draft in indexed.drafts
        ]
        metadata = StoredMetadata(document.scope_key, _encode_json(document.filterable), chunk_metadata)
        location = IndexLocation(document.kb_id, document.id, document.version, index_id, dim)
        await self.add_chunks(location, indexed, node_ids, metadata)

    async def add_chunks(
        self,
        location: IndexLocation,
        indexed: IndexedDocument,
        node_ids: Mapping[tuple[int, ...], UUID],
        metadata: StoredMetadata,
    ) -> None:
        """Store the chunks of a document in a search index that has no chunk of the document.

        Args:
            location: Target of the chunks.
            indexed: The chunks with their vectors and term weights.
            node_ids: Ids of the document's nodes, by their path.
            metadata: Scope and filterable metadata.
        """
        chunk_ids = [
            build_chunk_id(location.document_id, location.version, ordinal)
            for ordinal in _list_ordinals(indexed.drafts, slice(None))
        ]
        values = {
            "t": self.tenant_id,
            "kb": location.kb_id,
            "d": location.document_id,
            "v": location.version,
            "i": location.index_id,
            "dim": location.dim,
            "scope": metadata.scope_key,
            "filterable": metadata.document_metadata,
        }
        insert_statement = _INSERT_OPEN_CHUNKS if metadata.scope_key in OPEN_LEVEL_KEYS else _INSERT_PRIVATE_CHUNKS
        for start in range(0, len(chunk_ids), BATCH_SIZE):
            batch = slice(start, start + BATCH_SIZE)
            entries = indexed.entries[batch]
            rows = {
                **_to_chunk_params(indexed, batch),
                **_to_search_params(indexed, batch, entries, node_ids),
                **build_frequency_params(entries),
            }
            await self.session.fetch_rows(
                insert_statement, {**values, "ids": chunk_ids[batch], "own": metadata.chunk_metadata[batch], **rows}
            )
            if indexed.graphs is not None:
                graph_location = GraphLocation(location.kb_id, location.index_id, metadata.scope_key)
                await GraphRepository(self.session, self.tenant_id).add_chunks(
                    graph_location, chunk_ids[batch], indexed.graphs[batch]
                )
        if indexed.images:
            image_params = _to_image_params(indexed.images, chunk_ids)
            await self.session.fetch_rows(_SET_IMAGES, {"t": self.tenant_id, "i": location.index_id, **image_params})

    async def add_nodes(
        self,
        document_id: UUID,
        nodes: Sequence[TreeNode],
        node_ids: Mapping[tuple[int, ...], UUID],
        *,
        last_ordinal: int,
    ) -> None:
        """Add nodes to a stored tree. Nodes that exist are skipped.

        Args:
            document_id: The document.
            nodes: The nodes, in reading order.
            node_ids: Ids of the nodes, by their path.
            last_ordinal: Highest ordinal of the stored nodes.
        """
        params = build_node_params(nodes, node_ids)
        params["ordinals"] = [last_ordinal + 1 + ordinal for ordinal in params["ordinals"]]
        await self.session.fetch_rows(_ADD_NODES, {"t": self.tenant_id, "d": document_id, **params})


def _list_ordinals(drafts: Sequence[ChunkDraft], batch: slice) -> list[int]:
    """Return the index of each chunk of a batch in its document."""
    return [
        position if draft.ordinal is None else draft.ordinal
        for position, draft in enumerate(drafts[batch], start=batch.start or 0)
    ]


def _to_chunk_params(indexed: IndexedDocument, batch: slice) -> dict[str, Any]:
    drafts = indexed.drafts[batch]
    source_ranges = [indexed.tree.find_source_range(draft.start, draft.end) for draft in drafts]
    places = [indexed.tree.find_place(draft.start, draft.end) for draft in drafts]
    return {
        "ordinals": _list_ordinals(indexed.drafts, batch),
        "contents": [draft.content for draft in drafts],
        "starts": [draft.start for draft in drafts],
        "ends": [draft.end for draft in drafts],
        "source_starts": [source_range[0] for source_range in source_ranges],
        "source_ends": [source_range[1] for source_range in source_ranges],
        "place_starts": [place[0] for place in places],
        "place_ends": [place[1] for place in places],
        "tokens": list(indexed.token_counts[batch]),
        "pages": [draft.page for draft in drafts],
        "page_ends": [draft.page_end for draft in drafts],
        "slides": [draft.slide for draft in drafts],
        "sections": [_encode_json(draft.section_titles) for draft in drafts],
        "paths": [format_array(draft.node_path) for draft in drafts],
        "metadata": [_encode_json(dict(draft.metadata)) for draft in drafts],
        "head_lengths": [None if draft.table_head is None else len(draft.table_head) for draft in drafts],
        "provided_graphs": [
            None if (graph := draft.provided_graph.to_stored()) is None else _encode_json(graph) for draft in drafts
        ],
        "context_lines": [draft.context_line for draft in drafts],
    }


def _to_search_params(
    indexed: IndexedDocument, batch: slice, entries: Sequence[LexicalEntry], node_ids: Mapping[tuple[int, ...], UUID]
) -> dict[str, Any]:
    half_vectors = indexed.vectors[batch].astype(np.float16)
    return {
        "locations": [_encode_json(_build_location_metadata(draft, node_ids)) for draft in indexed.drafts[batch]],
        "vectors": [
            None if position in indexed.unembedded else HalfVector(half_vector)
            for position, half_vector in enumerate(half_vectors, start=batch.start)
        ],
        "lengths": [entry.length for entry in entries],
        "terms": [TermVector(entry) for entry in entries],
        "keys": [format_array(entry.keys) for entry in entries],
    }


def _build_location_metadata(draft: ChunkDraft, node_ids: Mapping[tuple[int, ...], UUID]) -> dict[str, Any]:
    """Build the metadata of a chunk that filters read: its node and the nodes above it, its page and its flags."""
    path = tuple(draft.node_path)
    ancestor_ids = [
        encode_id("nod", node_ids[path[:depth]]) for depth in range(max(0, len(path) - MAX_ANCESTORS), len(path) + 1)
    ]
    metadata: dict[str, Any] = (
        {"$node": ancestor_ids} if draft.page is None else {"$node": ancestor_ids, "$page": draft.page}
    )
    flags = detect_prompt_injection(draft.content)
    return {**metadata, "$suspicious": flags} if flags else metadata


def build_frequency_params(entries: Sequence[LexicalEntry]) -> dict[str, Any]:
    """Count the chunks of each term key, and find the key's greatest weight as a float32, the stored precision."""
    count = sum(len(entry.keys) for entry in entries)
    keys = np.fromiter(chain.from_iterable(entry.keys for entry in entries), np.int32, count)
    weights = np.fromiter(chain.from_iterable(entry.weights for entry in entries), np.float32, count)
    distinct, inverse, df = np.unique(keys, return_inverse=True, return_counts=True)
    max_weights = np.zeros(len(distinct), np.float32)
    np.maximum.at(max_weights, inverse, weights)
    return {
        "df_keys": format_array(distinct.tolist()),
        "df": format_array(df.tolist()),
        "max_weights": format_array(max_weights.tolist()),
    }


def _to_image_params(images: Mapping[int, DocumentImage], chunk_ids: Sequence[UUID]) -> dict[str, Any]:
    return {
        "ids": [chunk_ids[position] for position in images],
        "numbers": [row.ordinal for row in images.values()],
        "types": [row.media_type for row in images.values()],
    }


_DELETE_CHUNKS = parse_statement("delete from chunk where tenant_id = :t and kb_id = :kb and document_id = :d")
_DELETE_NODES = parse_statement("delete from node where tenant_id = :t and document_id = :d")
_DELETE_PAGES = parse_statement("delete from document_page where tenant_id = :t and document_id = :d")
_INSERT_NODES = """
  insert into node (tenant_id, document_id, id, parent_id, ordinal, kind, level, title, start_offset, end_offset,
                    page, page_end, slide, block)
  select :t::uuid, :d::uuid, u.*
    from unnest(:ids::uuid[], :parents::uuid[], :ordinals::int[], :kinds::text[], :levels::int[], :titles::text[],
                :starts::int[], :ends::int[], :pages::int[], :page_ends::int[], :slides::int[], :blocks::text[]) u"""
_ADD_NODES = parse_statement(f"{_INSERT_NODES} on conflict do nothing")
_INSERT_TREE = parse_statement(f"""
with nodes as ({_INSERT_NODES}
)
insert into document_text (tenant_id, document_id, version, content, source_map, place_map)
values (:t, :d, :v, :content, :source_map, :place_map)
on conflict (tenant_id, document_id) do update
   set version = excluded.version, content = excluded.content, source_map = excluded.source_map,
       place_map = excluded.place_map""")  # noqa: S608
_INSERT_PAGES = parse_statement("""
insert into document_page (tenant_id, document_id, page, width, height, starts, ends, boxes)
select :t::uuid, :d::uuid, u.page, u.width, u.height, u.starts::int4[], u.ends::int4[], u.boxes::int4[]
  from unnest(:pages::int[], :widths::real[], :heights::real[], :starts::text[], :ends::text[], :boxes::text[])
       u(page, width, height, starts, ends, boxes)""")
# One statement, because Postgres checks its foreign keys only at the end of the statement.
_INSERT_CHUNKS = """
with made as (
  select u.*, coalesce(u.own, :filterable::jsonb) || u.place seen
    from unnest(:ids::uuid[], :ordinals::int[], :contents::text[], :starts::int[], :ends::int[], :source_starts::int[],
                :source_ends::int[], :place_starts::int[], :place_ends::int[], :tokens::int[], :pages::int[],
                :page_ends::int[], :slides::int[], :sections::jsonb[], :paths::text[], :metadata::jsonb[],
                :head_lengths::int[], :provided_graphs::jsonb[], :context_lines::text[], :own::jsonb[],
                :locations::jsonb[], :vectors::halfvec[], :lengths::int[], :terms::sparsevec[], :keys::text[])
         u(id, ordinal, content, start_offset, end_offset, source_start, source_end, place_start, place_end, tokens,
           page, page_end, slide, sections, path, metadata, head_length, provided_graph, context_line, own, place,
           vector, length, terms, keys)
), chunks as (
  insert into chunk (tenant_id, kb_id, index_id, document_id, version, id, ordinal, content, start_offset, end_offset,
                     source_start, source_end, place_start, place_end, token_count, page, page_end, slide,
                     section_titles, node_path, metadata, table_head_length, provided_graph, context_line)
  select :t::uuid, :kb::uuid, :i::uuid, :d::uuid, :v::int, id, ordinal, content, start_offset, end_offset,
         source_start, source_end, place_start, place_end, tokens, page, page_end, slide, sections, path::int4[],
         metadata, head_length, provided_graph, context_line from made
), dense as (
  insert into chunk_embedding (tenant_id, index_id, dim, scope_key, chunk_id, metadata, embedding)
  select :t::uuid, :i::uuid, :dim::int, :scope::uuid, id, seen, vector from made where vector is not null
), lexical as (
  insert into chunk_lexical (tenant_id, index_id, scope_key, chunk_id, metadata, dl, terms, keys)
  select :t::uuid, :i::uuid, :scope::uuid, id, seen, length, terms, keys::int4[] from made
){counts}"""
_INSERT_OPEN_CHUNKS, _INSERT_PRIVATE_CHUNKS = (
    parse_statement(_INSERT_CHUNKS.replace("{counts}", counts)) for counts in (ADD_OPEN_COUNTS, ADD_PRIVATE_COUNTS)
)
_SET_IMAGES = parse_statement("""
update chunk set image_ordinal = u.number, media_type = u.type
  from unnest(:ids::uuid[], :numbers::int[], :types::text[]) u(id, number, type)
 where tenant_id = :t and index_id = :i and chunk.id = any(:ids::uuid[]) and chunk.id = u.id""")
