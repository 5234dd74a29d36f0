"""Reindexing: a job builds the next generation of a search index during concurrent changes."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from sqlalchemy.exc import IntegrityError

from app.bootstrap import TenantServices
from app.db.index_ddl import MaintenanceFailed, OwnerDatabase
from app.db.models.base import SYSTEM_TENANT
from app.db.models.control_plane_rows import ClaimedJob
from app.db.models.tenant_data import DocumentRow
from app.db.session import TenantDatabase
from app.documents.deletion.service import DeletionSelection
from app.documents.scopes import DocumentScope
from app.documents.types import DocumentFields, ProvidedChunk
from app.embedded_postgres import DatabaseUrls
from app.ids import encode_id
from app.index_maintenance.index_drop import DROP_JOB
from app.index_maintenance.repository import IndexRepository
from app.index_maintenance.service import MAINTAIN_INDEXES_JOB
from app.inference.embedding import EmbeddingUnavailable
from app.ingestion.reindex.index_build import SLICE_SECONDS, Reindexer
from app.ingestion.unreferenced_nodes import delete_unreferenced_nodes
from app.knowledge_bases.generation_repository import GenerationRepository
from app.knowledge_bases.reindex_service import REINDEX_JOB
from app.knowledge_bases.service import PURGE_KNOWLEDGE_BASE_JOB
from app.knowledge_bases.types import (
    Chunking,
    IndexMismatch,
    KnowledgeBaseView,
    NewKnowledgeBase,
    NothingToRollBack,
    ReindexInProgress,
    ReindexOptions,
)
from app.lexical.weights import MAX_TERMS
from app.quotas.types import DailyTokenLimitReached
from app.retrieval.types import Expansion, SearchRequest
from app.worker.failures import describe_failure
from app.worker.handlers import HANDLERS, JobContext
from harness.protocol_servers.embedding import EmbeddingServer
from tests.ingestion.workshop import Workshop, add_text, open_workshop, until

HANG_SECONDS = 60
SMALL = Chunking("headered", 24, 0)
OTHER_SIZE = 32


@pytest.fixture(scope="module")
def other_model() -> Iterator[EmbeddingServer]:
    with EmbeddingServer(dimensions=OTHER_SIZE) as running:
        yield running


@pytest.fixture(scope="module")
async def workshop(
    database: DatabaseUrls, other_model: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Workshop]:
    further = {"model": "others", "base_url": other_model.base_url, "dimensions": OTHER_SIZE, "max_tokens": 64}
    embedding = {"CARREL_EMBEDDING_MODELS": json.dumps([further])}
    async with open_workshop(database, tmp_path_factory.mktemp("data"), embedding=embedding) as opened:
        yield opened


@dataclass(frozen=True)
class ReindexCase:
    """A new tenant, and the work of the worker for it."""

    workshop: Workshop
    services: TenantServices

    @property
    def owner(self) -> asyncpg.Connection:
        return self.workshop.owner

    @property
    def tenant(self) -> UUID:
        return self.services.principal.tenant_id

    @property
    def db(self) -> TenantDatabase:
        return TenantDatabase(self.workshop.resources.database, self.tenant)

    @property
    def context(self) -> JobContext:
        return JobContext(self.workshop.resources, self.workshop.pipeline)

    async def add(self, count: int, *, kb: str = "default") -> list[DocumentRow]:
        made = []
        for number in range(count):
            facts = DocumentFields(external_id=f"d{number}")
            uploaded = await self.services.uploads.upload_text(kb, text(number), facts, media_type="text/plain")
            await self.workshop.ingest(uploaded.document)
            made.append(uploaded.document)
        return made

    async def start(self, **wishes: Any) -> None:
        await self.services.reindexing.start("default", ReindexOptions(**(wishes or {"chunking": SMALL})))

    async def kb(self) -> KnowledgeBaseView:
        return await self.services.knowledge_bases.find_with_counts("default")

    async def index(self, state: str) -> asyncpg.Record:
        return await self.owner.fetchrow(
            "select i.* from search_index i join knowledge_base k on k.tenant_id = i.tenant_id and k.id = i.kb_id"
            " where i.tenant_id = $1 and i.state = $2 and k.name = 'default'", self.tenant, state,
        )  # fmt: skip

    async def work(self, reindexer: Reindexer | None = None) -> None:
        """Run the job of the new generation, as the worker does."""
        row = await self.index("building")
        await (reindexer or self.context.reindexer).run_slice(self.db, row["id"], row["job_id"])

    async def working(self, *, slice_seconds: float = SLICE_SECONDS) -> tuple[UUID, asyncio.Task[None]]:
        """Start the job of the generation, and return its id and the task.

        The test can use the connection during that time.
        """
        row = await self.index("building")
        reindexer = replace(self.context.reindexer, slice_seconds=slice_seconds)
        work = reindexer.run_slice(self.db, row["id"], row["job_id"])
        return row["id"], asyncio.create_task(work)

    async def handle(self, kind: str, index_id: UUID) -> None:
        job = ClaimedJob(self.tenant, UUID(int=1), kind, None, {"index": str(index_id)}, 1, 5)
        await HANDLERS[kind](self.context, job)

    async def texts(self, index_id: UUID) -> dict[UUID, list[str]]:
        """Return the texts of each document in a search index."""
        rows = await self.owner.fetch(
            "select document_id, array_agg(content order by ordinal) as said from chunk where index_id = $1 group by 1",
            index_id,
        )
        return {row["document_id"]: row["said"] for row in rows}

    async def has(self, index_id: UUID) -> bool:
        """Return whether a search index has chunks."""
        return bool(await self.owner.fetchval("select count(*) from chunk where index_id = $1", index_id))

    async def has_requests(self) -> bool:
        """Return whether the model has received a request."""
        return self.workshop.endpoint.request_count > 0

    async def found(self, query: str, **fields: Any) -> list[str]:
        request = SearchRequest([query], knowledge_bases=["default"], top_k=50, **fields)
        result = await self.services.retrieval.search(request)
        assert result.warnings == []
        return [hit.chunk.content for hit in result.hits]


def text(number: int) -> str:
    """Return a text of some passages of different sizes."""
    return "\n\n".join(
        f"# Part {part}\n\n" + " ".join(f"Volume{number} tells of heron {part} and otter {n}." for n in range(8))
        for part in range(3)
    )


@pytest.fixture
async def case(workshop: Workshop, other_model: EmbeddingServer) -> AsyncIterator[ReindexCase]:
    """Services of a new tenant, with reset endpoints; at the end the tables must be consistent."""
    workshop.endpoint.reset()
    other_model.reset()
    yield ReindexCase(workshop, await workshop.new_tenant())
    workshop.endpoint.reset()
    workshop.endpoint.refused_word, workshop.endpoint.latency_seconds = None, 0.0
    await workshop.end_whole()


def received_texts(endpoint: EmbeddingServer) -> list[str]:
    return [one for request in endpoint.received for one in request.inputs]


@pytest.mark.capability("reindex-equal")
async def test_reindex_result_equals_fresh_ingestion(case: ReindexCase, other_model: EmbeddingServer) -> None:
    await case.services.knowledge_bases.create(
        NewKnowledgeBase("anew", model="others", chunking=SMALL, language="german")
    )
    wanted = await case.add(2, kb="anew")
    documents = await case.add(2)
    other_model.reset()
    requests = len(list(case.workshop.endpoint.received))
    await case.start(model="others", chunking=SMALL, language="german")
    await case.work()
    assert case.workshop.endpoint.request_count == requests
    assert len(received_texts(other_model)) == len(set(received_texts(other_model)))
    kb = await case.kb()
    assert (kb.reindex_progress, kb.row.language, kb.chunking, kb.index.dim) == (None, "german", SMALL, OTHER_SIZE)
    anew = (await case.services.knowledge_bases.find("anew")).index.id
    columns = "c.ordinal, c.content, c.start_offset, c.end_offset, c.token_count, c.section_titles, c.node_path"
    seen = "l.metadata - '{$document_id,$created_at,$instants,$node}'::text[]"
    lanes = f"l.dl, l.scope_key, {seen}, l.terms::text, e.embedding::text"
    sql = (
        f"select {columns}, {lanes} from chunk c join chunk_lexical l on l.index_id = c.index_id and l.chunk_id = c.id"
        " join chunk_embedding e on e.index_id = c.index_id and e.chunk_id = c.id"
        " where c.index_id = $1 and c.document_id = $2 order by c.ordinal"
    )
    # The weights start from the former mean length; a maintenance run makes them equal.
    await case.context.index_maintenance.maintain(case.tenant, anew)
    await case.context.index_maintenance.maintain(case.tenant, kb.index.id)
    for one, other in zip(wanted, documents, strict=True):
        expected = [tuple(row) for row in await case.owner.fetch(sql, anew, one.id)]
        made = [tuple(row) for row in await case.owner.fetch(sql, kb.index.id, other.id)]
        assert made == expected
        assert len(made) > 3


@pytest.mark.capability("reindex-resume")
async def test_reindex_interrupted_continues(case: ReindexCase) -> None:
    documents = await case.add(5)
    endpoint = case.workshop.endpoint
    await case.start()
    endpoint.reset()
    endpoint.fail("slow", times=3, seconds=0.0)
    endpoint.fail(503, times=None, retry_after="500")
    with pytest.raises(EmbeddingUnavailable):
        await case.work()
    first = received_texts(endpoint)[: -len(endpoint.received[-1].inputs)]
    told = (await case.kb()).reindex_progress
    assert told is not None
    assert (told.state, told.total) == ("building", 5)
    building = await case.index("building")
    assert len(await case.texts(building["id"])) == 3
    assert await case.workshop.inconsistencies() == {}
    endpoint.reset()
    await case.work()
    again = received_texts(endpoint)
    assert len(first) + len(again) == len({*first, *again})
    assert (await case.kb()).index.id == building["id"]
    assert set(await case.texts(building["id"])) == {document.id for document in documents}


async def test_reindex_cancelled_in_the_middle_continues(case: ReindexCase) -> None:
    await case.add(4)
    await case.start()
    case.workshop.endpoint.latency_seconds = 0.05
    building, working = await case.working()
    await until(lambda: case.has(building))
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working
    assert (await case.index("building"))["id"] == building
    case.workshop.endpoint.latency_seconds = 0.0
    await case.work()
    assert (await case.kb()).index.id == building


async def test_reindex_yields_after_time_slice(case: ReindexCase) -> None:
    await case.add(3)
    await case.start()
    short = replace(case.context.reindexer, slice_seconds=0.0)
    seen = []
    while (row := await case.index("building")) is not None:
        seen.append((row["job_id"], len(await case.texts(row["id"]))))
        await case.work(short)
        # The former job has nothing to do any more.
        requests = case.workshop.endpoint.request_count
        await short.run_slice(case.db, row["id"], row["job_id"])
        assert case.workshop.endpoint.request_count == requests
    assert [count for _, count in seen] == [0, 1, 2, 3][: len(seen)]
    assert len({job for job, _ in seen}) == len(seen) >= 3
    jobs = await case.owner.fetch(
        "select priority from job where tenant_id = $1 and kind = $2", case.tenant, REINDEX_JOB
    )
    assert sorted(row["priority"] for row in jobs) == [0] * (len(seen) - 1) + [10]


async def test_reindex_stops_at_document_that_cannot_be_built(case: ReindexCase) -> None:
    await case.add(1)
    bad = await add_text(case.services, "The walrus is refused.", external_id="bad")
    await case.workshop.ingest(bad)
    await case.start()
    case.workshop.endpoint.refused_word = "walrus"
    await case.work()
    told = (await case.kb()).reindex_progress
    assert told is not None
    assert (told.state, told.error and told.error["code"]) == ("failed", "embedding_rejected")
    assert told.error is not None
    assert told.error["document"].startswith("doc_")
    assert len(await case.found("walrus", strategy="lexical")) == 1
    # Uploads during that time do not pay for the reindexing.
    requests = case.workshop.endpoint.request_count
    await case.add(1)
    late = await add_text(case.services, "The gull is late.")
    await case.workshop.ingest(late)
    assert case.workshop.endpoint.request_count == requests + 1
    await case.work()
    assert (await case.kb()).reindex_progress == told
    # The same request again continues it; a different one would start another reindexing.
    case.workshop.endpoint.refused_word = None
    with pytest.raises(ReindexInProgress):
        await case.start(chunking=Chunking("headered", 40, 0))
    await case.start()
    await case.work()
    kb = await case.kb()
    assert (kb.reindex_progress, kb.chunking, kb.document_count) == (None, SMALL, 3)
    assert set(await case.texts(kb.index.id)) >= {bad.id, late.id}


async def test_reindex_lost_job_is_reported(case: ReindexCase) -> None:
    await case.add(1)
    await case.start()
    await case.owner.execute(
        "update job set state = 'dead', error = '{\"code\": \"embedding_unavailable\", \"message\": \"Down.\"}'"
        " where tenant_id = $1 and kind = $2", case.tenant, REINDEX_JOB,
    )  # fmt: skip
    told = (await case.kb()).reindex_progress
    assert told is not None
    assert told.state == "failed"
    assert told.error == {"code": "embedding_unavailable", "message": "Down.", "document": None}
    await case.start()
    told = (await case.kb()).reindex_progress
    assert told is not None
    assert told.state == "building"
    assert (
        await case.owner.fetchval("select count(*) from job where tenant_id = $1 and state = 'dead'", case.tenant) == 0
    )
    # Two requests share one job.
    before = await case.index("building")
    await case.start()
    assert (await case.index("building"))["job_id"] == before["job_id"]
    await case.workshop.drop_jobs()
    told = (await case.kb()).reindex_progress
    assert told is not None
    assert told.error is not None


async def test_reindex_includes_concurrent_changes(case: ReindexCase) -> None:
    """New, replaced, deleted and promoted documents, and new metadata, are in both generations."""
    documents = await case.add(4)
    private = await add_text(
        case.services, "The bittern hides.", scope=DocumentScope(user_id="u"), metadata={"year": 2020}
    )
    await case.workshop.ingest(private)
    await case.start()
    short = replace(case.context.reindexer, slice_seconds=0.0)
    for _ in range(3):
        await case.work(short)
    building = (await case.index("building"))["id"]
    assert len(await case.texts(building)) == 3
    built = [one for one in documents if one.id in await case.texts(building)]
    late = await add_text(case.services, "A late gull.")
    replaced = await add_text(case.services, "The heron is another.", external_id=built[0].external_id)
    assert replaced.id == built[0].id
    await case.services.deletions.delete("default", built[1].id)
    await case.services.documents.update("default", private.id, {"metadata": {"year": 2024}, "scope": DocumentScope()})
    await case.services.documents.update("default", built[2].id, {"metadata": {"year": 2024}})
    for one in (late, replaced):
        await case.workshop.ingest(one)
    assert (await case.texts(building))[late.id] == ["A late gull."]
    assert (await case.texts(building))[replaced.id] == ["The heron is another."]
    assert built[1].id not in await case.texts(building)
    assert await case.workshop.inconsistencies() == {}
    # New enforced metadata is written to the generation under construction, too.
    await case.services.knowledge_bases.update("default", {"metadata_filter": {"shelf": 7}})
    await backfill_metadata(case)
    live = (await case.index("live"))["id"]
    assert await stamps(case, building, [late.id, built[2].id]) == await stamps(case, live, [late.id, built[2].id])
    await case.services.knowledge_bases.update("default", {"metadata_filter": {}})
    while await case.index("building") is not None:
        await case.work()
    assert (await case.kb()).index.id == building
    assert await case.found("gull", filter={"$document_id": doc(late.id)}) == ["A late gull."]
    assert await case.found("bittern", filter={"year": 2024}, strategy="lexical") == ["The bittern hides."]
    assert set(await case.texts(building)) == {one.id for one in documents if one != built[1]} | {late.id, private.id}


async def backfill_metadata(case: ReindexCase) -> None:
    kb = (await case.kb()).row.id
    job = ClaimedJob(case.tenant, UUID(int=1), "", None, {"knowledge_base": str(kb)}, 1, 5)
    await HANDLERS["backfill_metadata"](case.context, job)


async def stamps(case: ReindexCase, index_id: UUID, documents: Sequence[UUID]) -> set[tuple[UUID, str, UUID]]:
    found = set()
    for lane in ("chunk_lexical", "chunk_embedding"):
        rows = await case.owner.fetch(
            f"select c.document_id, l.metadata - '{{$node}}'::text[] as metadata, l.scope_key from {lane} l"
            " join chunk c on c.index_id = l.index_id and c.id = l.chunk_id"
            " where l.index_id = $1 and c.document_id = any($2)", index_id, list(documents),
        )  # fmt: skip
        found |= {tuple(row) for row in rows}
    return found


def doc(document_id: UUID) -> str:
    return encode_id("doc", document_id)


async def test_reindex_includes_concurrent_title_change(case: ReindexCase) -> None:
    """The title changes after the document is built, between the switch and the job, and after a rollback."""

    async def retitle(title: str) -> None:
        changed = await case.services.documents.update("default", document.id, {"title": title})
        assert changed.status == "queued"

    document = await add_text(case.services, "The gull is late.", title="Corals")
    other = await add_text(case.services, "The heron waits.")
    for one in (document, other):
        await case.workshop.ingest(one)
    await case.workshop.drop_jobs()
    await case.start()
    await case.work(replace(case.context.reindexer, slice_seconds=0.0))
    building = (await case.index("building"))["id"]
    assert set(await case.texts(building)) == {document.id}
    await retitle("Zebras")
    await case.workshop.run_jobs("ingest_document")
    await retitle("Otters")
    await case.work()
    assert (await case.kb()).index.id == building
    assert await case.found("zebras", strategy="lexical") == ["The gull is late."]
    await case.workshop.run_jobs("ingest_document")
    assert await case.found("otters", strategy="lexical") == ["The gull is late."]
    await case.services.reindexing.rollback("default")
    await case.work()
    assert (await case.kb()).index.id != building
    assert await case.found("otters", strategy="lexical") == ["The gull is late."]
    assert await case.found("corals zebras", strategy="lexical") == []


async def test_reindex_cancelled_generation_is_dropped(case: ReindexCase) -> None:
    await case.add(3)
    live = (await case.index("live"))["id"]
    await case.start(chunking=Chunking("hierarchical", 24, 0))
    nodes = await case.owner.fetchval("select count(*) from node where tenant_id = $1", case.tenant)
    await case.work(replace(case.context.reindexer, slice_seconds=0.0))
    building = await case.index("building")
    assert await case.owner.fetchval("select count(*) from node where tenant_id = $1", case.tenant) > nodes
    await case.services.reindexing.cancel("default")
    kb = await case.kb()
    assert (kb.reindex_progress, kb.retired_at, kb.index.id) == (None, None, live)
    with pytest.raises(NothingToRollBack):
        await case.services.reindexing.rollback("default")
    # A running job stops; the maintenance deletes the index.
    await case.context.reindexer.run_slice(case.db, building["id"], building["job_id"])
    assert len(await case.texts(building["id"])) == 1
    await case.context.index_dropper.scan()
    jobs = await case.owner.fetch("select payload from job where tenant_id = $1 and kind = $2", case.tenant, DROP_JOB)
    assert [json.loads(job["payload"]) for job in jobs] == [{"index": str(building["id"])}]
    await case.handle(DROP_JOB, building["id"])
    assert await case.index("retired") is None
    assert await case.texts(building["id"]) == {}
    assert (
        await case.owner.fetchval("select count(*) from term_document_frequency where index_id = $1", building["id"])
        == 0
    )
    assert await case.owner.fetchval("select count(*) from node where tenant_id = $1", case.tenant) == nodes
    await case.handle(DROP_JOB, building["id"])
    await case.handle(DROP_JOB, live)
    assert (await case.index("live"))["id"] == live


async def test_reindex_previous_generation_is_retained_for_rollback(case: ReindexCase) -> None:
    await case.add(2)
    first = (await case.index("live"))["id"]
    await case.start()
    await case.work()
    await case.context.index_dropper.scan()
    await case.handle(DROP_JOB, first)
    assert (await case.index("retired"))["id"] == first
    # A newer retired generation replaces it, as soon as no search reads it any more.
    await case.start(chunking=Chunking("headered", 40, 0))
    await case.work()
    for index_id, minutes in ((first, 10), ((await case.index("live"))["id"], 0)):
        await case.owner.execute(
            "update search_index set retired_at = retired_at - $2 * interval '1 min' where id = $1", index_id, minutes
        )
    assert {one.index_id for one in await case.context.index_dropper.find_expired()} >= {first}
    await case.handle(DROP_JOB, first)
    rows = await case.owner.fetch("select id from search_index where tenant_id = $1 and state = 'retired'", case.tenant)
    (second,) = [row["id"] for row in rows]
    assert second not in {one.index_id for one in await case.context.index_dropper.find_expired()}
    # The rollback period ends too: no rollback is possible then, whether or not the generation is deleted yet.
    await case.owner.execute("update search_index set retired_at = now() - interval '2 days' where id = $1", second)
    with pytest.raises(NothingToRollBack):
        await case.services.reindexing.rollback("default")
    assert second in {one.index_id for one in await case.context.index_dropper.find_expired()}


async def test_reindex_drops_old_generation_without_owner(case: ReindexCase) -> None:
    """Maintenance needs the owner, and runs first."""
    await case.add(1)
    await case.start()
    await case.work()
    await case.owner.execute(
        "update search_index set retired_at = now() - interval '2 days' where tenant_id = $1 and state = 'retired'",
        case.tenant,
    )
    nobody = OwnerDatabase("postgresql://nobody:secret@127.0.0.1:1/nothing")
    job = ClaimedJob(SYSTEM_TENANT, UUID(int=1), MAINTAIN_INDEXES_JOB, None, {}, 1, 5)
    with pytest.raises(MaintenanceFailed):
        await HANDLERS[MAINTAIN_INDEXES_JOB](replace(case.context, owner_database=nobody), job)
    jobs = await case.owner.fetch("select 1 from job where tenant_id = $1 and kind = $2", case.tenant, DROP_JOB)
    assert len(jobs) == 1


async def test_reindex_cancelled_rollback_leaves_live_generation(case: ReindexCase) -> None:
    await case.add(2)
    first = (await case.index("live"))["id"]
    await case.start()
    await case.work()
    retired_at = (await case.kb()).retired_at
    await case.services.reindexing.rollback("default")
    assert (await case.index("building"))["id"] == first
    with pytest.raises(ReindexInProgress):
        await case.services.reindexing.rollback("default")
    await case.services.reindexing.cancel("default")
    kb = await case.kb()
    assert (kb.reindex_progress, kb.retired_at) == (None, retired_at)
    await case.services.reindexing.rollback("default")
    requests = case.workshop.endpoint.request_count
    await case.work()
    kb = await case.kb()
    assert (kb.index.id, kb.chunking, case.workshop.endpoint.request_count) == (first, Chunking(), requests)


async def test_reindex_stopped_rollback_continues_on_request(case: ReindexCase) -> None:
    await case.add(2)
    first = (await case.index("live"))["id"]
    await case.start()
    await case.work()
    await case.services.reindexing.rollback("default")
    job = (await case.index("building"))["job_id"]
    await case.owner.execute("update job set state = 'dead' where id = $1", job)
    await case.services.reindexing.rollback("default")
    assert (await case.index("building"))["job_id"] != job
    assert not await case.owner.fetchval("select count(*) from job where id = $1", job)
    with pytest.raises(ReindexInProgress):
        await case.services.reindexing.rollback("default")
    await case.work()
    assert (await case.kb()).index.id == first
    # A generation that was built and never live is no target of a rollback.
    await case.start(chunking=Chunking("hierarchical", 24, 0))
    await case.owner.execute("update job set state = 'dead' where tenant_id = $1", case.tenant)
    with pytest.raises(ReindexInProgress):
        await case.services.reindexing.rollback("default")


async def test_reindex_cancelled_during_build_stops(case: ReindexCase) -> None:
    await case.add(4)
    await case.start(chunking=Chunking("hierarchical", 24, 0))
    case.workshop.endpoint.latency_seconds = 0.2
    building, working = await case.working(slice_seconds=3600)
    await until(lambda: case.has(building))
    await case.services.reindexing.cancel("default")
    asked = case.workshop.endpoint.request_count
    async with asyncio.timeout(HANG_SECONDS):  # long before its time slice is over
        await working
    # the request of the present document may have been sent already
    assert case.workshop.endpoint.request_count <= asked + 1
    assert len(await case.texts(building)) < 4


async def test_reindex_rollback_during_build_is_refused(case: ReindexCase) -> None:
    await case.add(1)
    for _ in range(2):
        await case.start()
        await case.work()
    assert (await case.kb()).retired_at is not None
    await case.services.reindexing.rollback("default")
    assert (await case.kb()).retired_at is None
    await case.services.reindexing.cancel("default")
    assert (await case.kb()).retired_at is not None


async def test_reindex_drop_and_rollback_exclude_each_other(case: ReindexCase) -> None:
    """At the end of the rollback period, both may happen at the same moment."""
    await case.add(1)
    await case.start()
    await case.work()
    retired = await case.index("retired")
    await case.owner.execute(
        "update search_index set retired_at = now() - interval '1 hour' where id = $1", retired["id"]
    )
    window = timedelta(days=1)

    async def give_up() -> bool:
        async with case.db.transaction() as session:
            return await IndexRepository(session, case.tenant, retired["id"]).mark_for_deletion() is not None

    async def has_come() -> bool:
        waits = "select 1 from pg_locks where locktype = 'transactionid' and not granted"
        return dropping.done() or await case.owner.fetchval(waits) is not None

    async with case.db.transaction() as session:
        generations = GenerationRepository(session, case.tenant)
        assert await generations.find_rollback_target(retired["kb_id"], max_age=window) is not None
        dropping = asyncio.create_task(give_up())
        await until(has_come)
        await generations.begin_build(retired["id"])
    assert not await dropping
    assert (await case.index("building"))["id"] == retired["id"]
    await case.services.reindexing.cancel("default")
    assert await give_up()
    async with case.db.transaction() as session:
        assert (
            await GenerationRepository(session, case.tenant).find_rollback_target(retired["kb_id"], max_age=window)
            is None
        )


@pytest.mark.parametrize("what", ["knowledge base", "tenant", "documents"])
async def test_reindex_of_deleted_knowledge_base_leaves_nothing(case: ReindexCase, what: str) -> None:
    await case.add(4)
    await case.start(chunking=Chunking("hierarchical", 24, 0))
    case.workshop.endpoint.latency_seconds = 0.05
    building, working = await case.working(slice_seconds=3600)
    await until(lambda: case.has(building))
    if what == "knowledge base":
        await case.services.knowledge_bases.delete("default")
    elif what == "tenant":
        await case.workshop.resources.tenants.purge(case.tenant)
    else:
        await case.services.deletions.delete_many("default", DeletionSelection(filter={}), confirm="default")
    # Without the tenant there is no account to pay from: the job is deleted with it, whatever its error.
    with suppress(IntegrityError):
        async with asyncio.timeout(HANG_SECONDS):  # long before its time slice is over
            await working
    await case.workshop.run_jobs(PURGE_KNOWLEDGE_BASE_JOB)
    for table in ("chunk", "chunk_embedding", "chunk_lexical", "node", "document_text"):
        assert await case.owner.fetchval(f"select count(*) from {table} where tenant_id = $1", case.tenant) == 0, table
    for table in ("term_document_frequency", "index_totals"):
        key = "df" if table == "term_document_frequency" else "chunks"
        assert not await case.owner.fetchval(f"select sum({key}) from {table} where tenant_id = $1", case.tenant), table
    if what != "documents":
        assert await case.owner.fetchval("select count(*) from search_index where tenant_id = $1", case.tenant) == 0


async def test_reindex_topics_belong_to_their_generation(case: ReindexCase) -> None:
    """Topics of other sizes are other nodes, and are deleted with the old generation."""
    await case.services.knowledge_bases.create(
        NewKnowledgeBase("topics", chunking=Chunking("hierarchical", 24, 0, {"parent_tokens": 48}))
    )
    (document,) = await case.add(1, kb="topics")

    async def topics() -> list[str]:
        rows = await case.owner.fetch(
            "select substr(t.content, n.start_offset + 1, n.end_offset - n.start_offset) as said"
            "  from node n join document_text t on t.document_id = n.document_id"
            " where n.document_id = $1 and n.kind = 'topic'", document.id,
        )  # fmt: skip
        return [row["said"] for row in rows]

    before = await topics()
    again = ReindexOptions(chunking=Chunking("hierarchical", 24, 0, {"parent_tokens": 96}))
    await case.services.reindexing.start("topics", again)
    row = await case.owner.fetchrow(
        "select * from search_index where tenant_id = $1 and state = 'building'", case.tenant
    )
    await case.context.reindexer.run_slice(case.db, row["id"], row["job_id"])
    both = await topics()
    new = [one for one in both if one not in before]
    assert len(both) == len(before) + len(new)
    assert max(map(len, new)) > max(map(len, before))
    request = SearchRequest(["otter"], knowledge_bases=["topics"], top_k=10, expansion=Expansion("parent"))
    hits = (await case.services.retrieval.search(request)).hits
    assert {hit.text_span.text for hit in hits} <= set(new)
    await case.owner.execute(
        "update search_index set retired_at = now() - interval '2 days' where tenant_id = $1 and state = 'retired'",
        case.tenant,
    )
    old = await case.owner.fetchval(
        "select id from search_index where tenant_id = $1 and state = 'retired'", case.tenant
    )
    await case.handle(DROP_JOB, old)
    assert sorted(await topics()) == sorted(new)


async def test_reindex_sentences_stay_while_another_generation_is_dropped(case: ReindexCase) -> None:
    (document,) = await case.add(1)
    sentences = "select count(*) from node where document_id = $1 and kind = 'sentence'"
    with_sentences = Chunking("sentence", 24, 0)
    await case.start(chunking=with_sentences)
    await case.work()
    dropped = (await case.index("live"))["id"]
    await case.start()
    await case.work()
    await case.owner.execute("update search_index set retired_at = null where id = $1", dropped)
    await case.context.index_dropper.delete_chunks(case.tenant, dropped)
    before = await case.owner.fetchval(sentences, document.id)
    waits = "select count(*) > 0 from pg_locks where locktype = 'transactionid' and not granted"
    async with case.owner.transaction():
        await case.owner.execute("select from document where id = $1 for update", document.id)
        clearing = asyncio.create_task(delete_unreferenced_nodes(case.db, document.kb_id))
        await until(lambda: case.owner.fetchval(waits))
        await case.start(chunking=with_sentences)
    await clearing
    await case.context.index_dropper.remove(case.tenant, dropped)
    assert await case.owner.fetchval(sentences, document.id) == before > 0


async def test_reindex_provided_chunks_keep_their_boundaries(case: ReindexCase, other_model: EmbeddingServer) -> None:
    vector = [1.0] * 64
    given = [
        ProvidedChunk("A heron that nobody would cut like this", {"year": 2020}, ("Birds",), 3, vector),
        ProvidedChunk("and an otter.", {}, (), None),
    ]
    document = (await case.services.uploads.upload_chunks("default", given, DocumentFields())).document
    await case.workshop.ingest(document)
    columns = "content, start_offset, end_offset, section_titles, page, node_path, metadata"
    sql = f"select {columns} from chunk where index_id = $1 order by ordinal"
    before = await case.owner.fetch(sql, (await case.index("live"))["id"])
    embedding = "select embedding::text from chunk_embedding where index_id = $1 order by embedding::text"
    vectors = await case.owner.fetch(embedding, (await case.index("live"))["id"])
    # With the same model, the vectors provided by the owner remain valid.
    await case.start(chunking=SMALL)
    await case.work()
    assert await case.owner.fetch(sql, (await case.index("live"))["id"]) == before
    assert await case.owner.fetch(embedding, (await case.index("live"))["id"]) == vectors
    assert await case.found("heron", filter={"year": 2020}) == [given[0].text]
    # With another model, the texts are embedded.
    await case.start(model="others", chunking=SMALL)
    await case.work()
    assert len(received_texts(other_model)) == 2
    assert await case.owner.fetch(sql, (await case.index("live"))["id"]) == before
    assert await case.found("heron", filter={"year": 2020}) == [given[0].text]
    # The document is ingested again from its original, whose vector is of another model.
    other_model.reset()
    again = await case.services.documents.reindex("default", document.id)
    await case.workshop.ingest(again)
    assert await case.workshop.status(document.id) == "ready"
    assert len(received_texts(other_model)) == 2


async def test_reindex_stops_at_provided_chunk_that_is_too_long(case: ReindexCase) -> None:
    given = [ProvidedChunk("word " * 80), ProvidedChunk("and an otter")]
    document = (await case.services.uploads.upload_chunks("default", given, DocumentFields())).document
    await case.workshop.ingest(document)
    await case.start(model="others", chunking=SMALL)
    await case.work()
    told = (await case.kb()).reindex_progress
    assert told is not None
    assert told.error is not None
    assert (told.error["code"], told.error["document"]) == ("too_large", doc(document.id))


async def test_reindex_stops_at_provided_chunk_with_too_many_terms(case: ReindexCase) -> None:
    """In English a plural has the term of its singular; in Turkish it is a separate term."""
    words = " ".join(f"kor{number:05}bel kor{number:05}bels" for number in range(MAX_TERMS // 2 + 1))
    given = [ProvidedChunk("A heron."), ProvidedChunk(words, vector=[1.0] * 64)]
    document = (await case.services.uploads.upload_chunks("default", given, DocumentFields())).document
    endpoint = case.workshop.endpoint
    endpoint.refused_word = "heron"  # so that it would be embedded with the next generation
    await case.workshop.ingest(document)
    endpoint.refused_word = None
    assert await case.workshop.status(document.id) == "ready"
    endpoint.reset()
    await case.start(language="turkish")
    await case.work()
    assert received_texts(endpoint) == []
    told = (await case.kb()).reindex_progress
    assert told is not None
    assert told.error is not None
    assert (told.state, told.error["code"], told.error["document"]) == ("failed", "too_large", doc(document.id))
    assert "index 1 has 16,002 different terms" in told.error["message"]
    assert await case.found("heron", strategy="lexical") == [given[0].text]
    await case.services.deletions.delete("default", document.id)  # a chunk without a vector counts as an inconsistency


async def test_reindex_to_auto_uses_language_of_each_document(case: ReindexCase) -> None:
    texts = {
        "german": "Die alten Häuser am Fluss stehen schon lange leer, und niemand hat sie in den Jahren gekauft.",
        "english": "The old houses at the river have been empty for a long time, and nobody has bought them in years.",
    }
    documents = {}
    for language, said in texts.items():
        documents[language] = await add_text(case.services, said)
        await case.workshop.ingest(documents[language])
    await case.start(language="auto")
    await case.work()
    kb = await case.kb()
    assert (kb.row.language, sorted(kb.languages)) == ("auto", ["english", "german"])
    for language, query in (("german", "Haus"), ("english", "house")):
        assert await case.found(query, strategy="lexical") == [texts[language]]
        assert (await case.workshop.document(documents[language].id))["language"] == language
    # Back to one model for all.
    await case.start(language="english")
    await case.work()
    assert await case.found("Haus", strategy="lexical") == []
    assert (await case.workshop.document(documents["german"].id))["language"] == "english"


async def test_reindex_filters_use_live_version(case: ReindexCase) -> None:
    """A newer version that failed has changed the document's row already."""
    document = await add_text(case.services, "The first version.", external_id="a", title="First", metadata={"v": 1})
    await case.workshop.ingest(document)
    newer = await add_text(case.services, "The second.", external_id="a", title="Second", metadata={"v": 2})
    assert newer.id == document.id
    await case.start()
    await case.work()
    assert await case.found("version", filter={"$title": "First", "v": 1}) == ["The first version."]
    await case.workshop.ingest(newer)
    assert await case.found("second", filter={"$title": "Second", "v": 2}) == ["The second."]


