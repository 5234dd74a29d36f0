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
class Desk:
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

    async def has_asked(self) -> bool:
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
async def desk(workshop: Workshop, other_model: EmbeddingServer) -> AsyncIterator[Desk]:
    """Services of a new tenant, with reset endpoints; at the end the tables must be consistent."""
    workshop.endpoint.reset()
    other_model.reset()
    yield Desk(workshop, await workshop.new_tenant())
    workshop.endpoint.reset()
    workshop.endpoint.refused_word, workshop.endpoint.latency_seconds = None, 0.0
    await workshop.end_whole()


def asked(endpoint: EmbeddingServer) -> list[str]:
    return [one for request in endpoint.received for one in request.inputs]


async def test_it_is_the_same_as_if_it_had_been_so_from_the_start(desk: Desk, other_model: EmbeddingServer) -> None:
    await desk.services.knowledge_bases.create(
        NewKnowledgeBase("anew", model="others", chunking=SMALL, language="german")
    )
    wanted = await desk.add(2, kb="anew")
    documents = await desk.add(2)
    other_model.reset()
    requests = len(list(desk.workshop.endpoint.received))
    await desk.start(model="others", chunking=SMALL, language="german")
    await desk.work()
    assert desk.workshop.endpoint.request_count == requests
    assert len(asked(other_model)) == len(set(asked(other_model)))
    kb = await desk.kb()
    assert (kb.reindex_progress, kb.row.language, kb.chunking, kb.index.dim) == (None, "german", SMALL, OTHER_SIZE)
    anew = (await desk.services.knowledge_bases.find("anew")).index.id
    columns = "c.ordinal, c.content, c.start_offset, c.end_offset, c.token_count, c.section_titles, c.node_path"
    seen = "l.metadata - '{$document_id,$created_at,$instants,$node}'::text[]"
    lanes = f"l.dl, l.scope_key, {seen}, l.terms::text, e.embedding::text"
    sql = (
        f"select {columns}, {lanes} from chunk c join chunk_lexical l on l.index_id = c.index_id and l.chunk_id = c.id"
        " join chunk_embedding e on e.index_id = c.index_id and e.chunk_id = c.id"
        " where c.index_id = $1 and c.document_id = $2 order by c.ordinal"
    )
    # The weights start from the former mean length; a maintenance run makes them equal.
    await desk.context.index_maintenance.maintain(desk.tenant, anew)
    await desk.context.index_maintenance.maintain(desk.tenant, kb.index.id)
    for one, other in zip(wanted, documents, strict=True):
        expected = [tuple(row) for row in await desk.owner.fetch(sql, anew, one.id)]
        made = [tuple(row) for row in await desk.owner.fetch(sql, kb.index.id, other.id)]
        assert made == expected
        assert len(made) > 3


async def test_it_goes_on_where_it_was(desk: Desk) -> None:
    documents = await desk.add(5)
    endpoint = desk.workshop.endpoint
    await desk.start()
    endpoint.reset()
    endpoint.fail("slow", times=3, seconds=0.0)
    endpoint.fail(503, times=None, retry_after="500")
    with pytest.raises(EmbeddingUnavailable):
        await desk.work()
    first = asked(endpoint)[: -len(endpoint.received[-1].inputs)]
    told = (await desk.kb()).reindex_progress
    assert told is not None
    assert (told.state, told.total) == ("building", 5)
    building = await desk.index("building")
    assert len(await desk.texts(building["id"])) == 3
    assert await desk.workshop.inconsistencies() == {}
    endpoint.reset()
    await desk.work()
    again = asked(endpoint)
    assert len(first) + len(again) == len({*first, *again})
    assert (await desk.kb()).index.id == building["id"]
    assert set(await desk.texts(building["id"])) == {document.id for document in documents}


async def test_one_that_is_cut_off_in_the_middle(desk: Desk) -> None:
    await desk.add(4)
    await desk.start()
    desk.workshop.endpoint.latency_seconds = 0.05
    building, working = await desk.working()
    await until(lambda: desk.has(building))
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working
    assert (await desk.index("building"))["id"] == building
    desk.workshop.endpoint.latency_seconds = 0.0
    await desk.work()
    assert (await desk.kb()).index.id == building


