"""Ledger of costs: the endpoint's counts for passages and chunkers, tenant by tenant."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.bootstrap import TenantServices
from app.documents.types import DocumentFields
from app.knowledge_bases.types import Chunking, NewKnowledgeBase
from harness.word_vectors import count_text_tokens
from tests.ingestion.workshop import Workshop, add_text, until

PROSE = "\n\n".join(
    f"Paragraph {number} tells of harbours. It rained in the fjord for {number} days. Kelp grows on granite." * 8
    for number in range(40)
)


@pytest.fixture
async def services(workshop: Workshop) -> AsyncIterator[TenantServices]:
    """Services of a new tenant."""
    made = await workshop.new_tenant()
    workshop.endpoint.reset()
    yield made
    workshop.endpoint.reset()
    workshop.endpoint.refused_word = None
    await workshop.drop_jobs()


async def ledger(workshop: Workshop, services: TenantServices) -> list[tuple[str, int, int]]:
    rows = await workshop.owner.fetch(
        "select model, inputs, tokens from embedding_usage where tenant_id = $1", services.principal.tenant_id
    )
    return [tuple(row) for row in rows]


def counted(workshop: Workshop, *, but: str = "\0") -> tuple[int, int]:
    """Return the number of texts that the endpoint has accepted, and of their tokens."""
    texts = [
        text
        for request in workshop.endpoint.received
        if not any(but in text for text in request.inputs)
        for text in request.inputs
    ]
    return len(texts), sum(map(count_text_tokens, texts))


async def test_ledger_counts_passages(workshop: Workshop, services: TenantServices) -> None:
    await workshop.ingest(await add_text(services, PROSE))
    passages, tokens = counted(workshop)
    assert passages > 20
    assert await ledger(workshop, services) == [("words", passages, tokens)]
    await workshop.ingest(await add_text(services, "One more."))
    passages, tokens = counted(workshop)
    assert await ledger(workshop, services) == [("words", passages, tokens)]


async def test_ledger_counts_sentences_of_chunker(workshop: Workshop, services: TenantServices) -> None:
    await services.knowledge_bases.create(NewKnowledgeBase("topics", chunking=Chunking("semantic")))
    added = await services.uploads.upload_text("topics", PROSE, DocumentFields(), media_type="text/plain")
    await workshop.ingest(added.document)
    chunks = await workshop.owner.fetchval("select count(*) from chunk where document_id = $1", added.document.id)
    texts, tokens = counted(workshop)
    assert texts > 2 * chunks
    assert await ledger(workshop, services) == [("words", chunks, tokens)]


async def test_ledger_counts_superseded_version(workshop: Workshop, services: TenantServices) -> None:
    document = await add_text(services, PROSE[:3000], external_id="a")
    with workshop.endpoint.paused():
        late = asyncio.create_task(workshop.ingest(document))
        await until(lambda: has_request(workshop))
        await add_text(services, "Another text.", external_id="a")
    await late
    assert await workshop.owner.fetchval("select count(*) from chunk where document_id = $1", document.id) == 0
    passages, tokens = counted(workshop)
    assert passages > 1
    assert await ledger(workshop, services) == [("words", passages, tokens)]


async def has_request(workshop: Workshop) -> bool:
    return bool(workshop.endpoint.received)


async def test_ledger_counts_document_with_refused_passage(workshop: Workshop, services: TenantServices) -> None:
    workshop.endpoint.refused_word = "xyzzy"
    document = await add_text(
        services, PROSE[:4000] + "\n\n" + "Nothing happens: xyzzy. " * 20 + "\n\n" + PROSE[4000:9000]
    )
    await workshop.ingest(document)
    refused = await workshop.owner.fetchval(
        "select count(*) from chunk where document_id = $1 and content ~ 'xyzzy'", document.id
    )
    chunks = await workshop.owner.fetchval("select count(*) from chunk where document_id = $1", document.id)
    assert refused >= 1
    texts, tokens = counted(workshop, but="xyzzy")
    assert texts > chunks - refused  # neighbours of refused texts were sent twice
    assert await ledger(workshop, services) == [("words", chunks - refused, tokens)]
