"""Whether what is stored fits: asked in the transaction that adds it, when the triggers have counted it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self
from uuid import UUID

from app.access import UNLIMITED, Principal, Quotas
from app.db.session import Session
from app.quotas.repository import QuotaRepository
from app.quotas.types import QuotaExceeded, Stored


@dataclass(frozen=True, slots=True)
class Room:
    """What a tenant may store, and of that the key for which a document counts; most have no limit, and ask nothing."""

    tenant_id: UUID
    quotas: Quotas = UNLIMITED
    key_id: UUID | None = None
    key_quotas: Quotas = UNLIMITED

    @classmethod
    def of(cls, principal: Principal) -> Self:
        """That of what a caller uploads."""
        return cls(principal.tenant_id, principal.quotas, principal.stores_for, principal.key_quotas)

    def is_limited(self, *names: str) -> bool:
        """Whether one of these quotas is set."""
        return bool(_limits(self.quotas, names) or (self.key_id and _limits(self.key_quotas, names)))

    async def require(self, session: Session, more: Mapping[str, int], *, of_key: Mapping[str, int]) -> None:
        """What is there fits with ``more`` that is yet to be added, by the names of quotas. Raises QuotaExceeded.

        Whoever else adds waits, until the transaction ends, for what this one has counted.
        """
        repository = QuotaRepository(session, self.tenant_id)
        if _limits(self.quotas, more):
            _compare(await repository.counted(), self.quotas, more, whose="tenant")
        if self.key_id is not None and _limits(self.key_quotas, of_key):
            _compare(await repository.counted_of_key(self.key_id), self.key_quotas, of_key, whose="key")


def _limits(quotas: Quotas, names: Iterable[str]) -> dict[str, int]:
    limits = {name: getattr(quotas, name) for name in names}
    return {name: limit for name, limit in limits.items() if limit is not None}


def _compare(counted: Stored | None, quotas: Quotas, more: Mapping[str, int], *, whose: str) -> None:
    for name, limit in _limits(quotas, more).items():
        if counted is not None and getattr(counted, name) + more[name] > limit:
            raise QuotaExceeded.of(name, limit, whose=whose)