async def test_it_hands_on_after_a_while(desk: Desk) -> None:
    await desk.add(3)
    await desk.start()
    short = replace(desk.context.reindexer, slice_seconds=0.0)
    seen = []
    while (row := await desk.index("building")) is not None:
        seen.append((row["job_id"], len(await desk.texts(row["id"]))))
        await desk.work(short)
        # The former job has nothing to do any more.
        requests = desk.workshop.endpoint.request_count
        await short.run_slice(desk.db, row["id"], row["job_id"])
        assert desk.workshop.endpoint.request_count == requests
    assert [count for _, count in seen] == [0, 1, 2, 3][: len(seen)]
    assert len({job for job, _ in seen}) == len(seen) >= 3
    jobs = await desk.owner.fetch(
        "select priority from job where tenant_id = $1 and kind = $2", desk.tenant, REINDEX_JOB
    )
    assert sorted(row["priority"] for row in jobs) == [0] * (len(seen) - 1) + [10]


async def test_a_document_that_cannot_be_built_stops_it(desk: Desk) -> None:
    await desk.add(1)
    bad = await add_text(desk.services, "The walrus is refused.", external_id="bad")
    await desk.workshop.ingest(bad)
    await desk.start()
    desk.workshop.endpoint.refused_word = "walrus"
    await desk.work()
    told = (await desk.kb()).reindex_progress
    assert told is not None
    assert (told.state, told.error and told.error["code"]) == ("failed", "embedding_rejected")
    assert told.error is not None
    assert told.error["document"].startswith("doc_")
    assert len(await desk.found("walrus", strategy="lexical")) == 1
    # Uploads during that time do not pay for the reindexing.
    requests = desk.workshop.endpoint.request_count
    await desk.add(1)
    late = await add_text(desk.services, "The gull is late.")
    await desk.workshop.ingest(late)
    assert desk.workshop.endpoint.request_count == requests + 1
    await desk.work()
    assert (await desk.kb()).reindex_progress == told
    # The same request again continues it; a different one would start another reindexing.
    desk.workshop.endpoint.refused_word = None
    with pytest.raises(ReindexInProgress):
        await desk.start(chunking=Chunking("headered", 40, 0))
    await desk.start()
    await desk.work()
    kb = await desk.kb()
    assert (kb.reindex_progress, kb.chunking, kb.document_count) == (None, SMALL, 3)
    assert set(await desk.texts(kb.index.id)) >= {bad.id, late.id}


async def test_a_job_that_is_lost_is_told_of(desk: Desk) -> None:
    await desk.add(1)
    await desk.start()
    await desk.owner.execute(
        "update job set state = 'dead', error = '{\"code\": \"embedding_unavailable\", \"message\": \"Down.\"}'"
        " where tenant_id = $1 and kind = $2", desk.tenant, REINDEX_JOB,
    )  # fmt: skip
    told = (await desk.kb()).reindex_progress
    assert told is not None
    assert told.state == "failed"
    assert told.error == {"code": "embedding_unavailable", "message": "Down.", "document": None}
    await desk.start()
    told = (await desk.kb()).reindex_progress
    assert told is not None
    assert told.state == "building"
    assert (
        await desk.owner.fetchval("select count(*) from job where tenant_id = $1 and state = 'dead'", desk.tenant) == 0
    )
    # Two requests share one job.
    before = await desk.index("building")
    await desk.start()
    assert (await desk.index("building"))["job_id"] == before["job_id"]
    await desk.workshop.drop_jobs()
    told = (await desk.kb()).reindex_progress
    assert told is not None
    assert told.error is not None


async def test_what_changes_meanwhile(desk: Desk) -> None:
    """New, replaced, deleted and promoted documents, and new metadata, are in both generations."""
    documents = await desk.add(4)
    private = await add_text(
        desk.services, "The bittern hides.", scope=DocumentScope(user_id="u"), metadata={"year": 2020}
    )
    await desk.workshop.ingest(private)
    await desk.start()
    short = replace(desk.context.reindexer, slice_seconds=0.0)
    for _ in range(3):
        await desk.work(short)
    building = (await desk.index("building"))["id"]
    assert len(await desk.texts(building)) == 3
    built = [one for one in documents if one.id in await desk.texts(building)]
    late = await add_text(desk.services, "A late gull.")
    replaced = await add_text(desk.services, "The heron is another.", external_id=built[0].external_id)
    assert replaced.id == built[0].id
    await desk.services.deletions.delete("default", built[1].id)
    await desk.services.documents.update("default", private.id, {"metadata": {"year": 2024}, "scope": DocumentScope()})
    await desk.services.documents.update("default", built[2].id, {"metadata": {"year": 2024}})
    for one in (late, replaced):
        await desk.workshop.ingest(one)
    assert (await desk.texts(building))[late.id] == ["A late gull."]
    assert (await desk.texts(building))[replaced.id] == ["The heron is another."]
    assert built[1].id not in await desk.texts(building)
    assert await desk.workshop.inconsistencies() == {}
    # New enforced metadata is written to the generation under construction, too.
    await desk.services.knowledge_bases.update("default", {"metadata_filter": {"shelf": 7}})
    await restamp(desk)
    live = (await desk.index("live"))["id"]
    assert await stamps(desk, building, [late.id, built[2].id]) == await stamps(desk, live, [late.id, built[2].id])
    await desk.services.knowledge_bases.update("default", {"metadata_filter": {}})
    while await desk.index("building") is not None:
        await desk.work()
    assert (await desk.kb()).index.id == building
    assert await desk.found("gull", filter={"$document_id": doc(late.id)}) == ["A late gull."]
    assert await desk.found("bittern", filter={"year": 2024}, strategy="lexical") == ["The bittern hides."]
    assert set(await desk.texts(building)) == {one.id for one in documents if one != built[1]} | {late.id, private.id}