async def test_reindex_includes_text_rewritten_during_build(case: ReindexCase) -> None:
    """A change of the encoding, for example: the version is the same, the text is not."""
    (document,) = await case.add(1)
    await case.start()
    case.workshop.endpoint.latency_seconds = 0.3
    case.workshop.endpoint.reset()
    _, working = await case.working()
    await until(lambda: case.has_requests())
    async with case.owner.transaction():
        await case.owner.execute(
            "update document_text set content = replace(content, 'heron', 'bison') where document_id = $1", document.id
        )
    await working
    live = await case.index("live")
    assert any("bison" in one for one in (await case.texts(live["id"]))[document.id])
    assert live["settings"] is None


async def test_reindex_large_generation_has_vector_index_before_it_is_live(case: ReindexCase) -> None:
    await case.add(3)
    owner = OwnerDatabase(case.workshop.urls.owner)
    context = replace(case.context, owner_database=owner)
    maintenance = replace(context.index_maintenance, threshold=8)
    seen: list[str] = []

    async def prepare(tenant_id: UUID, index_id: UUID) -> bool:
        async with owner.connect() as other:
            assert await other.try_lock()
            assert not await maintenance.prepare(tenant_id, index_id)
        ready = await maintenance.prepare(tenant_id, index_id)
        seen.append((await case.index("building"))["vector_index"])
        await maintenance.scan()
        seen.append((await case.index("building"))["vector_index"])
        return ready

    await case.start()
    await case.work(replace(case.context.reindexer, prepare_index=prepare))
    live = await case.index("live")
    assert (seen, live["vector_index"], live["built_chunks"]) == (
        ["hnsw", "hnsw"],
        "hnsw",
        await case.owner.fetchval("select count(*) from chunk where index_id = $1", live["id"]),
    )
    names = await case.owner.fetch("select relname from pg_class where relname like '%' || $1", live["id"].hex)
    assert len(names) == 5
    # A document cancelled after that is removed from it first.
    await case.start(chunking=Chunking("headered", 40, 0))
    index_id = (await case.index("building"))["id"]

    async def cancelled(tenant_id: UUID, index_id: UUID) -> bool:
        assert await maintenance.prepare(tenant_id, index_id)
        await case.services.reindexing.cancel("default")
        return True

    await case.work(replace(case.context.reindexer, prepare_index=cancelled))
    job = ClaimedJob(case.tenant, UUID(int=1), DROP_JOB, None, {"index": str(index_id)}, 1, 5)
    await HANDLERS[DROP_JOB](context, job)
    names = await case.owner.fetch("select relname from pg_class where relname like '%' || $1", index_id.hex)
    assert names == []


