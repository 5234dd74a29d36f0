"""The straight line: fetch → parse → tree → chunk → embed → store."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from sqlalchemy.exc import DBAPIError

from app.db.models.tenant_data import Document
from app.db.session import TenantDatabase
from app.documents.media_repository import MediaRepository
from app.documents.types import CHUNKS_TYPE
from app.errors import AppError, Postponed
from app.inference.embedding import Embedder, HasEndpoint
from app.inference.embedding.registry import Embedders
from app.inference.vision import VisionModel
from app.ingestion.chunkers import ChunkTools
from app.ingestion.chunking import chunk_document, open_tools
from app.ingestion.embedding import Embedded, Spent, book, book_sentences, booked_with, embed_passages
from app.ingestion.given_chunks import given_passages
from app.ingestion.media import Describer, pictures_of_drafts, put_pictures
from app.ingestion.parsers.pool import ParserPool
from app.ingestion.passages import Passages, passage_texts
from app.ingestion.picture_embedding import PictureEmbedding, at_hand
from app.ingestion.progress import Progress, Superseded
from app.ingestion.rebuilding import DocumentRebuilder
from app.ingestion.repository import IndexedDocument, IngestionRepository
from app.ingestion.stint import Stint
from app.ingestion.tree import build_tree
from app.ingestion.types import NoText, ParsedDocument
from app.ingestion.version_repository import VersionRepository, Wanted
from app.job_queue import JobQueue
from app.knowledge_bases.generation_repository import GenerationRepository
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.service import PURGE_JOB
from app.knowledge_bases.types import IndexMismatch, KnowledgeBaseView
from app.lexical.languages import document_language, lexical_entries, require_few_terms
from app.lexical.weights import LexicalEntry
from app.logging import get_logger
from app.object_store import ObjectStore
from app.quotas.tokens import TokenBudget
from app.quotas.types import NO_KEY
from app.temporary import temporary_file, temporary_folder

logger = get_logger(__name__)

REINDEXED = "The knowledge base was reindexed while this document was embedded."


class Retitled(Postponed):
    """The document has another title by now; its passages are made anew with it."""

    code = "retitled"


@dataclass(frozen=True, slots=True)
class IngestionPipeline:
    """Turns a stored original into searchable chunks."""

    objects: ObjectStore
    parsers: ParserPool
    embedders: Embedders
    queue: JobQueue
    vision: VisionModel | None = None

    async def ingest(
        self,
        db: TenantDatabase,
        document_id: UUID,
        version: int,
        *,
        uploader: UUID = NO_KEY,
        stint: Stint | None = None,
    ) -> None:
        """Ingest one version; doing it again changes nothing. Returns quietly when the version is not wanted any more.

        Raises IngestionError for the file, TooManyTerms for a chunk of it, IndexMismatch for the knowledge base,
        Unavailable for what may be retried, TokensSpent for what may be another day, QuotaExceeded where its chunks are
        too many, Retitled where it gets another title meanwhile, HandedBack where the ``stint`` is over.
        ``uploader`` is a key.
        """
        try:
            wanted, kb, embedder, budget = await self._load(db, document_id, version, uploader)
            document = wanted.document
            progress = Progress(db, document_id, version, stint=stint or Stint())
            async with progress.telling():
                passages = await self._passages(budget, document, kb, embedder, wanted.key, progress)
                await asyncio.to_thread(_require_few_terms, kb, passages)
                await self._require_room(db, wanted, len(passages.texts))
                if embedder.pictures is not None:
                    seeing = PictureEmbedding(db, document_id, embedder.pictures, embedder.identity, progress, budget)
                    passages = await seeing.embed(passages, at_hand(passages.pictures))
                embedded = await embed_passages(
                    db,
                    document_id,
                    passages,
                    embedder=embedder,
                    progress=progress,
                    budget=budget,
                    afresh=document.status == "queued",
                    urgent=document.dynamic,
                )
                async with booked_with(db, embedder, embedded.unbooked, key_id=uploader):
                    made = await self._made(document, kb, passages, embedded)
                    is_building = await self._replace(budget, wanted, kb, made, embedder, embedded.unbooked)
                if is_building:
                    await self._catch_up(db, document)
        except Superseded:
            return

    async def _load(
        self, db: TenantDatabase, document_id: UUID, version: int, uploader: UUID
    ) -> tuple[Wanted, KnowledgeBaseView, Embedder, TokenBudget]:
        async with db.transaction() as session:
            wanted = await VersionRepository(session, db.tenant_id).load(document_id, version, uploader=uploader)
            if wanted is None:
                raise Superseded
            kb = await KnowledgeBaseRepository(session, db.tenant_id).find(wanted.document.kb_id)
        if kb is None:
            raise Superseded
        kb.require_match(self.embedders.identities)
        budget = TokenBudget(db, uploader, wanted.room.quotas, wanted.key_quotas)
        embedder = kb.embedder(self.embedders)
        if wanted.document.media_type != CHUNKS_TYPE:  # which may bring its vectors
            if isinstance(embedder, HasEndpoint):
                embedder.require_answering()  # else it would be parsed again and again during an outage
            await budget.require()  # else it would be parsed once more each day for nothing
        return wanted, kb, embedder, budget

    async def _require_room(self, db: TenantDatabase, wanted: Wanted, chunks: int) -> None:
        """Nothing is paid for that will not be stored; what counts is looked at again as it is."""
        more = {"chunks": chunks - wanted.document.chunk_count}
        if more["chunks"] > 0 and wanted.room.is_limited(*more):
            async with db.transaction() as session:
                await wanted.room.require(session, more, of_key=more)

    async def _passages(
        self,
        budget: TokenBudget,
        document: Document,
        kb: KnowledgeBaseView,
        embedder: Embedder,
        key: str,
        progress: Progress,
    ) -> Passages:
        """Fetch, parse, chunk; ready chunks need only be fetched."""
        db = budget.db
        with temporary_folder("ingest") as folder:
            path = temporary_file(folder, "original")
            await self.objects.get(key, path)
            if document.media_type == CHUNKS_TYPE:
                async with open_tools(embedder) as tools:
                    return await asyncio.to_thread(given_passages, path, document.title, embedder.identity, tools)
            parsed = await self.parsers.parse(
                path,
                document.media_type,
                encoding=document.encoding,
                pictures=self.vision is not None or embedder.pictures is not None,
                on_pages=lambda done, total: progress.report("parsing", done=done, total=total, unit="pages"),
            )
        if self.vision is not None:
            keeps = embedder.pictures is not None
            language = await asyncio.to_thread(_language, kb, parsed)
            describer = Describer(db, document.id, self.vision, language, progress, keeps=keeps)
            parsed = await describer.describe(parsed)
        progress.report("chunking")
        book = partial(book_sentences, budget, embedder)
        async with open_tools(embedder, book=book, allow=budget.require) as tools:
            return await asyncio.to_thread(_chunk, document, kb, parsed, tools)

    async def _made(
        self, document: Document, kb: KnowledgeBaseView, passages: Passages, embedded: Embedded
    ) -> IndexedDocument:
        language, entries = await asyncio.to_thread(_lexical, kb, passages)
        media = await put_pictures(self.objects, document, passages.pictures) if passages.pictures else {}
        return IndexedDocument(
            tree=passages.tree,
            title=passages.title,
            page_count=passages.page_count,
            warnings=[*passages.warnings, *_refusal(embedded.refused, len(passages.texts))],
            drafts=passages.drafts,
            token_counts=passages.token_counts,
            vectors=embedded.vectors,
            unembedded=embedded.refused,
            language=language,
            entries=entries,
            media={position: media[number] for position, number in passages.shown.items()},
        )

    async def _replace(
        self,
        budget: TokenBudget,
        wanted: Wanted,
        kb: KnowledgeBaseView,
        made: IndexedDocument,
        embedder: Embedder,
        spent: Spent,
    ) -> bool:
        """Put the version in the place of the live one; returns whether another search index is being built."""
        db = budget.db
        async with db.transaction() as session:
            versions = VersionRepository(session, db.tenant_id)
            document = await versions.lock(wanted.document.id, wanted.document.version)
            if document is None:
                raise Superseded
            # Whoever gives it one has left its words to this job.
            if document.title != wanted.document.title:
                raise Retitled(datetime.now(UTC))
            held = await KnowledgeBaseRepository(session, db.tenant_id).hold_indexes(document.kb_id)
            if kb.index.id not in held:
                raise IndexMismatch(REINDEXED)
            made = made.weighed(kb.index.avgdl, held[kb.index.id].avgdl)
            if any(draft.metadata for draft in made.drafts):
                current = await KnowledgeBaseRepository(session, db.tenant_id).find(document.kb_id)
                made = _without(made, current.row.stamp if current else {})
            document.title = document.title or made.title
            chunks = IngestionRepository(session, db.tenant_id)
            await chunks.replace(document, made, index_id=kb.index.id, dim=kb.index.dim)
            media = {one.ordinal: one for one in made.media.values()}
            if made.language not in kb.languages:
                await KnowledgeBaseRepository(session, db.tenant_id).add_language(kb.index.id, made.language)
            gone = await versions.finish(
                document,
                kb.index.id,
                chunks=len(made.drafts),
                language=made.language,
                page_count=made.page_count,
                warnings=made.warnings,
                pictures=[one.sha256 for one in media.values()],
            )
            if gone is None:
                raise IndexMismatch(REINDEXED)
            if len(made.drafts) > wanted.document.chunk_count:
                await wanted.room.require(session, {"chunks": 0}, of_key={"chunks": 0})
            if media:
                await MediaRepository(session, db.tenant_id).add(list(media.values()))
            if gone:
                await self.queue.enqueue(session, PURGE_JOB, tenant_id=db.tenant_id, payload={"keys": gone})
            # Last: the day's row is every document's of the tenant.
            await book(session, db, embedder, spent, key_id=budget.key_id, chunks=len(made.drafts))
        return any(one.building for one in held.values())

    async def _catch_up(self, db: TenantDatabase, document: Document) -> None:
        """Give it to the generation that is being built, if one is. Where that fails, the job that builds it will."""
        try:
            async with db.transaction() as session:
                generation = await GenerationRepository(session, db.tenant_id).building(document.kb_id)
            if generation is not None and generation.error is None:
                await DocumentRebuilder(self.embedders, self.objects).rebuild(db, generation, document.id)
        except (AppError, DBAPIError) as exc:
            logger.info("reindex.left_behind", document=str(document.id), error=exc)


def _chunk(document: Document, kb: KnowledgeBaseView, parsed: ParsedDocument, tools: ChunkTools) -> Passages:
    tree = build_tree(parsed)
    drafts, counts = chunk_document(tree, kb.chunking, tools)
    if not drafts:
        raise NoText
    title = document.title or tree.root.title
    texts = passage_texts(title, drafts, count_tokens=tools.count_tokens, limit=tools.max_tokens)
    shown = pictures_of_drafts(tree, drafts)
    return Passages(
        tree,
        drafts,
        counts,
        texts,
        tree.root.title,
        parsed.page_count,
        [*parsed.warnings, *tree.warnings],
        shown=shown,
        pictures={number: parsed.pictures[number] for number in sorted(set(shown.values()))},
    )


def _refusal(refused: Collection[int], total: int) -> list[str]:
    """For the document's owner."""
    if not refused:
        return []
    return [f"The embedding model refused {len(refused)} of {total} passages: they are found by their words alone."]


def _without(made: IndexedDocument, stamp: Mapping[str, object]) -> IndexedDocument:
    """The same without what its chunks say of the stamp, which may be another than when they were given."""
    drafts = [
        replace(draft, metadata={key: value for key, value in draft.metadata.items() if key not in stamp})
        for draft in made.drafts
    ]
    return replace(made, drafts=drafts)


def _language(kb: KnowledgeBaseView, parsed: ParsedDocument) -> str:
    """The one that pictures are described in: their document's."""
    return document_language(kb.row.language, "\n".join(block.text for block in parsed.blocks))


def _require_few_terms(kb: KnowledgeBaseView, passages: Passages) -> None:
    """Before anything is paid for that cannot be stored."""
    require_few_terms(passages.texts, setting=kb.row.language, whole=passages.tree.text)


def _lexical(kb: KnowledgeBaseView, passages: Passages) -> tuple[str, Sequence[LexicalEntry]]:
    language = document_language(kb.row.language, passages.tree.text)
    return language, lexical_entries(passages.texts, language=language, index_id=kb.index.id, avgdl=kb.index.avgdl)
