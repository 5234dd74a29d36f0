"""Title of a document: each chunk is indexed with it, so only a changed title makes the document ingest again."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.bootstrap import TenantServices
from app.db.models.tenant_data import DocumentRow
from app.documents.scopes import DocumentScope
from app.documents.types import DocumentFields, DuplicateIdentity, ProvidedChunk
from app.retrieval.types import SearchRequest
from tests.ingestion.workshop import Workshop, add_text, until

TEXT = "The reef grows."


@pytest.fixture
async def services(workshop: Workshop) -> AsyncIterator[TenantServices]:
    yield await workshop.new_tenant()
    workshop.endpoint.reset()
    await workshop.end_whole()


async def ingested(workshop: Workshop, services: TenantServices, **facts: Any) -> DocumentRow:
    document = await add_text(services, TEXT, **facts)
    await work(workshop)
    return document


async def work(workshop: Workshop) -> None:
    await workshop.run_jobs("ingest_document")


async def retitle(services: TenantServices, document: DocumentRow, title: str | None) -> DocumentRow:
    return await services.documents.update("default", document.id, {"title": title})


async def jobs(workshop: Workshop, document: DocumentRow) -> int:
    found: int = await workshop.owner.fetchval(
        "select count(*) from job where document_id = $1 and state <> 'dead'", document.id
    )
    return found


async def finds(services: TenantServices, *words: str) -> list[str]:
    """Return the words with which a search finds a chunk."""
    found = []
    for word in words:
        result = await services.retrieval.search(SearchRequest(queries=[word], strategy="lexical"))
        found += [word] if result.hits else []
    return found


async def test_changed_title_reingests_document(workshop: Workshop, services: TenantServices) -> None:
    document = await ingested(workshop, services, title="Corals")
    changed = await retitle(services, document, "Zebras")
    assert (changed.title, changed.status, changed.live_version) == ("Zebras", "queued", 1)
    assert await finds(services, "corals", "zebras", "reef") == ["corals", "reef"]
    assert await jobs(workshop, document) == 1
    workshop.endpoint.reset()
    await work(workshop)
    assert [text for request in workshop.endpoint.received for text in request.inputs] == ["Zebras\n\nThe reef grows."]
    made = await services.documents.get("default", document.id)
    assert (made.title, made.status, made.version, made.live_version) == ("Zebras", "ready", 1, 1)
    assert await finds(services, "corals", "zebras", "reef") == ["zebras", "reef"]


async def test_changed_title_of_same_bytes_reingests_document(workshop: Workshop, services: TenantServices) -> None:
    document = await ingested(workshop, services, title="Corals")
    uploaded = await services.uploads.upload_text(
        "default", TEXT, DocumentFields(title="Zebras"), media_type="text/plain"
    )
    assert (uploaded.created, uploaded.document.id) == (False, document.id)
    assert (uploaded.document.title, uploaded.document.status) == ("Zebras", "queued")
    await work(workshop)
    assert await finds(services, "corals", "zebras") == ["zebras"]


async def test_changed_title_of_provided_chunks_reingests_document(
    workshop: Workshop, services: TenantServices
) -> None:
    chunks = [ProvidedChunk(TEXT, vector=[1.0] * 64), ProvidedChunk("The heron waits.")]
    document = (await services.uploads.upload_chunks("default", chunks, DocumentFields(title="Corals"))).document
    await work(workshop)
    await retitle(services, document, "Zebras")
    await work(workshop)
    assert await finds(services, "corals", "zebras") == ["zebras"]


async def test_removed_title_uses_title_of_file(workshop: Workshop, services: TenantServices) -> None:
    markdown = await services.uploads.upload_text(
        "default", f"# Reefs\n\n{TEXT}", DocumentFields(title="Corals"), media_type="text/markdown"
    )
    plain = await ingested(workshop, services, title="Corals")
    for document in (markdown.document, plain):
        assert (await retitle(services, document, None)).title is None
    await work(workshop)
    titles = [(await services.documents.get("default", one.id)).title for one in (markdown.document, plain)]
    assert titles == ["Reefs", None]
    assert await finds(services, "corals") == []


async def test_unchanged_title_with_other_changes_starts_no_ingestion(
    workshop: Workshop, services: TenantServices
) -> None:
    document = await ingested(workshop, services, title="Corals", scope=DocumentScope("u"))
    before = await workshop.owner.fetchval("select xmin::text from document_text where document_id = $1", document.id)
    changes: list[dict[str, Any]] = [
        {"title": "Corals"}, {"metadata": {"a": 1}, "title": "Corals"}, {"source_uri": "https://reef.example/"},
        {"scope": DocumentScope()}, {},
    ]  # fmt: skip
    for change in changes:
        changed = await services.documents.update("default", document.id, change)
        assert (changed.status, await jobs(workshop, document)) == ("ready", 0)
    again = DocumentFields(title="Corals", metadata={"a": 2})
    assert (await services.uploads.upload_text("default", TEXT, again, media_type="text/plain")).document.title
    assert await jobs(workshop, document) == 0
    text = await workshop.owner.fetchval("select xmin::text from document_text where document_id = $1", document.id)
    assert text == before


async def test_unchanged_title_starts_no_ingestion(workshop: Workshop, services: TenantServices) -> None:
    """An unchanged title starts no ingestion, even while a job waits that will read the present title."""
    first = await add_text(services, TEXT, title="Corals")
    assert (await retitle(services, first, "Zebras")).status == "queued"
    assert await jobs(workshop, first) == 1
    await work(workshop)
    assert await finds(services, "corals", "zebras") == ["zebras"]
    for title in ("Otters", "Otters", "Herons"):
        assert (await retitle(services, first, title)).status == "queued"
        assert await jobs(workshop, first) == 1
    await work(workshop)
    assert (await retitle(services, first, "Herons")).status == "ready"
    assert await finds(services, "corals", "zebras", "otters", "herons") == ["herons"]


async def test_changed_title_of_failed_document_starts_ingestion(workshop: Workshop, services: TenantServices) -> None:
    """A failed document is ingested again, even with its former title. Its words and its row agree at any time."""
    document = await ingested(workshop, services, title="Corals")
    workshop.endpoint.fail(400, times=None)
    await retitle(services, document, "Zebras")
    async with workshop.working():
        assert await workshop.settled(document.id) == "failed"
    assert await finds(services, "corals", "zebras") == ["corals"]
    workshop.endpoint.reset()
    changed = await retitle(services, document, "Corals")
    assert (changed.title, changed.status, changed.error) == ("Corals", "queued", None)
    assert await jobs(workshop, document) == 1
    await work(workshop)
    assert await finds(services, "corals", "zebras") == ["corals"]


async def test_changed_title_of_failed_upload_starts_one_ingestion(
    workshop: Workshop, services: TenantServices
) -> None:
    """The upload starts the ingestion once, with the document's encoding and its bulk flag."""
    workshop.endpoint.fail(400, times=None)
    document = await add_text(services, TEXT, title="Corals")
    async with workshop.working():
        assert await workshop.settled(document.id) == "failed"
    workshop.endpoint.reset()
    facts = DocumentFields(title="Zebras", encoding="utf-8")
    uploaded = await services.uploads.upload_text("default", TEXT, facts, media_type="text/plain")
    assert (uploaded.created, uploaded.document.id, uploaded.document.status) == (True, document.id, "queued")
    assert await jobs(workshop, document) == 1
    await work(workshop)
    assert await finds(services, "corals", "zebras") == ["zebras"]


