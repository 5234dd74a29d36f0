"""One document into the next generation of its search index, from what is stored of it: nothing is parsed again."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from app.db.models.media import DocumentMedia
from app.db.session import Session, TenantDatabase
from app.documents.media_repository import MediaRepository
from app.documents.types import node_id
from app.inference.embedding import Embedder
from app.inference.embedding.registry import Embedders
from app.ingestion.chunkers import ChunkTools
from app.ingestion.chunking import chunk_document, open_tools
from app.ingestion.embedding import Embedded, book, book_sentences, booked_with, embed_passages, identity_key
from app.ingestion.media import get_picture, pictures_of_drafts
from app.ingestion.parsers.picture_lines import MAX_PICTURE_BYTES
from app.ingestion.passages import Passages, passage_texts
from app.ingestion.picture_embedding import PictureEmbedding, PictureSource, pictures_key
from app.ingestion.progress import Progress
from app.ingestion.rebuilding_repository import RebuildingRepository, StoredDocument
from app.ingestion.repository import IndexedDocument, IndexPlace, IngestionRepository
from app.ingestion.stored_tree import OF_CHUNKERS, name_pictures, settle_topics, stored_tree
from app.ingestion.tree import walk
from app.ingestion.types import ChunkDraft, ChunkTooLong, DocumentTree, NodeKind, NoText
from app.knowledge_bases.generation_repository import GenerationRepository
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.types import Generation, IndexMismatch
from app.lexical.languages import AUTO, document_language, lexical_entries, require_few_terms
from app.object_store import ObjectStore
from app.quotas.tokens import TokenBudget


@dataclass(frozen=True, slots=True)
class GivenChunks:
    """Chunks that the document's owner cut, and those of their vectors that are of the generation's model."""

    drafts: Sequence[ChunkDraft]
    vectors: Mapping[int, Sequence[float]]


@dataclass(frozen=True, slots=True)
class DocumentRebuilder:
    """Builds documents into generations."""

    embedders: Embedders
    objects: ObjectStore

    async def rebuild(self, db: TenantDatabase, generation: Generation, document_id: UUID) -> None:
        """Give the generation the document as it is now; doing it again changes nothing.

        Returns quietly where the document is gone, or became another meanwhile, and where the generation is not built
        any more. Raises IndexMismatch where the generation's model is not configured here, IngestionError,
        TooManyTerms, the embedder's errors, and ObjectStoreUnavailable.
        """
        embedder = self.embedders.of(generation.identity)
        if embedder is None:
            raise IndexMismatch(f"The embedding model {generation.identity['model']!r} is not configured now.")
        async with db.transaction(snapshot=True) as session:
            repository = RebuildingRepository(session, db.tenant_id, generation.kb_id)
            stored = await repository.stored(document_id)
            if stored is None or await repository.has(generation.id, stored):
                return
            if await GenerationRepository(session, db.tenant_id).find(generation.id) is None:
                return
            given = await _given(repository, stored, embedder) if stored.given else None
            media = await _media(session, db.tenant_id, stored) if embedder.pictures is not None else []
        async with open_tools(embedder, book=partial(book_sentences, TokenBudget(db), embedder)) as tools:
            passages = await asyncio.to_thread(_recut, stored, generation, given, tools)
        embedded = await self._embed(db, stored, passages, media, embedder)
        async with booked_with(db, embedder, embedded.unbooked):
            made = await asyncio.to_thread(_made, stored, generation, passages, embedded)
            async with db.transaction() as session:
                await _add(session, db.tenant_id, generation, stored, made)
                # Also where somebody else was quicker: nobody comes back for them.
                repository = RebuildingRepository(session, db.tenant_id, generation.kb_id)
                keys = identity_key(embedder.identity), pictures_key(embedder.identity)
                await repository.forget_vectors(document_id, *keys)
                await book(session, db, embedder, embedded.unbooked)

    async def _embed(
        self,
        db: TenantDatabase,
        stored: StoredDocument,
        passages: Passages,
        media: Sequence[DocumentMedia],
        embedder: Embedder,
    ) -> Embedded:
        """As ingestion does: pictures as what they are, where the model takes them, and all else by its words."""
        progress = Progress(db, stored.id, None)
        if embedder.pictures is not None:
            seeing = PictureEmbedding(db, stored.id, embedder.pictures, embedder.identity, progress, TokenBudget(db))
            sources = {
                row.ordinal: PictureSource(row.sha256, row.bytes, partial(get_picture, self.objects, row))
                for row in media
                if row.bytes <= MAX_PICTURE_BYTES
            }
            passages = await seeing.embed(passages, sources)
        return await embed_passages(db, stored.id, passages, embedder=embedder, progress=progress)


async def _media(session: Session, tenant_id: UUID, stored: StoredDocument) -> Sequence[DocumentMedia]:
    if not stored.shown:
        return []
    return await MediaRepository(session, tenant_id).of_version(stored.id, stored.version)


async def _given(repository: RebuildingRepository, stored: StoredDocument, embedder: Embedder) -> GivenChunks:
    is_same_model = Embedders(embedder).of(await repository.live_identity()) is not None
    vectors = await repository.live_vectors(stored) if is_same_model else {}
    return GivenChunks(await repository.live_drafts(stored), vectors)


def _recut(stored: StoredDocument, generation: Generation, given: GivenChunks | None, tools: ChunkTools) -> Passages:
    tree = stored_tree(stored.text, stored.nodes)
    name_pictures(tree, stored.shown)
    if given is None:
        drafts, counts = chunk_document(tree, generation.chunking, tools)
        drafts = _settled(tree, drafts, stored)
    else:
        drafts, counts = list(given.drafts), tools.count_tokens([draft.text for draft in given.drafts])
        _check_given(counts, given, tools)
    if not drafts:
        raise NoText
    texts = passage_texts(stored.title, drafts, count_tokens=tools.count_tokens, limit=tools.max_tokens)
    require_few_terms(texts, setting=generation.language, whole=stored.text)
    vectors = {} if given is None else given.vectors
    return Passages(tree, drafts, counts, texts, vectors=vectors, shown=pictures_of_drafts(tree, drafts))


def _settled(tree: DocumentTree, drafts: Sequence[ChunkDraft], stored: StoredDocument) -> list[ChunkDraft]:
    """The drafts, with the topics that they name where no other generation's are."""
    topics = [node for node in walk(tree.root) if node.kind is NodeKind.TOPIC]
    places = settle_topics(stored.id, stored.version, topics, stored.nodes)
    for topic in topics:
        topic.path = places[topic.path]
    return [replace(draft, node_path=places.get(draft.node_path, draft.node_path)) for draft in drafts]