async def restamp(desk: Desk) -> None:
    kb = (await desk.kb()).row.id
    job = ClaimedJob(desk.tenant, UUID(int=1), "", None, {"knowledge_base": str(kb)}, 1, 5)
    await HANDLERS["backfill_metadata"](desk.context, job)


async def stamps(desk: Desk, index_id: UUID, documents: Sequence[UUID]) -> set[tuple[UUID, str, UUID]]:
    found = set()
    for lane in ("chunk_lexical", "chunk_embedding"):
        rows = await desk.owner.fetch(
            f"select c.document_id, l.metadata - '{{$node}}'::text[] as metadata, l.scope_key from {lane} l"
            " join chunk c on c.index_id = l.index_id and c.id = l.chunk_id"
            " where l.index_id = $1 and c.document_id = any($2)", index_id, list(documents),
        )  # fmt: skip
        found |= {tuple(row) for row in rows}
    return found


def doc(document_id: UUID) -> str:
    return encode_id("doc", document_id)


async def test_a_title_that_changes_meanwhile_is_in_every_generation(desk: Desk) -> None:
    """The title changes after the document is built, between the switch and the job, and after a rollback."""

    async def retitle(title: str) -> None:
        changed = await desk.services.documents.update("default", document.id, {"title": title})
        assert changed.status == "queued"

    document = await add_text(desk.services, "The gull is late.", title="Corals")
    other = await add_text(desk.services, "The heron waits.")
    for one in (document, other):
        await desk.workshop.ingest(one)
    await desk.workshop.drop_jobs()
    await desk.start()
    await desk.work(replace(desk.context.reindexer, slice_seconds=0.0))
    building = (await desk.index("building"))["id"]
    assert set(await desk.texts(building)) == {document.id}
    await retitle("Zebras")
    await desk.workshop.run_jobs("ingest_document")
    await retitle("Otters")
    await desk.work()
    assert (await desk.kb()).index.id == building
    assert await desk.found("zebras", strategy="lexical") == ["The gull is late."]
    await desk.workshop.run_jobs("ingest_document")
    assert await desk.found("otters", strategy="lexical") == ["The gull is late."]
    await desk.services.reindexing.rollback("default")
    await desk.work()
    assert (await desk.kb()).index.id != building
    assert await desk.found("otters", strategy="lexical") == ["The gull is late."]
    assert await desk.found("corals zebras", strategy="lexical") == []


async def test_cancelled(desk: Desk) -> None:
    await desk.add(3)
    live = (await desk.index("live"))["id"]
    await desk.start(chunking=Chunking("hierarchical", 24, 0))
    nodes = await desk.owner.fetchval("select count(*) from node where tenant_id = $1", desk.tenant)
    await desk.work(replace(desk.context.reindexer, slice_seconds=0.0))
    building = await desk.index("building")
    assert await desk.owner.fetchval("select count(*) from node where tenant_id = $1", desk.tenant) > nodes
    await desk.services.reindexing.cancel("default")
    kb = await desk.kb()
    assert (kb.reindex_progress, kb.retired_at, kb.index.id) == (None, None, live)
    with pytest.raises(NothingToRollBack):
        await desk.services.reindexing.rollback("default")
    # A running job stops; the maintenance deletes the index.
    await desk.context.reindexer.run_slice(desk.db, building["id"], building["job_id"])
    assert len(await desk.texts(building["id"])) == 1
    await desk.context.index_dropper.scan()
    jobs = await desk.owner.fetch("select payload from job where tenant_id = $1 and kind = $2", desk.tenant, DROP_JOB)
    assert [json.loads(job["payload"]) for job in jobs] == [{"index": str(building["id"])}]
    await desk.handle(DROP_JOB, building["id"])
    assert await desk.index("retired") is None
    assert await desk.texts(building["id"]) == {}
    assert (
        await desk.owner.fetchval("select count(*) from term_document_frequency where index_id = $1", building["id"])
        == 0
    )
    assert await desk.owner.fetchval("select count(*) from node where tenant_id = $1", desk.tenant) == nodes
    await desk.handle(DROP_JOB, building["id"])
    await desk.handle(DROP_JOB, live)
    assert (await desk.index("live"))["id"] == live


