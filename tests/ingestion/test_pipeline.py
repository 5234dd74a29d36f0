"""The pipeline under repetition, replacement, deletion and failure: complete or nothing, once, and never stuck."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from app.bootstrap import TenantServices
from app.documents.types import DocumentFields, DocumentNotFound
from app.embedded_postgres import DatabaseUrls
from app.inference.embedding import EmbeddingRejected
from app.ingestion.pipeline import TitleChanged
from app.ingestion.types import NoTextFound
from app.knowledge_bases.types import IndexMismatch, NewKnowledgeBase
from app.retrieval.types import SearchRequest
from harness.protocol_servers.embedding import EmbeddingFailure
from tests.ingestion.workshop import Workshop, add_text, open_workshop, until

WORDS = [
    "amber",
    "basin",
    "copper",
    "delta",
    "ember",
    "fjord",
    "granite",
    "harbour",
    "island",
    "jetty",
    "kelp",
    "lagoon",
]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
async def workshop(database: DatabaseUrls, data_dir: Path) -> AsyncIterator[Workshop]:
    async with open_workshop(database, data_dir, lease_timeout_seconds=2) as opened:
        yield opened


@pytest.fixture
async def services(workshop: Workshop) -> AsyncIterator[TenantServices]:
    """Services of a new tenant; at the end the tables must be consistent."""
    yield await workshop.new_tenant()
    workshop.endpoint.reset()
    workshop.endpoint.latency_seconds = 0.0
    await workshop.end_whole()


def prose(seed: int, *, paragraphs: int = 6) -> str:
    rng = random.Random(seed)
    return "\n\n".join(" ".join(rng.choices(WORDS, k=100)) + f" {seed}." for _ in range(paragraphs))


async def rows(workshop: Workshop, document_id: UUID) -> dict[str, Any]:
    """Return all rows that a version's ingestion writes."""
    of = "join chunk c on c.id = l.chunk_id where c.document_id = $1 order by c.ordinal"
    queries = {
        "node": "select * from node where document_id = $1 order by ordinal",
        "chunk": "select * from chunk where document_id = $1 order by ordinal",
        "text": "select * from document_text where document_id = $1",
        "dense": f"select l.chunk_id, l.dim, l.scope_key, l.metadata, l.embedding::text from chunk_embedding l {of}",
        "lexical": f"select l.chunk_id, l.dl, l.scope_key, l.metadata, l.terms::text, l.keys from chunk_lexical l {of}",
    }
    return {name: await workshop.owner.fetch(sql, document_id) for name, sql in queries.items()}


async def written(workshop: Workshop, document_id: UUID) -> int:
    return sum(len(found) for found in (await rows(workshop, document_id)).values())


async def test_ingest_twice_gives_same_rows(workshop: Workshop, services: TenantServices) -> None:
    document = await add_text(services, prose(1), metadata={"lang": "en"}, title="Prose")
    await workshop.ingest(document)
    first = await rows(workshop, document.id)
    assert len(first["chunk"]) == len(first["dense"]) == len(first["lexical"]) > 3
    await workshop.ingest(document)
    assert await rows(workshop, document.id) == first
    # As after a crash before the status was written.
    await workshop.owner.execute("update document set status = 'queued' where id = $1", document.id)
    await workshop.ingest(document)
    assert await rows(workshop, document.id) == first
    assert (await workshop.document(document.id))["status"] == "ready"


async def test_ingest_by_two_workers_gives_one_result(workshop: Workshop, services: TenantServices) -> None:
    document = await add_text(services, prose(2))
    await asyncio.gather(*(workshop.ingest(document) for _ in range(4)))
    found = await workshop.document(document.id)
    assert (found["status"], found["progress"], found["live_version"]) == ("ready", None, 1)
    assert await workshop.inconsistencies() == {}


async def test_ingest_late_failure_does_not_change_settled_document(
    workshop: Workshop, services: TenantServices
) -> None:
    document = await add_text(services, prose(3))
    with workshop.endpoint.paused():
        late = asyncio.create_task(workshop.ingest(document))
        await until(lambda: is_status(workshop, document.id, "embedding"))
        await workshop.owner.execute("update document set status = 'failed' where id = $1", document.id)
    await late
    assert await workshop.status(document.id) == "failed"
    assert await written(workshop, document.id) == 0


async def is_status(workshop: Workshop, document_id: UUID, status: str) -> bool:
    return await workshop.status(document_id) == status


async def test_ingest_superseded_version_writes_nothing(workshop: Workshop, services: TenantServices) -> None:
    first = await add_text(services, prose(4), external_id="a")
    with workshop.endpoint.paused():
        late = asyncio.create_task(workshop.ingest(first))
        await until(lambda: is_status(workshop, first.id, "embedding"))
        second = await add_text(services, prose(5), external_id="a")
    assert (second.id, second.version) == (first.id, 2)
    await late
    await workshop.ingest(first)
    assert await written(workshop, first.id) == 0
    assert await workshop.status(first.id) == "queued"
    await workshop.ingest(second)
    assert {row["version"] for row in (await rows(workshop, first.id))["chunk"]} == {2}


