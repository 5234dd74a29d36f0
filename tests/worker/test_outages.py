"""Outages of models and stores: documents wait for the end with a reason, and continue by themselves."""

from collections.abc import AsyncIterator

import pytest

from app.bootstrap import TenantServices
from app.db.models.tenant_data import DocumentRow
from app.documents.repository import DocumentRowFilters
from app.embedded_postgres import DatabaseUrls
from app.inference.embedding import EmbeddingRejected, EmbeddingUnavailable
from app.object_store import ObjectMissing, ObjectStoreUnavailable
from app.worker.outages import EMBEDDING, OBJECT_STORE, OutageMonitor
from tests.ingestion.workshop import Workshop, add_text, open_workshop, until


@pytest.fixture
async def workshop(database: DatabaseUrls, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Workshop]:
    async with open_workshop(database, tmp_path_factory.mktemp("data"), max_attempts=2) as opened:
        yield opened
        await opened.owner.execute(
            "delete from tenant where id <> system_tenant();"
            " delete from term_document_frequency; delete from index_totals; delete from entity"
        )


async def waiting(workshop: Workshop, services: TenantServices, documents: list[DocumentRow]) -> set[object]:
    """Return the reasons for which documents wait, as if they had been queued for a while."""
    await workshop.owner.execute("update document set updated_at = now() - interval '1 min' where status = 'queued'")
    found = [await services.documents.get("default", document.id) for document in documents]
    return {(document.progress or {}).get("waiting_for") for document in found}


@pytest.mark.capability("model-outage")
async def test_documents_wait_during_outage_and_become_ready(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    documents = [await add_text(services, f"Number {number}.") for number in range(4)]
    workshop.endpoint.fail(500, times=None)
    async with workshop.working():

        async def all_wait() -> bool:
            return await waiting(workshop, services, documents) == {"embedding_endpoint"}

        await until(all_wait)
        assert await workshop.owner.fetchval("select max(attempts) from job where every is null") == 0
        _, listed = await services.documents.list_documents("default", DocumentRowFilters(), after=None, limit=10)
        assert {(one.progress or {}).get("waiting_for") for one in listed} == {"embedding_endpoint"}
        workshop.endpoint.reset()
        for document in documents:
            assert await workshop.settled(document.id) == "ready"


async def test_outage_endpoint_is_not_called_for_each_document(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    workshop.endpoint.fail(500, times=None)
    first = await add_text(services, "The first one.")
    async with workshop.working():

        async def waits() -> bool:
            return await waiting(workshop, services, [first]) == {"embedding_endpoint"}

        await until(waits)
        asked = workshop.endpoint.request_count
        more = [await add_text(services, f"Number {number}.") for number in range(30)]

        async def all_wait() -> bool:
            return await waiting(workshop, services, more) == {"embedding_endpoint"}

        await until(all_wait)
        # A few probes and trials of the circuit breaker; not five for each of the thirty documents.
        assert workshop.endpoint.request_count - asked < 30


async def test_document_that_breaks_endpoint_fails_finally(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    workshop.endpoint.failing_word = "xyzzy"
    poison = await add_text(services, "The word is xyzzy.")
    async with workshop.working():
        assert await workshop.settled(poison.id) == "failed"
        other = await add_text(services, "Nothing is wrong with this one.")
        assert await workshop.settled(other.id) == "ready"
    found = await services.documents.get("default", poison.id)
    assert (found.error or {})["code"] == "embedding_unavailable"


async def test_failed_documents_are_retried_a_few_times(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    workshop.endpoint.failing_word = "xyzzy"
    document = await add_text(services, "The word is xyzzy.")
    queue = workshop.resources.queue
    async with workshop.working():
        for time in range(4):
            assert await workshop.settled(document.id) == "failed"
            assert await queue.retry_failed_documents(limit=10) == 0  # it waits first
            await workshop.owner.execute("update job set run_at = now() - interval '7 h' where state = 'dead'")
            if time == 2:
                workshop.endpoint.failing_word = "nothing"
            assert await queue.retry_failed_documents(limit=10) == (time < 3)
            if time == 2:
                break
        assert await workshop.settled(document.id) == "ready"


async def test_permanently_failed_document_is_not_retried(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    document = await add_text(services, "The word is xyzzy.")
    await workshop.owner.execute(
        """update job set state = 'dead', run_at = now() - interval '7 h', error = '{"code": "embedding_unavailable"}',
                  payload = payload || '{"retries": 3}' where document_id = $1""",
        document.id,
    )
    await workshop.owner.execute("""update document set status = 'failed', error = '{"retryable": true}'""")
    assert await workshop.resources.queue.retry_failed_documents(limit=10) == 0
    await workshop.owner.execute("update job set payload = payload - 'retries'")
    await workshop.owner.execute("""update document set error = '{"retryable": false}'""")
    assert await workshop.resources.queue.retry_failed_documents(limit=10) == 0


@pytest.mark.capability("doc-waiting")
async def test_queued_document_shows_reason_of_waiting(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    documents = [await add_text(services, "One."), await add_text(services, "Two.")]
    assert await waiting(workshop, services, documents) == {"worker"}
    await workshop.resources.control_plane.record_heartbeat("a worker")
    assert await waiting(workshop, services, documents) == {"worker"}  # the worker has not tried them yet
    for code, reason in (
        ("tokens_spent", "rate_limit"),
        ("object_store_unavailable", "object_store"),
        ("internal", "retry"),
    ):
        await workshop.owner.execute(
            "update job set run_at = now() + interval '1 h', error = jsonb_build_object('code', $1::text)", code
        )
        assert await waiting(workshop, services, documents) == {reason}
    await workshop.owner.execute("update job set run_at = now(), error = null")
    await workshop.owner.execute(
        "insert into tenant_queue (tenant_id, max_running) values ($1, 0)", services.principal.tenant_id
    )
    assert await waiting(workshop, services, documents) == {"tenant_limit"}
    await workshop.resources.control_plane.delete_worker("a worker")


async def test_failure_of_one_document_is_no_outage(workshop: Workshop) -> None:
    resources = workshop.resources
    outages = OutageMonitor(resources.embedders, resources.objects, resources.queue.resume_jobs_of_all_tenants)
    for error in (
        EmbeddingUnavailable("failed"),
        EmbeddingRejected("refused", index=0),
        ObjectMissing(),
        ObjectStoreUnavailable(),
        ValueError(),
    ):
        assert await outages.find_outage_code(error) is None
    assert await outages.find_outage_code(EmbeddingUnavailable("left alone", circuit_open=True)) == EMBEDDING
    assert await outages.find_outage_code(ObjectStoreUnavailable()) != OBJECT_STORE