async def test_refused_change_starts_no_ingestion(workshop: Workshop, services: TenantServices) -> None:
    await ingested(workshop, services)
    document = await ingested(workshop, services, title="Corals", scope=DocumentScope("u"))
    with pytest.raises(DuplicateIdentity):
        await services.documents.update("default", document.id, {"title": "Zebras", "scope": DocumentScope()})
    found = await services.documents.get("default", document.id)
    assert (found.title, found.status, await jobs(workshop, document)) == ("Corals", "ready", 0)


async def test_changed_title_at_any_moment_is_indexed_last(workshop: Workshop, services: TenantServices) -> None:
    """A second title comes at several moments of an ingestion; the chunks are indexed with the last title."""
    documents = [await add_text(services, f"{TEXT} {number}", title="Corals") for number in range(12)]
    async with workshop.working():
        for number, document in enumerate(documents):
            await workshop.settled(document.id)
            await retitle(services, document, "Otters")
            await asyncio.sleep(number * 0.005)
            await retitle(services, document, "Zebras")
        await until(lambda: no_jobs(workshop))
    result = await services.retrieval.search(SearchRequest(queries=["zebras"], strategy="lexical", top_k=50))
    assert {hit.document.id for hit in result.hits} == {document.id for document in documents}
    assert await finds(services, "corals", "otters") == []


async def no_jobs(workshop: Workshop) -> bool:
    return not await workshop.owner.fetchval("select count(*) from job where document_id is not null")
