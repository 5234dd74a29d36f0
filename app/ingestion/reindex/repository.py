"""Load stored documents for a reindex, and find the documents that a generation does not have."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.db.session import Session
from app.db.statements import Record, parse_statement
from app.documents.context_lines import ContextLine
from app.documents.provided_graph import ProvidedGraph
from app.documents.source_map import SourceMap
from app.documents.types import CHUNKS_TYPE, build_chunk_id
from app.ingestion.reindex.stored_tree import ImageRange, StoredNode
from app.ingestion.repository import StoredMetadata
from app.ingestion.types import BlockKind, ChunkDraft, NodeKind
from app.warnings import ServiceWarning, WarningCode


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """Live version of a document, read in one snapshot.

    Attributes:
        id: Id of the document.
        version: Live version.
        fence: Value that changes whenever the document is stored again.
        title: Title.
        source: Name of the document.
        has_provided_chunks: Whether the chunks were uploaded ready-made.
        text: Stored text.
        nodes: Rows of the tree, parents before children.
        image_ranges: Ranges of the text that represent images.
        source_map: Position of the text in the file; None if no position is known.
        place_map: Lines or rows of the file that have the text; None if none are known.
        context_lines: Context lines of the chunks in the live search index.
    """

    id: UUID
    version: int
    fence: str
    title: str | None
    source: str
    has_provided_chunks: bool
    text: str
    nodes: Sequence[StoredNode]
    image_ranges: Sequence[ImageRange]
    source_map: SourceMap | None = None
    place_map: SourceMap | None = None
    context_lines: Sequence[ContextLine] = ()


@dataclass(frozen=True, slots=True)
class PendingDocuments:
    """Documents that a generation does not have yet, and the number of all documents."""

    document_ids: Sequence[UUID]
    total: int


class RebuildingRepository:
    """Repository that reads stored documents of one knowledge base for a reindex."""

    def __init__(self, session: Session, tenant_id: UUID, kb_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id
        self.kb_id = kb_id

    async def find_pending_documents(self, index_id: UUID) -> PendingDocuments:
        """Find the documents with a live version that a search index does not have.

        The check looks for the first chunk of each document, because all its chunks are stored in one transaction.

        Args:
            index_id: The search index.
        """
        rows = await self.session.fetch_rows(_LIVE_DOCUMENTS, {"t": self.tenant_id, "kb": self.kb_id})
        first_chunk_ids = [build_chunk_id(row["id"], row["live_version"], 0) for row in rows]
        existing_rows = await self.session.fetch_rows(
            _EXISTING_CHUNKS, {"t": self.tenant_id, "i": index_id, "ids": first_chunk_ids}
        )
        existing_ids = {row["id"] for row in existing_rows}
        missing = [row["id"] for row, first in zip(rows, first_chunk_ids, strict=True) if first not in existing_ids]
        # The first chunk of a document of uploaded chunks may have been deleted.
        provided_ids = {row["id"] for row in rows if row["media_type"] == CHUNKS_TYPE}.intersection(missing)
        if provided_ids:
            values = {"t": self.tenant_id, "kb": self.kb_id, "i": index_id, "ids": list(provided_ids)}
            present = {row["document_id"] for row in await self.session.fetch_rows(_DOCUMENTS_WITH_CHUNKS, values)}
            missing = [document_id for document_id in missing if document_id not in present]
        return PendingDocuments(missing, len(rows))

    async def load_document(self, document_id: UUID) -> StoredDocument | None:
        """Load the live version of a document. The transaction must be a snapshot.

        Title and media type come from the metadata of the live search index, because the row of the document may
        already describe a newer version.

        Args:
            document_id: The document.

        Returns:
            The document, or None if it is deleted or was never ready.
        """
        values = {"t": self.tenant_id, "kb": self.kb_id, "d": document_id}
        row = await self.session.fetch_row(_STORED_TEXT, values)
        if row is None:
            return None
        values["v"] = version = row["live_version"]
        metadata_rows = await self.session.fetch_rows(_METADATA, {**values, "most": 1})
        if not metadata_rows:
            return None
        metadata = metadata_rows[0]["search_metadata"]
        return StoredDocument(
            id=document_id,
            version=version,
            fence=row["fence"],
            title=metadata.get("$title"),
            source=metadata.get("$source", ""),
            has_provided_chunks=metadata.get("$media_type") == CHUNKS_TYPE,
            text=row["content"],
            nodes=[_parse_node(record) for record in await self.session.fetch_rows(_NODES, values)],
            image_ranges=[ImageRange(*record) for record in await self.session.fetch_rows(_IMAGE_RANGES, values)],
            source_map=SourceMap.from_stored(row["source_map"]),
            place_map=SourceMap.from_stored(row["place_map"]),
            context_lines=[ContextLine(*record) for record in await self.session.fetch_rows(_CONTEXT_LINES, values)],
        )

    async def find_live_identity(self) -> dict[str, Any]:
        """Return the identity of the live search index; an empty one if the knowledge base is deleted."""
        row = await self.session.fetch_row(_IDENTITY, {"t": self.tenant_id, "kb": self.kb_id})
        return {} if row is None else row["identity"]

    async def load_live_drafts(self, stored: StoredDocument) -> list[ChunkDraft]:
        """Load the chunks of a document from the live search index, in order."""
        rows = await self.session.fetch_rows(_DRAFTS, self._build_params(stored))
        return [_parse_draft(row) for row in rows]

    async def load_live_vectors(self, stored: StoredDocument) -> dict[int, list[float]]:
        """Load the vectors of a document's chunks from the live search index, by the index of the chunk."""
        rows = await self.session.fetch_rows(_VECTORS, self._build_params(stored))
        return {row["ordinal"]: row["embedding"].to_list() for row in rows}

    async def lock_document(self, stored: StoredDocument) -> bool:
        """Lock a document until the transaction ends. Return False if it was deleted or replaced since it was read."""
        values = {"t": self.tenant_id, "kb": self.kb_id, "d": stored.id}
        if await self.session.fetch_row(_LOCK, values) is None:
            return False
        row = await self.session.fetch_row(_FENCE, values)
        return row is not None and (row["live_version"], row["fence"]) == (stored.version, stored.fence)

    async def has_document(self, index_id: UUID, stored: StoredDocument) -> bool:
        """Return whether a search index has the chunks of a document."""
        values = {"t": self.tenant_id, "kb": self.kb_id, "i": index_id, "ids": [stored.id]}
        return bool(await self.session.fetch_rows(_DOCUMENTS_WITH_CHUNKS, values))

    async def load_live_metadata(self, stored: StoredDocument, chunks: int) -> StoredMetadata | None:
        """Load the scope and the filterable metadata of a document from the live search index.

        Args:
            stored: The document.
            chunks: Number of its chunks.

        Returns:
            The scope and metadata, or None if the live search index does not have the document.
        """
        rows = await self.session.fetch_rows(
            _METADATA, {**self._build_params(stored), "most": chunks if stored.has_provided_chunks else 1}
        )
        if not rows:
            return None
        metadata = [json.dumps(row["search_metadata"], ensure_ascii=False) for row in rows]
        chunk_metadata = (
            [*metadata, *[None] * (chunks - len(metadata))] if stored.has_provided_chunks else [None] * chunks
        )
        return StoredMetadata(rows[0]["scope_key"], metadata[0], chunk_metadata)

    async def set_language(self, document_id: UUID, language: str) -> None:
        """Set the language of a document."""
        values = {"t": self.tenant_id, "d": document_id, "language": language}
        await self.session.fetch_rows(_SET_LANGUAGE, values)

    async def replace_extractor_warnings(self, document_id: UUID, warnings: Sequence[ServiceWarning]) -> None:
        """Replace the warnings of a document about missing entities by those of a new extraction.

        Args:
            document_id: The document.
            warnings: The new warnings, all with the code ``entities_not_extracted``.
        """
        encoded = json.dumps([warning.to_json() for warning in warnings])
        values = {"t": self.tenant_id, "d": document_id, "code": WarningCode.ENTITIES_NOT_EXTRACTED, "new": encoded}
        await self.session.fetch_rows(_REPLACE_WARNINGS, values)

    async def delete_checkpoints(self, document_id: UUID, *identities: UUID) -> None:
        """Delete checkpoints of a document, whose vectors are now stored in the generation."""
        await self.session.fetch_rows(
            _DELETE_CHECKPOINTS, {"t": self.tenant_id, "d": document_id, "identities": list(identities)}
        )

    def _build_params(self, stored: StoredDocument) -> Mapping[str, Any]:
        return {"t": self.tenant_id, "kb": self.kb_id, "d": stored.id, "v": stored.version}


