"""Waiting for documents: one listening connection a process tells everybody who waits that a document changed."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from uuid import UUID

from app.db.notifications import NotificationNamer, listen
from app.db.session import Database

# The trigger on document: the notification name of tenant/document, then /status, or this word where it is gone.
CHANNEL = "carrel_document"
DELETED = "deleted"
# Notifications are a hint: who waits looks again after so long in any case.
POLL_INTERVAL_SECONDS = 2.0
# With many waiting callers each looks more rarely, so that all together ask the database no more often than this.
MAX_POLLS_PER_SECOND = 50


@dataclass(slots=True, eq=False)
class DocumentSubscription:
    """Set when the document changed, or may have; ``is_deleted`` once it is known to be gone.

    ``status`` is what was heard last; None where a change may have been missed. ``feed`` has made it.
    """

    feed: "DocumentChangeFeed | None" = None
    event: asyncio.Event = field(default_factory=asyncio.Event)
    status: str | None = None
    is_deleted: bool = False

    async def wait(
        self, timeout_seconds: float = POLL_INTERVAL_SECONDS, *, until_statuses: Collection[str] = ()
    ) -> None:
        """Until the next change, or until ``timeout_seconds`` or the watch's ``poll_interval_seconds`` have passed;
        never longer.

        With ``until_statuses`` only a change to one of these statuses counts, a deletion, and one that may have been
        missed.
        """
        with suppress(TimeoutError):
            poll_interval_seconds = POLL_INTERVAL_SECONDS if self.feed is None else self.feed.poll_interval_seconds
            async with asyncio.timeout(max(0.0, min(timeout_seconds, poll_interval_seconds))):
                await self.event.wait()
                while until_statuses and self.status not in (None, DELETED, *until_statuses):
                    self.event.clear()
                    await self.event.wait()
        self.event.clear()


@dataclass(slots=True)
class DocumentChangeFeed:
    """Listens from the first waiter on; ``is_ending`` tells those who wait that they are to wait no longer."""

    database: Database
    _subscriptions: dict[str, set[DocumentSubscription]] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _naming: NotificationNamer | None = None
    _task: asyncio.Task[None] | None = None
    is_ending: bool = False

    @property
    def poll_interval_seconds(self) -> float:
        """Seconds after which a waiting caller looks again without a notification."""
        waiter_count = sum(map(len, self._subscriptions.values()))
        return max(POLL_INTERVAL_SECONDS, waiter_count / MAX_POLLS_PER_SECOND)

    @asynccontextmanager
    async def subscribe(self, tenant_id: UUID, document_id: UUID) -> AsyncIterator[DocumentSubscription]:
        """Tells of changes of one document from now on; read its state inside the block, or one may be missed."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(listen(self.database, CHANNEL, self._on_notification, self._on_connected))
        name, subscription = f"{tenant_id}/{document_id}", DocumentSubscription(self)
        self._subscriptions.setdefault(name, set()).add(subscription)
        if self._naming is not None:
            self._names[self._naming(name)] = name
        try:
            yield subscription
        finally:
            self._subscriptions[name].discard(subscription)
            if not self._subscriptions[name]:
                del self._subscriptions[name]
                if self._naming is not None:
                    self._names.pop(self._naming(name), None)

    def release_waiters(self) -> None:
        """The process is about to end: whoever waits is to answer with what there is now."""
        self.is_ending = True
        self._mark_changes_missed()

    async def close(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _on_notification(self, payload: str) -> None:
        named, _, status = payload.rpartition("/")
        for subscription in self._subscriptions.get(self._names.get(named, ""), ()):
            subscription.status, subscription.is_deleted = status, subscription.is_deleted or status == DELETED
            subscription.event.set()

    def _on_connected(self, naming: NotificationNamer) -> None:
        self._naming = naming
        self._names = {naming(name): name for name in self._subscriptions}
        self._mark_changes_missed()

    def _mark_changes_missed(self) -> None:
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                subscription.status = None
                subscription.event.set()
