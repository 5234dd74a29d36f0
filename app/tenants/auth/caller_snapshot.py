"""Snapshots of callers for background jobs. A job keeps its caller's rights, even if the key is revoked later."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from app.db.session import Database
from app.principal import UNLIMITED, Principal, Quotas, RequestOrigin, Role
from app.tenants.repository import TenantRepository


def snapshot_caller(principal: Principal) -> dict[str, Any]:
    """Return a snapshot of a caller for a job's payload.

    Args:
        principal: The caller.

    Returns:
        A JSON object.
    """
    allowed = principal.knowledge_base_ids
    return {
        "key": None if principal.key_id is None else str(principal.key_id),
        "name": principal.key_name,
        "role": principal.role.value,
        "subject": principal.subject,
        "knowledge_bases": None if allowed is None else sorted(map(str, allowed)),
        "user": principal.user_id,
        "request": principal.origin.request_id,
        "address": principal.origin.address,
    }


async def restore_caller(database: Database, tenant_id: UUID, snapshot: Mapping[str, Any]) -> Principal | None:
    """Return the caller of a snapshot, with the current quotas.

    Args:
        database: The database.
        tenant_id: The tenant of the caller.
        snapshot: The result of ``snapshot_caller``.

    Returns:
        The caller, or None if the tenant is being deleted.
    """
    key_id = None if snapshot["key"] is None else UUID(snapshot["key"])
    async with database.transaction(tenant_id) as session:
        repository = TenantRepository(session)
        tenant = await repository.get(tenant_id)
        key = None if key_id is None else await repository.find_key_including_revoked(tenant_id, key_id)
    if tenant is None:
        return None
    allowed = snapshot["knowledge_bases"]
    return Principal(
        tenant_id=tenant.id,
        tenant_name=tenant.name,
        role=Role(snapshot["role"]),
        key_id=key_id,
        key_name=snapshot["name"],
        knowledge_base_ids=None if allowed is None else frozenset(map(UUID, allowed)),
        user_id=snapshot["user"],
        subject=snapshot["subject"],
        origin=RequestOrigin(snapshot["request"], snapshot["address"]),
        quotas=Quotas.from_json(tenant.quotas),
        key_quotas=UNLIMITED if key is None else Quotas.from_json(key.quotas),
        key_lineage_id=key_id if key is None else key.key_lineage_id or key.id,
    )