def _check_given(counts: Sequence[int], given: GivenChunks, tools: ChunkTools) -> None:
    for number, tokens in enumerate(counts):
        if number not in given.vectors and tokens > tools.max_tokens:
            limit = f"the embedding model reads {tools.max_tokens}"
            raise ChunkTooLong(f"The chunk at index {number} has {tokens} tokens; {limit}.", index=number)


def _made(stored: StoredDocument, generation: Generation, passages: Passages, embedded: Embedded) -> IndexedDocument:
    language = document_language(generation.language, stored.text)
    types = {one.number: one.media_type for one in stored.shown}
    return IndexedDocument(
        tree=passages.tree,
        title=None,
        page_count=None,
        warnings=[],
        drafts=passages.drafts,
        token_counts=passages.token_counts,
        vectors=embedded.vectors,
        unembedded=embedded.refused,
        language=language,
        entries=lexical_entries(passages.texts, language=language, index_id=generation.id, avgdl=generation.avgdl),
        media={at: DocumentMedia(ordinal=number, media_type=types[number]) for at, number in passages.shown.items()},
    )


async def _add(
    session: Session, tenant_id: UUID, generation: Generation, stored: StoredDocument, made: IndexedDocument
) -> None:
    """Nothing where document or generation are not what they were when this was made, or it is there already."""
    repository = RebuildingRepository(session, tenant_id, generation.kb_id)
    if not await repository.lock(stored):
        return
    held = await KnowledgeBaseRepository(session, tenant_id).hold_indexes(generation.kb_id)
    is_built = await GenerationRepository(session, tenant_id).find(generation.id) is not None
    stamps = await repository.live_stamps(stored, len(made.drafts))
    if not is_built or stamps is None or await repository.has(generation.id, stored):
        return
    if stored.given:  # what their owner said of them may have got another stamp since
        made = replace(made, drafts=await repository.live_drafts(stored))
    made = made.weighed(generation.avgdl, held[generation.id].avgdl)
    nodes = list(walk(made.tree.root))
    ids = {node.path: node_id(stored.id, stored.version, node.path) for node in nodes}
    ingestion = IngestionRepository(session, tenant_id)
    added = [node for node in nodes if node.kind in OF_CHUNKERS]
    if added:
        await ingestion.add_nodes(stored.id, added, ids, after=max(row.ordinal for row in stored.nodes))
    place = IndexPlace(generation.kb_id, stored.id, stored.version, generation.id, generation.dim)
    await ingestion.add_chunks(place, made, ids, stamps)
    if generation.language == AUTO:
        await KnowledgeBaseRepository(session, tenant_id).add_language(generation.id, made.language)
        await repository.tell_language(stored.id, made.language)
