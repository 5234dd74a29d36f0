"""Create, change, list and delete knowledge bases."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.exc import IntegrityError

from app.access import Principal
from app.audit.repository import AuditRepository
from app.audit.types import Action, Actor, Event
from app.db.models.tenant_data import KnowledgeBase
from app.db.receipts import open_receipt
from app.db.session import Session, TenantDatabase
from app.errors import Forbidden, InvalidInput
from app.filters import compile_filter
from app.http_sources.checking import check_source
from app.http_sources.types import HttpSource
from app.ids import decode_id, new_id
from app.job_queue import INTERACTIVE, JobQueue
from app.knowledge_bases.index_settings import IndexSettings, check_chunking, require_known
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.routing_settings import RoutingSettings
from app.knowledge_bases.types import (
    DEFAULT_NAME,
    KnowledgeBaseExists,
    KnowledgeBaseNotFound,
    KnowledgeBaseView,
    NewKnowledgeBase,
    StampUnderWay,
)
from app.knowledge_bases.withdrawal_repository import WithdrawalRepository
from app.lexical.languages import identity_name
from app.prompts.repository import PromptRepository
from app.prompts.types import PromptOwner

PURGE_JOB = "purge_objects"
RESTAMP_JOB = "restamp_knowledge_base"
ERASE_JOB = "erase_knowledge_base"
ROUTING_JOB = "make_routing_profile"


async def furnish_tenant(session: Session, tenant_id: UUID, settings: IndexSettings) -> None:
    """Give a new tenant its knowledge base ``default``, in the transaction that makes the tenant."""
    await _insert(KnowledgeBaseRepository(session, tenant_id), NewKnowledgeBase(DEFAULT_NAME), settings)


@dataclass(frozen=True, slots=True)
class KnowledgeBaseService:
    """What a tenant can do with knowledge bases; those outside a narrowed key do not exist for it."""

    db: TenantDatabase
    principal: Principal
    settings: IndexSettings
    queue: JobQueue

    async def create(self, new: NewKnowledgeBase) -> KnowledgeBaseView:
        """Raises KnowledgeBaseExists; InvalidInput for a name, model, chunker or strategy that is not there."""
        self.require_whole()
        self._check(new)
        try:
            async with self.db.transaction() as session:
                repository = KnowledgeBaseRepository(session, self.db.tenant_id)
                made = await _insert(repository, new, self.settings)
                retrieval = await self._numbered(repository, made.row.id, made.row.retrieval)
                if await repository.change(made.row.id, {"retrieval": retrieval}):
                    made = await _stored(repository, made.row.id)
                await self.record(session, Event(Action.KNOWLEDGE_BASE_CREATE, [made.row.id], made.row.id))
                if new.routing.descriptions or new.routing.examples:
                    await self._embed_texts(session, made)
                return made
        except IntegrityError as exc:
            raise KnowledgeBaseExists(f"A knowledge base named {new.name!r} is there already.") from exc

    async def find(self, reference: str) -> KnowledgeBaseView:
        """By id or name. Raises KnowledgeBaseNotFound."""
        async with self.db.transaction(kept_plans=True) as session:
            return await self.find_in(session, reference)

    async def find_in(self, session: Session, reference: str) -> KnowledgeBaseView:
        """The same inside a transaction that is already open. Raises KnowledgeBaseNotFound."""
        key = decode_id("kb", reference) or reference
        if "\0" in reference:
            raise KnowledgeBaseNotFound
        view = await KnowledgeBaseRepository(session, self.db.tenant_id).find(key)
        if view is None or not self.principal.may_see(view.row.id):
            raise KnowledgeBaseNotFound
        return view

    async def describe(self, reference: str) -> KnowledgeBaseView:
        """With its counts, all of one moment. Raises KnowledgeBaseNotFound."""
        async with self.db.transaction(snapshot=True) as session:
            view = await self.find_in(session, reference)
            return await KnowledgeBaseRepository(session, self.db.tenant_id).counted(
                view, reader=self.principal.user_id
            )

    async def page(self, *, after: tuple[datetime, UUID] | None, limit: int) -> Sequence[KnowledgeBaseView]:
        """Newest first, with counts, all of one moment."""
        async with self.db.transaction(snapshot=True) as session:
            repository = KnowledgeBaseRepository(session, self.db.tenant_id)
            return await repository.page(only=self.only(), after=after, limit=limit, reader=self.principal.user_id)

    async def few_readable(self, session: Session, *, most: int) -> Sequence[KnowledgeBaseView]:
        """Return all knowledge bases that the key may read, by name; none if there are more than ``most``."""
        return await KnowledgeBaseRepository(session, self.db.tenant_id).few(self.only(), most=most)

    async def first_readable(
        self, session: Session, only: Sequence[UUID] | None = None, *, most: int, most_empty: int | None = None
    ) -> tuple[Sequence[KnowledgeBaseView], bool]:
        """Return ``most`` knowledge bases at most that the key may read, by name, or of ``only`` those.

        Of more than ``most_empty`` the empty ones are left out, unless all are.

        Returns:
            The knowledge bases, those with content before empty ones, and whether others with content were left out.
        """
        wanted = self.only() if only is None else [*filter(self.principal.may_see, only)]
        if wanted is not None and not wanted:
            return [], False
        repository = KnowledgeBaseRepository(session, self.db.tenant_id)
        found = await repository.few(wanted, most=most if most_empty is None else most_empty)
        return (found, False) if found else await repository.first(wanted, most=most)

    async def update(self, reference: str, changes: dict[str, Any]) -> KnowledgeBaseView:
        """Set ``title``, ``description``, ``retrieval``, ``routing``, ``source`` or ``metadata_filter``.

        The last begins to hold by a job, and so do new texts of ``routing``.

        Raises KnowledgeBaseNotFound, InvalidInput, StampUnderWay.
        """
        self.require_whole()
        async with self.db.transaction() as session:
            view = await self.find_in(session, reference)
            if retrieval := changes.get("retrieval"):
                require_known(
                    "strategy", retrieval["strategy"], self.settings.strategies, ("body", "retrieval", "strategy")
                )
            self._check_kind(view, changes)
            repository = KnowledgeBaseRepository(session, self.db.tenant_id)
            plain = {name: value for name, value in changes.items() if name not in ("metadata_filter", "routing")}
            if "retrieval" in plain:
                plain["retrieval"] = await self._numbered(repository, view.row.id, plain["retrieval"])
            routing: RoutingSettings | None = changes.get("routing")
            if routing is not None:
                plain["routing"], plain["routing_texts"] = routing.stored()
            if "metadata_filter" in changes:
                plain |= await self._restamp(session, view.row.id, changes["metadata_filter"])
            if await repository.change(view.row.id, plain):
                await self.record(session, Event(Action.KNOWLEDGE_BASE_UPDATE, [view.row.id], view.row.id))
                if routing is not None:
                    await self._embed_texts(session, view)
            return await repository.counted(await _stored(repository, view.row.id), reader=None)

    async def _numbered(
        self, repository: KnowledgeBaseRepository, kb_id: UUID, retrieval: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The settings with the numbers of their prompts' versions; the knowledge base is locked."""
        await repository.lock(kb_id)
        prompts = PromptRepository(repository.session, repository.tenant_id, PromptOwner(kb_id=kb_id))
        return await prompts.numbered(retrieval, key_id=self.principal.key_id)

    async def _embed_texts(self, session: Session, kb: KnowledgeBaseView) -> None:
        """Have a job embed the texts: a model that does not answer now must not be in the way."""
        await self.queue.enqueue(
            session, ROUTING_JOB, tenant_id=self.db.tenant_id, payload={"index": str(kb.index.id)}, priority=INTERACTIVE
        )

    async def _restamp(self, session: Session, kb_id: UUID, stamp: dict[str, Any]) -> dict[str, Any]:
        """Have a job give all documents another stamp; returns what is to be set meanwhile. Raises StampUnderWay."""
        _check_filter(stamp)
        repository = KnowledgeBaseRepository(session, self.db.tenant_id)
        await repository.lock(kb_id)
        row = (await _stored(repository, kb_id)).row
        if row.pending_filter is not None and not _same(stamp, row.pending_filter):
            raise StampUnderWay
        if row.pending_filter is None and _same(stamp, row.metadata_filter):
            return {}
        payload = {"knowledge_base": str(kb_id)}
        # One that somebody waits for: as bulk it would stand behind all that is uploaded in the meantime.
        await self.queue.enqueue(
            session, RESTAMP_JOB, tenant_id=self.db.tenant_id, payload=payload, priority=INTERACTIVE
        )
        return {"pending_filter": stamp}

    async def delete(self, reference: str) -> UUID:
        """Out of every reading at once, its name free; a job removes what is in it. Returns the deletion's id.

        Raises KnowledgeBaseNotFound, Forbidden.
        """
        self.require_whole()
        async with self.db.transaction() as session:
            kb_id = (await self.find_in(session, reference)).row.id
            withdrawn = await WithdrawalRepository(session, self.db.tenant_id, kb_id).withdraw()
            if withdrawn is None:  # deleted by another just now
                raise KnowledgeBaseNotFound
            deletion, amount = new_id(), withdrawn.amount
            await open_receipt(
                session, self.db.tenant_id, deletion, kind="knowledge_base", object_id=kb_id, kb_id=kb_id, amount=amount
            )
            payload = {
                "deletion": str(deletion), "knowledge_base": str(kb_id), "indexes": [*map(str, withdrawn.indexes)]
            }  # fmt: skip
            await self.queue.enqueue(session, ERASE_JOB, tenant_id=self.db.tenant_id, payload=payload)
            event = Event(Action.KNOWLEDGE_BASE_DELETE, [kb_id], kb_id, deletion, {"documents": amount.documents})
            await self.record(session, event)
        return deletion

    async def record(self, session: Session, event: Event) -> None:
        """Tell the audit what the caller does in this transaction."""
        await AuditRepository(session, self.db.tenant_id).add(event, Actor.of(self.principal))

    def require_whole(self) -> None:
        """Raises Forbidden for a key that is narrowed to a user: a knowledge base is everybody's."""
        if self.principal.user_id is not None:
            raise Forbidden

    def only(self) -> list[UUID] | None:
        """Those that a narrowed key may read, None for all."""
        allowed = self.principal.knowledge_base_ids
        return None if allowed is None else list(allowed)

    def _check_kind(self, view: KnowledgeBaseView, changes: Mapping[str, Any]) -> None:
        """What is changed is what its kind has. Raises HoldsNoDocuments, InvalidInput."""
        if "metadata_filter" in changes:
            view.require_documents()
        if source := changes.get("source"):
            if view.row.source is None:
                raise InvalidInput("Only a knowledge base of kind http has a source.", loc=("body", "source"))
            check_source(HttpSource.stored(source), self.settings.sources, self.db.tenant_id)

    def _check(self, new: NewKnowledgeBase) -> None:
        embedder = self.settings.embedders.named(new.model, new.dimensions)
        require_known("strategy", new.retrieval.strategy, self.settings.strategies, ("body", "retrieval", "strategy"))
        check_chunking(new.chunking, self.settings, embedder)
        _check_filter(new.metadata_filter or {})
        identity_name(new.language)
        if new.source is not None:
            check_source(new.source, self.settings.sources, self.db.tenant_id)