async def test_the_last_one_is_kept_for_a_while(desk: Desk) -> None:
    await desk.add(2)
    first = (await desk.index("live"))["id"]
    await desk.start()
    await desk.work()
    await desk.context.index_dropper.scan()
    await desk.handle(DROP_JOB, first)
    assert (await desk.index("retired"))["id"] == first
    # A newer retired generation replaces it, as soon as no search reads it any more.
    await desk.start(chunking=Chunking("headered", 40, 0))
    await desk.work()
    for index_id, minutes in ((first, 10), ((await desk.index("live"))["id"], 0)):
        await desk.owner.execute(
            "update search_index set retired_at = retired_at - $2 * interval '1 min' where id = $1", index_id, minutes
        )
    assert {one.index_id for one in await desk.context.index_dropper.find_expired()} >= {first}
    await desk.handle(DROP_JOB, first)
    rows = await desk.owner.fetch("select id from search_index where tenant_id = $1 and state = 'retired'", desk.tenant)
    (second,) = [row["id"] for row in rows]
    assert second not in {one.index_id for one in await desk.context.index_dropper.find_expired()}
    # The rollback period ends too: no rollback is possible then, whether or not the generation is deleted yet.
    await desk.owner.execute("update search_index set retired_at = now() - interval '2 days' where id = $1", second)
    with pytest.raises(NothingToRollBack):
        await desk.services.reindexing.rollback("default")
    assert second in {one.index_id for one in await desk.context.index_dropper.find_expired()}


async def test_old_ones_are_dropped_also_where_the_tables_owner_cannot_be_had(desk: Desk) -> None:
    """Maintenance needs the owner, and runs first."""
    await desk.add(1)
    await desk.start()
    await desk.work()
    await desk.owner.execute(
        "update search_index set retired_at = now() - interval '2 days' where tenant_id = $1 and state = 'retired'",
        desk.tenant,
    )
    nobody = OwnerDatabase("postgresql://nobody:secret@127.0.0.1:1/nothing")
    job = ClaimedJob(SYSTEM_TENANT, UUID(int=1), MAINTAIN_INDEXES_JOB, None, {}, 1, 5)
    with pytest.raises(MaintenanceFailed):
        await HANDLERS[MAINTAIN_INDEXES_JOB](replace(desk.context, owner_database=nobody), job)
    jobs = await desk.owner.fetch("select 1 from job where tenant_id = $1 and kind = $2", desk.tenant, DROP_JOB)
    assert len(jobs) == 1


async def test_a_rollback_that_is_cancelled_leaves_what_it_was(desk: Desk) -> None:
    await desk.add(2)
    first = (await desk.index("live"))["id"]
    await desk.start()
    await desk.work()
    retired_at = (await desk.kb()).retired_at
    await desk.services.reindexing.rollback("default")
    assert (await desk.index("building"))["id"] == first
    with pytest.raises(ReindexInProgress):
        await desk.services.reindexing.rollback("default")
    await desk.services.reindexing.cancel("default")
    kb = await desk.kb()
    assert (kb.reindex_progress, kb.retired_at) == (None, retired_at)
    await desk.services.reindexing.rollback("default")
    requests = desk.workshop.endpoint.request_count
    await desk.work()
    kb = await desk.kb()
    assert (kb.index.id, kb.chunking, desk.workshop.endpoint.request_count) == (first, Chunking(), requests)


async def test_a_rollback_that_has_stopped_goes_on_when_it_is_asked_for_again(desk: Desk) -> None:
    await desk.add(2)
    first = (await desk.index("live"))["id"]
    await desk.start()
    await desk.work()
    await desk.services.reindexing.rollback("default")
    job = (await desk.index("building"))["job_id"]
    await desk.owner.execute("update job set state = 'dead' where id = $1", job)
    await desk.services.reindexing.rollback("default")
    assert (await desk.index("building"))["job_id"] != job
    assert not await desk.owner.fetchval("select count(*) from job where id = $1", job)
    with pytest.raises(ReindexInProgress):
        await desk.services.reindexing.rollback("default")
    await desk.work()
    assert (await desk.kb()).index.id == first
    # A generation that was built and never live is no target of a rollback.
    await desk.start(chunking=Chunking("hierarchical", 24, 0))
    await desk.owner.execute("update job set state = 'dead' where tenant_id = $1", desk.tenant)
    with pytest.raises(ReindexInProgress):
        await desk.services.reindexing.rollback("default")


