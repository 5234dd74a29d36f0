"""Check of storage quotas, in the transaction that adds the data and after triggers have counted it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self
from uuid import UUID

from app.db.session import Session
from app.principal import UNLIMITED, Principal, Quotas
from app.quotas.repository import QuotaRepository
from app.quotas.types import QuotaExceeded, StorageUsage


@dataclass(frozen=True, slots=True)
class StorageQuota:
    """Storage limits of a tenant and of the API key that uploads. If no limit is set, nothing is queried."""

    tenant_id: UUID
    quotas: Quotas = UNLIMITED
    key_id: UUID | None = None
    key_quotas: Quotas = UNLIMITED

    @classmethod
    def from_principal(cls, principal: Principal) -> Self:
        """Return the quota of a caller's uploads."""
        return cls(principal.tenant_id, principal.quotas, principal.storage_quota_key_id, principal.key_quotas)

    def has_limit(self, *names: str) -> bool:
        """Return whether one of the named quotas is set."""
        return bool(_get_limits(self.quotas, names) or (self.key_id and _get_limits(self.key_quotas, names)))

    async def check(self, session: Session, added: Mapping[str, int], *, key_added: Mapping[str, int]) -> None:
        """Check that the counted storage plus the added storage fits the quotas. Raises QuotaExceeded.

        ``added`` (for the tenant) and ``key_added`` (for the key) have amounts by the name of the quota. Other writers
        wait for the counted row until the transaction ends.
        """
        repository = QuotaRepository(session, self.tenant_id)
        if _get_limits(self.quotas, added):
            _check_limits(await repository.find_counted_storage(), self.quotas, added, owner_kind="tenant")
        if self.key_id is not None and _get_limits(self.key_quotas, key_added):
            _check_limits(await repository.find_key_storage(self.key_id), self.key_quotas, key_added, owner_kind="key")


def _get_limits(quotas: Quotas, names: Iterable[str]) -> dict[str, int]:
    limits = {name: getattr(quotas, name) for name in names}
    return {name: limit for name, limit in limits.items() if limit is not None}


def _check_limits(counted: StorageUsage | None, quotas: Quotas, added: Mapping[str, int], *, owner_kind: str) -> None:
    for name, limit in _get_limits(quotas, added).items():
        if counted is not None and getattr(counted, name) + added[name] > limit:
            raise QuotaExceeded.from_quota(name, limit, owner_kind=owner_kind)
