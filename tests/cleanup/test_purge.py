"""Deletion of knowledge bases and tenants: inaccessible immediately, removed by jobs, and nothing left."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import asyncpg
import pytest

from app.bootstrap import TenantServices
from app.cleanup.purge import BATCH_SIZE, STALE_DELETION_AGE
from app.db.models.ingestion_state import DeletionRow
from app.documents.deletion.completion import DeletionIncomplete, complete_document_deletion
from app.documents.deletion.service import DeletionSelection
from app.documents.types import DocumentFields
from app.ids import generate_id
from app.knowledge_bases.service import PURGE_JOB, PURGE_KNOWLEDGE_BASE_JOB
from app.knowledge_bases.types import KnowledgeBaseNotFound, NewKnowledgeBase, Retrieval
from app.retrieval.types import Query, SearchRequest
from app.tenants.service import TenantService
from app.tenants.types import TenantNotFound
from app.worker.handlers import JobContext
from tests.ingestion.workshop import Workshop, until

JOBS = (PURGE_KNOWLEDGE_BASE_JOB, PURGE_JOB, TenantService.DELETE_JOB)
TEXT = "The heron stands in the reeds. It waits for frogs, and the frogs wait for flies."
MANY = """
insert into document (tenant_id, kb_id, id, source, media_type, bytes, sha256, scope_key, external_id)
select tenant_id, id, gen_random_uuid(), 'a', 'text/plain', 1, 'x', tenant_id, n::text
  from knowledge_base, generate_series(1, $2::int) n where id = $1"""
# Rows that ingestion does not leave: a building and a retired generation, cached vectors and words, and a job.
PASSING = (
    """
insert into search_index (tenant_id, kb_id, id, identity, dim, state, retired_at)
select tenant_id, kb_id, made.id, identity, dim, made.state, made.retired_at from search_index i,
       (values ($2::uuid, 'building', null), ($3::uuid, 'retired', now())) made(id, state, retired_at)
 where kb_id = $1 and i.state = 'live'""",
    """
insert into chunk (tenant_id, kb_id, index_id, id, document_id, version, ordinal, content, start_offset, end_offset,
                   token_count, node_path)
select tenant_id, kb_id, unnest(array[$2, $3]::uuid[]), id, document_id, version, ordinal, content, start_offset,
       end_offset, token_count, node_path from chunk where kb_id = $1""",
    """