async def test_what_is_cancelled_meanwhile_is_built_no_further(desk: Desk) -> None:
    await desk.add(4)
    await desk.start(chunking=Chunking("hierarchical", 24, 0))
    desk.workshop.endpoint.latency_seconds = 0.2
    building, working = await desk.working(slice_seconds=3600)
    await until(lambda: desk.has(building))
    await desk.services.reindexing.cancel("default")
    asked = desk.workshop.endpoint.request_count
    async with asyncio.timeout(HANG_SECONDS):  # long before its time slice is over
        await working
    # the request of the present document may have been sent already
    assert desk.workshop.endpoint.request_count <= asked + 1
    assert len(await desk.texts(building)) < 4


async def test_an_older_one_is_none_to_go_back_to_while_the_last_is_built_again(desk: Desk) -> None:
    await desk.add(1)
    for _ in range(2):
        await desk.start()
        await desk.work()
    assert (await desk.kb()).retired_at is not None
    await desk.services.reindexing.rollback("default")
    assert (await desk.kb()).retired_at is None
    await desk.services.reindexing.cancel("default")
    assert (await desk.kb()).retired_at is not None


async def test_an_index_is_dropped_or_gone_back_to_never_both(desk: Desk) -> None:
    """At the end of the rollback period, both may happen at the same moment."""
    await desk.add(1)
    await desk.start()
    await desk.work()
    retired = await desk.index("retired")
    await desk.owner.execute(
        "update search_index set retired_at = now() - interval '1 hour' where id = $1", retired["id"]
    )
    window = timedelta(days=1)

    async def give_up() -> bool:
        async with desk.db.transaction() as session:
            return await IndexRepository(session, desk.tenant, retired["id"]).mark_for_deletion() is not None

    async def has_come() -> bool:
        waits = "select 1 from pg_locks where locktype = 'transactionid' and not granted"
        return dropping.done() or await desk.owner.fetchval(waits) is not None

    async with desk.db.transaction() as session:
        generations = GenerationRepository(session, desk.tenant)
        assert await generations.find_rollback_target(retired["kb_id"], max_age=window) is not None
        dropping = asyncio.create_task(give_up())
        await until(has_come)
        await generations.begin_build(retired["id"])
    assert not await dropping
    assert (await desk.index("building"))["id"] == retired["id"]
    await desk.services.reindexing.cancel("default")
    assert await give_up()
    async with desk.db.transaction() as session:
        assert (
            await GenerationRepository(session, desk.tenant).find_rollback_target(retired["kb_id"], max_age=window)
            is None
        )


@pytest.mark.parametrize("what", ["knowledge base", "tenant", "documents"])
async def test_what_is_deleted_meanwhile_leaves_nothing(desk: Desk, what: str) -> None:
    await desk.add(4)
    await desk.start(chunking=Chunking("hierarchical", 24, 0))
    desk.workshop.endpoint.latency_seconds = 0.05
    building, working = await desk.working(slice_seconds=3600)
    await until(lambda: desk.has(building))
    if what == "knowledge base":
        await desk.services.knowledge_bases.delete("default")
    elif what == "tenant":
        await desk.workshop.resources.tenants.purge(desk.tenant)
    else:
        await desk.services.deletions.delete_many("default", DeletionSelection(filter={}), confirm="default")
    # Without the tenant there is no account to pay from: the job is deleted with it, whatever its error.
    with suppress(IntegrityError):
        async with asyncio.timeout(HANG_SECONDS):  # long before its time slice is over
            await working
    await desk.workshop.run_jobs(PURGE_KNOWLEDGE_BASE_JOB)
    for table in ("chunk", "chunk_embedding", "chunk_lexical", "node", "document_text"):
        assert await desk.owner.fetchval(f"select count(*) from {table} where tenant_id = $1", desk.tenant) == 0, table
    for table in ("term_document_frequency", "index_totals"):
        key = "df" if table == "term_document_frequency" else "chunks"
        assert not await desk.owner.fetchval(f"select sum({key}) from {table} where tenant_id = $1", desk.tenant), table
    if what != "documents":
        assert await desk.owner.fetchval("select count(*) from search_index where tenant_id = $1", desk.tenant) == 0


