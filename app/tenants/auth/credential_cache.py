"""Cache of valid credentials. Entries live for seconds, and only while notifications of changes arrive."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from uuid import UUID

from app.db.control_plane import ControlPlaneDatabase
from app.db.models.control_plane_rows import AuthenticatedKey
from app.db.notifications import NotificationNamer, listen
from app.db.session import DatabaseUnavailable
from app.principal import Principal, Quotas, Role

# The triggers on ``api_key`` and ``tenant`` notify on this channel. The payload is a digest of the tenant's id
# (``build_notification_name``). The keys of this tenant must be loaded again.
CHANNEL = "carrel_key"
# The time for which a revoked key can stay valid if the connection is dead and neither side has noticed.
CACHE_TTL_SECONDS = 5.0
MAX_KEYS = 10_000
# The maximum time of a lookup. A working database answers sooner, and a search has five seconds in total.
LOOKUP_TIMEOUT_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class CredentialLookup:
    """The principal of a valid credential, and the maximum time for which it stays valid."""

    principal: Principal
    remaining_seconds: float


@dataclass(frozen=True, slots=True)
class CachedCredential:
    """The principal of a credential, and the time at which it must be loaded again.

    ``notification_name`` is the digest that names the tenant in notifications.
    """

    principal: Principal
    notification_name: str
    expires_at: float


@dataclass(frozen=True, slots=True)
class PendingLookup:
    """A running lookup, and the number of changes that were known at its start."""

    task: "asyncio.Future[CredentialLookup | None]"
    change_count: int


@dataclass(slots=True)
class CredentialCache:
    """Cache of keys and tokens by their SHA-256. It starts to listen at the first lookup.

    Without a listening connection, nothing is cached, and every lookup queries the database.
    """

    control_plane: ControlPlaneDatabase
    ttl_seconds: float = CACHE_TTL_SECONDS
    max_keys: int = MAX_KEYS
    clock: Callable[[], float] = time.monotonic
    _cached: OrderedDict[bytes, CachedCredential] = field(default_factory=OrderedDict)
    _pending: dict[bytes, PendingLookup] = field(default_factory=dict)
    _change_count: int = 0
    _namer: NotificationNamer | None = None  # None without a listening connection
    _task: asyncio.Task[None] | None = None

    async def find(self, key_hash: bytes) -> Principal | None:
        """Return the principal of the valid key with this hash, or None. Raises DatabaseUnavailable."""
        return await self.resolve(key_hash, lambda: self._load_key(key_hash))

    async def resolve(self, digest: bytes, load: Callable[[], Awaitable[CredentialLookup | None]]) -> Principal | None:
        """Return the principal of a credential by its hash, or None. Call ``load`` if the credential is not cached."""
        cached = self._cached.get(digest)
        if cached is not None and self.clock() < cached.expires_at:
            self._cached.move_to_end(digest)
            return cached.principal
        return await self._load_and_cache(digest, load)

    def invalidate(self, tenant_id: UUID) -> None:
        """Remove the cached keys of a tenant after a change by this process, before the notification arrives."""
        self._on_change("" if self._namer is None else self._namer(str(tenant_id)))

    async def close(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _load_key(self, key_hash: bytes) -> CredentialLookup | None:
        try:
            async with asyncio.timeout(LOOKUP_TIMEOUT_SECONDS):
                row = await self.control_plane.authenticate(key_hash)
        except TimeoutError as exc:
            raise DatabaseUnavailable from exc
        return CredentialLookup(_to_principal(row), row.seconds_left) if row else None

    async def _load_and_cache(
        self, digest: bytes, load: Callable[[], Awaitable[CredentialLookup | None]]
    ) -> Principal | None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(
                listen(
                    self.control_plane.database,
                    CHANNEL,
                    self._on_change,
                    self._on_connect,
                    on_disconnect=self._on_disconnect,
                )
            )
        requested_at, change_count = self.clock(), self._change_count
        lookup = await self._load_once(digest, load)
        if lookup is None:
            return None
        principal = lookup.principal
        # The result may be older than a change that was notified during the lookup.
        if self._namer is not None and change_count == self._change_count:
            until = requested_at + min(self.ttl_seconds, lookup.remaining_seconds)
            self._cached[digest] = CachedCredential(principal, self._namer(str(principal.tenant_id)), until)
            self._cached.move_to_end(digest)
            if len(self._cached) > self.max_keys:
                self._cached.popitem(last=False)
        return principal

    async def _load_once(
        self, digest: bytes, load: Callable[[], Awaitable[CredentialLookup | None]]
    ) -> CredentialLookup | None:
        """Join a running lookup of the same credential, unless something has changed since its start.

        Many parallel requests with an uncached key share one query. Separate queries would take all connections.
        """
        pending = self._pending.get(digest)
        if pending is None or self._namer is None or pending.change_count != self._change_count:
            pending = PendingLookup(asyncio.ensure_future(load()), self._change_count)
            self._pending[digest] = pending
            pending.task.add_done_callback(lambda task: self._on_lookup_done(digest, task))
        return await asyncio.shield(pending.task)

    def _on_lookup_done(self, digest: bytes, task: "asyncio.Future[CredentialLookup | None]") -> None:
        pending = self._pending.get(digest)
        if pending is not None and pending.task is task:
            del self._pending[digest]
        if not task.cancelled():
            task.exception()  # waiting callers get the exception, but all of them may be cancelled

    def _on_change(self, notification_name: str) -> None:
        self._change_count += 1
        for digest in [
            digest for digest, cached in self._cached.items() if cached.notification_name == notification_name
        ]:
            del self._cached[digest]

    def _on_connect(self, namer: NotificationNamer) -> None:
        self._on_disconnect()
        self._namer = namer

    def _on_disconnect(self) -> None:
        self._change_count += 1
        self._namer = None
        self._cached.clear()


def _to_principal(row: AuthenticatedKey) -> Principal:
    allowed = row.knowledge_base_ids
    return Principal(
        tenant_id=row.tenant_id,
        tenant_name=row.tenant_name,
        role=Role(row.role),
        key_id=row.key_id,
        key_name=row.key_name,
        knowledge_base_ids=None if allowed is None else frozenset(allowed),
        user_id=row.user_id,
        quotas=Quotas.from_json(row.quotas),
        key_quotas=Quotas.from_json(row.key_quotas),
        key_lineage_id=row.key_lineage_id or row.key_id,
    )
