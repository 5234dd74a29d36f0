"""Reuse of parse results: the same bytes are parsed once in a tenant, and nothing outlives the documents with them.

The parser of these tests returns another text at each call.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from app.bootstrap import TenantServices
from app.db.models.tenant_data import DocumentRow
from app.documents.scopes import DocumentScope
from app.documents.types import DocumentFields, build_parse_result_key
from app.embedded_postgres import DatabaseUrls
from app.inference.embedding import EmbeddingUnavailable
from app.ingestion.parse_reuse import FREE_BYTES, OriginalParser
from app.ingestion.parsers import ParserSpec
from app.ingestion.parsers.sandbox.pool import ParserPool
from app.knowledge_bases.types import NewKnowledgeBase
from app.object_store import ObjectStore
from app.worker.handlers import JobContext
from tests.ingestion.random_parser import SLOW_SECONDS
from tests.ingestion.workshop import Workshop, open_workshop

RANDOM = {"text/plain": ParserSpec("text/plain", ("txt",), "tests.ingestion.random_parser")}
LIMITS: dict[str, Any] = {
    "processes": 1,
    "memory_mb": 1000,
    "cpu_timeout_seconds": 30,
    "wall_clock_timeout_seconds": 60,
    "max_pages": 100,
    "max_characters": 200_000,
    "parsers": RANDOM,
}


@pytest.fixture(scope="module")
async def workshop(database: DatabaseUrls, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Workshop]:
    async with open_workshop(database, tmp_path_factory.mktemp("data"), parsers=RANDOM) as opened:
        yield opened


@pytest.fixture
async def services(workshop: Workshop) -> AsyncIterator[TenantServices]:
    """Services of a new tenant with two knowledge bases; at the end the tables must be consistent."""
    workshop.endpoint.reset()
    services = await workshop.new_tenant()
    await services.knowledge_bases.create(NewKnowledgeBase("other"))
    yield services
    workshop.endpoint.reset()
    await workshop.end_whole()


async def add(services: TenantServices, text: str = "Tides.", *, kb: str = "default", **fields: Any) -> DocumentRow:
    """Upload a text into a knowledge base."""
    uploaded = await services.uploads.upload_text(kb, text, DocumentFields(**fields), media_type="text/plain")
    return uploaded.document


async def ingest(workshop: Workshop, services: TenantServices, text: str = "Tides.", **fields: Any) -> DocumentRow:
    """Upload a text and ingest it."""
    document = await add(services, text, **fields)
    await workshop.ingest(document)
    assert await workshop.status(document.id) == "ready"
    return document


async def text_of(workshop: Workshop, document: DocumentRow) -> str:
    found: str = await workshop.owner.fetchval("select content from document_text where document_id = $1", document.id)
    return found


async def keys_of(workshop: Workshop, services: TenantServices) -> list[str]:
    """Return the object keys of the tenant."""
    prefix = f"{services.principal.tenant_id}/"
    return sorted([stored.key async for stored in workshop.resources.objects.list_objects(prefix)])


async def result_key_of(workshop: Workshop, document: DocumentRow) -> str:
    sql = "select key from document_object where document_id = $1 order by version desc limit 1"
    return build_parse_result_key(await workshop.owner.fetchval(sql, document.id))


@pytest.mark.capability("doc-parse-once")
@pytest.mark.parametrize(
    "place",
    [
        {"kb": "other"},
        {"scope": DocumentScope("ann")},
        {"scope": DocumentScope(chat_id="c")},
        {"external_id": "e"},
        {"title": "Sea"},
    ],
    ids=str,
)
async def test_same_bytes_in_another_place_are_not_parsed_again(
    workshop: Workshop, services: TenantServices, place: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    first = await ingest(workshop, services, external_id="first")
    second = await ingest(workshop, services, **place)
    assert second.id != first.id
    assert await text_of(workshop, second) == await text_of(workshop, first)
    events = [record.message for record in caplog.records if record.message.startswith("document.parse")]
    assert events == ["document.parsed", "document.parse_reused"]
    rows = [await workshop.document(document.id) for document in (first, second)]
    assert rows[0]["warnings"] == rows[1]["warnings"]
    assert '"plugin_warning"' in rows[1]["warnings"]
    assert rows[1]["title"] == place.get("title", "Random")
    await workshop.drop_jobs()


async def test_other_tenant_parses_itself(workshop: Workshop, services: TenantServices) -> None:
    stranger = await workshop.new_tenant()
    first, second = await ingest(workshop, services), await ingest(workshop, stranger)
    assert await text_of(workshop, second) != await text_of(workshop, first)
    again = await ingest(workshop, stranger, external_id="again")
    assert await text_of(workshop, again) == await text_of(workshop, second)


async def test_deletion_of_first_document_leaves_result_of_second(workshop: Workshop, services: TenantServices) -> None:
    first = await ingest(workshop, services)
    second = await ingest(workshop, services, kb="other")
    text = await text_of(workshop, first)
    await services.deletions.delete("default", first.id)
    await workshop.run_jobs("purge_objects")
    assert all(str(second.id) in key for key in await keys_of(workshop, services))
    third = await ingest(workshop, services, scope=DocumentScope("bob"))
    assert await text_of(workshop, third) == text
    for kb, document in (("other", second), ("default", third)):
        await services.deletions.delete(kb, document.id)
    await workshop.run_jobs("purge_objects")
    assert await keys_of(workshop, services) == []
    receipts = await workshop.owner.fetch(
        "select finished_at, remaining from deletion where tenant_id = $1", services.principal.tenant_id
    )
    assert len(receipts) == 3
    assert all(row["finished_at"] is not None for row in receipts)
    last = await ingest(workshop, services)
    assert await text_of(workshop, last) != text


async def test_other_limits_parse_again(workshop: Workshop, services: TenantServices) -> None:
    first = await ingest(workshop, services)
    pool = ParserPool(**{**LIMITS, "max_pages": 7})
    try:
        pipeline = replace(workshop.pipeline, parser=OriginalParser(workshop.resources.objects, pool))
        limited = await ingest(replace(workshop, pipeline=pipeline), services, external_id="limited")
    finally:
        await pool.close()
    assert await text_of(workshop, limited) != await text_of(workshop, first)
    again = await ingest(workshop, services, external_id="again")  # two results of the same bytes are stored
    assert await text_of(workshop, again) == await text_of(workshop, first)


async def test_attempt_after_interruption_does_not_parse_again(
    workshop: Workshop, services: TenantServices, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    document = await add(services)
    workshop.endpoint.fail(503, times=None, retry_after="500")
    with pytest.raises(EmbeddingUnavailable):
        await workshop.ingest(document)
    workshop.endpoint.reset()
    await workshop.ingest(document)
    assert await workshop.status(document.id) == "ready"
    events = [record.message for record in caplog.records if record.message.startswith("document.parse")]
    assert events == ["document.parsed", "document.parse_reused"]
    assert len(await keys_of(workshop, services)) == 2


async def test_parallel_ingestions_of_same_bytes_parse_once(workshop: Workshop, services: TenantServices) -> None:
    documents = [await add(services, external_id=str(number)) for number in range(4)]
    await asyncio.gather(*(workshop.ingest(document) for document in documents))
    assert len({await text_of(workshop, document) for document in documents}) == 1


@pytest.mark.parametrize("damage", ["missing", "cut", "other", "garbage"])
async def test_damaged_result_is_parsed_again(
    workshop: Workshop, services: TenantServices, damage: str, tmp_path: Path
) -> None:
    first = await ingest(workshop, services)
    objects, key = workshop.resources.objects, await result_key_of(workshop, first)
    if damage == "missing":
        await objects.delete(key)
    else:
        await objects.get(key, tmp_path / "result")
        content = (tmp_path / "result").read_bytes()
        if damage == "cut":
            content = content[: len(content) // 2]
        elif damage == "garbage":
            content = b"no result"
        else:
            other = await ingest(workshop, services, "Other.", external_id="other")
            await objects.get(await result_key_of(workshop, other), tmp_path / "other")
            content = (tmp_path / "other").read_bytes()
        (tmp_path / "damaged").write_bytes(content)
        await objects.put(key, tmp_path / "damaged")
    second = await ingest(workshop, services, kb="other")
    assert (await text_of(workshop, second)).startswith("Tides. ")
    assert await text_of(workshop, second) != await text_of(workshop, first)


async def test_new_version_removes_result_of_former_version(workshop: Workshop, services: TenantServices) -> None:
    await ingest(workshop, services, external_id="a")
    former = await keys_of(workshop, services)
    newer = await ingest(workshop, services, "Currents.", external_id="a")
    await workshop.run_jobs("purge_objects")
    keys = await keys_of(workshop, services)
    assert set(keys).isdisjoint(former)
    assert await result_key_of(workshop, newer) in keys
    assert len(keys) == 2


async def test_failure_is_not_stored(workshop: Workshop, services: TenantServices) -> None:
    document = await add(services, "broken bytes")
    with pytest.raises(Exception, match="damaged"):
        await workshop.ingest(document)
    assert not [key for key in await keys_of(workshop, services) if key.endswith(".parsed")]
    sql = "select parse_identity from document_object where document_id = $1"
    assert await workshop.owner.fetchval(sql, document.id) is None
    await services.deletions.delete("default", document.id)


async def test_result_much_larger_than_original_is_not_stored(workshop: Workshop, services: TenantServices) -> None:
    first = await ingest(workshop, services, "large")
    assert len(await text_of(workshop, first)) > 2 * FREE_BYTES
    second = await ingest(workshop, services, "large", kb="other")
    assert await text_of(workshop, second) != await text_of(workshop, first)
    assert len(await keys_of(workshop, services)) == 2


async def test_result_that_a_time_limit_may_have_cut_is_not_stored(
    workshop: Workshop, services: TenantServices
) -> None:
    """The parser takes a tenth of the timeout. Only a warning about unread pages can mean that its time was up."""
    pool = ParserPool(**{**LIMITS, "wall_clock_timeout_seconds": 10 * SLOW_SECONDS})
    try:
        pipeline = replace(workshop.pipeline, parser=OriginalParser(workshop.resources.objects, pool))
        slow = replace(workshop, pipeline=pipeline)
        for text, is_reused in (("slow scan", False), ("slow text", True)):
            texts = [
                await text_of(workshop, await ingest(slow, services, text, external_id=f"{text} {number}"))
                for number in range(2)
            ]
            assert (texts[0] == texts[1]) is is_reused
    finally:
        await pool.close()


async def test_sweeper_removes_results_without_original(
    workshop: Workshop, services: TenantServices, tmp_path: Path
) -> None:
    document = await ingest(workshop, services)
    objects: ObjectStore = workshop.resources.objects
    (tmp_path / "result").write_bytes(b"an abandoned result")
    orphans = [
        build_parse_result_key(f"{services.principal.tenant_id}/{owner}/{uuid4()}") for owner in (document.id, uuid4())
    ]
    for key in orphans:
        await objects.put(key, tmp_path / "result")
    sweeper = replace(JobContext(workshop.resources, workshop.pipeline).sweeper, orphan_age=timedelta(0))
    await sweeper.delete_orphans()
    keys = await keys_of(workshop, services)
    assert set(keys).isdisjoint(orphans)
    assert await result_key_of(workshop, document) in keys
    await workshop.owner.execute("update document_object set parse_identity = null where document_id = $1", document.id)
    await sweeper.delete_orphans()  # a worker was killed before it recorded the result
    assert len(await keys_of(workshop, services)) == 1


class DeletingStore:
    """Object store that deletes a document just before its parse result is written."""

    def __init__(self, workshop: Workshop, services: TenantServices, document: DocumentRow) -> None:
        self.workshop, self.services, self.document = workshop, services, document
        self.put_keys: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.workshop.resources.objects, name)

    async def put(self, key: str, source: Path) -> None:
        await self.services.deletions.delete("default", self.document.id)
        await self.workshop.run_jobs("purge_objects")
        await self.workshop.resources.objects.put(key, source)
        self.put_keys.append(key)


async def test_deletion_during_parse_leaves_no_result(workshop: Workshop, services: TenantServices) -> None:
    document = await add(services)
    store: Any = DeletingStore(workshop, services, document)
    parser = OriginalParser(store, workshop.pipeline.parser.pool)
    await replace(workshop, pipeline=replace(workshop.pipeline, parser=parser)).ingest(document)
    assert len(store.put_keys) == 1
    assert await keys_of(workshop, services) == []
