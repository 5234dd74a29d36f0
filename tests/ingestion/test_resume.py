"""Resumed ingestion: vectors that were paid for are not requested again by the next attempt, or by another document."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from app.bootstrap import TenantServices
from app.db.models.tenant_data import DocumentRow
from app.db.session import TenantDatabase
from app.documents.types import DocumentFields, DocumentNotFound, ProvidedChunk
from app.inference.embedding import Embedder, EmbeddingUnavailable
from app.inference.embedding.factory import create_embedder
from app.inference.embedding.model_registry import Embedders
from app.ingestion.embedding import MAX_INTERACTIVE_TEXTS, SLICE_SIZE, embed_chunks
from app.ingestion.embedding_text import ChunkedDocument
from app.ingestion.progress import REPORT_INTERVAL_SECONDS, IngestionProgress
from app.ingestion.types import DocumentTree, NodeKind, TreeNode
from app.knowledge_bases.types import Chunking, NewKnowledgeBase
from app.retrieval.types import SearchRequest
from harness.protocol_servers.embedding import ReceivedEmbeddingRequest, reply_at_once
from tests.ingestion.workshop import Workshop, add_text, until

WHOLE = 3 * SLICE_SIZE + 10


@pytest.fixture(autouse=True)
async def calm(workshop: Workshop) -> AsyncIterator[None]:
    """Reset of endpoint and tables before each test; at the end the tables must be consistent."""
    workshop.endpoint.reset()
    yield
    workshop.endpoint.reset()
    workshop.endpoint.refused_word, workshop.endpoint.latency_seconds = None, 0.0
    await workshop.end_whole()


@pytest.fixture
async def services(workshop: Workshop) -> TenantServices:
    return await workshop.new_tenant()


def passages(count: int = WHOLE, *, word: str = "passage") -> list[ProvidedChunk]:
    return [ProvidedChunk(f"The {word} number {number} of many.") for number in range(count)]


async def put(services: TenantServices, chunks: Sequence[ProvidedChunk], **facts: Any) -> DocumentRow:
    """Upload chunks; each becomes one passage."""
    return (await services.uploads.upload_chunks("default", chunks, DocumentFields(**facts))).document


def fail_after(workshop: Workshop, requests: int) -> None:
    """Let the endpoint answer this number of requests and then fail."""
    workshop.endpoint.reset()
    if requests:
        workshop.endpoint.fail("slow", times=requests, seconds=0.0)
    workshop.endpoint.fail(503, times=None, retry_after="500")  # longer than the client waits


async def cut_short(workshop: Workshop, document: DocumentRow, *, after: int) -> list[str]:
    """Ingest until the endpoint fails after this number of requests; return the texts that it embedded."""
    fail_after(workshop, after)
    with pytest.raises(EmbeddingUnavailable):
        await workshop.ingest(document)
    answered = [text for request in workshop.endpoint.received[:after] for text in request.inputs]
    workshop.endpoint.reset()
    return answered


def received_texts(workshop: Workshop) -> list[str]:
    return [text for request in workshop.endpoint.received for text in request.inputs]


async def checkpoints(workshop: Workshop, services: TenantServices) -> int:
    found: int = await workshop.owner.fetchval(
        "select count(*) from embedding_checkpoint where tenant_id = $1", services.principal.tenant_id
    )
    return found


async def ledger(workshop: Workshop, services: TenantServices) -> tuple[int, int]:
    """Return the passages and tokens that the tenant pays for."""
    row = await workshop.owner.fetchrow(
        "select sum(inputs)::int, sum(tokens)::int from embedding_usage where tenant_id = $1 and model = 'words'",
        services.principal.tenant_id,
    )
    return row[0] or 0, row[1] or 0


async def vectors(workshop: Workshop, document_id: UUID) -> list[str]:
    rows = await workshop.owner.fetch(
        """select e.embedding::text from chunk_embedding e join chunk c on c.id = e.chunk_id
            where c.document_id = $1 order by c.ordinal""",
        document_id,
    )
    return [row[0] for row in rows]


@pytest.mark.capability("doc-resume")
async def test_resume_continues_after_last_checkpoint(workshop: Workshop, services: TenantServices) -> None:
    document, all_texts = await put(services, passages()), [chunk.text for chunk in passages()]
    first = await cut_short(workshop, document, after=2)
    assert first == all_texts[: 2 * SLICE_SIZE]
    found = await services.documents.get("default", document.id)
    assert found.status == "embedding"
    assert found.progress is not None
    assert {name: found.progress[name] for name in ("done", "total", "unit")} == {
        "done": 2 * SLICE_SIZE,
        "total": WHOLE,
        "unit": "chunks",
    }
    assert found.progress["tokens"] > 0
    assert await checkpoints(workshop, services) == 2 * SLICE_SIZE
    second = await cut_short(workshop, document, after=1)
    await workshop.ingest(document)
    assert [*first, *second, *received_texts(workshop)] == all_texts
    assert await workshop.status(document.id) == "ready"
    assert await checkpoints(workshop, services) == 0


async def test_resume_embeds_last_slice_again(workshop: Workshop, services: TenantServices) -> None:
    """The worker dies after its last vectors: the transaction that stores the version would have stored them."""
    document = await put(services, passages())
    await workshop.ingest(document)
    assert len(received_texts(workshop)) == WHOLE
    other = await put(await workshop.new_tenant(), passages(SLICE_SIZE))
    await cut_short(workshop, other, after=0)
    assert await workshop.owner.fetchval("select count(*) from embedding_checkpoint") == 0
    await workshop.ingest(other)
    assert len(received_texts(workshop)) == SLICE_SIZE


async def test_resume_result_equals_uninterrupted_ingestion(workshop: Workshop, services: TenantServices) -> None:
    document = await put(services, passages())
    await cut_short(workshop, document, after=2)
    await workshop.ingest(document)
    smooth = await workshop.new_tenant()
    other = await put(smooth, passages())
    await workshop.ingest(other)
    assert await vectors(workshop, document.id) == await vectors(workshop, other.id)
    assert len(await vectors(workshop, document.id)) == WHOLE
    assert await ledger(workshop, services) == await ledger(workshop, smooth)


async def test_resume_deletion_removes_checkpoints(workshop: Workshop, services: TenantServices) -> None:
    document = await put(services, passages())
    await cut_short(workshop, document, after=1)
    assert await checkpoints(workshop, services) == SLICE_SIZE
    await services.deletions.delete("default", document.id)
    assert await checkpoints(workshop, services) == 0


async def test_resume_other_document_of_tenant_reuses_checkpoints(workshop: Workshop, services: TenantServices) -> None:
    document = await put(services, passages())
    await cut_short(workshop, document, after=2)
    other = await put(services, [*passages(), ProvidedChunk("And one more.")])
    await workshop.ingest(other)
    assert len(received_texts(workshop)) == WHOLE - 2 * SLICE_SIZE + 1
    assert await checkpoints(workshop, services) == 2 * SLICE_SIZE  # the checkpoints of the first document


async def test_resume_new_version_reuses_checkpoints(workshop: Workshop, services: TenantServices) -> None:
    document = await put(services, passages(), external_id="v")
    await cut_short(workshop, document, after=2)
    newer = await put(services, [*passages(), ProvidedChunk("And one more.")], external_id="v")
    assert (newer.id, newer.version) == (document.id, 2)
    await workshop.ingest(newer)
    assert len(received_texts(workshop)) == WHOLE - 2 * SLICE_SIZE + 1
    assert await checkpoints(workshop, services) == 0


async def test_resume_other_tenant_does_not_use_checkpoints(workshop: Workshop, services: TenantServices) -> None:
    document = await put(services, passages())
    await cut_short(workshop, document, after=2)
    stranger = await workshop.new_tenant()
    other = await put(stranger, passages())
    await workshop.ingest(other)
    assert len(received_texts(workshop)) == WHOLE
    assert await ledger(workshop, stranger) > (WHOLE, 0)
    assert await checkpoints(workshop, services) == 2 * SLICE_SIZE
    assert await checkpoints(workshop, stranger) == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "others"},
        {"document_prefix": "passage: "},
        {"query_prefix": "query: "},
        {"dimensions": 32, "send_dimensions": True},
    ],
    ids=lambda changes: next(iter(changes)),
)
async def test_resume_other_model_does_not_use_checkpoints(
    workshop: Workshop, services: TenantServices, changes: dict[str, Any]
) -> None:
    document = await put(services, passages())
    await cut_short(workshop, document, after=2)
    settings = workshop.resources.settings.embedding.model_copy(update=changes)
    other = await asyncio.to_thread(create_embedder, settings, 1, workshop.resources.control_plane)
    try:
        await embed(workshop, document, passages(), other)
    finally:
        await other.close()
    assert len(received_texts(workshop)) == WHOLE
    workshop.endpoint.reset()
    await embed(workshop, document, passages(), workshop.resources.embedders.default)
    assert len(received_texts(workshop)) == WHOLE - 2 * SLICE_SIZE


async def embed(workshop: Workshop, document: DocumentRow, chunks: Sequence[ProvidedChunk], embedder: Embedder) -> None:
    """Run the embedding step alone."""
    db = TenantDatabase(workshop.resources.database, document.tenant_id)
    texts = [chunk.text for chunk in chunks]
    nothing = DocumentTree("", TreeNode(NodeKind.DOCUMENT, 0, 0, 0))
    made = await embed_chunks(
        db,
        document.id,
        ChunkedDocument(nothing, [], [], texts),
        embedder=embedder,
        progress=IngestionProgress(db, document.id, document.version),
    )
    assert made.vectors.shape == (len(texts), embedder.identity.dimensions)
    assert np.linalg.norm(made.vectors, axis=1) == pytest.approx(1.0, abs=0.01)


async def test_resume_slow_last_slice_is_stored(workshop: Workshop, services: TenantServices) -> None:
    document, texts = await put(services, passages(SLICE_SIZE)), [chunk.text for chunk in passages(SLICE_SIZE)]
    workshop.endpoint.latency_seconds = 3 * REPORT_INTERVAL_SECONDS
    async with workshop.owner.transaction():
        # all vectors are paid for, and no chunk can be stored
        await workshop.owner.execute("lock table chunk in share mode")
        ingesting = asyncio.create_task(workshop.ingest(document))
        await until(lambda: has_checkpoints(workshop, services, SLICE_SIZE))
        ingesting.cancel()
        await asyncio.wait({ingesting})
    assert received_texts(workshop) == texts
    paid = await ledger(workshop, services)
    assert paid[0] == SLICE_SIZE
    workshop.endpoint.reset()
    await workshop.ingest(document)
    assert received_texts(workshop) == []
    assert await workshop.status(document.id) == "ready"
    assert await checkpoints(workshop, services) == 0
    assert await ledger(workshop, services) == paid


async def test_resume_refused_text_alone_is_sent_again(workshop: Workshop, services: TenantServices) -> None:
    chunks = passages()
    chunks[3] = ProvidedChunk("The xyzzy cannot be embedded.")
    workshop.endpoint.refused_word = "xyzzy"
    document = await put(services, chunks)
    workshop.endpoint.latency_seconds = 0.02
    ingesting = asyncio.create_task(workshop.ingest(document))
    await until(lambda: has_checkpoints(workshop, services, SLICE_SIZE - 1))
    ingesting.cancel()
    await asyncio.wait({ingesting})
    kept = await checkpoints(workshop, services)
    assert SLICE_SIZE - 1 <= kept < WHOLE
    workshop.endpoint.reset()
    workshop.endpoint.latency_seconds = 0.0
    await workshop.ingest(document)
    assert len(set(received_texts(workshop))) == WHOLE - kept
    assert chunks[3].text in received_texts(workshop)
    found = await services.documents.get("default", document.id)
    assert (found.status, len(found.warnings)) == ("ready", 1)
    assert len(await vectors(workshop, document.id)) == WHOLE - 1
    hits = (await services.retrieval.search(SearchRequest(queries=["xyzzy"], strategy="lexical"))).hits
    assert [hit.chunk.content for hit in hits] == [chunks[3].text]
    await services.deletions.delete("default", document.id)  # a chunk without a vector counts as an inconsistency


async def has_checkpoints(workshop: Workshop, services: TenantServices, count: int) -> bool:
    return await checkpoints(workshop, services) >= count


async def test_resume_equal_texts_are_embedded_once(workshop: Workshop, services: TenantServices) -> None:
    chunks = [ProvidedChunk("Again and again.")] * WHOLE
    document = await put(services, chunks)
    await cut_short(workshop, document, after=1)
    assert await checkpoints(workshop, services) == 1
    await workshop.ingest(document)
    assert received_texts(workshop) == []
    assert len(set(await vectors(workshop, document.id))) == 1


async def test_resume_ledger_equals_embedded_passages(workshop: Workshop, services: TenantServices) -> None:
    assert await ledger(workshop, services) == (0, 0)
    one = await put(services, passages(5))
    await workshop.ingest(one)
    count, tokens = await ledger(workshop, services)
    assert (count, tokens > 5) == (5, True)
    two = await put(services, passages(5, word="paragraph"))
    await workshop.ingest(two)
    assert (await ledger(workshop, services))[0] == 10
    assert (await ledger(workshop, services))[1] > tokens
    own = [ProvidedChunk("With a vector of its own.", vector=[1.0] * 64), ProvidedChunk("Without one.")]
    await workshop.ingest(await put(services, own))
    assert (await ledger(workshop, services))[0] == 11


async def test_resume_deleted_document_stops_embedding(workshop: Workshop, services: TenantServices) -> None:
    document = await put(services, passages(20 * SLICE_SIZE))
    workshop.endpoint.reset()
    workshop.endpoint.latency_seconds = 0.1
    ingesting = asyncio.create_task(workshop.ingest(document))
    await until(lambda: has_checkpoints(workshop, services, SLICE_SIZE))
    await services.deletions.delete("default", document.id)
    await ingesting
    assert len(received_texts(workshop)) < 20 * SLICE_SIZE
    assert await checkpoints(workshop, services) == 0
    with pytest.raises(DocumentNotFound):
        await services.documents.get("default", document.id)


@pytest.mark.parametrize("by", ["replacement", "another worker"])
async def test_resume_late_vectors_leave_no_checkpoint(workshop: Workshop, services: TenantServices, by: str) -> None:
    """The model answers after the document is complete and its checkpoints are deleted."""
    old, release, hindered = passages(2 * SLICE_SIZE, word="former"), threading.Event(), threading.Event()

    def wait(request: ReceivedEmbeddingRequest) -> None:
        if "former" in request.inputs[0] and not hindered.is_set():
            hindered.set()
            release.wait(30)

    document = await put(services, old, external_id="a")
    workshop.endpoint.before_reply = wait
    try:
        late = asyncio.create_task(workshop.ingest(document))
        await asyncio.to_thread(hindered.wait, 30)
        whole = document if by == "another worker" else await put(services, passages(5, word="newer"), external_id="a")
        await workshop.ingest(whole)
        assert await workshop.status(document.id) == "ready"
        release.set()
        await late
    finally:
        release.set()
        workshop.endpoint.before_reply = reply_at_once
    assert await checkpoints(workshop, services) == 0


async def test_resume_progress_shows_counts(workshop: Workshop, services: TenantServices) -> None:
    document = await put(services, passages())
    workshop.endpoint.latency_seconds = 0.35
    seen: list[int] = []
    ingesting = asyncio.create_task(workshop.ingest(document))
    async for state in services.documents.stream_states("default", document.id, 60.0):
        assert state is not None
        if state.progress:
            assert state.progress["total"] == WHOLE
            seen.append(state.progress["done"])
    await ingesting
    assert seen == sorted(set(seen))
    assert set(seen) <= {0, SLICE_SIZE, 2 * SLICE_SIZE, 3 * SLICE_SIZE}
    assert seen[-1] > 0


async def test_error_stage_names_failed_step(workshop: Workshop, services: TenantServices) -> None:
    cut_by_meaning = NewKnowledgeBase("meaning", chunking=Chunking(strategy="semantic"))
    await services.knowledge_bases.create(cut_by_meaning)
    too_long = await put(services, [ProvidedChunk("word " * 20_000)])
    unembedded = await add_text(services, "Refused as a whole.")
    sentences = "The reef grows. The heron waits. The otter dives."
    facts = DocumentFields()
    uncut = (await services.uploads.upload_text("meaning", sentences, facts, media_type="text/plain")).document
    workshop.endpoint.fail(400, times=None)
    async with workshop.working():
        for document in (too_long, unembedded, uncut):
            assert await workshop.settled(document.id) == "failed"
    told = await workshop.owner.fetch(
        "select id, error ->> 'stage' stage, error ->> 'code' code from document where tenant_id = $1",
        services.principal.tenant_id,
    )
    assert {row["id"]: (row["stage"], row["code"]) for row in told} == {
        too_long.id: ("parsing", "too_large"),
        unembedded.id: ("embedding", "embedding_unavailable"),
        uncut.id: ("chunking", "embedding_unavailable"),
    }


class DelegatingEmbedder:
    """Base of embedders that change the embedding of documents."""

    def __init__(self, real: Embedder) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Surprising(DelegatingEmbedder):
    """Raises an unexpected error."""

    async def embed_documents(self, texts: Sequence[str], **_: Any) -> Any:
        raise RuntimeError(f"{len(texts)} texts")


async def ingest_with(workshop: Workshop, embedder: Any, document: DocumentRow) -> None:
    pipeline = replace(workshop.pipeline, embedders=Embedders(embedder))
    db = TenantDatabase(workshop.resources.database, document.tenant_id)
    await pipeline.ingest(db, document.id, document.version)


async def test_unexpected_error_has_stage(workshop: Workshop, services: TenantServices) -> None:
    document = await add_text(services, "Surprised at once.")
    with pytest.raises(RuntimeError, match="1 texts"):
        await ingest_with(workshop, Surprising(workshop.resources.embedders.default), document)
    assert await workshop.status(document.id) == "embedding"


class Noting(DelegatingEmbedder):
    """Records which calls are interactive."""

    def __init__(self, real: Embedder) -> None:
        super().__init__(real)
        self.told: list[tuple[int, bool]] = []

    async def embed_documents(self, texts: Sequence[str], *, interactive: bool = False) -> Any:
        self.told.append((len(texts), interactive))
        return await self._real.embed_documents(texts, interactive=interactive)


async def test_short_note_is_embedded_as_interactive(workshop: Workshop, services: TenantServices) -> None:
    """A long document is bulk work."""
    embedder = Noting(workshop.resources.embedders.default)
    for count, dynamic in (
        (MAX_INTERACTIVE_TEXTS, True),
        (MAX_INTERACTIVE_TEXTS + 1, True),
        (MAX_INTERACTIVE_TEXTS, False),
    ):
        document = await put(services, passages(count, word=f"{dynamic}"), dynamic=dynamic)
        await ingest_with(workshop, embedder, document)
    assert embedder.told == [
        (MAX_INTERACTIVE_TEXTS, True),
        (MAX_INTERACTIVE_TEXTS + 1, False),
        (MAX_INTERACTIVE_TEXTS, False),
    ]
