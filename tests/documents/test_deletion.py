"""Receipt of a deletion: finished when the last original is deleted, and not before."""

from uuid import UUID, uuid4

from app.bootstrap import TenantServices
from app.db.deletion_receipts import DeletedCounts
from app.db.models.ingestion_state import DeletionRow
from app.documents.batch_size import MAX_BATCH_CHUNKS
from app.documents.deletion.completion import complete_document_deletion
from app.documents.deletion.repository import DeletionRepository
from app.documents.deletion.service import DeletionSelection
from app.knowledge_bases.service import PURGE_JOB
from tests.ingestion.workshop import Workshop, add_text


async def batch(services: TenantServices, deletion: UUID) -> UUID:
    """Record the result of one batch of a deletion; return the id of its job."""
    kb = await services.knowledge_bases.find("default")
    tenant_id = services.principal.tenant_id
    async with services.deletions.db.transaction() as session:
        await DeletionRepository(session, tenant_id).record_receipt(deletion, kb.row.id, DeletedCounts(1, 10, 100))
        payload = {"prefixes": [], "deletion": str(deletion)}
        return await services.deletions.queue.enqueue(session, PURGE_JOB, tenant_id=tenant_id, payload=payload)


async def settle(services: TenantServices, deletion: UUID, job: UUID) -> None:
    """Run the last step of a job whose originals are deleted."""
    await complete_document_deletion(services.deletions.db, [], deletion_id=deletion, job_id=job, objects=0)


async def test_receipt_is_finished_with_last_job(services: TenantServices) -> None:
    deletion, other = uuid4(), uuid4()
    jobs = [await batch(services, deletion) for _ in range(3)]
    await batch(services, other)
    for job in jobs:
        assert (await services.deletions.get_receipt(deletion)).finished_at is None
        await settle(services, deletion, job)
    found = await services.deletions.get_receipt(deletion)
    assert (found.documents, found.chunks, found.bytes, found.finished_at is not None) == (3, 30, 300, True)
    assert (await services.deletions.get_receipt(other)).finished_at is None


async def test_receipt_is_reopened_by_another_batch(services: TenantServices) -> None:
    """The originals of the first batch may be deleted before the second batch begins."""
    deletion = uuid4()
    await settle(services, deletion, await batch(services, deletion))
    assert (await services.deletions.get_receipt(deletion)).finished_at is not None
    job = await batch(services, deletion)
    assert (await services.deletions.get_receipt(deletion)).finished_at is None
    await settle(services, deletion, job)
    assert (await services.deletions.get_receipt(deletion)).finished_at is not None


async def test_purge_job_without_receipt_succeeds(workshop: Workshop, services: TenantServices) -> None:
    deletion = uuid4()
    job = await batch(services, deletion)
    await workshop.owner.execute(f"delete from {DeletionRow.__tablename__} where id = $1", deletion)
    await settle(services, deletion, job)
    assert not await workshop.owner.fetchval("select count(*) from job where id = $1", job)


async def test_delete_documents_with_many_chunks_runs_in_small_batches(
    workshop: Workshop, services: TenantServices
) -> None:
    """One statement has a limit of two minutes; the receipt counts the documents of all statements."""
    made = [await add_text(services, f"A text {number}.") for number in range(5)]
    for document in made:
        await workshop.ingest(document)
    most = [document.id for document in made[:4]]
    # Documents of hosts with fast clocks, and of an import.
    for document, age in zip(made, ("-1 h", "5 min", "-1 year", "0", "1 h"), strict=True):
        await workshop.owner.execute(
            "update document set created_at = now() + $2::text::interval where id = $1", document.id, age
        )
    await workshop.owner.execute(
        "update document set chunk_count = $2 where id = any($1)", most, MAX_BATCH_CHUNKS * 2 // 3
    )
    await workshop.drop_jobs()
    chosen = DeletionSelection(ids=[document.id for document in made])
    deletion, deleted = await services.deletions.delete_many("default", chosen, confirm=None)
    assert deleted == 5
    purges = await workshop.owner.fetch("select payload from job where kind = $1 order by created_at", PURGE_JOB)
    assert [purge["payload"].count(f"{services.principal.tenant_id}/") for purge in purges] == [2, 2, 1]
    receipt = await services.deletions.get_receipt(deletion)
    assert (receipt.documents, receipt.chunks) == (5, 5)
    assert await workshop.inconsistencies() == {}
