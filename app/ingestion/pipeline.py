"""The ingestion pipeline of a document: fetch → parse → build the tree → chunk → embed → store."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from sqlalchemy.exc import DBAPIError

from app.db.models.tenant_data import DocumentRow
from app.db.session import TenantDatabase
from app.documents.content.image_repository import ImageRepository
from app.documents.types import CHUNKS_TYPE
from app.enrichment.queue import enqueue_document
from app.errors import AppError, JobPostponed
from app.graph.extraction.extractors import Extractors
from app.inference.embedding import Embedder, EmbeddingIdentity, HasEndpoint
from app.inference.embedding.model_registry import Embedders
from app.inference.vision import VisionModel
from app.ingestion.chunkers import ChunkTools
from app.ingestion.chunking import chunk_document, create_chunk_tools
from app.ingestion.current_metadata import apply_current_metadata, build_graph_source
from app.ingestion.embedding import (
    EmbeddedChunks,
    TokenUsage,
    embed_chunks,
    record_chunker_usage,
    record_usage,
    record_usage_on_failure,
)
from app.ingestion.embedding_text import ChunkedDocument, contextualize_chunks
from app.ingestion.graph_extraction import extract_graphs, find_plugin_entities
from app.ingestion.images.description import ImageDescriber, find_draft_images, store_images
from app.ingestion.images.image_embedding import DocumentImageEmbedder, create_in_memory_sources
from app.ingestion.loss import measure_loss
from app.ingestion.parse_reuse import OriginalParser
from app.ingestion.progress import IngestionProgress, VersionSuperseded
from app.ingestion.provided_chunks import read_provided_chunks
from app.ingestion.reindex.document_build import DocumentRebuilder
from app.ingestion.repository import IndexedDocument, IngestionRepository
from app.ingestion.time_slice import PreemptionTimer
from app.ingestion.tree import build_tree
from app.ingestion.types import NoTextFound, ParsedDocument
from app.ingestion.vector_reuse import reuse_vectors
from app.ingestion.version_repository import PendingVersion, VersionRepository
from app.jobs.queue import JobQueue
from app.knowledge_bases.generation_repository import GenerationRepository
from app.knowledge_bases.model_choice import ModelChooser
from app.knowledge_bases.model_language import build_document_warning
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.service import PURGE_JOB
from app.knowledge_bases.types import IndexMismatch, KnowledgeBaseView
from app.lexical.languages import build_lexical_entries, check_term_limit, resolve_document_language
from app.lexical.weights import LexicalEntry
from app.logging import get_logger
from app.object_store import ObjectStore
from app.quotas.token_budget import TokenBudget
from app.quotas.types import NO_KEY
from app.temp_files import create_temp_directory, create_temp_file
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)

REINDEXED_MESSAGE = "The knowledge base was reindexed while this document was embedded. Reindex the document."


class TitleChanged(JobPostponed):
    """The title of the document changed during its ingestion; the job starts again with the new title."""

    code = "title_changed"


@dataclass(frozen=True, slots=True)
class IngestionPipeline:
    """Pipeline that turns the uploaded file of a document into searchable chunks."""

    objects: ObjectStore
    parser: OriginalParser
    embedders: Embedders
    queue: JobQueue
    extractors: Extractors
    vision: VisionModel | None = None

    async def ingest(
        self,
        db: TenantDatabase,
        document_id: UUID,
        version: int,
        *,
        uploader: UUID = NO_KEY,
        preemption: PreemptionTimer | None = None,
    ) -> None:
        """Ingest one version of a document. A repeated call has the same result.

        The call does nothing if the version was deleted, replaced by a newer upload, or finished by another worker.

        Args:
            db: Database of the tenant.
            document_id: The document.
            version: Version to ingest.
            uploader: API key of the upload, whose quotas apply.
            preemption: Timer of the job's time slice; by default the job is never preempted.

        Raises:
            IngestionError: The file cannot be ingested.
            TooManyTerms: A chunk has too many different terms.
            IndexMismatch: No configured model fits the search index, or the knowledge base was reindexed.
            UnavailableError: A model, the object store or the database does not answer; a retry may help.
            DailyTokenLimitReached: The daily token budget is used up; the next day it may succeed.
            QuotaExceeded: The chunks exceed the storage quota of the tenant or the API key.
            TitleChanged: The title of the document changed during the ingestion.
            JobPreempted: The job must give its place to another tenant.
        """
        try:
            pending, kb, embedder, budget = await self._load_pending(db, document_id, version, uploader)
            document = pending.document
            progress = IngestionProgress(db, document_id, version, preemption=preemption or PreemptionTimer())
            async with progress.report_periodically():
                chunked = await self._fetch_and_chunk(budget, document, kb, embedder, pending.object_key, progress)
                await asyncio.to_thread(_check_term_limit, kb, chunked)
                await self._check_storage_quota(db, pending, len(chunked.texts))
                if embedder.image_embedder is not None:
                    image_embedder = DocumentImageEmbedder(
                        db, document_id, embedder.image_embedder, embedder.identity, progress, budget
                    )
                    chunked = await image_embedder.embed(chunked, create_in_memory_sources(chunked.images))
                chunked = await reuse_vectors(db, document, chunked, embedder)
                embedded = await embed_chunks(
                    db,
                    document_id,
                    chunked,
                    embedder=embedder,
                    progress=progress,
                    budget=budget,
                    is_first_attempt=document.status == "queued",
                    urgent=document.dynamic,
                )
                async with record_usage_on_failure(db, embedder, embedded.unrecorded_usage, key_id=uploader):
                    indexed = await self._build_indexed_document(document, kb, chunked, embedded)
                    is_building = await self._replace_live_version(
                        budget, pending, kb, indexed, embedder, embedded.unrecorded_usage
                    )
                if is_building:
                    await self._update_building_generation(db, document)
                elif kb.index.chooses_model and _has_language_warning(indexed):
                    await self._choose_model(db, document)
        except VersionSuperseded:
            return

    async def _load_pending(
        self, db: TenantDatabase, document_id: UUID, version: int, uploader: UUID
    ) -> tuple[PendingVersion, KnowledgeBaseView, Embedder, TokenBudget]:
        async with db.transaction() as session:
            pending = await VersionRepository(session, db.tenant_id).load_pending(
                document_id, version, uploader=uploader
            )
            if pending is None:
                raise VersionSuperseded
            kb = await KnowledgeBaseRepository(session, db.tenant_id).find(pending.document.kb_id)
        if kb is None:
            raise VersionSuperseded
        kb.require_match(self.embedders.identities)
        budget = TokenBudget(db, uploader, pending.storage_quota.quotas, pending.key_quotas)
        embedder = kb.get_embedder(self.embedders)
        if pending.document.media_type != CHUNKS_TYPE:  # an upload of chunks may include their vectors
            # Model and budget are checked before parsing. Otherwise each retry during an outage, or on a day without
            # budget, would parse the file in vain.
            if isinstance(embedder, HasEndpoint):
                embedder.require_available()
            await budget.check()
        return pending, kb, embedder, budget

    async def _check_storage_quota(self, db: TenantDatabase, pending: PendingVersion, chunks: int) -> None:
        """Check the quota before the paid embedding; the transaction that stores the chunks checks it again."""
        added = {"chunks": chunks - pending.document.chunk_count}
        if added["chunks"] > 0 and pending.storage_quota.has_limit(*added):
            async with db.transaction() as session:
                await pending.storage_quota.check(session, added, key_added=added)

    async def _fetch_and_chunk(
        self,
        budget: TokenBudget,
        document: DocumentRow,
        kb: KnowledgeBaseView,
        embedder: Embedder,
        object_key: str,
        progress: IngestionProgress,
    ) -> ChunkedDocument:
        """Fetch the uploaded file, parse it and chunk it. An upload of ready chunks is only read."""
        db = budget.db
        with create_temp_directory("ingest") as folder:
            path = create_temp_file(folder, "original")
            await self.objects.get(object_key, path)
            if document.media_type == CHUNKS_TYPE:
                async with create_chunk_tools(embedder) as tools:
                    return await asyncio.to_thread(
                        read_provided_chunks, path, document.title, embedder.identity, tools, source=document.source
                    )
            parsed = await self.parser.parse(
                db,
                document,
                object_key,
                path,
                needs_images=self.vision is not None or embedder.image_embedder is not None,
                on_progress=lambda done, total: progress.report("parsing", done=done, total=total, unit="pages"),
            )
        if self.vision is not None:
            keep_undescribed = embedder.image_embedder is not None
            language = await asyncio.to_thread(_detect_language, kb, parsed)
            describer = ImageDescriber(
                db, document.id, self.vision, language, progress, keep_undescribed=keep_undescribed
            )
            parsed = await describer.describe(parsed)
        progress.report("chunking")
        record_tokens = partial(record_chunker_usage, budget, embedder)
        async with create_chunk_tools(embedder, record_tokens=record_tokens, check_budget=budget.check) as tools:
            return await asyncio.to_thread(_chunk_parsed, document, kb, parsed, tools)

    async def _build_indexed_document(
        self, document: DocumentRow, kb: KnowledgeBaseView, chunked: ChunkedDocument, embedded: EmbeddedChunks
    ) -> IndexedDocument:
        language, entries = await asyncio.to_thread(_build_lexical_entries, kb, chunked)
        language_warnings = await asyncio.to_thread(self._list_language_warnings, kb, chunked)
        graph_source = build_graph_source(document, kb, chunked, language)
        plugin_entities = await find_plugin_entities(self.extractors, graph_source, chunked.drafts)
        graphs = await asyncio.to_thread(extract_graphs, graph_source, chunked.drafts, plugin_entities.entities)
        image_rows = await store_images(self.objects, document, chunked.images) if chunked.images else {}
        return IndexedDocument(
            tree=chunked.tree,
            title=chunked.title,
            page_count=chunked.page_count,
            warnings=[
                *chunked.warnings,
                *language_warnings,
                *_list_rejection_warnings(embedded.rejected, len(chunked.texts)),
                *plugin_entities.warnings,
            ],
            drafts=chunked.drafts,
            token_counts=chunked.token_counts,
            vectors=embedded.vectors,
            unembedded=embedded.rejected,
            language=language,
            entries=entries,
            images={position: image_rows[number] for position, number in chunked.image_numbers.items()},
            graphs=graphs,
            plugin_entities=plugin_entities.entities,
        )

    async def _replace_live_version(
        self,
        budget: TokenBudget,
        pending: PendingVersion,
        kb: KnowledgeBaseView,
        indexed: IndexedDocument,
        embedder: Embedder,
        usage: TokenUsage,
    ) -> bool:
        """Make the new version the live version, and return whether a reindex is building another search index."""
        db = budget.db
        async with db.transaction() as session:
            versions = VersionRepository(session, db.tenant_id)
            document = await versions.lock(pending.document.id, pending.document.version, pending.object_key)
            if document is None:
                raise VersionSuperseded
            # A request that changes the title during ingestion leaves the update of the chunks to this job.
            if document.title != pending.document.title:
                raise TitleChanged(datetime.now(UTC))
            locked_indexes = await KnowledgeBaseRepository(session, db.tenant_id).lock_indexes(document.kb_id)
            if kb.index.id not in locked_indexes:
                raise IndexMismatch(REINDEXED_MESSAGE)
            indexed = indexed.recompute_weights(kb.index.avgdl, locked_indexes[kb.index.id].avgdl)
            document.title = document.title or indexed.title
            indexed = await apply_current_metadata(session, document, pending.document, kb, indexed)
            repository = IngestionRepository(session, db.tenant_id)
            await repository.replace_document(document, indexed, index_id=kb.index.id, dim=kb.index.dim)
            image_rows = {row.ordinal: row for row in indexed.images.values()}
            if indexed.language not in kb.languages:
                await KnowledgeBaseRepository(session, db.tenant_id).add_language(kb.index.id, indexed.language)
            obsolete_keys = await versions.finish(
                document,
                kb.index.id,
                chunks=len(indexed.drafts),
                language=indexed.language,
                page_count=indexed.page_count,
                warnings=indexed.warnings,
                image_hashes=[row.sha256 for row in image_rows.values()],
            )
            if obsolete_keys is None:
                raise IndexMismatch(REINDEXED_MESSAGE)
            if len(indexed.drafts) > pending.document.chunk_count:
                await pending.storage_quota.check(session, {"chunks": 0}, key_added={"chunks": 0})
            if image_rows:
                await ImageRepository(session, db.tenant_id).add(list(image_rows.values()))
            if obsolete_keys:
                await self.queue.enqueue(session, PURGE_JOB, tenant_id=db.tenant_id, payload={"keys": obsolete_keys})
            if kb.enrichment.enabled:
                await enqueue_document(session, self.queue, document, uploader=budget.key_id)
            # Last, because all documents of the tenant update the same row of the day, and its lock lasts to the end.
            await record_usage(session, db, embedder, usage, key_id=budget.key_id, chunks=len(indexed.drafts))
        return any(row.is_building for row in locked_indexes.values())

    def _list_language_warnings(self, kb: KnowledgeBaseView, chunked: ChunkedDocument) -> list[ServiceWarning]:
        """Return a warning if the embedding model does not read the language of the document."""
        identity = EmbeddingIdentity.from_index_identity(kb.index.identity)
        warning = build_document_warning(chunked.tree.text, identity, self.embedders, kb)
        return [] if warning is None else [warning]

    async def _choose_model(self, db: TenantDatabase, document: DocumentRow) -> None:
        """Reindex the knowledge base with the multilingual model if needed. After a failure the next document does."""
        try:
            await ModelChooser(db, self.embedders, self.queue).choose_model(document.kb_id)
        except (AppError, DBAPIError) as exc:
            logger.info("knowledge_base.model_not_chosen", knowledge_base=str(document.kb_id), error=exc)

    async def _update_building_generation(self, db: TenantDatabase, document: DocumentRow) -> None:
        """Add the document to the generation that a reindex is building. After a failure the reindex job adds it."""
        try:
            async with db.transaction() as session:
                generation = await GenerationRepository(session, db.tenant_id).find_building(document.kb_id)
            if generation is not None and generation.error is None:
                rebuilder = DocumentRebuilder(self.embedders, self.objects, self.extractors)
                await rebuilder.rebuild(db, generation, document.id)
        except (AppError, DBAPIError) as exc:
            logger.info("reindex.document_skipped", document=str(document.id), error=exc)


def _chunk_parsed(
    document: DocumentRow, kb: KnowledgeBaseView, parsed: ParsedDocument, tools: ChunkTools
) -> ChunkedDocument:
    tree = build_tree(parsed)
    drafts, token_counts = chunk_document(tree, kb.chunking, tools)
    if not drafts:
        raise NoTextFound
    title = document.title or tree.root.title
    texts = contextualize_chunks(
        title, drafts, count_tokens=tools.count_tokens, max_tokens=tools.max_tokens, source=document.source
    )
    image_numbers = find_draft_images(tree, drafts)
    return ChunkedDocument(
        tree,
        drafts,
        token_counts,
        texts,
        tree.root.title,
        parsed.page_count,
        [*parsed.warnings, *tree.warnings, *measure_loss(parsed).list_warnings()],
        image_numbers=image_numbers,
        images={number: parsed.images[number] for number in sorted(set(image_numbers.values()))},
    )


def _list_rejection_warnings(rejected: Collection[int], total: int) -> list[ServiceWarning]:
    if not rejected:
        return []
    message = f"The embedding model refused {len(rejected)} of {total} chunks; only the lexical retriever finds them."
    return [ServiceWarning(WarningCode.CHUNKS_NOT_EMBEDDED, message)]


def _has_language_warning(indexed: IndexedDocument) -> bool:
    return any(warning.code == WarningCode.LANGUAGE_NOT_SUPPORTED for warning in indexed.warnings)


def _detect_language(kb: KnowledgeBaseView, parsed: ParsedDocument) -> str:
    """Return the language of the document, in which the vision model describes its images."""
    return resolve_document_language(kb.row.language, "\n".join(block.text for block in parsed.blocks))


def _check_term_limit(kb: KnowledgeBaseView, chunked: ChunkedDocument) -> None:
    """Check the number of terms before the paid embedding, because chunks with too many cannot be stored."""
    check_term_limit(
        chunked.texts, setting=kb.row.language, document_text=chunked.tree.text, version=kb.analyzer_version
    )


def _build_lexical_entries(kb: KnowledgeBaseView, chunked: ChunkedDocument) -> tuple[str, Sequence[LexicalEntry]]:
    language = resolve_document_language(kb.row.language, chunked.tree.text)
    entries = build_lexical_entries(
        chunked.texts, language=language, index_id=kb.index.id, avgdl=kb.index.avgdl, version=kb.analyzer_version
    )
    return language, entries
