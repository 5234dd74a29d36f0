"""Create, change, list and delete knowledge bases."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.exc import IntegrityError

from app.audit.repository import AuditRepository
from app.audit.types import Actor, AuditAction, AuditEvent
from app.db.deletion_receipts import open_receipt
from app.db.models.tenant_data import KnowledgeBaseRow
from app.db.session import Session, TenantDatabase
from app.errors import ForbiddenError, InvalidInputError
from app.filters import compile_filter
from app.http_sources.types import HttpSource
from app.http_sources.validation import check_source
from app.ids import decode_id, generate_id
from app.jobs.queue import INTERACTIVE, JobQueue
from app.knowledge_bases.index_settings import IndexSettings, check_chunking, require_valid_choice
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.routing_settings import RoutingSettings
from app.knowledge_bases.soft_delete_repository import SoftDeleteRepository
from app.knowledge_bases.types import (
    DEFAULT_NAME,
    BackfillInProgress,
    KnowledgeBaseExists,
    KnowledgeBaseNotFound,
    KnowledgeBaseView,
    NewKnowledgeBase,
)
from app.lexical.languages import get_analyzer_id
from app.principal import Principal
from app.prompts.repository import PromptRepository
from app.prompts.types import PromptOwner

PURGE_JOB = "purge_objects"
BACKFILL_JOB = "backfill_metadata"
PURGE_KNOWLEDGE_BASE_JOB = "purge_knowledge_base"
ROUTING_JOB = "build_routing_profile"


async def create_default_knowledge_base(session: Session, tenant_id: UUID, settings: IndexSettings) -> None:
    """Give a new tenant its knowledge base ``default``, in the transaction that makes the tenant."""
    await _insert_knowledge_base(KnowledgeBaseRepository(session, tenant_id), NewKnowledgeBase(DEFAULT_NAME), settings)


@dataclass(frozen=True, slots=True)
class KnowledgeBaseService:
    """What a tenant can do with knowledge bases; those outside a narrowed key do not exist for it."""

    db: TenantDatabase
    principal: Principal
    settings: IndexSettings
    queue: JobQueue

    async def create(self, new: NewKnowledgeBase) -> KnowledgeBaseView:
        """Raises KnowledgeBaseExists; InvalidInputError for a name, model, chunker or strategy that is not there."""
        self.require_unrestricted_key()
        self._check_new(new)
        try:
            async with self.db.transaction() as session:
                repository = KnowledgeBaseRepository(session, self.db.tenant_id)
                view = await _insert_knowledge_base(repository, new, self.settings)
                retrieval = await self._save_prompt_versions(repository, view.row.id, view.row.retrieval)
                if await repository.update(view.row.id, {"retrieval": retrieval}):
                    view = await _reload_view(repository, view.row.id)
                await self.record_event(
                    session, AuditEvent(AuditAction.KNOWLEDGE_BASE_CREATE, [view.row.id], view.row.id)
                )
                if new.routing.descriptions or new.routing.examples:
                    await self._enqueue_text_embedding(session, view)
                return view
        except IntegrityError as exc:
            raise KnowledgeBaseExists(f"A knowledge base named {new.name!r} is there already.") from exc

    async def find(self, reference: str) -> KnowledgeBaseView:
        """By id or name. Raises KnowledgeBaseNotFound."""
        async with self.db.transaction(allow_generic_plans=True) as session:
            return await self.find_in_session(session, reference)

    async def find_in_session(self, session: Session, reference: str) -> KnowledgeBaseView:
        """The same inside a transaction that is already open. Raises KnowledgeBaseNotFound."""
        key = decode_id("kb", reference) or reference
        if "\0" in reference:
            raise KnowledgeBaseNotFound
        view = await KnowledgeBaseRepository(session, self.db.tenant_id).find(key)
        if view is None or not self.principal.can_access(view.row.id):
            raise KnowledgeBaseNotFound
        return view

    async def find_with_counts(self, reference: str) -> KnowledgeBaseView:
        """With its counts, all of one moment. Raises KnowledgeBaseNotFound."""
        async with self.db.transaction(snapshot=True) as session:
            view = await self.find_in_session(session, reference)
            return await KnowledgeBaseRepository(session, self.db.tenant_id).add_counts(
                view, reader=self.principal.user_id
            )

    async def list_knowledge_bases(
        self, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> Sequence[KnowledgeBaseView]:
        """Newest first, with counts, all of one moment."""
        async with self.db.transaction(snapshot=True) as session:
            repository = KnowledgeBaseRepository(session, self.db.tenant_id)
            return await repository.list_knowledge_bases(
                allowed_ids=self.get_allowed_ids(), after=after, limit=limit, reader=self.principal.user_id
            )

    async def list_accessible(self, session: Session, *, max_count: int) -> Sequence[KnowledgeBaseView]:
        """Return all knowledge bases that the key may read, by name; none if there are more than ``max_count``."""
        return await KnowledgeBaseRepository(session, self.db.tenant_id).find_up_to(
            self.get_allowed_ids(), max_count=max_count
        )

    async def list_first_accessible(
        self,
        session: Session,
        requested_ids: Sequence[UUID] | None = None,
        *,
        max_count: int,
        max_with_empty: int | None = None,
    ) -> tuple[Sequence[KnowledgeBaseView], bool]:
        """Return ``max_count`` knowledge bases at most that the key may read, by name, or of ``requested_ids`` those.

        Of more than ``max_with_empty`` the empty ones are left out, unless all are.

        Returns:
            The knowledge bases, those with content before empty ones, and whether others with content were left out.
        """
        allowed_ids = (
            self.get_allowed_ids() if requested_ids is None else [*filter(self.principal.can_access, requested_ids)]
        )
        if allowed_ids is not None and not allowed_ids:
            return [], False
        repository = KnowledgeBaseRepository(session, self.db.tenant_id)
        views = await repository.find_up_to(
            allowed_ids, max_count=max_count if max_with_empty is None else max_with_empty
        )
        return (views, False) if views else await repository.find_first(allowed_ids, max_count=max_count)

    async def update(self, reference: str, changes: dict[str, Any]) -> KnowledgeBaseView:
        """Set ``title``, ``description``, ``retrieval``, ``routing``, ``source`` or ``metadata_filter``.

        The last begins to hold by a job, and so do new texts of ``routing``.

        Raises KnowledgeBaseNotFound, InvalidInputError, BackfillInProgress.
        """
        self.require_unrestricted_key()
        async with self.db.transaction() as session:
            view = await self.find_in_session(session, reference)
            if retrieval := changes.get("retrieval"):
                require_valid_choice(
                    "strategy", retrieval["strategy"], self.settings.strategies, ("body", "retrieval", "strategy")
                )
            self._check_changes(view, changes)
            repository = KnowledgeBaseRepository(session, self.db.tenant_id)
            columns = {name: value for name, value in changes.items() if name not in ("metadata_filter", "routing")}
            if "retrieval" in columns:
                columns["retrieval"] = await self._save_prompt_versions(repository, view.row.id, columns["retrieval"])
            routing: RoutingSettings | None = changes.get("routing")
            if routing is not None:
                columns["routing"], columns["routing_texts"] = routing.to_stored()
            if "metadata_filter" in changes:
                columns |= await self._begin_backfill(session, view.row.id, changes["metadata_filter"])
            if await repository.update(view.row.id, columns):
                await self.record_event(
                    session, AuditEvent(AuditAction.KNOWLEDGE_BASE_UPDATE, [view.row.id], view.row.id)
                )
                if routing is not None:
                    await self._enqueue_text_embedding(session, view)
            return await repository.add_counts(await _reload_view(repository, view.row.id), reader=None)

    async def _save_prompt_versions(
        self, repository: KnowledgeBaseRepository, kb_id: UUID, retrieval: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The settings with the numbers of their prompts' versions; the knowledge base is locked."""
        await repository.lock(kb_id)
        prompts = PromptRepository(repository.session, repository.tenant_id, PromptOwner(kb_id=kb_id))
        return await prompts.save_versions(retrieval, key_id=self.principal.key_id)

    async def _enqueue_text_embedding(self, session: Session, kb: KnowledgeBaseView) -> None:
        """Have a job embed the texts: a model that does not answer now must not be in the way."""
        await self.queue.enqueue(
            session, ROUTING_JOB, tenant_id=self.db.tenant_id, payload={"index": str(kb.index.id)}, priority=INTERACTIVE
        )

    async def _begin_backfill(self, session: Session, kb_id: UUID, metadata_filter: dict[str, Any]) -> dict[str, Any]:
        """Have a job give all documents another stamp; returns what is to be set meanwhile.

        Raises BackfillInProgress.
        """
        _check_metadata_filter(metadata_filter)
        repository = KnowledgeBaseRepository(session, self.db.tenant_id)
        await repository.lock(kb_id)
        row = (await _reload_view(repository, kb_id)).row
        if row.pending_metadata_filter is not None and not _is_same_json(metadata_filter, row.pending_metadata_filter):
            raise BackfillInProgress
        if row.pending_metadata_filter is None and _is_same_json(metadata_filter, row.metadata_filter):
            return {}
        payload = {"knowledge_base": str(kb_id)}
        # One that somebody waits for: as bulk it would stand behind all that is uploaded in the meantime.
        await self.queue.enqueue(
            session, BACKFILL_JOB, tenant_id=self.db.tenant_id, payload=payload, priority=INTERACTIVE
        )
        return {"pending_metadata_filter": metadata_filter}

    async def delete(self, reference: str) -> UUID:
        """Out of every reading at once, its name free; a job removes what is in it. Returns the deletion's id.

        Raises KnowledgeBaseNotFound, ForbiddenError.
        """
        self.require_unrestricted_key()
        async with self.db.transaction() as session:
            kb_id = (await self.find_in_session(session, reference)).row.id
            deleted = await SoftDeleteRepository(session, self.db.tenant_id, kb_id).soft_delete()
            if deleted is None:  # deleted by another just now
                raise KnowledgeBaseNotFound
            deletion_id, amount = generate_id(), deleted.counts
            await open_receipt(
                session,
                self.db.tenant_id,
                deletion_id,
                kind="knowledge_base",
                object_id=kb_id,
                kb_id=kb_id,
                counts=amount,
            )
            payload = {
                "deletion": str(deletion_id), "knowledge_base": str(kb_id), "indexes": [*map(str, deleted.indexes)]
            }  # fmt: skip
            await self.queue.enqueue(session, PURGE_KNOWLEDGE_BASE_JOB, tenant_id=self.db.tenant_id, payload=payload)
            event = AuditEvent(
                AuditAction.KNOWLEDGE_BASE_DELETE, [kb_id], kb_id, deletion_id, {"documents": amount.documents}
            )
            await self.record_event(session, event)
        return deletion_id

    async def record_event(self, session: Session, event: AuditEvent) -> None:
        """Tell the audit what the caller does in this transaction."""
        await AuditRepository(session, self.db.tenant_id).add(event, Actor.from_principal(self.principal))

    def require_unrestricted_key(self) -> None:
        """Raises ForbiddenError for a key that is narrowed to a user: a knowledge base is everybody's."""
        if self.principal.user_id is not None:
            raise ForbiddenError

    def get_allowed_ids(self) -> list[UUID] | None:
        """Those that a narrowed key may read, None for all."""
        allowed = self.principal.knowledge_base_ids
        return None if allowed is None else list(allowed)

    def _check_changes(self, view: KnowledgeBaseView, changes: Mapping[str, Any]) -> None:
        """What is changed is what its kind has. Raises NoDocumentStore, InvalidInputError."""
        if "metadata_filter" in changes:
            view.require_documents()
        if source := changes.get("source"):
            if view.row.source is None:
                raise InvalidInputError("Only a knowledge base of kind http has a source.", loc=("body", "source"))
            check_source(HttpSource.from_stored(source), self.settings.source_allowlist, self.db.tenant_id)

    def _check_new(self, new: NewKnowledgeBase) -> None:
        embedder = self.settings.embedders.get_by_name(new.model, new.dimensions)
        require_valid_choice(
            "strategy", new.retrieval.strategy, self.settings.strategies, ("body", "retrieval", "strategy")
        )
        check_chunking(new.chunking, self.settings, embedder)
        _check_metadata_filter(new.metadata_filter or {})
        get_analyzer_id(new.language)
        if new.source is not None:
            check_source(new.source, self.settings.source_allowlist, self.db.tenant_id)


