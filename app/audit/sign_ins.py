"""Failed sign-ins: noted at once, written a little later in the background, those that are alike as one event."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from app.access import Origin
from app.audit.repository import AuditRepository
from app.audit.types import Action, Actor, ActorKind, Event
from app.db.models.base import SYSTEM_TENANT
from app.db.models.control_rows import RefusedKey
from app.db.session import Database
from app.errors import Unavailable
from app.logging import get_logger

logger = get_logger(__name__)

# Somebody who tries keys by the thousand fills neither the memory nor the table: what is alike is counted, and of what
# differs, no more than so much is told in so many seconds.
SECONDS = 2.0
MOST_WAITING = 100


@dataclass(frozen=True, slots=True)
class Attempt:
    """The SHA-256 of a key, None for what is none of ours, and the address that it came from."""

    key_hash: bytes | None
    address: str | None


@dataclass(slots=True)
class SignInAudit:
    """Those of this process; begins to write with the first one."""

    database: Database
    find_key: Callable[[bytes], Awaitable[RefusedKey | None]]
    seconds: float = SECONDS
    _waiting: dict[Attempt, "_Tally"] = field(default_factory=dict)
    _left_out: int = 0
    _ending: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    def note(self, key_hash: bytes | None, origin: Origin) -> None:
        """Somebody was refused."""
        attempt = Attempt(key_hash, origin.address)
        if attempt not in self._waiting and len(self._waiting) >= MOST_WAITING:
            self._left_out += 1
            return
        self._waiting.setdefault(attempt, _Tally(origin)).times += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write_later())

    async def close(self) -> None:
        """Write what is waiting."""
        self._ending.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _write_later(self) -> None:
        while self._waiting:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), self.seconds)
            await self._write()

    async def _write(self) -> None:
        waiting, self._waiting = self._waiting, {}
        left_out, self._left_out = self._left_out, 0
        try:
            by_owner = await self._by_owner(waiting)
            for (tenant_id, actor), times in by_owner.items():
                await self._record(tenant_id, actor, times)
        except Unavailable as error:
            logger.warning("sign_ins.not_written", error=error, attempts=sum(one.times for one in waiting.values()))
        if left_out:
            logger.warning("sign_ins.left_out", attempts=left_out)

    async def _by_owner(self, waiting: dict[Attempt, "_Tally"]) -> Counter[tuple[UUID, Actor]]:
        """How often, by whose list it goes into and who was refused from where; the request is the first such."""
        first: dict[tuple[UUID, UUID | None, str | None], Actor] = {}
        found: Counter[tuple[UUID, Actor]] = Counter()
        for attempt, tally in waiting.items():
            key = await self.find_key(attempt.key_hash) if attempt.key_hash is not None else None
            tenant_id, actor = _whose(key, tally.origin)
            actor = first.setdefault((tenant_id, actor.id, attempt.address), actor)
            found[tenant_id, actor] += tally.times
        return found

    async def _record(self, tenant_id: UUID, actor: Actor, times: int) -> None:
        objects = () if actor.id is None else (actor.id,)
        event = Event(Action.SIGN_IN_FAIL, objects, counts={"attempts": times})
        async with self.database.transaction(tenant_id) as session:
            await AuditRepository(session, tenant_id).add(event, actor)


@dataclass(slots=True)
class _Tally:
    """The first request of its kind, and how many there were."""

    origin: Origin
    times: int = 0


def _whose(key: RefusedKey | None, origin: Origin) -> tuple[UUID, Actor]:
    """The tenant whose list it goes into: that of the key, or the operator's."""
    if key is None:
        return SYSTEM_TENANT, Actor(ActorKind.UNKNOWN, origin=origin)
    return key.tenant_id, Actor(ActorKind.KEY, key.key_id, key.key_name, origin)
