"""Audit events of the service's background jobs: expiry of documents, and removal of old events."""

from datetime import UTC, datetime, timedelta

import pytest

from app.cleanup.sweeper import EVENTS_JOB, EXPIRED_JOB, Sweeper, get_sweep_intervals
from app.worker.handlers import HANDLERS, JobContext
from tests.ingestion.workshop import Workshop, add_text


@pytest.fixture
def sweeper(workshop: Workshop) -> Sweeper:
    return JobContext(workshop.resources, workshop.pipeline).sweeper


async def test_expired_documents_leave_audit_event_and_receipt(workshop: Workshop, sweeper: Sweeper) -> None:
    services = await workshop.new_tenant()
    soon = [await add_text(services, text, expires_at=datetime.now(UTC) - timedelta(days=1)) for text in ("a", "b")]
    stays = await add_text(services, "c")
    await sweeper.run_job(EXPIRED_JOB)
    (row,) = await workshop.owner.fetch("select * from audit_event where action = 'document.expire'")
    assert set(row["object_ids"]) == {document.id for document in soon}
    assert (row["tenant_id"], row["kb_id"], row["actor"]) == (stays.tenant_id, stays.kb_id, "service")
    receipt = await workshop.owner.fetchval("select id from deletion where tenant_id = $1", stays.tenant_id)
    assert row["deletion_id"] == receipt


async def test_old_audit_events_are_removed_by_retention_setting(workshop: Workshop, sweeper: Sweeper) -> None:
    days = workshop.resources.settings.audit.retention_days
    tenant = (await workshop.new_tenant()).principal.tenant_id
    await workshop.owner.execute("update audit_event set created_at = now() - interval '1 day'")
    for age in (days - 1, days + 1, days + 400):
        await workshop.owner.execute(
            "insert into audit_event (tenant_id, created_at, id, action, object_type, object_ids, actor)"
            " values ($1, now() - $2::interval, gen_random_uuid(), 'key.revoke', 'key', '{}', 'service')",
            tenant, timedelta(days=age),
        )  # fmt: skip
    assert await sweeper.delete_old_audit_events() == 2
    assert await sweeper.delete_old_audit_events() == 0
    ages = await workshop.owner.fetch("select created_at from audit_event where action = 'key.revoke'")
    assert [(datetime.now(UTC) - row["created_at"]).days for row in ages] == [days - 1]


def test_removal_of_audit_events_is_a_periodic_job(workshop: Workshop) -> None:
    assert EVENTS_JOB in get_sweep_intervals(workshop.resources.settings.worker)
    assert EVENTS_JOB in HANDLERS