async def test_parents_are_each_generations_own(desk: Desk) -> None:
    """Topics of other sizes are other nodes, and are deleted with the old generation."""
    await desk.services.knowledge_bases.create(
        NewKnowledgeBase("topics", chunking=Chunking("hierarchical", 24, 0, {"parent_tokens": 48}))
    )
    (document,) = await desk.add(1, kb="topics")

    async def topics() -> list[str]:
        rows = await desk.owner.fetch(
            "select substr(t.content, n.start_offset + 1, n.end_offset - n.start_offset) as said"
            "  from node n join document_text t on t.document_id = n.document_id"
            " where n.document_id = $1 and n.kind = 'topic'", document.id,
        )  # fmt: skip
        return [row["said"] for row in rows]

    before = await topics()
    again = ReindexOptions(chunking=Chunking("hierarchical", 24, 0, {"parent_tokens": 96}))
    await desk.services.reindexing.start("topics", again)
    row = await desk.owner.fetchrow(
        "select * from search_index where tenant_id = $1 and state = 'building'", desk.tenant
    )
    await desk.context.reindexer.run_slice(desk.db, row["id"], row["job_id"])
    both = await topics()
    new = [one for one in both if one not in before]
    assert len(both) == len(before) + len(new)
    assert max(map(len, new)) > max(map(len, before))
    request = SearchRequest(["otter"], knowledge_bases=["topics"], top_k=10, expansion=Expansion("parent"))
    hits = (await desk.services.retrieval.search(request)).hits
    assert {hit.text_span.text for hit in hits} <= set(new)
    await desk.owner.execute(
        "update search_index set retired_at = now() - interval '2 days' where tenant_id = $1 and state = 'retired'",
        desk.tenant,
    )
    old = await desk.owner.fetchval(
        "select id from search_index where tenant_id = $1 and state = 'retired'", desk.tenant
    )
    await desk.handle(DROP_JOB, old)
    assert sorted(await topics()) == sorted(new)


async def test_sentences_stay_for_an_index_that_is_begun_while_others_are_cleared(desk: Desk) -> None:
    (document,) = await desk.add(1)
    sentences = "select count(*) from node where document_id = $1 and kind = 'sentence'"
    with_sentences = Chunking("sentence", 24, 0)
    await desk.start(chunking=with_sentences)
    await desk.work()
    dropped = (await desk.index("live"))["id"]
    await desk.start()
    await desk.work()
    await desk.owner.execute("update search_index set retired_at = null where id = $1", dropped)
    await desk.context.index_dropper.delete_chunks(desk.tenant, dropped)
    before = await desk.owner.fetchval(sentences, document.id)
    waits = "select count(*) > 0 from pg_locks where locktype = 'transactionid' and not granted"
    async with desk.owner.transaction():
        await desk.owner.execute("select from document where id = $1 for update", document.id)
        clearing = asyncio.create_task(delete_unreferenced_nodes(desk.db, document.kb_id))
        await until(lambda: desk.owner.fetchval(waits))
        await desk.start(chunking=with_sentences)
    await clearing
    await desk.context.index_dropper.remove(desk.tenant, dropped)
    assert await desk.owner.fetchval(sentences, document.id) == before > 0


async def test_chunks_that_were_given_keep_their_boundaries(desk: Desk, other_model: EmbeddingServer) -> None:
    vector = [1.0] * 64
    given = [
        ProvidedChunk("A heron that nobody would cut like this", {"year": 2020}, ("Birds",), 3, vector),
        ProvidedChunk("and an otter.", {}, (), None),
    ]
    document = (await desk.services.uploads.upload_chunks("default", given, DocumentFields())).document
    await desk.workshop.ingest(document)
    columns = "content, start_offset, end_offset, section_titles, page, node_path, metadata"
    sql = f"select {columns} from chunk where index_id = $1 order by ordinal"
    before = await desk.owner.fetch(sql, (await desk.index("live"))["id"])
    embedding = "select embedding::text from chunk_embedding where index_id = $1 order by embedding::text"
    vectors = await desk.owner.fetch(embedding, (await desk.index("live"))["id"])
    # With the same model, the vectors provided by the owner remain valid.
    await desk.start(chunking=SMALL)
    await desk.work()
    assert await desk.owner.fetch(sql, (await desk.index("live"))["id"]) == before
    assert await desk.owner.fetch(embedding, (await desk.index("live"))["id"]) == vectors
    assert await desk.found("heron", filter={"year": 2020}) == [given[0].text]
    # With another model, the texts are embedded.
    await desk.start(model="others", chunking=SMALL)
    await desk.work()
    assert len(asked(other_model)) == 2
    assert await desk.owner.fetch(sql, (await desk.index("live"))["id"]) == before
    assert await desk.found("heron", filter={"year": 2020}) == [given[0].text]
    # The document is ingested again from its original, whose vector is of another model.
    other_model.reset()
    again = await desk.services.documents.reindex("default", document.id)
    await desk.workshop.ingest(again)
    assert await desk.workshop.status(document.id) == "ready"
    assert len(asked(other_model)) == 2