with vectors as (
  insert into embedding_checkpoint (tenant_id, identity, content_hash, document_id, embedding)
  select tenant_id, $2::uuid, '\\x00', id, '[1]' from document where kb_id = $1
), words as (
  insert into image_caption (tenant_id, identity, sha256, document_id, content)
  select tenant_id, $3::uuid, '\\x00', id, 'A heron.' from document where kb_id = $1
), totals as (
  insert into index_totals (tenant_id, index_id, chunks, tokens)
  select tenant_id, $2::uuid, 5, 5 from knowledge_base where id = $1
)
insert into job (tenant_id, id, kind, payload, run_at)
select tenant_id, $2::uuid, 'maintain_index', jsonb_build_object('index', $2::uuid), 'infinity'
  from knowledge_base where id = $1""",
)


@pytest.fixture
async def services(workshop: Workshop) -> TenantServices:
    """Services of a new tenant; jobs of other tests are removed."""
    await workshop.drop_jobs()
    return await workshop.new_tenant()


async def add(workshop: Workshop, services: TenantServices, kb: str, text: str = TEXT) -> UUID:
    """Add a document, ingest it, and return its id."""
    made = await services.uploads.upload_text(kb, text, DocumentFields(), media_type="text/plain")
    await workshop.ingest(made.document)
    return made.document.id


async def shelf(workshop: Workshop, services: TenantServices) -> UUID:
    """Create the knowledge base ``herons`` with two documents and rows of all kinds, and a second knowledge base."""
    made = await services.knowledge_bases.create(NewKnowledgeBase("herons", title="Of herons"))
    for kb in ("herons", "default"):
        for number in range(2):
            await add(workshop, services, kb, f"{TEXT} Number {number}.")
    await workshop.drop_jobs()
    building, retired = generate_id(), generate_id()
    for each in PASSING:
        await workshop.owner.execute(each, made.row.id, building, retired)
    return made.row.id


async def found(services: TenantServices, *kbs: str) -> int:
    request = SearchRequest([Query("heron")], knowledge_bases=list(kbs) or None, top_k=50)
    return len((await services.retrieval.search(request)).hits)


async def rows(workshop: Workshop, tenant_id: UUID) -> dict[str, int]:
    """Return the number of the tenant's rows in each table that has some, read as the owner, to whom no policy
    applies.
    """
    tables = await workshop.owner.fetch(
        "select distinct c.relname from pg_class c"
        " join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'"
        " where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition"
    )
    counts = {
        row[0]: await workshop.owner.fetchval(f"select count(*) from {row[0]} where tenant_id = $1", tenant_id)
        for row in tables
    }
    return {name: count for name, count in counts.items() if count}


async def objects(workshop: Workshop, tenant_id: UUID) -> int:
    return len([one async for one in workshop.resources.objects.list_objects(f"{tenant_id}/")])


def is_proof(receipt: DeletionRow) -> bool:
    """Return whether a finished receipt counts everything, and nothing remains."""
    assert receipt.remaining is not None
    assert {"document", "chunk", "chunk_embedding", "chunk_lexical", "job", "objects"} <= receipt.remaining.keys()
    return receipt.finished_at is not None and not any(receipt.remaining.values())


async def test_deleted_knowledge_base_is_inaccessible_and_purged_by_jobs(
    workshop: Workshop, services: TenantServices
) -> None:
    kb_id, tenant_id = await shelf(workshop, services), services.principal.tenant_id
    assert (await found(services, "default"), await found(services, "herons")) == (2, 2)
    originals = await objects(workshop, tenant_id)

    deletion = await services.knowledge_bases.delete("herons")
    for reference in ("herons", str(kb_id)):
        with pytest.raises(KnowledgeBaseNotFound):
            await services.knowledge_bases.find(reference)
    with pytest.raises(KnowledgeBaseNotFound):
        await found(services, "herons")
    assert await found(services) == 2
    assert [view.row.name for view in await services.knowledge_bases.list_knowledge_bases(after=None, limit=10)] == [
        "default"
    ]
    begun = await services.deletions.get_receipt(deletion)
    assert (begun.kind, begun.object_id, begun.documents, begun.chunks) == ("knowledge_base", kb_id, 2, 2)
    assert (begun.finished_at, begun.remaining, begun.bytes) == (None, None, 2 * len(f"{TEXT} Number 0."))
    assert await workshop.owner.fetchval("select count(*) from chunk where kb_id = $1", kb_id) == 6
    again = await services.knowledge_bases.create(NewKnowledgeBase("herons"))
    await add(workshop, services, "herons")

    await workshop.run_jobs(*JOBS)
    receipt = await services.deletions.get_receipt(deletion)
    assert is_proof(receipt)
    assert receipt.remaining is not None
    assert {
        "knowledge_base",
        "search_index",
        "term_document_frequency",
        "index_totals",
        "api_key",
    } <= receipt.remaining.keys()
    assert not await workshop.owner.fetchval("select count(*) from knowledge_base where id = $1", kb_id)
    assert await objects(workshop, tenant_id) == originals - 4 + 2  # an original and its parse result for each document
    assert (await services.knowledge_bases.find("herons")).row.id == again.row.id
    assert await found(services) == 3
    assert await workshop.inconsistencies() == {}


async def test_upload_begun_before_deletion_is_refused(workshop: Workshop, services: TenantServices) -> None:
    await services.knowledge_bases.create(NewKnowledgeBase("herons"))
    seen = await services.knowledge_bases.find("herons")
    await services.knowledge_bases.delete("herons")
    with pytest.raises(KnowledgeBaseNotFound):
        await services.uploads.upload_text(seen, TEXT, DocumentFields(), media_type="text/plain")
    assert await objects(workshop, services.principal.tenant_id) == 0


async def test_killed_purge_job_continues(workshop: Workshop, services: TenantServices) -> None:
    kb_id = await shelf(workshop, services)
    await workshop.owner.execute(MANY, kb_id, 2 * BATCH_SIZE + 50)
    deletion = await services.knowledge_bases.delete("herons")
    left = "select count(*) from document where kb_id = $1"
    last = "select id from document where kb_id = $1 order by id desc limit 1 for update"
    blocker = await asyncpg.connect(workshop.urls.owner)
    async with blocker.transaction():
        await blocker.fetchval(last, kb_id)  # the job has reached the last document of its batch
        working = asyncio.create_task(workshop.run_jobs(PURGE_KNOWLEDGE_BASE_JOB))

        async def in_the_middle() -> bool:
            return bool(await blocker.fetchval(left, kb_id) <= 52)

        await until(in_the_middle)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    await blocker.close()
    assert (await services.deletions.get_receipt(deletion)).finished_at is None
    assert await workshop.owner.fetchval(left, kb_id) == 52
    await workshop.run_jobs(*JOBS)
    receipt = await services.deletions.get_receipt(deletion)
    assert is_proof(receipt)
    assert receipt.documents == 2 * BATCH_SIZE + 52


async def test_remaining_rows_keep_receipt_open(workshop: Workshop, services: TenantServices) -> None:
    document = await add(workshop, services, "default")
    deletion = await services.deletions.delete("default", document)
    job = await workshop.owner.fetchval("select id from job where kind = $1", PURGE_JOB)
    with pytest.raises(DeletionIncomplete):
        await complete_document_deletion(services.deletions.db, [document], deletion_id=deletion, job_id=job, objects=3)
    receipt = await services.deletions.get_receipt(deletion)
    assert (receipt.finished_at, receipt.remaining and receipt.remaining["objects"]) == (None, 3)
    await workshop.run_jobs(*JOBS)
    receipt = await services.deletions.get_receipt(deletion)
    assert is_proof(receipt)
    assert (receipt.kind, receipt.object_id, receipt.documents) == ("document", document, 1)


async def test_remaining_rows_are_counted_in_receipt(workshop: Workshop, services: TenantServices) -> None:
    """The test hides a table's rows from the deletion: the count must not depend on the deletion's list."""
    document = await add(workshop, services, "default")
    deletion = generate_id()
    with pytest.raises(DeletionIncomplete):
        await complete_document_deletion(
            services.deletions.db, [document], deletion_id=deletion, job_id=deletion, objects=0
        )
    kb = await services.knowledge_bases.find("default")
    await services.deletions.delete_many("default", DeletionSelection(external_id="nothing"), confirm=None)
    await workshop.owner.execute(
        "update deletion set id = $2, finished_at = null, remaining = null where kb_id = $1", kb.row.id, deletion
    )
    with pytest.raises(DeletionIncomplete):
        await complete_document_deletion(
            services.deletions.db, [document], deletion_id=deletion, job_id=deletion, objects=0
        )
    remaining = (await services.deletions.get_receipt(deletion)).remaining
    assert remaining is not None
    one = {"document", "document_object", "document_text", "chunk", "chunk_embedding", "chunk_lexical", "job"}
    assert {name for name, count in remaining.items() if count == 1} == one
    assert remaining["node"] > 1


async def test_purged_tenant_leaves_only_receipts_and_events(workshop: Workshop, services: TenantServices) -> None:
    tenant_id, tenants = services.principal.tenant_id, workshop.resources.tenants
    await shelf(workshop, services)
    earlier = await services.deletions.delete("default", await add(workshop, services, "default", "Soon gone."))
    await workshop.drop_jobs()
    before = await rows(workshop, tenant_id)
    assert {"knowledge_base", "document", "chunk", "term_document_frequency", "embedding_checkpoint"} <= before.keys()

    deletion = await tenants.delete(tenant_id)
    assert await tenants.delete(tenant_id) == deletion
    with pytest.raises(TenantNotFound):
        await tenants.get(tenant_id)
    await workshop.run_jobs(*JOBS)
    receipt = await workshop.operator.deletions.get_receipt(deletion)
    assert is_proof(receipt)
    assert (receipt.kind, receipt.object_id, receipt.documents) == ("tenant", tenant_id, 4)
    assert receipt.remaining is not None
    assert before.keys() - receipt.remaining.keys() <= {"audit_event", "deletion"}
    left = await rows(workshop, tenant_id)
    assert left.keys() <= {"audit_event", "deletion"}
    assert left["deletion"] == 1
    assert await objects(workshop, tenant_id) == 0
    assert await workshop.owner.fetchval("select finished_at is not null from deletion where id = $1", earlier)
    with pytest.raises(TenantNotFound):
        await tenants.delete(tenant_id)


async def test_interrupted_tenant_deletion_is_completed_by_job(workshop: Workshop, services: TenantServices) -> None:
    tenant_id = services.principal.tenant_id
    deletion = await workshop.resources.tenants.delete(tenant_id)
    await workshop.owner.execute("update tenant set deleted_at = null where id = $1", tenant_id)
    await workshop.run_jobs(*JOBS)
    assert is_proof(await workshop.operator.deletions.get_receipt(deletion))
    assert not await workshop.owner.fetchval("select count(*) from tenant where id = $1", tenant_id)


@pytest.mark.parametrize("lost", ["given up", "gone"])
@pytest.mark.parametrize("kind", ["document", "knowledge base", "tenant"])
async def test_stopped_purge_continues(workshop: Workshop, services: TenantServices, kind: str, lost: str) -> None:
    document = await add(workshop, services, "default")
    reader, tenant_id = services, services.principal.tenant_id
    await workshop.drop_jobs()
    if kind == "document":
        deletion = await services.deletions.delete("default", document)
    elif kind == "knowledge base":
        deletion = await services.knowledge_bases.delete("default")
    else:
        deletion, reader = await workshop.resources.tenants.delete(tenant_id), workshop.operator
    dead = "update job set state = 'dead', attempts = 5 where kind = any($1)"
    await workshop.owner.execute(dead if lost == "given up" else "delete from job where kind = any($1)", JOBS)
    upkeep = JobContext(workshop.resources, workshop.pipeline).deletion_recovery
    await upkeep.run()
    assert await workshop.run_jobs(*JOBS) == 0  # the deletion was requested just now
    await workshop.owner.execute(
        "update deletion set requested_at = now() - $2::interval where id = $1", deletion, STALE_DELETION_AGE
    )
    await upkeep.run()
    assert await workshop.run_jobs(*JOBS) >= 1
    assert is_proof(await reader.deletions.get_receipt(deletion))


async def test_old_receipts_are_removed(workshop: Workshop, services: TenantServices) -> None:
    ages: Mapping[str, tuple[timedelta, bool]] = {
        "young": (timedelta(days=364), True),
        "old": (timedelta(days=366), True),
        "never finished": (timedelta(days=366), False),
        "of a tenant that is gone": (timedelta(days=366), True),
    }
    for name, (age, is_finished) in ages.items():
        tenant_id = uuid4() if "gone" in name else services.principal.tenant_id
        await workshop.owner.execute(
            "insert into deletion (tenant_id, id, kb_id, documents, chunks, requested_at, finished_at)"
            " values ($1, $2, $2, 1, 1, now() - $3::interval, case when $4 then now() end)",
            tenant_id, UUID(int=sum(name.encode())), age, is_finished,
        )  # fmt: skip
    await JobContext(workshop.resources, workshop.pipeline).deletion_recovery.run()
    left = {row[0] for row in await workshop.owner.fetch("select id from deletion")}
    assert {name for name in ages if UUID(int=sum(name.encode())) in left} == {"young", "never finished"}


async def test_late_objects_of_deleted_tenant_are_removed(
    workshop: Workshop, services: TenantServices, tmp_path: Path
) -> None:
    """A running upload or ingestion may store an object after the last one was removed."""
    tenant_id, original = services.principal.tenant_id, tmp_path / "late"
    original.write_bytes(b"late")
    deletion = await workshop.resources.tenants.delete(tenant_id)
    await workshop.run_jobs(*JOBS)
    await workshop.resources.objects.put(f"{tenant_id}/{generate_id()}/{generate_id()}", original)
    upkeep = JobContext(workshop.resources, workshop.pipeline).deletion_recovery
    await workshop.owner.execute("update deletion set finished_at = now() - interval '2 h' where id = $1", deletion)
    await upkeep.run()
    assert await objects(workshop, tenant_id) == 1
    await workshop.owner.execute("update deletion set finished_at = now() where id = $1", deletion)
    await upkeep.run()
    assert await objects(workshop, tenant_id) == 0


async def test_late_responses_of_deleted_document_are_removed(workshop: Workshop, services: TenantServices) -> None:
    """A response stored after the document's deletion, and a job about an earlier original, are removed too."""
    document, stays = await add(workshop, services, "default"), await add(workshop, services, "default", "It stays.")
    tenant_id = services.principal.tenant_id
    await workshop.drop_jobs()
    deletion = await services.deletions.delete("default", document)
    for subject in (document, stays):
        await workshop.owner.execute(
            "with kept as (insert into idempotency_key (tenant_id, api_key_id, route, key, status, body, locked_until)"
            " values ($1, $2, 'r', 'k', 202, 'said', now()))"
            " insert into idempotency_subject values ($1, $2, $2, 'r', 'k')", tenant_id, subject,
        )  # fmt: skip
        await workshop.owner.execute(
            "insert into job (tenant_id, id, kind, payload, run_at) values ($1, $2, 'purge_objects',"
            " jsonb_build_object('keys', array[$3::text]), 'infinity')",
            tenant_id, uuid4(), f"{tenant_id}/{subject}/{uuid4()}",
        )  # fmt: skip
    settled = "select id from job where payload ? 'deletion'"
    await complete_document_deletion(
        services.deletions.db,
        [document],
        deletion_id=deletion,
        job_id=await workshop.owner.fetchval(settled),
        objects=0,
    )
    assert is_proof(await services.deletions.get_receipt(deletion))
    kept = await workshop.owner.fetch("select api_key_id from idempotency_key where body is not null and key = 'k'")
    assert [row[0] for row in kept] == [stays]
    (job,) = await workshop.owner.fetch("select payload from job where tenant_id = $1", tenant_id)
    assert str(stays) in job["payload"]


async def test_deleted_knowledge_base_loses_prompts_and_descriptions_immediately(
    workshop: Workshop, services: TenantServices
) -> None:
    said = Retrieval(rewrite_prompt="Herons are meant.", answer_prompt="Answer like a heron.")
    new = NewKnowledgeBase("", title="Of herons", description="All herons", retrieval=said)
    made = (await services.vector_stores.create(new, {"heron": "grey"})).view
    await services.knowledge_bases.delete(made.row.name)
    row = await workshop.owner.fetchval("select to_jsonb(k)::text from knowledge_base k where id = $1", made.row.id)
    assert "heron" not in row.lower()
    for table in ("vector_store_labels", "prompt_version"):
        assert await workshop.owner.fetchval(f"select count(*) from {table} where kb_id = $1", made.row.id) == 0