async def test_ingest_title_changed_during_embedding_leaves_no_old_words(
    workshop: Workshop, services: TenantServices
) -> None:
    """The job has read the old title and embeds it. The document is queued again, without a second job."""
    document = await add_text(services, prose(1), title="Corals")
    with workshop.endpoint.paused():
        ingesting = asyncio.create_task(workshop.ingest(document))
        await until(lambda: is_status(workshop, document.id, "embedding"))
        changed = await services.documents.update("default", document.id, {"title": "Zebras"})
        assert (changed.title, changed.status) == ("Zebras", "embedding")
    with pytest.raises(TitleChanged):
        await ingesting
    assert await workshop.owner.fetchval("select count(*) from job where document_id = $1", document.id) == 1
    await workshop.ingest(document)
    found = await services.documents.get("default", document.id)
    assert (found.title, found.status) == ("Zebras", "ready")
    for word, there in (("corals", False), ("zebras", True)):
        hits = (await services.retrieval.search(SearchRequest(queries=[word], strategy="lexical"))).hits
        assert bool(hits) is there
    # Both versions are paid for.
    booked = "select inputs from embedding_usage where tenant_id = $1"
    assert await workshop.owner.fetchval(booked, services.principal.tenant_id) == 2 * found.chunk_count


async def test_ingest_into_index_that_is_no_longer_live_writes_nothing(
    workshop: Workshop, services: TenantServices
) -> None:
    document = await add_text(services, prose(11))
    change = "update search_index set state = $2 where tenant_id = $1"
    with workshop.endpoint.paused():
        late = asyncio.create_task(workshop.ingest(document))
        await until(lambda: is_status(workshop, document.id, "embedding"))
        await workshop.owner.execute(change, services.principal.tenant_id, "retired")
    with pytest.raises(IndexMismatch):
        await late
    assert await written(workshop, document.id) == 0
    await workshop.owner.execute(change, services.principal.tenant_id, "live")
    await workshop.ingest(document)
    assert await workshop.status(document.id) == "ready"


@pytest.mark.capability("doc-atomic")
async def test_ingest_new_version_replaces_old_at_once(workshop: Workshop, services: TenantServices) -> None:
    document = await add_text(services, "The heron waits. Version one.", external_id="b")
    await workshop.ingest(document)
    seen: list[tuple[str, ...]] = []

    async def search() -> None:
        while True:
            found = await services.retrieval.search(SearchRequest(queries=["heron"]))
            seen.append(tuple(hit.chunk.content for hit in found.hits))

    async def is_shown() -> bool:
        return bool(seen) and seen[-1] == (texts[-1],)

    searching = asyncio.create_task(search())
    texts = ["The heron waits. Version one."]
    await until(is_shown)
    for number in range(2, 6):
        texts.append(f"The heron waits. Version {number}.")
        document = await add_text(services, texts[-1], external_id="b")
        await workshop.ingest(document)
        await until(is_shown)
    searching.cancel()
    await asyncio.wait({searching})
    assert searching.cancelled()
    assert {len(found) for found in seen} == {1}
    order = [texts.index(found[0]) for found in seen]
    assert order == sorted(order)
    assert set(order) == set(range(5))
    keys = await workshop.owner.fetch("select version from document_object where document_id = $1", document.id)
    assert [row["version"] for row in keys] == [5]


async def test_delete_document_at_any_moment_is_final(
    workshop: Workshop, services: TenantServices, data_dir: Path
) -> None:
    rng = random.Random(6)
    workshop.endpoint.latency_seconds = 0.01
    deleted: list[UUID] = []

    async def one(seed: int) -> None:
        document = await add_text(services, prose(seed, paragraphs=rng.randint(1, 8)), external_id=str(seed))
        await asyncio.sleep(rng.random() * 0.25)
        if rng.random() < 0.3:
            await add_text(services, prose(seed + 1000), external_id=str(seed))
            await asyncio.sleep(rng.random() * 0.1)
        if seed % 5:
            await services.deletions.delete("default", document.id)
            deleted.append(document.id)

    async def many(start: int) -> None:
        for seed in range(start, 60, 4):
            await one(seed)

    async with workshop.working(grace_seconds=30), workshop.working(grace_seconds=30):
        await asyncio.gather(*(many(start) for start in range(4)))
        await until(lambda: no_jobs(workshop))
    assert len(deleted) == 48
    assert await workshop.inconsistencies() == {}
    for table in ("document_text", "document_object", "node", "chunk"):
        sql = f"select count(*) from {table} where document_id = any($1)"
        assert await workshop.owner.fetchval(sql, deleted) == 0
    assert await workshop.owner.fetchval("select count(*) from document where id = any($1)", deleted) == 0
    tenant = services.principal.tenant_id
    statuses = "select array_agg(distinct status) from document where tenant_id = $1"
    assert await workshop.owner.fetchval(statuses, tenant) == ["ready"]
    kept = await workshop.owner.fetch(
        """select key from document_object where tenant_id = $1 union all
           select key || '.parsed' from document_object where tenant_id = $1 and parse_identity is not null""",
        services.principal.tenant_id,
    )
    stored = [path for path in (data_dir / "objects" / str(tenant)).rglob("*") if path.is_file()]
    assert {str(path.relative_to(data_dir / "objects")) for path in stored} == {row["key"] for row in kept}


