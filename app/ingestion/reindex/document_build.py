"""Add a document to the next generation of its search index, from its stored text, without parsing its file again."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

from app.db.models.images import DocumentImage
from app.db.session import Session, TenantDatabase
from app.documents.content.image_repository import ImageRepository
from app.documents.types import build_node_id
from app.graph.extraction.extractors import Extractors
from app.inference.embedding import Embedder
from app.inference.embedding.model_registry import Embedders
from app.ingestion.chunkers import ChunkTools
from app.ingestion.chunking import chunk_document, create_chunk_tools
from app.ingestion.embedding import (
    EmbeddedChunks,
    derive_checkpoint_key,
    embed_chunks,
    record_chunker_usage,
    record_usage,
    record_usage_on_failure,
)
from app.ingestion.embedding_text import ChunkedDocument, apply_context_lines, contextualize_chunks
from app.ingestion.graph_extraction import GraphSource, extract_graphs, find_plugin_entities
from app.ingestion.images.description import find_draft_images, load_image
from app.ingestion.images.image_embedding import DocumentImageEmbedder, ImageSource, derive_image_checkpoint_key
from app.ingestion.parsers.toolkit.image_transport import MAX_IMAGE_BYTES
from app.ingestion.progress import IngestionProgress
from app.ingestion.reindex.repository import RebuildingRepository, StoredDocument
from app.ingestion.reindex.stored_tree import CHUNKER_NODE_KINDS, assign_images, assign_topic_paths, restore_tree
from app.ingestion.repository import IndexedDocument, IndexLocation, IngestionRepository, StoredMetadata
from app.ingestion.tree import walk_nodes
from app.ingestion.types import MAX_CHUNKS, ChunkDraft, ChunkTooLong, DocumentTree, NodeKind, NoTextFound
from app.knowledge_bases.generation_repository import GenerationRepository
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.types import Generation, IndexMismatch
from app.lexical.languages import AUTO, build_lexical_entries, check_term_limit, resolve_document_language
from app.object_store import ObjectStore
from app.quotas.token_budget import TokenBudget


@dataclass(frozen=True, slots=True)
class ProvidedChunks:
    """Chunks that were uploaded ready-made.

    Attributes:
        drafts: The chunks.
        vectors: Vectors that the embedding model of the generation can reuse, by the position of their chunk.
    """

    drafts: Sequence[ChunkDraft]
    vectors: Mapping[int, Sequence[float]]


@dataclass(frozen=True, slots=True)
class DocumentRebuilder:
    """Builder that adds stored documents to a generation."""

    embedders: Embedders
    objects: ObjectStore
    extractors: Extractors

    async def rebuild(self, db: TenantDatabase, generation: Generation, document_id: UUID) -> None:
        """Add the live version of a document to a generation. A repeated call has the same result.

        The call does nothing if the document is deleted or replaced during the call, or the generation is no longer
        being built.

        Args:
            db: Database of the tenant.
            generation: The generation.
            document_id: The document.

        Raises:
            IndexMismatch: The embedding model of the generation is not configured.
            IngestionError: The document cannot be chunked.
            TooManyTerms: A chunk has too many different terms.
            AppError: The embedder fails.
            ObjectStoreUnavailable: An image cannot be loaded from the object store.
        """
        embedder = self.embedders.find_by_identity(generation.identity)
        if embedder is None:
            raise IndexMismatch(
                f"The embedding model {generation.identity['model']!r} is not configured. Configure it on this worker."
            )
        async with db.transaction(snapshot=True) as session:
            repository = RebuildingRepository(session, db.tenant_id, generation.kb_id)
            stored = await repository.load_document(document_id)
            if stored is None or await repository.has_document(generation.id, stored):
                return
            if await GenerationRepository(session, db.tenant_id).find(generation.id) is None:
                return
            provided = await _load_provided_chunks(repository, stored, embedder) if stored.has_provided_chunks else None
            needs_metadata = generation.index_graph is not None and generation.index_graph.needs_metadata
            metadata = await repository.load_live_metadata(stored, MAX_CHUNKS) if needs_metadata else None
            image_rows = (
                await _load_image_rows(session, db.tenant_id, stored) if embedder.image_embedder is not None else []
            )
        async with create_chunk_tools(
            embedder, record_tokens=partial(record_chunker_usage, TokenBudget(db), embedder)
        ) as tools:
            chunked = await asyncio.to_thread(_chunk_stored, stored, generation, provided, tools)
        embedded = await self._embed_chunks(db, stored, chunked, image_rows, embedder)
        async with record_usage_on_failure(db, embedder, embedded.unrecorded_usage):
            indexed = await asyncio.to_thread(_build_indexed_document, stored, generation, chunked, embedded)
            indexed = await self._add_plugin_entities(stored, generation, indexed, metadata)
            indexed = await asyncio.to_thread(_add_graphs, stored, generation, indexed, metadata)
            async with db.transaction() as session:
                await _store_in_generation(session, db.tenant_id, generation, stored, indexed, metadata)
                # Delete the checkpoints also if another worker has added the document, because nothing deletes them
                # later.
                repository = RebuildingRepository(session, db.tenant_id, generation.kb_id)
                checkpoint_keys = (
                    derive_checkpoint_key(embedder.identity),
                    derive_image_checkpoint_key(embedder.identity),
                )
                await repository.delete_checkpoints(document_id, *checkpoint_keys)
                await record_usage(session, db, embedder, embedded.unrecorded_usage)

    async def _add_plugin_entities(
        self, stored: StoredDocument, generation: Generation, indexed: IndexedDocument, metadata: StoredMetadata | None
    ) -> IndexedDocument:
        source = await asyncio.to_thread(_build_graph_source, stored, generation, indexed, metadata)
        outcome = await find_plugin_entities(self.extractors, source, indexed.drafts)
        return replace(indexed, plugin_entities=outcome.entities, warnings=outcome.warnings)

    async def _embed_chunks(
        self,
        db: TenantDatabase,
        stored: StoredDocument,
        chunked: ChunkedDocument,
        image_rows: Sequence[DocumentImage],
        embedder: Embedder,
    ) -> EmbeddedChunks:
        """Embed like ingestion: images by their pixels if the model takes images, everything else as text."""
        progress = IngestionProgress(db, stored.id, None)
        if embedder.image_embedder is not None:
            image_embedder = DocumentImageEmbedder(
                db, stored.id, embedder.image_embedder, embedder.identity, progress, TokenBudget(db)
            )
            sources = {
                row.ordinal: ImageSource(row.sha256, row.bytes, partial(load_image, self.objects, row))
                for row in image_rows
                if row.bytes <= MAX_IMAGE_BYTES
            }
            chunked = await image_embedder.embed(chunked, sources)
        return await embed_chunks(db, stored.id, chunked, embedder=embedder, progress=progress)


async def _load_image_rows(session: Session, tenant_id: UUID, stored: StoredDocument) -> Sequence[DocumentImage]:
    if not stored.image_ranges:
        return []
    return await ImageRepository(session, tenant_id).list_images(stored.id, stored.version)


async def _load_provided_chunks(
    repository: RebuildingRepository, stored: StoredDocument, embedder: Embedder
) -> ProvidedChunks:
    is_same_model = Embedders(embedder).find_by_identity(await repository.find_live_identity()) is not None
    vectors = await repository.load_live_vectors(stored) if is_same_model else {}
    drafts = await repository.load_live_drafts(stored)
    vectors_by_position = {at: vectors[draft.ordinal] for at, draft in enumerate(drafts) if draft.ordinal in vectors}
    return ProvidedChunks(drafts, vectors_by_position)


def _chunk_stored(
    stored: StoredDocument, generation: Generation, provided: ProvidedChunks | None, tools: ChunkTools
) -> ChunkedDocument:
    tree = restore_tree(stored.text, stored.nodes, source_map=stored.source_map, place_map=stored.place_map)
    assign_images(tree, stored.image_ranges)
    if provided is None:
        drafts, token_counts = chunk_document(tree, generation.chunking, tools)
        drafts = apply_context_lines(_relocate_topics(tree, drafts, stored), stored.context_lines)
    else:
        drafts, token_counts = list(provided.drafts), tools.count_tokens([draft.content for draft in provided.drafts])
        _check_provided_lengths(token_counts, provided, tools)
    if not drafts:
        raise NoTextFound
    texts = contextualize_chunks(
        stored.title, drafts, count_tokens=tools.count_tokens, max_tokens=tools.max_tokens, source=stored.source
    )
    check_term_limit(texts, setting=generation.language, document_text=stored.text, version=generation.analyzer_version)
    vectors = {} if provided is None else provided.vectors
    return ChunkedDocument(
        tree, drafts, token_counts, texts, vectors=vectors, image_numbers=find_draft_images(tree, drafts)
    )


def _relocate_topics(tree: DocumentTree, drafts: Sequence[ChunkDraft], stored: StoredDocument) -> list[ChunkDraft]:
    """Relocate new topics to paths that no topic of another generation uses; return the drafts with these paths."""
    topics = [node for node in walk_nodes(tree.root) if node.kind is NodeKind.TOPIC]
    new_paths = assign_topic_paths(stored.id, stored.version, topics, stored.nodes)
    for topic in topics:
        topic.path = new_paths[topic.path]
    return [replace(draft, node_path=new_paths.get(draft.node_path, draft.node_path)) for draft in drafts]


def _check_provided_lengths(token_counts: Sequence[int], provided: ProvidedChunks, tools: ChunkTools) -> None:
    for number, tokens in enumerate(token_counts):
        if number not in provided.vectors and tokens > tools.max_tokens:
            limit = f"the embedding model reads {tools.max_tokens}. Split the chunk and upload the document again"
            raise ChunkTooLong(f"The chunk at index {number} has {tokens} tokens; {limit}.", index=number)


def _build_indexed_document(
    stored: StoredDocument, generation: Generation, chunked: ChunkedDocument, embedded: EmbeddedChunks
) -> IndexedDocument:
    language = resolve_document_language(generation.language, stored.text)
    media_types = {image.image_number: image.media_type for image in stored.image_ranges}
    return IndexedDocument(
        tree=chunked.tree,
        title=None,
        page_count=None,
        warnings=[],
        drafts=chunked.drafts,
        token_counts=chunked.token_counts,
        vectors=embedded.vectors,
        unembedded=embedded.rejected,
        language=language,
        entries=build_lexical_entries(
            chunked.texts,
            language=language,
            index_id=generation.id,
            avgdl=generation.avgdl,
            version=generation.analyzer_version,
        ),
        images={
            at: DocumentImage(ordinal=number, media_type=media_types[number])
            for at, number in chunked.image_numbers.items()
        },
    )


def _has_metadata_entities(generation: Generation) -> bool:
    return generation.index_graph is not None and bool(generation.index_graph.metadata_keys)


def _is_same_metadata(metadata: StoredMetadata, former: StoredMetadata | None, chunks: int) -> bool:
    return former is not None and (metadata.document_metadata, metadata.chunk_metadata[:chunks]) == (
        former.document_metadata,
        former.chunk_metadata[:chunks],
    )


def _add_graphs(
    stored: StoredDocument, generation: Generation, indexed: IndexedDocument, metadata: StoredMetadata | None
) -> IndexedDocument:
    """Return the document with the entities of its chunks, if the generation has a graph."""
    source = _build_graph_source(stored, generation, indexed, metadata)
    return replace(indexed, graphs=extract_graphs(source, indexed.drafts, indexed.plugin_entities))


def _build_graph_source(
    stored: StoredDocument, generation: Generation, indexed: IndexedDocument, metadata: StoredMetadata | None
) -> GraphSource:
    settings = generation.index_graph
    maps: list[dict[str, Any]] = []
    if settings is not None and settings.needs_metadata and metadata is not None:
        document_metadata = json.loads(metadata.document_metadata)
        chunk_metadata = [*metadata.chunk_metadata, *[None] * len(indexed.drafts)][: len(indexed.drafts)]
        maps = [document_metadata if text is None else json.loads(text) for text in chunk_metadata]
    return GraphSource(settings, stored.title, stored.source, indexed.language, maps)


async def _store_in_generation(
    session: Session,
    tenant_id: UUID,
    generation: Generation,
    stored: StoredDocument,
    indexed: IndexedDocument,
    former_metadata: StoredMetadata | None,
) -> None:
    """Store the document, unless it was replaced, is in the generation already, or the build was cancelled."""
    repository = RebuildingRepository(session, tenant_id, generation.kb_id)
    if not await repository.lock_document(stored):
        return
    locked_indexes = await KnowledgeBaseRepository(session, tenant_id).lock_indexes(generation.kb_id)
    is_built = await GenerationRepository(session, tenant_id).find(generation.id) is not None
    metadata = await repository.load_live_metadata(stored, len(indexed.drafts))
    if not is_built or metadata is None or await repository.has_document(generation.id, stored):
        return
    if stored.has_provided_chunks:  # a metadata backfill may have changed the metadata of the uploaded chunks
        indexed = replace(indexed, drafts=await repository.load_live_drafts(stored))
    if _has_metadata_entities(generation) and not _is_same_metadata(metadata, former_metadata, len(indexed.drafts)):
        indexed = await asyncio.to_thread(_add_graphs, stored, generation, indexed, metadata)
    indexed = indexed.recompute_weights(generation.avgdl, locked_indexes[generation.id].avgdl)
    nodes = list(walk_nodes(indexed.tree.root))
    ids = {node.path: build_node_id(stored.id, stored.version, node.path) for node in nodes}
    ingestion = IngestionRepository(session, tenant_id)
    new_nodes = [node for node in nodes if node.kind in CHUNKER_NODE_KINDS]
    if new_nodes:
        await ingestion.add_nodes(stored.id, new_nodes, ids, last_ordinal=max(row.ordinal for row in stored.nodes))
    location = IndexLocation(generation.kb_id, stored.id, stored.version, generation.id, generation.dim)
    await ingestion.add_chunks(location, indexed, ids, metadata)
    await repository.replace_extractor_warnings(stored.id, indexed.warnings)
    if generation.language == AUTO:
        await KnowledgeBaseRepository(session, tenant_id).add_language(generation.id, indexed.language)
        await repository.set_language(stored.id, indexed.language)
