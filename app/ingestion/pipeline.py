"""The straight line: fetch → parse → tree → chunk → embed → store."""

import asyncio
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

from app.db.models.tenant_data import Document
from app.db.session import TenantDatabase
from app.documents.repository import DocumentRepository
from app.inference.embedding import Embedder, EmbeddingRejected, Vectors
from app.ingestion.chunkers import CHUNKERS, ChunkOptions
from app.ingestion.parsers.pool import ParserPool
from app.ingestion.passages import passage_texts
from app.ingestion.repository import IndexedDocument, IngestionRepository
from app.ingestion.tree import build_tree
from app.ingestion.types import ChunkDraft, DocumentTree, NoText, ParsedDocument
from app.job_queue import JobQueue
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.service import PURGE_JOB
from app.knowledge_bases.types import IndexMismatch, KnowledgeBaseView
from app.lexical.analyser import analyser_for
from app.lexical.weights import LexicalEntry, document_entries, salt
from app.object_store import ObjectStore

EMBED_SLICE = 64
# More than so many passages of one document refused by the embedding model, and something else is wrong.
MOST_REFUSED = 10


@dataclass(frozen=True, slots=True)
class _Passages:
    """What chunking yields: the drafts, their own sizes, and the texts that are embedded and indexed."""

    tree: DocumentTree
    drafts: Sequence[ChunkDraft]
    token_counts: Sequence[int]
    texts: Sequence[str]


class Superseded(Exception):
    """The version is not wanted any more: deleted, replaced by a newer upload, or settled by another worker."""


@dataclass(frozen=True, slots=True)
class IngestionPipeline:
    """Turns a stored original into searchable chunks."""

    objects: ObjectStore
    parsers: ParserPool
    embedder: Embedder
    queue: JobQueue

    async def ingest(self, db: TenantDatabase, document_id: UUID, version: int) -> None:
        """Ingest one version; doing it again changes nothing. Returns quietly when the version is not wanted any more.

        Raises IngestionError for the file, IndexMismatch for the knowledge base, Unavailable for what may be retried.
        """
        try:
            document, kb, key = await self._load(db, document_id, version)
            parsed = await self._parse(document, key)
            await self._report(db, document, "chunking")
            passages = await asyncio.to_thread(self._chunk, document, kb, parsed)
            vectors, refused = await self._embed(db, document, passages.texts)
            entries = await asyncio.to_thread(_lexical, kb, passages.texts)
            made = IndexedDocument(
                tree=passages.tree,
                title=parsed.title,
                page_count=parsed.page_count,
                warnings=[*parsed.warnings, *_refusal(refused, len(passages.texts))],
                drafts=passages.drafts,
                token_counts=passages.token_counts,
                vectors=vectors,
                unembedded=refused,
                entries=entries,
            )
            await self._replace(db, document, kb, made)
        except Superseded:
            return

    async def _load(
        self, db: TenantDatabase, document_id: UUID, version: int
    ) -> tuple[Document, KnowledgeBaseView, str]:
        async with db.transaction() as session:
            documents = DocumentRepository(session, db.tenant_id)
            document = await documents.by_id(document_id)
            if document is None or document.version != version or document.live_version == version:
                raise Superseded
            kb = await KnowledgeBaseRepository(session, db.tenant_id).find(document.kb_id)
            key = await documents.object_key(document_id, version)
            if kb is None or key is None:
                raise Superseded
            kb.require_match(self.embedder.identity)
            if not await documents.set_status(document_id, version, "parsing"):
                raise Superseded
        return document, kb, key

    async def _parse(self, document: Document, key: str) -> ParsedDocument:
        with tempfile.TemporaryDirectory(prefix="carrel-ingest-") as folder:
            path = Path(folder) / "original"
            await self.objects.get(key, path)
            return await self.parsers.parse(path, document.media_type, encoding=document.encoding)

    def _chunk(self, document: Document, kb: KnowledgeBaseView, parsed: ParsedDocument) -> _Passages:
        tree = build_tree(parsed)
        chunking = kb.chunking
        options = ChunkOptions(max_tokens=chunking.max_tokens, overlap_tokens=chunking.overlap_tokens)
        drafts = CHUNKERS[chunking.strategy].chunk(tree, options, self.embedder.count_tokens)
        if not drafts:
            raise NoText
        limit = self.embedder.max_tokens - self.embedder.special_tokens
        texts = passage_texts(
            document.title or parsed.title, drafts, count_tokens=self.embedder.count_tokens, limit=limit
        )
        counts = self.embedder.count_tokens([draft.text for draft in drafts])
        return _Passages(tree, drafts, counts, texts)

    async def _embed(
        self, db: TenantDatabase, document: Document, texts: Sequence[str]
    ) -> tuple[Vectors, frozenset[int]]:
        """The texts' vectors, and the positions of the few that the model refuses; theirs are zero."""
        vectors = np.zeros((len(texts), self.embedder.identity.dimensions), np.float32)
        refused: set[int] = set()
        for start in range(0, len(texts), EMBED_SLICE):
            progress = {"done": start, "total": len(texts), "unit": "chunks"}
            await self._report(db, document, "embedding", progress)
            waiting = list(range(start, min(start + EMBED_SLICE, len(texts))))
            while waiting:
                try:
                    vectors[waiting] = await self.embedder.embed_documents([texts[at] for at in waiting])
                    break
                except EmbeddingRejected as exc:
                    position = exc.fields.get("index")
                    if position is None or len(refused) == MOST_REFUSED or len(refused) + 1 == len(texts):
                        raise
                    refused.add(waiting.pop(position))
        return vectors, frozenset(refused)

    async def _report(
        self, db: TenantDatabase, document: Document, status: str, progress: dict[str, Any] | None = None
    ) -> None:
        async with db.transaction() as session:
            repository = DocumentRepository(session, db.tenant_id)
            if not await repository.set_status(document.id, document.version, status, progress):
                raise Superseded

    async def _replace(
        self, db: TenantDatabase, loaded: Document, kb: KnowledgeBaseView, made: IndexedDocument
    ) -> None:
        async with db.transaction() as session:
            documents = DocumentRepository(session, db.tenant_id)
            document = await documents.get(loaded.kb_id, loaded.id, lock=True)
            if document is None or document.version != loaded.version or document.status in ("ready", "failed"):
                raise Superseded
            now = await KnowledgeBaseRepository(session, db.tenant_id).find(document.kb_id)
            if now is None:
                raise Superseded
            if now.index.id != kb.index.id:
                raise IndexMismatch("The knowledge base was reindexed while this document was embedded.")
            document.title = document.title or made.title
            await IngestionRepository(session, db.tenant_id).replace(document, now.index, made)
            for key in await documents.take_objects_before(document.id, document.version):
                await self.queue.enqueue(session, PURGE_JOB, tenant_id=db.tenant_id, payload={"key": key})


def _refusal(refused: Collection[int], total: int) -> list[str]:
    """For the document's owner."""
    if not refused:
        return []
    return [f"The embedding model refused {len(refused)} of {total} passages: they are found by their words alone."]


def _lexical(kb: KnowledgeBaseView, texts: Sequence[str]) -> list[LexicalEntry]:
    analyser = analyser_for(kb.row.language)
    tokens = [analyser.tokens(text) for text in texts]
    return document_entries(tokens, salt=salt(kb.index.id), avgdl=kb.index.avgdl)
