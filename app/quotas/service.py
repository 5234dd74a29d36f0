"""What one caller may use, and what was used."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any
from uuid import UUID

from app.access import ROW_QUOTAS, Principal, Quotas
from app.db.session import Session, TenantDatabase
from app.errors import Forbidden
from app.quotas.local import LocalLimits
from app.quotas.meter import UsageMeter
from app.quotas.rates import Rates
from app.quotas.repository import QuotaRepository
from app.quotas.room import Room
from app.quotas.tokens import TokenBudget
from app.quotas.types import NO_KEY, RateState, Stored, TokensSpent, Used

_DAILY = TokensSpent.QUOTA


@dataclass(frozen=True, slots=True)
class QuotaService:
    """The quotas of a tenant and its key, and the meter that counts what they do."""

    db: TenantDatabase
    principal: Principal
    rates: Rates
    meter: UsageMeter
    most_upload_bytes: int
    local: LocalLimits

    @property
    def upload_bytes(self) -> int:
        """How large an upload may be: the least of what the service, the tenant and the key allow."""
        limits = (self.most_upload_bytes, self.principal.quotas.upload_bytes, self.principal.key_quotas.upload_bytes)
        return min(limit for limit in limits if limit is not None)

    @property
    def tokens(self) -> TokenBudget:
        """What may be embedded today."""
        return TokenBudget.of(self.db, self.principal)

    def count(self, **counts: int) -> None:
        """Count what the caller did."""
        self.meter.add(self.principal.tenant_id, self.principal.key_id, **counts)

    def searching(self) -> AbstractContextManager[None]:
        """Count a search until the end of the block. Raises RateLimited."""
        return self.local.using(self.principal, "concurrent_searches")

    def streaming(self) -> AbstractContextManager[None]:
        """Count an event stream until the end of the block. Raises RateLimited."""
        return self.local.using(self.principal, "event_streams")

    async def admit_search(self) -> RateState:
        """Take a search from the key's rate and the tenant's, and return the lower remainder. Raises RateLimited.

        A tenant without a quota has the default rate of this process.
        """
        tenant_id, line_id = self.principal.tenant_id, self.principal.line_id or NO_KEY
        own, whole = self.principal.key_quotas.searches_per_second, self.principal.quotas.searches_per_second
        of_key = None if own is None else await self.rates.take(tenant_id, line_id, own)
        try:
            if whole is None:
                of_tenant = self.local.take_search(tenant_id)
            else:
                of_tenant = await self.rates.take(tenant_id, NO_KEY, whole)
        except BaseException:
            if own is not None:
                self.rates.give_back(tenant_id, line_id, own)
            raise
        return of_tenant if of_key is None or of_tenant.remaining < of_key.remaining else of_key

    async def require_room(self, session: Session, *, replaces: bool) -> None:
        """The document that the caller's transaction has written, maybe over another's, fits. Raises QuotaExceeded."""
        grown = ("stored_bytes",) if replaces else ("documents", "stored_bytes")
        # Whoever replaces a document of another key takes over all of it.
        taken = ("documents", "stored_bytes", "chunks")
        await Room.of(self.principal).require(session, dict.fromkeys(grown, 0), of_key=dict.fromkeys(taken, 0))

    async def require_room_for_file(self, session: Session) -> None:
        """The file that the caller's transaction has kept for itself fits. Raises QuotaExceeded."""
        grown = {"stored_bytes": 0}
        await Room.of(self.principal).require(session, grown, of_key=grown)

    def limits(self) -> dict[str, Any]:
        """Those that hold for the caller, defaults among them."""
        defaults = {
            **ROW_QUOTAS,
            "searches_per_second": self.local.searches_per_second,
            "concurrent_searches": self.local.concurrent_searches,
            "event_streams": self.local.event_streams,
        }
        limits = {**defaults, **self.principal.quotas.given(), "upload_bytes": self.upload_bytes}
        for name, value in self.principal.key_quotas.given().items():
            limits[name] = min(value, limits.get(name, value))
        return limits

    async def used(self) -> dict[str, int]:
        """What is used of the limits that run out; nothing is asked where there are none."""
        limits = self.limits().keys()
        used: dict[str, int] = {}
        if not limits & {"documents", "stored_bytes", "chunks", _DAILY}:
            return used
        await self.meter.write(self.db.tenant_id)
        async with self.db.transaction() as session:
            repository = QuotaRepository(session, self.db.tenant_id)
            if self.principal.quotas.counts_documents:
                used |= asdict(await repository.stored())
            stored = None
            if self.principal.stores_for is not None:
                stored = await repository.counted_of_key(self.principal.stores_for)
            today = await repository.tokens_today(self.principal.key_id or NO_KEY)
        used[_DAILY] = today.of_tenant
        of_key = {_DAILY: today.of_key} | (asdict(stored) if stored else {})
        used |= {name: value for name, value in of_key.items() if self._is_of_key(name)}
        return {name: value for name, value in used.items() if name in limits}

    def _is_of_key(self, name: str) -> bool:
        """Whether the key's quota is the one that ``limits`` tells."""
        own, whole = getattr(self.principal.key_quotas, name), getattr(self.principal.quotas, name)
        return own is not None and (whole is None or own < whole)

    async def stored(self) -> Stored:
        """What the tenant has stored now. Raises Forbidden."""
        self._require_whole()
        async with self.db.transaction() as session:
            return await QuotaRepository(session, self.db.tenant_id).stored()

    async def by_day(self, begin: date, end: date) -> Sequence[tuple[date, Used]]:
        """What the tenant used on each day on which it did. Raises Forbidden."""
        self._require_whole()
        await self.meter.write(self.db.tenant_id)
        async with self.db.transaction() as session:
            return await QuotaRepository(session, self.db.tenant_id).days(begin, end)

    async def by_key(self, begin: date, end: date) -> Sequence[tuple[UUID, str | None, Used]]:
        """What each of its keys used in that time. Raises Forbidden."""
        self._require_whole()
        await self.meter.write(self.db.tenant_id)
        async with self.db.transaction() as session:
            return await QuotaRepository(session, self.db.tenant_id).keys(begin, end)

    def _require_whole(self) -> None:
        if self.principal.knowledge_base_ids is not None or self.principal.user_id is not None:
            raise Forbidden("A key that is narrowed does not see what others use.")


async def set_quotas(session: Session, tenant_id: UUID, quotas: Quotas) -> None:
    """Begin or stop counting what is stored, as they need it; and how many jobs run at once."""
    repository = QuotaRepository(session, tenant_id)
    if quotas.counts_documents:
        await repository.begin_counting()
    else:
        await repository.stop_counting()
    await repository.limit_jobs(quotas.concurrent_ingestions)
