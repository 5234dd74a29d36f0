"""Credentials that were valid a moment ago: kept for seconds, and only while the database can tell of changes."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from uuid import UUID

from app.access import Principal, Quotas, Role
from app.db.listening import Naming, listen
from app.db.models.control_rows import AuthenticatedKey
from app.db.session import DatabaseUnavailable
from app.db.system import SystemDatabase

# The triggers on api_key and tenant: the notification name of the tenant whose keys are to be looked up again.
CHANNEL = "carrel_key"
# How long a key may outlive its revocation where a connection is dead and neither side knows it.
KEPT_SECONDS = 5.0
MOST_KEYS = 10_000
# Any database that answers finds a key sooner; and whoever searches waits for five seconds in all.
LOOKUP_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class Found:
    """Who has a valid credential, and for how long it is valid at most."""

    principal: Principal
    seconds_left: float


@dataclass(frozen=True, slots=True)
class Kept:
    """Who has a credential, and until when that need not be asked again; ``tenant`` is the notification name."""

    principal: Principal
    tenant: str
    until: float


@dataclass(frozen=True, slots=True)
class Asking:
    """A look-up under way, and the number of changes that were known when it began."""

    task: "asyncio.Future[Found | None]"
    changes: int


@dataclass(slots=True)
class KnownKeys:
    """Valid keys and tokens by their SHA-256; listens from the first look-up on.

    Nothing is kept while nothing is heard: then every look-up asks the database.
    """

    system: SystemDatabase
    seconds: float = KEPT_SECONDS
    most: int = MOST_KEYS
    clock: Callable[[], float] = time.monotonic
    _kept: OrderedDict[bytes, Kept] = field(default_factory=OrderedDict)
    _asking: dict[bytes, Asking] = field(default_factory=dict)
    _changes: int = 0
    _naming: Naming | None = None  # None while nothing is heard
    _task: asyncio.Task[None] | None = None

    async def find(self, key_hash: bytes) -> Principal | None:
        """Who has the valid key with this hash, if there is one. Raises DatabaseUnavailable."""
        return await self.find_by(key_hash, lambda: self._ask(key_hash))

    async def find_by(self, digest: bytes, ask: Callable[[], Awaitable[Found | None]]) -> Principal | None:
        """Who has the credential with this hash; ``ask`` finds out where that is not known."""
        kept = self._kept.get(digest)
        if kept is not None and self.clock() < kept.until:
            self._kept.move_to_end(digest)
            return kept.principal
        return await self._look_up(digest, ask)

    def forget(self, tenant_id: UUID) -> None:
        """The tenant or one of its keys has changed: for who changed it, ahead of the notification."""
        self._heard("" if self._naming is None else self._naming(str(tenant_id)))

    async def close(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _ask(self, key_hash: bytes) -> Found | None:
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                found = await self.system.authenticate(key_hash)
        except TimeoutError as exc:
            raise DatabaseUnavailable from exc
        return Found(_principal(found), found.seconds_left) if found else None

    async def _look_up(self, digest: bytes, ask: Callable[[], Awaitable[Found | None]]) -> Principal | None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(
                listen(self.system.database, CHANNEL, self._heard, self._hears, on_lost=self._hears_nothing)
            )
        asked_at, changes = self.clock(), self._changes
        found = await self._shared(digest, ask)
        if found is None:
            return None
        principal = found.principal
        # An answer may be older than a change that was told of meanwhile.
        if self._naming is not None and changes == self._changes:
            until = asked_at + min(self.seconds, found.seconds_left)
            self._kept[digest] = Kept(principal, self._naming(str(principal.tenant_id)), until)
            self._kept.move_to_end(digest)
            if len(self._kept) > self.most:
                self._kept.popitem(last=False)
        return principal

    async def _shared(self, digest: bytes, ask: Callable[[], Awaitable[Found | None]]) -> Found | None:
        """Join a look-up of the same credential that is under way, if nothing has changed since it began.

        Many requests at once whose key is not known any more ask the database once: they would take all connections.
        """
        asking = self._asking.get(digest)
        if asking is None or self._naming is None or asking.changes != self._changes:
            asking = Asking(asyncio.ensure_future(ask()), self._changes)
            self._asking[digest] = asking
            asking.task.add_done_callback(lambda task: self._asked(digest, task))
        return await asyncio.shield(asking.task)

    def _asked(self, digest: bytes, task: "asyncio.Future[Found | None]") -> None:
        asking = self._asking.get(digest)
        if asking is not None and asking.task is task:
            del self._asking[digest]
        if not task.cancelled():
            task.exception()  # whoever waited has it; all of them may have left

    def _heard(self, tenant: str) -> None:
        self._changes += 1
        for digest in [digest for digest, kept in self._kept.items() if kept.tenant == tenant]:
            del self._kept[digest]

    def _hears(self, naming: Naming) -> None:
        self._hears_nothing()
        self._naming = naming

    def _hears_nothing(self) -> None:
        self._changes += 1
        self._naming = None
        self._kept.clear()


def _principal(found: AuthenticatedKey) -> Principal:
    allowed = found.knowledge_base_ids
    return Principal(
        tenant_id=found.tenant_id,
        tenant_name=found.tenant_name,
        role=Role(found.role),
        key_id=found.key_id,
        key_name=found.key_name,
        knowledge_base_ids=None if allowed is None else frozenset(allowed),
        user_id=found.user_id,
        quotas=Quotas.stored(found.quotas),
        key_quotas=Quotas.stored(found.key_quotas),
        line_id=found.line_id or found.key_id,
    )
