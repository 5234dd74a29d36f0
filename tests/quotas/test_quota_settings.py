"""Quotas of new tenants, and equal lists of quotas in settings, API and documentation."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any
from uuid import UUID

import pytest

from app.db.control_plane import ControlPlaneDatabase
from app.db.session import Database, Session
from app.embedded_postgres import DatabaseUrls
from app.jobs.queue import JobQueue
from app.principal import UNLIMITED, Quotas
from app.quotas.repository import QuotaRepository
from app.settings import QuotaLimits
from app.tenants.auth.credential_cache import CredentialCache
from app.tenants.service import TenantService


def test_quota_settings_equal_quota_fields() -> None:
    assert set(QuotaLimits.model_fields) == {field.name for field in fields(Quotas)}


def test_quotas_of_newer_version_are_ignored() -> None:
    assert Quotas.from_json({"documents": 3, "wishes": 3}) == Quotas(documents=3)
    assert Quotas.from_json(None) == Quotas.from_json({}) == UNLIMITED
    assert Quotas(documents=0, searches_per_second=0.5).to_json() == {"documents": 0, "searches_per_second": 0.5}


@pytest.mark.parametrize(
    ("default", "given", "expected", "is_counted"),
    [
        (UNLIMITED, None, UNLIMITED, False),
        (Quotas(documents=3, upload_bytes=9), None, Quotas(documents=3, upload_bytes=9), True),
        (Quotas(documents=3, upload_bytes=9), {"documents": None}, Quotas(upload_bytes=9), False),
        (Quotas(documents=3), {"documents": 5, "chunks": 7}, Quotas(documents=5, chunks=7), True),
        (UNLIMITED, {"searches_per_second": 2.0}, Quotas(searches_per_second=2.0), False),
    ],
)
async def test_new_tenant_has_default_quotas(
    database: DatabaseUrls, default: Quotas, given: Mapping[str, Any] | None, expected: Quotas, is_counted: bool
) -> None:
    async def furnish(_session: Session, _tenant_id: UUID) -> None:
        """Furnish nothing."""

    connected = Database.connect(database.app, pool_size=2)
    system = ControlPlaneDatabase(connected)
    service = TenantService(
        connected, system, JobQueue(connected, system, 5), CredentialCache(system), furnish, default
    )
    tenant, _ = await service.create("a tenant", quotas=given)
    assert Quotas.from_json((await service.get(tenant.id)).quotas) == expected
    async with connected.transaction(tenant.id) as session:
        assert (await QuotaRepository(session, tenant.id).find_counted_storage() is not None) is is_counted
    await connected.close()
