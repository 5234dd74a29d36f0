"""Waiting for documents: one listening connection a process tells everybody who waits that a document changed."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from uuid import UUID

from app.db.listening import Naming, listen
from app.db.session import Database

# The trigger on document: the notification name of tenant/document, then /status, or this word where it is gone.
CHANNEL = "carrel_document"
DELETED = "deleted"
# Notifications are a hint: who waits looks again after so long in any case.
LOOK_SECONDS = 2.0
# With many waiting callers each looks more rarely, so that all together ask the database no more often than this.
MAX_LOOKS_PER_SECOND = 50


@dataclass(slots=True, eq=False)
class Change:
    """Set when the document changed, or may have; ``deleted`` once it is known to be gone.

    ``status`` is what was heard last; None where a change may have been missed. ``watch`` has made it.
    """

    watch: "DocumentWatch | None" = None
    event: asyncio.Event = field(default_factory=asyncio.Event)
    status: str | None = None
    deleted: bool = False

    async def wait(self, seconds: float = LOOK_SECONDS, *, until: Collection[str] = ()) -> None:
        """Until the next change, or until ``seconds`` or the watch's ``look_seconds`` have passed; never longer.

        With ``until`` only a change to one of these statuses counts, a deletion, and one that may have been missed.
        """
        with suppress(TimeoutError):
            look_seconds = LOOK_SECONDS if self.watch is None else self.watch.look_seconds
            async with asyncio.timeout(max(0.0, min(seconds, look_seconds))):
                await self.event.wait()
                while until and self.status not in (None, DELETED, *until):
                    self.event.clear()
                    await self.event.wait()
        self.event.clear()


@dataclass(slots=True)
class DocumentWatch:
    """Listens from the first waiter on; ``ending`` tells those who wait that they are to wait no longer."""

    database: Database
    _waiting: dict[str, set[Change]] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _naming: Naming | None = None
    _task: asyncio.Task[None] | None = None
    ending: bool = False

    @property
    def look_seconds(self) -> float:
        """Seconds after which a waiting caller looks again without a notification."""
        waiting = sum(map(len, self._waiting.values()))
        return max(LOOK_SECONDS, waiting / MAX_LOOKS_PER_SECOND)

    @asynccontextmanager
    async def changes(self, tenant_id: UUID, document_id: UUID) -> AsyncIterator[Change]:
        """Tells of changes of one document from now on; read its state inside the block, or one may be missed."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(listen(self.database, CHANNEL, self._heard, self._connected))
        name, change = f"{tenant_id}/{document_id}", Change(self)
        self._waiting.setdefault(name, set()).add(change)
        if self._naming is not None:
            self._names[self._naming(name)] = name
        try:
            yield change
        finally:
            self._waiting[name].discard(change)
            if not self._waiting[name]:
                del self._waiting[name]
                if self._naming is not None:
                    self._names.pop(self._naming(name), None)

    def let_go(self) -> None:
        """The process is about to end: whoever waits is to answer with what there is now."""
        self.ending = True
        self._missed()

    async def close(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _heard(self, payload: str) -> None:
        named, _, status = payload.rpartition("/")
        for change in self._waiting.get(self._names.get(named, ""), ()):
            change.status, change.deleted = status, change.deleted or status == DELETED
            change.event.set()

    def _connected(self, naming: Naming) -> None:
        self._naming = naming
        self._names = {naming(name): name for name in self._waiting}
        self._missed()

    def _missed(self) -> None:
        for changes in self._waiting.values():
            for change in changes:
                change.status = None
                change.event.set()
