"""Knowledge bases as callers know them who call them stores: named freely, labelled, and counted by state of file."""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from app.audit.types import Action, Event
from app.db.session import Session
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.store_repository import StoreRepository
from app.knowledge_bases.types import KnowledgeBaseExists, KnowledgeBaseView, NewKnowledgeBase

UNNAMED = "vector-store"
# Of a name's 63 characters so many are left for what makes it another than one that is there.
LONGEST = 50
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Store:
    """A knowledge base with its labels; ``states`` counts its documents by status, ``bytes`` is of all of them.

    What a job is yet to make documents of is counted as queued.
    """

    view: KnowledgeBaseView
    labels: Mapping[str, Any] = field(default_factory=dict)
    states: Mapping[str, int] = field(default_factory=dict)
    bytes: int = 0


def plain_name(title: str | None) -> str:
    """A name as knowledge bases have them, made from a free text."""
    words = re.sub(r"[^a-z0-9]+", "-", (title or "").lower()).strip("-")
    return words[:LONGEST].strip("-") or UNNAMED


@dataclass(frozen=True, slots=True)
class StoreService:
    """What a key can do with its knowledge bases as stores."""

    knowledge_bases: KnowledgeBaseService

    async def create(self, new: NewKnowledgeBase, labels: Mapping[str, str]) -> Store:
        """With a name of its own, made from the title. Raises as ``KnowledgeBaseService.create``."""
        name = plain_name(new.title)
        made = await self._create(replace(new, name=name))
        if labels:
            async with self.knowledge_bases.db.transaction() as session:
                await self._repository(session).label(made.row.id, labels)
        return Store(made, labels)

    async def _create(self, new: NewKnowledgeBase) -> KnowledgeBaseView:
        for attempt in range(ATTEMPTS):
            another = f"{new.name}-{secrets.token_hex(4)}" if attempt or new.name == UNNAMED else new.name
            try:
                return await self.knowledge_bases.create(replace(new, name=another))
            except KnowledgeBaseExists:
                if attempt == ATTEMPTS - 1:
                    raise
        raise KnowledgeBaseExists

    async def get(self, reference: str) -> Store:
        """By id or name. Raises KnowledgeBaseNotFound."""
        async with self.knowledge_bases.db.transaction(snapshot=True) as session:
            view = await self.knowledge_bases.find_in(session, reference)
            return (await self._told(session, [view]))[0]

    async def page(self, *, beyond: UUID | None, newest_first: bool, limit: int) -> Sequence[Store]:
        """Those that the key may see, in the order of time."""
        allowed = self.knowledge_bases.principal.knowledge_base_ids
        async with self.knowledge_bases.db.transaction(snapshot=True) as session:
            ids = await self._repository(session).page(
                only=None if allowed is None else list(allowed),
                beyond=beyond,
                newest_first=newest_first,
                limit=limit,
            )
            repository = KnowledgeBaseRepository(session, self.knowledge_bases.db.tenant_id)
            views = await repository.few(ids, most=len(ids))
            by_id = {view.row.id: view for view in views}
            return await self._told(session, [by_id[one] for one in ids if one in by_id])

    async def update(self, reference: str, changes: Mapping[str, Any], labels: Mapping[str, str] | None) -> Store:
        """Raises as ``KnowledgeBaseService.update``."""
        view = await self.knowledge_bases.update(reference, dict(changes))
        if labels is not None:
            async with self.knowledge_bases.db.transaction() as session:
                if await self._repository(session).label(view.row.id, labels):
                    event = Event(Action.KNOWLEDGE_BASE_UPDATE, [view.row.id], view.row.id)
                    await self.knowledge_bases.record(session, event)
        return await self.get(reference)

    async def _told(self, session: Session, views: Sequence[KnowledgeBaseView]) -> list[Store]:
        ids = [view.row.id for view in views]
        repository = self._repository(session)
        principal = self.knowledge_bases.principal
        labels, files = await repository.labels(ids), await repository.files(ids, reader=principal.user_id)
        waiting = await repository.waiting(ids, only_of=None if principal.user_id is None else principal.line_id)
        found = []
        for view in views:
            states, size = files.get(view.row.id, ({}, 0))
            if more := waiting.get(view.row.id):
                states["queued"] = states.get("queued", 0) + more
            found.append(Store(view, labels.get(view.row.id, {}), states, size))
        return found

    def _repository(self, session: Session) -> StoreRepository:
        return StoreRepository(session, self.knowledge_bases.db.tenant_id)
