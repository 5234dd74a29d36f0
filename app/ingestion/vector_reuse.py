"""Reuse of the vectors of another document of the tenant with the same bytes, so that no text is embedded twice."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from app.db.models.tenant_data import DocumentRow
from app.db.session import Session, TenantDatabase
from app.db.statements import parse_statement
from app.inference.embedding import Embedder, EmbeddingIdentity
from app.ingestion.embedding_text import ChunkedDocument, contextualize_chunks
from app.ingestion.types import ChunkDraft

MAX_CANDIDATES = 10
"""Maximum number of documents with the same bytes that are considered."""


@dataclass(frozen=True, slots=True)
class EmbeddedTwin:
    """Live document with the same bytes: its title and name, and its chunks with their vectors."""

    title: str | None
    source: str
    drafts: Sequence[ChunkDraft]
    vectors: Sequence[Sequence[float]]


class TwinRepository:
    """Repository of the documents of one tenant that have the same bytes."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def find(self, document: DocumentRow, identity: EmbeddingIdentity) -> EmbeddedTwin | None:
        """Find another ready document with the same bytes, whose chunks have vectors of the model.

        Args:
            document: The document that is being ingested.
            identity: Embedding model of its knowledge base.
        """
        values = {"t": self.tenant_id, "d": document.id, "sha256": document.sha256, "most": MAX_CANDIDATES}
        for row in await self.session.fetch_rows(_FIND, {**values, "media_type": document.media_type}):
            if EmbeddingIdentity.from_index_identity(row["identity"]) == identity:
                params = {"t": self.tenant_id, "d": row["id"], "kb": row["kb_id"], "v": row["version"]}
                chunks = await self.session.fetch_rows(_CHUNKS, {**params, "i": row["index_id"]})
                drafts = [
                    ChunkDraft(
                        chunk["content"][chunk["table_head_length"] + 1 if chunk["table_head_length"] else 0 :],
                        chunk["start_offset"],
                        chunk["end_offset"],
                        section_titles=tuple(chunk["section_titles"]),
                        table_head=chunk["content"][: chunk["table_head_length"]]
                        if chunk["table_head_length"]
                        else None,
                        context_line=chunk["context_line"],
                    )
                    for chunk in chunks
                ]
                vectors = [chunk["embedding"].to_list() for chunk in chunks]
                return EmbeddedTwin(row["title"], row["source"], drafts, vectors)
        return None


async def reuse_vectors(
    db: TenantDatabase, document: DocumentRow, chunked: ChunkedDocument, embedder: Embedder
) -> ChunkedDocument:
    """Add the vectors of another document of the tenant with the same bytes, for chunks with the same embedded text.

    The vectors are copied, so the documents can be deleted independently.

    Args:
        db: Database of the tenant.
        document: The document that is being ingested.
        chunked: Its chunks.
        embedder: Embedder of its knowledge base.

    Returns:
        The chunks with the vectors that were found. Vectors that the chunks already have stay.
    """
    if len(chunked.vectors) == len(chunked.texts):
        return chunked
    async with db.transaction() as session:
        twin = await TwinRepository(session, db.tenant_id).find(document, embedder.identity)
    if twin is None or not twin.drafts:
        return chunked
    limit = embedder.max_tokens - embedder.special_tokens
    contextualize = partial(contextualize_chunks, count_tokens=embedder.count_tokens, max_tokens=limit)
    texts = await asyncio.to_thread(contextualize, twin.title, twin.drafts, source=twin.source)
    vectors_by_text = dict(zip(texts, twin.vectors, strict=True))
    reused = {
        at: vectors_by_text[text]
        for at, text in enumerate(chunked.texts)
        if text in vectors_by_text and at not in chunked.image_numbers
    }
    return replace(chunked, vectors={**reused, **chunked.vectors})


_FIND = parse_statement("""
select d.id, d.kb_id, d.version, d.title, d.source, i.id as index_id, i.identity
  from document d
  join search_index i on i.tenant_id = d.tenant_id and i.kb_id = d.kb_id and i.state = 'live'
 where d.tenant_id = :t and d.sha256 = :sha256 and d.media_type = :media_type and d.id <> :d
   and d.status = 'ready' and d.live_version = d.version and d.chunk_count > 0
 order by d.id desc limit :most""")
_CHUNKS = parse_statement("""
select c.content, c.start_offset, c.end_offset, c.section_titles, c.table_head_length, c.context_line, e.embedding
  from chunk c
 cross join lateral (select e.embedding from chunk_embedding e
                      where e.tenant_id = :t and e.index_id = c.index_id and e.chunk_id = c.id offset 0) e
 where c.tenant_id = :t and c.kb_id = :kb and c.document_id = :d and c.index_id = :i and c.version = :v
   and c.image_ordinal is null""")