async def test_a_given_chunk_that_is_too_long_stops_it(desk: Desk) -> None:
    given = [ProvidedChunk("word " * 80), ProvidedChunk("and an otter")]
    document = (await desk.services.uploads.upload_chunks("default", given, DocumentFields())).document
    await desk.workshop.ingest(document)
    await desk.start(model="others", chunking=SMALL)
    await desk.work()
    told = (await desk.kb()).reindex_progress
    assert told is not None
    assert told.error is not None
    assert (told.error["code"], told.error["document"]) == ("too_large", doc(document.id))


async def test_a_given_chunk_with_too_many_terms_in_the_new_language_stops_it(desk: Desk) -> None:
    """In English a plural has the term of its singular; in Turkish it is a separate term."""
    words = " ".join(f"kor{number:05}bel kor{number:05}bels" for number in range(MAX_TERMS // 2 + 1))
    given = [ProvidedChunk("A heron."), ProvidedChunk(words, vector=[1.0] * 64)]
    document = (await desk.services.uploads.upload_chunks("default", given, DocumentFields())).document
    endpoint = desk.workshop.endpoint
    endpoint.refused_word = "heron"  # so that it would be embedded with the next generation
    await desk.workshop.ingest(document)
    endpoint.refused_word = None
    assert await desk.workshop.status(document.id) == "ready"
    endpoint.reset()
    await desk.start(language="turkish")
    await desk.work()
    assert asked(endpoint) == []
    told = (await desk.kb()).reindex_progress
    assert told is not None
    assert told.error is not None
    assert (told.state, told.error["code"], told.error["document"]) == ("failed", "too_large", doc(document.id))
    assert "index 1 has 16,002 different terms" in told.error["message"]
    assert await desk.found("heron", strategy="lexical") == [given[0].text]
    await desk.services.deletions.delete("default", document.id)  # a chunk without a vector counts as an inconsistency


async def test_each_document_in_its_own_language(desk: Desk) -> None:
    texts = {
        "german": "Die alten Häuser am Fluss stehen schon lange leer, und niemand hat sie in den Jahren gekauft.",
        "english": "The old houses at the river have been empty for a long time, and nobody has bought them in years.",
    }
    documents = {}
    for language, said in texts.items():
        documents[language] = await add_text(desk.services, said)
        await desk.workshop.ingest(documents[language])
    await desk.start(language="auto")
    await desk.work()
    kb = await desk.kb()
    assert (kb.row.language, sorted(kb.languages)) == ("auto", ["english", "german"])
    for language, query in (("german", "Haus"), ("english", "house")):
        assert await desk.found(query, strategy="lexical") == [texts[language]]
        assert (await desk.workshop.document(documents[language].id))["language"] == language
    # Back to one model for all.
    await desk.start(language="english")
    await desk.work()
    assert await desk.found("Haus", strategy="lexical") == []
    assert (await desk.workshop.document(documents["german"].id))["language"] == "english"


async def test_what_filters_see_is_the_live_version_s(desk: Desk) -> None:
    """A newer version that failed has changed the document's row already."""
    document = await add_text(desk.services, "The first version.", external_id="a", title="First", metadata={"v": 1})
    await desk.workshop.ingest(document)
    newer = await add_text(desk.services, "The second.", external_id="a", title="Second", metadata={"v": 2})
    assert newer.id == document.id
    await desk.start()
    await desk.work()
    assert await desk.found("version", filter={"$title": "First", "v": 1}) == ["The first version."]
    await desk.workshop.ingest(newer)
    assert await desk.found("second", filter={"$title": "Second", "v": 2}) == ["The second."]


async def test_a_text_that_is_stored_anew_while_it_is_built(desk: Desk) -> None:
    """A change of the encoding, for example: the version is the same, the text is not."""
    (document,) = await desk.add(1)
    await desk.start()
    desk.workshop.endpoint.latency_seconds = 0.3
    desk.workshop.endpoint.reset()
    _, working = await desk.working()
    await until(lambda: desk.has_asked())
    async with desk.owner.transaction():
        await desk.owner.execute(
            "update document_text set content = replace(content, 'heron', 'bison') where document_id = $1", document.id
        )
    await working
    live = await desk.index("live")
    assert any("bison" in one for one in (await desk.texts(live["id"]))[document.id])
    assert live["settings"] is None


async def test_a_large_one_has_its_vector_index_before_it_is_live(desk: Desk) -> None:
    await desk.add(3)
    owner = OwnerDatabase(desk.workshop.urls.owner)
    context = replace(desk.context, owner_database=owner)
    maintenance = replace(context.index_maintenance, threshold=8)
    seen: list[str] = []

    async def prepare(tenant_id: UUID, index_id: UUID) -> bool:
        async with owner.connect() as other:
            assert await other.try_lock()
            assert not await maintenance.prepare(tenant_id, index_id)
        ready = await maintenance.prepare(tenant_id, index_id)
        seen.append((await desk.index("building"))["vector_index"])
        await maintenance.scan()
        seen.append((await desk.index("building"))["vector_index"])
        return ready

    await desk.start()
    await desk.work(replace(desk.context.reindexer, prepare_index=prepare))
    live = await desk.index("live")
    assert (seen, live["vector_index"], live["built_chunks"]) == (
        ["hnsw", "hnsw"],
        "hnsw",
        await desk.owner.fetchval("select count(*) from chunk where index_id = $1", live["id"]),
    )
    names = await desk.owner.fetch("select relname from pg_class where relname like '%' || $1", live["id"].hex)
    assert len(names) == 5
    # A document cancelled after that is removed from it first.
    await desk.start(chunking=Chunking("headered", 40, 0))
    index_id = (await desk.index("building"))["id"]

    async def cancelled(tenant_id: UUID, index_id: UUID) -> bool:
        assert await maintenance.prepare(tenant_id, index_id)
        await desk.services.reindexing.cancel("default")
        return True

    await desk.work(replace(desk.context.reindexer, prepare_index=cancelled))
    job = ClaimedJob(desk.tenant, UUID(int=1), DROP_JOB, None, {"index": str(index_id)}, 1, 5)
    await HANDLERS[DROP_JOB](context, job)
    names = await desk.owner.fetch("select relname from pg_class where relname like '%' || $1", index_id.hex)
    assert names == []


async def test_why_one_waits_is_told(desk: Desk) -> None:
    """No worker has the model, or the tokens of the day are used up. Neither is reported as a failure."""
    await desk.add(1)
    await desk.workshop.drop_jobs()
    await desk.start()
    queue, lease = desk.workshop.resources.queue, timedelta(minutes=1)

    async def told() -> tuple[str, Any]:
        reindexing = (await desk.kb()).reindex_progress
        assert reindexing is not None
        return reindexing.state, reindexing.last_error and (
            reindexing.last_error["code"],
            reindexing.last_error["message"],
        )

    job = await queue.claim("w", lease, tenant_concurrency=1)
    assert job is not None
    assert (job.kind, await told()) == (REINDEX_JOB, ("building", None))
    assert await queue.hand_off(job, "w", lease)
    assert await told() == (
        "building", ("index_mismatch", "No worker has the embedding model yet. Start a worker that has it."),
    )  # fmt: skip
    job = await queue.claim("w", lease, tenant_concurrency=1)
    assert job is not None
    spent = DailyTokenLimitReached(1, datetime.now(UTC))
    await queue.postpone(job, "w", describe_failure(spent), spent.until)
    assert await told() == ("building", (spent.code, spent.message))


async def test_a_model_that_is_not_there(desk: Desk) -> None:
    await desk.add(1)
    await desk.start(model="others", chunking=SMALL)
    await desk.owner.execute(
        "update search_index set identity = jsonb_set(identity, '{model}', '\"gone\"') where tenant_id = $1"
        " and state = 'building'", desk.tenant,
    )  # fmt: skip
    with pytest.raises(IndexMismatch, match="gone"):
        await desk.work()
    # Uploads do not stop that.
    late = await add_text(desk.services, "A late gull.")
    await desk.workshop.ingest(late)
    assert await desk.workshop.status(late.id) == "ready"
    # If the live generation's chunker is missing, the new one is built with the default.
    await desk.services.reindexing.cancel("default")
    await desk.owner.execute(
        "update search_index set identity = jsonb_set(identity, '{model}', '\"gone\"') where tenant_id = $1"
        " and state = 'live'", desk.tenant,
    )  # fmt: skip
    await desk.start()
    await desk.work()
    assert (await desk.kb()).index.identity["model"] == "words"
    with pytest.raises(IndexMismatch, match="gone"):
        await desk.services.reindexing.rollback("default")