def _parse_node(row: Record) -> StoredNode:
    id_, parent_id, ordinal, kind, level, title, start, end, page, page_end, slide, block = row
    return StoredNode(
        id_, parent_id, ordinal, NodeKind(kind), level, title, start, end, page, page_end, slide,
        None if block is None else BlockKind(block),
    )  # fmt: skip


def _parse_draft(row: Record) -> ChunkDraft:
    content, head_length = row["content"], row["table_head_length"]
    return ChunkDraft(
        text=content if head_length is None else content[head_length + 1 :],
        start=row["start_offset"],
        end=row["end_offset"],
        section_titles=tuple(row["section_titles"]),
        page=row["page"],
        page_end=row["page_end"],
        slide=row["slide"],
        node_path=tuple(row["node_path"]),
        metadata=row["metadata"],
        ordinal=row["ordinal"],
        table_head=None if head_length is None else content[:head_length],
        provided_graph=ProvidedGraph.from_stored(row["provided_graph"]),
        context_line=row["context_line"],
    )


_DOCUMENT_FILTER = "d.tenant_id = :t and d.kb_id = :kb and d.id = :d"
_LIVE_DOCUMENTS = parse_statement("""
select id, live_version, media_type from document
 where tenant_id = :t and kb_id = :kb and live_version is not null and chunk_count > 0 order by id""")
