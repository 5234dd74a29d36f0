"""Quotas and usage of one caller."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any
from uuid import UUID

from app.db.session import Session, TenantDatabase
from app.errors import ForbiddenError
from app.principal import ROW_QUOTAS, Principal, Quotas
from app.quotas.local_limits import LocalLimits
from app.quotas.rate_limit import SearchRateLimiter
from app.quotas.repository import QuotaRepository
from app.quotas.storage_quota import StorageQuota
from app.quotas.token_budget import TokenBudget
from app.quotas.types import NO_KEY, DailyTokenLimitReached, RateLimitState, StorageUsage, Usage
from app.quotas.usage_meter import UsageMeter

_DAILY = DailyTokenLimitReached.QUOTA


@dataclass(frozen=True, slots=True)
class QuotaService:
    """Quotas of a tenant and its key, and the meter of their usage."""

    db: TenantDatabase
    principal: Principal
    rate_limiter: SearchRateLimiter
    meter: UsageMeter
    max_upload_bytes: int
    local_limits: LocalLimits

    @property
    def upload_limit_bytes(self) -> int:
        """Maximum size of an upload: the lowest limit of the service, the tenant and the key."""
        limits = (self.max_upload_bytes, self.principal.quotas.upload_bytes, self.principal.key_quotas.upload_bytes)
        return min(limit for limit in limits if limit is not None)

    @property
    def token_budget(self) -> TokenBudget:
        """Daily budget of embedding tokens of the caller's tenant and key."""
        return TokenBudget.from_principal(self.db, self.principal)

    def count(self, **counts: int) -> None:
        """Add to the caller's usage, by the names in ``COUNTED_FIELDS``."""
        self.meter.count(self.principal.tenant_id, self.principal.key_id, **counts)

    def track_search(self) -> AbstractContextManager[None]:
        """Count a parallel search until the block ends. Raises RateLimitExceeded if the limit is reached."""
        return self.local_limits.track(self.principal, "concurrent_searches")

    def track_stream(self) -> AbstractContextManager[None]:
        """Count an open event stream until the block ends. Raises RateLimitExceeded if the limit is reached."""
        return self.local_limits.track(self.principal, "event_streams")

    async def acquire_search(self) -> RateLimitState:
        """Count a search against the rate limits of the key and of the tenant.

        A tenant without a quota has the default rate limit, which each process counts separately.

        Returns:
            The state of the rate limit with fewer remaining searches.

        Raises:
            RateLimitExceeded: One of the rate limits is reached.
        """
        tenant_id, key_lineage_id = self.principal.tenant_id, self.principal.key_lineage_id or NO_KEY
        key_rate, tenant_rate = self.principal.key_quotas.searches_per_second, self.principal.quotas.searches_per_second
        key_state = None if key_rate is None else await self.rate_limiter.acquire(tenant_id, key_lineage_id, key_rate)
        try:
            if tenant_rate is None:
                tenant_state = self.local_limits.acquire_search(tenant_id)
            else:
                tenant_state = await self.rate_limiter.acquire(tenant_id, NO_KEY, tenant_rate)
        except BaseException:
            if key_rate is not None:
                self.rate_limiter.release(tenant_id, key_lineage_id, key_rate)
            raise
        return tenant_state if key_state is None or tenant_state.remaining < key_state.remaining else key_state

    async def check_storage(self, session: Session, *, replaces: bool) -> None:
        """Check that the document stored in the caller's transaction fits the storage quotas.

        Args:
            session: The transaction.
            replaces: Whether the document replaces another version.

        Raises:
            QuotaExceeded: A quota of the tenant or of the key is exceeded.
        """
        tenant_quota_names = ("stored_bytes",) if replaces else ("documents", "stored_bytes")
        # A key that replaces a document of another key takes over the document's whole storage.
        key_quota_names = ("documents", "stored_bytes", "chunks")
        await StorageQuota.from_principal(self.principal).check(
            session, dict.fromkeys(tenant_quota_names, 0), key_added=dict.fromkeys(key_quota_names, 0)
        )

    async def check_file_storage(self, session: Session) -> None:
        """Check that the file stored in the caller's transaction fits the storage quotas. Raises QuotaExceeded."""
        added = {"stored_bytes": 0}
        await StorageQuota.from_principal(self.principal).check(session, added, key_added=added)

    def get_limits(self) -> dict[str, Any]:
        """Return the effective limits of the caller.

        Returns:
            Limits by name: the lower one of the key's and the tenant's quota, or the default.
        """
        defaults = {
            **ROW_QUOTAS,
            "searches_per_second": self.local_limits.searches_per_second,
            "concurrent_searches": self.local_limits.concurrent_searches,
            "event_streams": self.local_limits.event_streams,
        }
        limits = {**defaults, **self.principal.quotas.to_json(), "upload_bytes": self.upload_limit_bytes}
        for name, value in self.principal.key_quotas.to_json().items():
            limits[name] = min(value, limits.get(name, value))
        return limits

    async def get_usage(self) -> dict[str, int]:
        """Return the usage of each limit that can be used up. If no such limit is set, the database is not queried.

        Returns:
            Usage by the name of the limit.
        """
        limits = self.get_limits().keys()
        used: dict[str, int] = {}
        if not limits & {"documents", "stored_bytes", "chunks", _DAILY}:
            return used
        await self.meter.write(self.db.tenant_id)
        async with self.db.transaction() as session:
            repository = QuotaRepository(session, self.db.tenant_id)
            if self.principal.quotas.has_storage_limit:
                used |= asdict(await repository.get_storage())
            stored = None
            if self.principal.storage_quota_key_id is not None:
                stored = await repository.find_key_storage(self.principal.storage_quota_key_id)
            today = await repository.get_tokens_today(self.principal.key_id or NO_KEY)
        used[_DAILY] = today.tenant_tokens
        key_usage = {_DAILY: today.key_tokens} | (asdict(stored) if stored else {})
        used |= {name: value for name, value in key_usage.items() if self._is_key_limit(name)}
        return {name: value for name, value in used.items() if name in limits}

    def _is_key_limit(self, name: str) -> bool:
        """Return whether ``get_limits`` returns the key's quota, not the tenant's."""
        key_limit, tenant_limit = getattr(self.principal.key_quotas, name), getattr(self.principal.quotas, name)
        return key_limit is not None and (tenant_limit is None or key_limit < tenant_limit)

    async def get_storage(self) -> StorageUsage:
        """Return the tenant's current storage. Raises ForbiddenError."""
        self._require_unrestricted_key()
        async with self.db.transaction() as session:
            return await QuotaRepository(session, self.db.tenant_id).get_storage()

    async def list_usage_by_day(self, begin: date, end: date) -> Sequence[tuple[date, Usage]]:
        """Return the tenant's usage of each day with usage. Raises ForbiddenError."""
        self._require_unrestricted_key()
        await self.meter.write(self.db.tenant_id)
        async with self.db.transaction() as session:
            return await QuotaRepository(session, self.db.tenant_id).list_usage_by_day(begin, end)

    async def list_usage_by_key(self, begin: date, end: date) -> Sequence[tuple[UUID, str | None, Usage]]:
        """Return the usage of each key in a period. Raises ForbiddenError."""
        self._require_unrestricted_key()
        await self.meter.write(self.db.tenant_id)
        async with self.db.transaction() as session:
            return await QuotaRepository(session, self.db.tenant_id).list_usage_by_key(begin, end)

    def _require_unrestricted_key(self) -> None:
        if self.principal.knowledge_base_ids is not None or self.principal.user_id is not None:
            raise ForbiddenError("A restricted API key cannot read the tenant's usage. Use an unrestricted key.")


async def set_quotas(session: Session, tenant_id: UUID, quotas: Quotas) -> None:
    """Start or stop counting the storage of a tenant, as its quotas require, and set its limit of running jobs.

    Args:
        session: An open transaction of the tenant.
        tenant_id: The tenant.
        quotas: The new quotas.
    """
    repository = QuotaRepository(session, tenant_id)
    if quotas.has_storage_limit:
        await repository.start_counting_storage()
    else:
        await repository.stop_counting_storage()
    await repository.set_max_running_jobs(quotas.concurrent_ingestions)