def _check_filter(stamp: Mapping[str, Any]) -> None:
    """It is both: metadata that is stamped on what goes in, and a filter that must find it again."""
    loc = ("body", "metadata_filter")
    if any(isinstance(value, dict | list) or value is None for value in stamp.values()):
        raise InvalidInput("A knowledge base's filter holds plain values: they are stamped on what goes in.", loc=loc)
    if any("." in key or "\\" in key for key in stamp):
        raise InvalidInput("A key of a knowledge base's filter holds no dot and no backslash.", loc=loc)
    compile_filter(stamp, loc=loc)


def _same(stamp: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """As JSON: to Python true is 1."""
    return json.dumps(stamp, sort_keys=True) == json.dumps(other, sort_keys=True)


async def _insert(
    repository: KnowledgeBaseRepository, new: NewKnowledgeBase, settings: IndexSettings
) -> KnowledgeBaseView:
    routing, texts = new.routing.stored()
    row = KnowledgeBase(
        tenant_id=repository.tenant_id,
        id=new_id(),
        name=new.name,
        title=new.title,
        description=new.description,
        language=new.language,
        chunking=asdict(new.chunking),
        retrieval=asdict(new.retrieval),
        metadata_filter=new.metadata_filter or {},
        kind="documents" if new.source is None else "http",
        source=None if new.source is None else asdict(new.source),
        routing=routing,
        routing_texts=texts,
    )
    model = settings.embedders.named(new.model, new.dimensions).identity
    await repository.add(row, settings.new_index(repository.tenant_id, row.id, new.language, model))
    return replace(await _stored(repository, row.id), routing_texts=texts)


async def _stored(repository: KnowledgeBaseRepository, kb_id: UUID) -> KnowledgeBaseView:
    """One that was written in this transaction, with what the database has put in. Raises KnowledgeBaseNotFound."""
    view = await repository.find(kb_id)
    if view is None:  # deleted by another before this transaction wrote to it
        raise KnowledgeBaseNotFound
    return view
