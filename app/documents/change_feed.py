"""Notifications of document changes. All waiting requests of a process share one listening connection."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from uuid import UUID

from app.db.notifications import NotificationNamer, listen
from app.db.session import Database

# The trigger on ``document`` notifies on this channel. The payload is a digest of ``tenant/document``
# (``build_notification_name``), a slash, and the document's status, or DELETED if the document was deleted. A second
# payload, the digest of ``tenant/knowledge base`` and ``changed``, names the knowledge base.
CHANNEL = "carrel_document"
DELETED = "deleted"
# A notification can get lost, so each waiting caller also polls at this interval.
POLL_INTERVAL_SECONDS = 2.0
# The maximum number of polls of all waiting callers together. The poll interval grows with the number of callers.
MAX_POLLS_PER_SECOND = 50


@dataclass(slots=True, eq=False)
class DocumentSubscription:
    """Subscription of a waiting caller to a document or a knowledge base, made by ``DocumentChangeFeed.subscribe``.

    ``event`` is set when the document has changed or may have changed. ``status`` is the status of the last
    notification, or None if a notification may have been missed. ``is_deleted`` is True after a notification of the
    deletion. ``feed`` is the feed that created the subscription.
    """

    feed: "DocumentChangeFeed | None" = None
    event: asyncio.Event = field(default_factory=asyncio.Event)
    status: str | None = None
    is_deleted: bool = False

    async def wait(
        self, timeout_seconds: float = POLL_INTERVAL_SECONDS, *, until_statuses: Collection[str] = ()
    ) -> None:
        """Wait until the document changes, or until a timeout.

        Args:
            timeout_seconds: The maximum wait. The feed's ``poll_interval_seconds`` limits it as well.
            until_statuses: If given, changes to other statuses do not end the wait. A deletion and a possibly missed
                notification always end it.
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
    """Subscriptions to document changes. The feed starts to listen at the first subscription.

    If ``is_ending`` is True, the process is about to end, and callers stop waiting.
    """

    database: Database
    _subscriptions: dict[str, set[DocumentSubscription]] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _naming: NotificationNamer | None = None
    _task: asyncio.Task[None] | None = None
    is_ending: bool = False

    @property
    def poll_interval_seconds(self) -> float:
        """Seconds after which a waiting caller polls without a notification."""
        waiter_count = sum(map(len, self._subscriptions.values()))
        return max(POLL_INTERVAL_SECONDS, waiter_count / MAX_POLLS_PER_SECOND)

    @asynccontextmanager
    async def subscribe(self, tenant_id: UUID, object_id: UUID) -> AsyncIterator[DocumentSubscription]:
        """Yield a subscription to the changes of a document, or of the documents of a knowledge base.

        Read the present state inside the block. A change between an earlier read and the subscription would be missed.

        Args:
            tenant_id: The tenant that owns the object.
            object_id: The document or the knowledge base.
        """
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(listen(self.database, CHANNEL, self._on_notification, self._on_connected))
        name, subscription = f"{tenant_id}/{object_id}", DocumentSubscription(self)
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
        """Wake all waiting callers before the process ends, so that they answer with the present state."""
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