async def no_jobs(workshop: Workshop) -> bool:
    return not await workshop.owner.fetchval("select count(*) from job where every is null")


async def test_delete_knowledge_base_during_ingestion_leaves_nothing(
    workshop: Workshop, services: TenantServices
) -> None:
    rng = random.Random(7)
    async with workshop.working(grace_seconds=30), workshop.working(grace_seconds=30):
        for number in range(20):
            await services.knowledge_bases.create(NewKnowledgeBase(f"kb-{number}"))
            for seed in range(2):
                text = prose(seed, paragraphs=2)
                await services.uploads.upload_text(f"kb-{number}", text, DocumentFields(), media_type="text/plain")
            await asyncio.sleep(rng.random() * 0.1)
            await services.knowledge_bases.delete(f"kb-{number}")
        await until(lambda: no_jobs(workshop))
    assert await workshop.inconsistencies() == {}


async def test_ingest_deleted_document_writes_nothing(workshop: Workshop, services: TenantServices) -> None:
    document = await add_text(services, prose(7))
    await services.deletions.delete("default", document.id)
    await workshop.ingest(document)
    assert await written(workshop, document.id) == 0
    with pytest.raises(DocumentNotFound):
        await services.documents.get("default", document.id)


@pytest.mark.parametrize(
    ("how", "retry_after", "after"),
    [
        (429, "0.1", "ready"),
        (429, "3600", "queued"),
        (500, "3600", "queued"),
        ("short", None, "ready"),
        ("nan", None, "ready"),
        ("disconnect", None, "ready"),
        ("garbage", None, "ready"),
        ("dimension", None, "queued"),
        (401, None, "queued"),
        (403, None, "queued"),
    ],
)
async def test_ingest_with_failing_endpoint_fails_document(
    workshop: Workshop, services: TenantServices, how: EmbeddingFailure | int, retry_after: str | None, after: str
) -> None:
    document = await add_text(services, prose(8))
    await workshop.owner.execute("update job set max_attempts = 1")
    workshop.endpoint.fail(how, times=1 if after == "ready" else None, retry_after=retry_after)
    async with workshop.working():
        if after == "queued":  # it waits, and continues by itself when the endpoint is available again
            await until(lambda: waits_for_endpoint(workshop))
            assert await written(workshop, document.id) == 0
            workshop.endpoint.reset()
        assert await workshop.settled(document.id) == "ready"
    again = await services.uploads.upload_text("default", prose(8), DocumentFields(), media_type="text/plain")
    assert (again.document.id, again.created) == (document.id, False)


async def waits_for_endpoint(workshop: Workshop) -> bool:
    return bool(
        await workshop.owner.fetchval(
            "select count(*) from job"
            " where error ->> 'code' = 'embedding_unavailable' and attempts = 0 and state = 'ready'"
        )
    )


async def test_ingest_text_without_words_fails(workshop: Workshop, services: TenantServices) -> None:
    document = await add_text(services, "\u200b")
    with pytest.raises(NoTextFound):
        await workshop.ingest(document)


@pytest.fixture
def refusing(workshop: Workshop) -> Iterator[None]:
    """Endpoint that refuses texts with one word."""
    workshop.endpoint.refused_word = "xyzzy"
    yield
    workshop.endpoint.refused_word = None


@pytest.mark.capability("doc-refused-chunk")
@pytest.mark.usefixtures("refusing")
async def test_ingest_one_refused_passage_stores_the_others(workshop: Workshop, services: TenantServices) -> None:
    document = await add_text(services, prose(9) + "\n\n" + "Nothing happens: xyzzy. " * 20 + "\n\n" + prose(10))
    await workshop.ingest(document)
    found = await workshop.document(document.id)
    assert found["status"] == "ready"
    made = await rows(workshop, document.id)
    refused = [row["id"] for row in made["chunk"] if "xyzzy" in row["content"]]
    assert 1 <= len(refused) < len(made["chunk"])
    assert {row["chunk_id"] for row in made["dense"]} == {row["id"] for row in made["chunk"]} - set(refused)
    assert len(made["lexical"]) == len(made["chunk"])
    assert f"refused {len(refused)} of {len(made['chunk'])} chunks" in found["warnings"]
    words = await services.retrieval.search(SearchRequest(queries=["nothing happens"], strategy="lexical"))
    assert {hit.chunk.id for hit in words.hits} == set(refused)
    await services.deletions.delete("default", document.id)


@pytest.mark.usefixtures("refusing")
@pytest.mark.parametrize("text", ["xyzzy", "\n\n".join(["xyzzy " * 150] * 12) + "\n\n" + "plain " * 150])
async def test_ingest_too_many_refused_passages_fails_document(
    workshop: Workshop, services: TenantServices, text: str
) -> None:
    document = await add_text(services, text)
    with pytest.raises(EmbeddingRejected):
        await workshop.ingest(document)
    assert await written(workshop, document.id) == 0