_DOCUMENTS_WITH_CHUNKS = parse_statement("""
select d.id as document_id from unnest(:ids::uuid[]) d(id)
 where exists (select from chunk c where c.tenant_id = :t and c.kb_id = :kb and c.document_id = d.id
                  and c.index_id = :i)""")
_EXISTING_CHUNKS = parse_statement(
    "select id from chunk where tenant_id = :t and index_id = :i and id = any(:ids::uuid[])"
)
# The row of the text is written again with each version and each repeated ingestion, so its xmin is the fence.
_FROM_DOCUMENT_TEXT = f"""
  from document d join document_text t
    on t.tenant_id = d.tenant_id and t.document_id = d.id and t.version = d.live_version where {_DOCUMENT_FILTER}"""
_STORED_TEXT = parse_statement(
    f"select d.live_version, t.content, t.source_map, t.place_map, t.xmin::text as fence {_FROM_DOCUMENT_TEXT}"
)
_FENCE = parse_statement(f"select d.live_version, t.xmin::text as fence {_FROM_DOCUMENT_TEXT}")
_LOCK = parse_statement(f"select 1 from document d where {_DOCUMENT_FILTER} for update")  # noqa: S608
_NODES = parse_statement("""
select n.id, n.parent_id, n.ordinal, n.kind, n.level, n.title, n.start_offset, n.end_offset, n.page, n.page_end,
       n.slide, n.block
  from node n join document d on d.tenant_id = n.tenant_id and d.id = n.document_id
 where d.tenant_id = :t and d.kb_id = :kb and d.id = :d order by n.ordinal""")
_CHUNK_FILTER = "c.tenant_id = :t and c.kb_id = :kb and c.document_id = :d and c.version = :v"
_LIVE_CHUNK_FILTER = f"""{_CHUNK_FILTER}
   and c.index_id = (select id from search_index where tenant_id = :t and kb_id = :kb and state = 'live')"""  # noqa: S608
_IDENTITY = parse_statement("select identity from search_index where tenant_id = :t and kb_id = :kb and state = 'live'")
_IMAGE_RANGES = parse_statement(f"""
select distinct c.start_offset, c.end_offset, c.image_ordinal, c.media_type from chunk c
 where {_CHUNK_FILTER} and c.image_ordinal is not null""")  # noqa: S608
_DRAFTS = parse_statement(f"select c.* from chunk c where {_LIVE_CHUNK_FILTER} order by c.ordinal")  # noqa: S608
_CONTEXT_LINES = parse_statement(f"""
select c.start_offset, c.end_offset, c.context_line from chunk c
 where {_LIVE_CHUNK_FILTER} and c.context_line is not null order by c.ordinal""")  # noqa: S608
_VECTORS = parse_statement(f"""
select c.ordinal, e.embedding from chunk c
 cross join lateral (select e.embedding from chunk_embedding e
                      where e.tenant_id = :t and e.index_id = c.index_id and e.chunk_id = c.id offset 0) e
 where {_LIVE_CHUNK_FILTER}""")  # noqa: S608
_METADATA = parse_statement(f"""
select l.scope_key, l.metadata - '{{$page,$node,$suspicious}}'::text[] as search_metadata
  from (select c.index_id, c.id, c.ordinal from chunk c where {_LIVE_CHUNK_FILTER} order by c.ordinal limit :most) c
 cross join lateral (select l.scope_key, l.metadata from chunk_lexical l
                      where l.tenant_id = :t and l.index_id = c.index_id and l.chunk_id = c.id offset 0) l
 order by c.ordinal""")  # noqa: S608
_SET_LANGUAGE = parse_statement("""
update document set language = :language where tenant_id = :t and id = :d and language is distinct from :language""")
_REPLACE_WARNINGS = parse_statement("""
update document d set warnings = x.warnings
  from (select coalesce(jsonb_agg(w.warning order by w.n) filter (where w.warning ->> 'code' <> :code), '[]')
               || :new::jsonb
          from document o left join lateral jsonb_array_elements(o.warnings) with ordinality w(warning, n) on true
         where o.tenant_id = :t and o.id = :d) x(warnings)
 where d.tenant_id = :t and d.id = :d and d.warnings <> x.warnings""")
_DELETE_CHECKPOINTS = parse_statement("""
delete from embedding_checkpoint where tenant_id = :t and document_id = :d and identity = any(:identities::uuid[])""")