def _check_metadata_filter(metadata_filter: Mapping[str, Any]) -> None:
    """It is both: metadata that is stamped on what goes in, and a filter that must find it again."""
    loc = ("body", "metadata_filter")
    if any(isinstance(value, dict | list) or value is None for value in metadata_filter.values()):
        raise InvalidInputError(
            "A knowledge base's filter holds plain values: they are stamped on what goes in.", loc=loc
        )
    if any("." in key or "\\" in key for key in metadata_filter):
        raise InvalidInputError("A key of a knowledge base's filter holds no dot and no backslash.", loc=loc)
    compile_filter(metadata_filter, loc=loc)


def _is_same_json(metadata_filter: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """As JSON: to Python true is 1."""
    return json.dumps(metadata_filter, sort_keys=True) == json.dumps(other, sort_keys=True)


async def _insert_knowledge_base(
    repository: KnowledgeBaseRepository, new: NewKnowledgeBase, settings: IndexSettings
) -> KnowledgeBaseView:
    routing, texts = new.routing.to_stored()
    row = KnowledgeBaseRow(
        tenant_id=repository.tenant_id,
        id=generate_id(),
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
    model = settings.embedders.get_by_name(new.model, new.dimensions).identity
    await repository.add(row, settings.build_index(repository.tenant_id, row.id, new.language, model))
    return replace(await _reload_view(repository, row.id), routing_texts=texts)


async def _reload_view(repository: KnowledgeBaseRepository, kb_id: UUID) -> KnowledgeBaseView:
    """One that was written in this transaction, with what the database has put in. Raises KnowledgeBaseNotFound."""
    view = await repository.find(kb_id)
    if view is None:  # deleted by another before this transaction wrote to it
        raise KnowledgeBaseNotFound
    return view
