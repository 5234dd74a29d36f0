"""Audit of failed sign-ins. A background task writes equal attempts as one event."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from app.audit.repository import AuditRepository
from app.audit.types import Actor, ActorKind, AuditAction, AuditEvent
from app.db.models.base import SYSTEM_TENANT
from app.db.models.control_plane_rows import RejectedKey
from app.db.session import Database
from app.errors import UnavailableError
from app.logging import get_logger
from app.principal import RequestOrigin

logger = get_logger(__name__)

# A caller who tries thousands of keys must fill neither the memory nor the table. Equal attempts are counted. In each
# interval, at most this number of different attempts is written.
WRITE_DELAY_SECONDS = 2.0
MAX_PENDING = 100


@dataclass(frozen=True, slots=True)
class FailedSignIn:
    """SHA-256 of the rejected key, or None for a text that is not a key, and the address of the caller."""

    key_hash: bytes | None
    address: str | None


@dataclass(slots=True)
class SignInAuditLog:
    """Failed sign-ins of this process. Writing starts with the first attempt."""

    database: Database
    find_key: Callable[[bytes], Awaitable[RejectedKey | None]]
    write_delay_seconds: float = WRITE_DELAY_SECONDS
    _pending: dict[FailedSignIn, "_Tally"] = field(default_factory=dict)
    _dropped_count: int = 0
    _closing: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    def record(self, key_hash: bytes | None, origin: RequestOrigin) -> None:
        """Record a rejected sign-in.

        Args:
            key_hash: The SHA-256 of the key, or None for a text that is not a key.
            origin: The origin of the request.
        """
        attempt = FailedSignIn(key_hash, origin.address)
        if attempt not in self._pending and len(self._pending) >= MAX_PENDING:
            self._dropped_count += 1
            return
        self._pending.setdefault(attempt, _Tally(origin)).times += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write_later())

    async def close(self) -> None:
        """Write the pending attempts."""
        self._closing.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _write_later(self) -> None:
        while self._pending:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), self.write_delay_seconds)
            await self._write()

    async def _write(self) -> None:
        pending, self._pending = self._pending, {}
        dropped_count, self._dropped_count = self._dropped_count, 0
        try:
            counts = await self._count_by_actor(pending)
            for (tenant_id, actor), times in counts.items():
                await self._record(tenant_id, actor, times)
        except UnavailableError as error:
            logger.warning(
                "sign_ins.write_failed", error=error, attempts=sum(tally.times for tally in pending.values())
            )
        if dropped_count:
            logger.warning("sign_ins.dropped", attempts=dropped_count)

    async def _count_by_actor(self, pending: dict[FailedSignIn, "_Tally"]) -> Counter[tuple[UUID, Actor]]:
        """Count attempts by the tenant whose log gets the event, and by actor.

        An event has the origin of its first attempt.
        """
        first_actors: dict[tuple[UUID, UUID | None, str | None], Actor] = {}
        counts: Counter[tuple[UUID, Actor]] = Counter()
        for attempt, tally in pending.items():
            key = await self.find_key(attempt.key_hash) if attempt.key_hash is not None else None
            tenant_id, actor = _resolve_actor(key, tally.origin)
            actor = first_actors.setdefault((tenant_id, actor.id, attempt.address), actor)
            counts[tenant_id, actor] += tally.times
        return counts

    async def _record(self, tenant_id: UUID, actor: Actor, times: int) -> None:
        objects = () if actor.id is None else (actor.id,)
        event = AuditEvent(AuditAction.SIGN_IN_FAIL, objects, counts={"attempts": times})
        async with self.database.transaction(tenant_id) as session:
            await AuditRepository(session, tenant_id).add(event, actor)


@dataclass(slots=True)
class _Tally:
    """Origin of the first of several equal attempts, and their number."""

    origin: RequestOrigin
    times: int = 0


def _resolve_actor(key: RejectedKey | None, origin: RequestOrigin) -> tuple[UUID, Actor]:
    """Return the tenant whose log gets the event, and the actor: the tenant of the key, or the system tenant."""
    if key is None:
        return SYSTEM_TENANT, Actor(ActorKind.UNKNOWN, origin=origin)
    return key.tenant_id, Actor(ActorKind.KEY, key.key_id, key.key_name, origin)
