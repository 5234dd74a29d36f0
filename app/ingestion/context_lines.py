"""Context lines of chunks: vectors and terms of a live document are stored again with the lines of a chat model."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import numpy as np
from pgvector import HalfVector

from app.db.session import Session, TenantDatabase
from app.db.statements import Record, parse_statement
from app.documents.context_lines import ContextLine
from app.documents.scopes import OPEN_LEVEL_KEYS
from app.documents.term_counts import ADD_OPEN_COUNTS, ADD_PRIVATE_COUNTS, build_count_subtraction
from app.documents.types import build_chunk_id
from app.inference.embedding import Vectors
from app.inference.embedding.model_registry import Embedders
from app.ingestion.embedding import derive_checkpoint_key, embed_chunks, record_usage, record_usage_on_failure
from app.ingestion.embedding_text import ChunkedDocument, apply_context_lines, contextualize_chunks
from app.ingestion.progress import IngestionProgress
from app.ingestion.reindex.repository import RebuildingRepository, StoredDocument
from app.ingestion.reindex.stored_tree import restore_tree
from app.ingestion.repository import BATCH_SIZE, build_frequency_params
from app.ingestion.term_vector import TermVector
from app.ingestion.tree_columns import format_array
from app.ingestion.types import ChunkDraft
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.types import IndexMismatch
from app.lexical.analyzers import parse_analyzer_version
from app.lexical.languages import build_lexical_entries
from app.lexical.weights import LexicalEntry, recompute_entry_weights
from app.quotas.token_budget import TokenBudget
from app.quotas.types import NO_KEY


@dataclass(frozen=True, slots=True)
class ContextLineIndexer:
    """Writer of context lines into the live search index.

    Attributes:
        embedders: Embedding models.
        uploader: API key of the upload, whose quotas apply with those of the tenant.
    """

    embedders: Embedders
    uploader: UUID = NO_KEY

    async def apply(
        self,
        db: TenantDatabase,
        kb_id: UUID,
        document_id: UUID,
        *,
        version: int,
        index_id: UUID,
        lines: Sequence[ContextLine],
    ) -> bool:
        """Embed and index the chunks whose context line changes. A repeated call changes nothing.

        Chunks that were uploaded ready-made and chunks of images get no line.

        Args:
            db: Database of the tenant.
            kb_id: The knowledge base.
            document_id: The document.
            version: Its live version.
            index_id: The live search index.
            lines: All context lines of the version.

        Returns:
            False if the document has another version or another search index now.

        Raises:
            IndexMismatch: The embedding model of the search index is not configured.
            EmbeddingUnavailable: The embedding model does not answer.
            TooManyTerms: A chunk has too many different terms with its line.
            DailyTokenLimitReached: The daily token budget is used up. Vectors that exist already are kept for a retry.
        """
        async with db.transaction(snapshot=True) as session:
            repository = RebuildingRepository(session, db.tenant_id, kb_id)
            stored = await repository.load_document(document_id)
            index = await session.fetch_row(_FIND_INDEX, {"t": db.tenant_id, "kb": kb_id, "d": document_id})
            if stored is None or index is None or (stored.version, index["id"]) != (version, index_id):
                return False
            if stored.has_provided_chunks:
                return True
            former = await repository.load_live_drafts(stored)
        changed = await asyncio.to_thread(_list_changed, stored, former, lines)
        return not changed or await self._store(db, kb_id, stored, index, changed)

    async def _store(
        self, db: TenantDatabase, kb_id: UUID, stored: StoredDocument, index: Record, drafts: Sequence[ChunkDraft]
    ) -> bool:
        embedder = self.embedders.find_by_identity(index["identity"])
        if embedder is None:
            raise IndexMismatch(f"The embedding model {index['identity']['model']!r} is not configured.")
        limit = embedder.max_tokens - embedder.special_tokens
        contextualize = partial(contextualize_chunks, count_tokens=embedder.count_tokens, max_tokens=limit)
        texts = await asyncio.to_thread(contextualize, stored.title, drafts, source=stored.source)
        tree = await asyncio.to_thread(restore_tree, stored.text, stored.nodes)
        entries: Sequence[LexicalEntry] = await asyncio.to_thread(
            build_lexical_entries,
            texts,
            language=index["language"],
            index_id=index["id"],
            avgdl=index["avgdl"],
            version=parse_analyzer_version(index["identity"].get("analyzer")),
        )
        embedded = await embed_chunks(
            db,
            stored.id,
            ChunkedDocument(tree, drafts, [], texts),
            embedder=embedder,
            progress=IngestionProgress(db, stored.id, None),
            budget=await TokenBudget.load(db, self.uploader),
        )
        accepted = [position for position in range(len(drafts)) if position not in embedded.rejected]
        usage = embedded.unrecorded_usage
        async with record_usage_on_failure(db, embedder, usage, key_id=self.uploader), db.transaction() as session:
            repository = RebuildingRepository(session, db.tenant_id, kb_id)
            if not await repository.lock_document(stored):
                return False
            locked = await KnowledgeBaseRepository(session, db.tenant_id).lock_indexes(kb_id)
            live = await session.fetch_row(_FIND_INDEX, {"t": db.tenant_id, "kb": kb_id, "d": stored.id})
            if live is None or live["id"] != index["id"]:
                return False
            averages = index["avgdl"], locked[index["id"]].avgdl
            for start in range(0, len(accepted), BATCH_SIZE):
                batch = accepted[start : start + BATCH_SIZE]
                weighted = recompute_entry_weights([entries[at] for at in batch], avgdl=averages)
                chunks = [drafts[at] for at in batch]
                await self._update(session, db.tenant_id, stored, live, (chunks, embedded.vectors[batch], weighted))
            await repository.delete_checkpoints(stored.id, derive_checkpoint_key(embedder.identity))
            await record_usage(session, db, embedder, usage, key_id=self.uploader)
        return True

    async def _update(
        self,
        session: Session,
        tenant_id: UUID,
        stored: StoredDocument,
        index: Record,
        rows: tuple[Sequence[ChunkDraft], Vectors, Sequence[LexicalEntry]],
    ) -> None:
        drafts, vectors, entries = rows
        ids = []
        for draft in drafts:
            assert draft.ordinal is not None, "drafts of stored chunks have their ordinal"
            ids.append(build_chunk_id(stored.id, stored.version, draft.ordinal))
        values = {"t": tenant_id, "i": index["id"], "ids": ids}
        await session.fetch_rows(_SUBTRACT, values)
        rows_of_chunks = {
            "lines": [draft.context_line for draft in drafts],
            "vectors": [HalfVector(vector) for vector in vectors.astype(np.float16)],
            "lengths": [entry.length for entry in entries],
            "terms": [TermVector(entry) for entry in entries],
            "keys": [format_array(entry.keys) for entry in entries],
        }
        counts = build_frequency_params(entries)
        if index["scope_key"] in OPEN_LEVEL_KEYS:
            await session.fetch_rows(_UPDATE_OPEN, {**values, **rows_of_chunks, **counts})
        else:
            private = {**counts, "scope": index["scope_key"]}
            await session.fetch_rows(_UPDATE_PRIVATE, {**values, **rows_of_chunks, **private})


def _list_changed(
    stored: StoredDocument, drafts: Sequence[ChunkDraft], lines: Sequence[ContextLine]
) -> list[ChunkDraft]:
    """Return the chunks of texts whose context line changes, with their new line."""
    images = {(image.start, image.end) for image in stored.image_ranges}
    texts = [draft for draft in drafts if (draft.start, draft.end) not in images]
    return [
        draft
        for draft, former in zip(apply_context_lines(texts, lines), texts, strict=True)
        if draft.context_line != former.context_line
    ]


_FIND_INDEX = parse_statement("""
select i.id, i.identity, i.avgdl, d.language, d.scope_key from document d
  join search_index i on i.tenant_id = d.tenant_id and i.kb_id = d.kb_id and i.state = 'live'
 where d.tenant_id = :t and d.kb_id = :kb and d.id = :d""")
_SUBTRACT = parse_statement(
    build_count_subtraction("""
  select l.index_id, l.scope_key, l.keys, l.dl from chunk_lexical l
   where l.tenant_id = :t and l.index_id = :i and l.chunk_id = any(:ids::uuid[])""")
)
_UPDATE = """
with made as (
  select u.* from unnest(:ids::uuid[], :lines::text[], :vectors::halfvec[], :lengths::int[], :terms::sparsevec[],
                         :keys::text[]) u(id, line, vector, length, terms, keys)
), chunks as (
  update chunk c set context_line = m.line from made m where c.tenant_id = :t and c.index_id = :i and c.id = m.id
), dense as (
  update chunk_embedding e set embedding = m.vector from made m
   where e.tenant_id = :t and e.index_id = :i and e.chunk_id = m.id
), lexical as (
  update chunk_lexical l set dl = m.length, terms = m.terms, keys = m.keys::int4[] from made m
   where l.tenant_id = :t and l.index_id = :i and l.chunk_id = m.id
)"""
_UPDATE_OPEN, _UPDATE_PRIVATE = (parse_statement(_UPDATE + counts) for counts in (ADD_OPEN_COUNTS, ADD_PRIVATE_COUNTS))