async def test_reindex_waiting_reason_is_reported(case: ReindexCase) -> None:
    """No worker has the model, or the tokens of the day are used up. Neither is reported as a failure."""
    await case.add(1)
    await case.workshop.drop_jobs()
    await case.start()
    queue, lease = case.workshop.resources.queue, timedelta(minutes=1)

    async def reported() -> tuple[str, Any]:
        reindexing = (await case.kb()).reindex_progress
        assert reindexing is not None
        return reindexing.state, reindexing.last_error and (
            reindexing.last_error["code"],
            reindexing.last_error["message"],
        )

    job = await queue.claim("w", lease, tenant_concurrency=1)
    assert job is not None
    assert (job.kind, await reported()) == (REINDEX_JOB, ("building", None))
    assert await queue.hand_off(job, "w", lease)
    assert await reported() == (
        "building", ("index_mismatch", "No worker has the embedding model yet. Start a worker that has it."),
    )  # fmt: skip
    job = await queue.claim("w", lease, tenant_concurrency=1)
    assert job is not None
    spent = DailyTokenLimitReached(1, datetime.now(UTC))
    await queue.postpone(job, "w", describe_failure(spent), spent.until)
    assert await reported() == ("building", (spent.code, spent.message))


async def test_reindex_to_removed_model_is_refused(case: ReindexCase) -> None:
    await case.add(1)
    await case.start(model="others", chunking=SMALL)
    await case.owner.execute(
        "update search_index set identity = jsonb_set(identity, '{model}', '\"gone\"') where tenant_id = $1"
        " and state = 'building'", case.tenant,
    )  # fmt: skip
    with pytest.raises(IndexMismatch, match="gone"):
        await case.work()
    # Uploads do not stop that.
    late = await add_text(case.services, "A late gull.")
    await case.workshop.ingest(late)
    assert await case.workshop.status(late.id) == "ready"
    # If the live generation's chunker is missing, the new one is built with the default.
    await case.services.reindexing.cancel("default")
    await case.owner.execute(
        "update search_index set identity = jsonb_set(identity, '{model}', '\"gone\"') where tenant_id = $1"
        " and state = 'live'", case.tenant,
    )  # fmt: skip
    await case.start()
    await case.work()
    assert (await case.kb()).index.identity["model"] == "words"
    with pytest.raises(IndexMismatch, match="gone"):
        await case.services.reindexing.rollback("default")
