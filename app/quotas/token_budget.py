"""Daily budget of embedding tokens, checked before each call of a model."""

from dataclasses import dataclass
from typing import Self
from uuid import UUID

from app.db.session import TenantDatabase
from app.principal import UNLIMITED, Principal, Quotas
from app.quotas.repository import QuotaRepository
from app.quotas.types import NO_KEY, DailyTokenLimitReached


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """The tokens that a tenant and one of its keys may embed today (UTC). If no limit is set, nothing is queried.

    Work that began within the budget is finished: each process may exceed it by one slice of a document or one query.
    """

    db: TenantDatabase
    key_id: UUID = NO_KEY
    quotas: Quotas = UNLIMITED
    key_quotas: Quotas = UNLIMITED

    @classmethod
    def from_principal(cls, db: TenantDatabase, principal: Principal) -> Self:
        """Return the budget of a caller."""
        return cls(db, principal.key_id or NO_KEY, principal.quotas, principal.key_quotas)

    @classmethod
    async def load(cls, db: TenantDatabase, key_id: UUID = NO_KEY) -> Self:
        """Return the budget of work that a job does for a key, with the present quotas.

        Args:
            db: Database of the tenant.
            key_id: The key; without one, the quotas of the tenant alone apply.
        """
        async with db.transaction() as session:
            today = await QuotaRepository(session, db.tenant_id).get_tokens_today(key_id)
        return cls(db, key_id, today.quotas, today.key_quotas)

    async def check(self) -> None:
        """Check that the tenant and the key may embed more tokens today.

        Raises:
            DailyTokenLimitReached: One of the limits is reached.
        """
        if self.quotas.embedding_tokens_per_day is None and self.key_quotas.embedding_tokens_per_day is None:
            return
        async with self.db.transaction() as session:
            today = await QuotaRepository(session, self.db.tenant_id).get_tokens_today(self.key_id)
        # The current quotas are read, so that a quota that was raised during a long document applies at once.
        for quotas, tokens in ((today.quotas, today.tenant_tokens), (today.key_quotas, today.key_tokens)):
            limit = quotas.embedding_tokens_per_day
            if limit is not None and tokens >= limit:
                # The database's clock has counted the tokens. Another clock may already show the next day.
                raise DailyTokenLimitReached(limit, today.now)
