"""Use cases that create, change, list and delete knowledge bases."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.exc import IntegrityError

from app.audit.repository import AuditRepository
from app.audit.types import Actor, AuditAction, AuditEvent
from app.db.deletion_receipts import open_receipt
from app.db.session import Session, TenantDatabase
from app.errors import ForbiddenError
from app.ids import decode_id, generate_id
from app.jobs.queue import INTERACTIVE, JobQueue
from app.knowledge_bases.creation import insert_knowledge_base, reload_view
from app.knowledge_bases.enrichment_settings import EnrichmentSettings
from app.knowledge_bases.graph_settings import GraphSettings
from app.knowledge_bases.index_settings import (
    IndexSettings,
    check_chunking,
    check_metadata_filter,
    require_valid_choice,
    resolve_chunking,
)
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.routing_settings import RoutingSettings
from app.knowledge_bases.soft_delete_repository import SoftDeleteRepository
from app.knowledge_bases.types import (
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
from app.source_kinds.clients import parse_stored_source

PURGE_JOB = "purge_objects"
BACKFILL_JOB = "backfill_metadata"
PURGE_KNOWLEDGE_BASE_JOB = "purge_knowledge_base"
ROUTING_JOB = "build_routing_profile"


@dataclass(frozen=True, slots=True)
class KnowledgeBaseService:
    """Use cases for knowledge bases. A restricted key does not find knowledge bases outside its restriction."""

    db: TenantDatabase
    principal: Principal
    settings: IndexSettings
    queue: JobQueue
    embed_routing_texts: Callable[[UUID, UUID], Awaitable[None]]

    async def create(self, new: NewKnowledgeBase) -> KnowledgeBaseView:
        """Create a knowledge base.

        Args:
            new: The knowledge base.

        Returns:
            The stored knowledge base.

        Raises:
            KnowledgeBaseExists: Another knowledge base has the name.
            InvalidInputError: A model, chunker, strategy or other setting is not valid.
            SourceUnavailable: The source cannot be reached.
            ForbiddenError: The caller's key is restricted to a user.
        """
        self.require_unrestricted_key()
        self._check_new(new)
        if new.source is not None:
            await self.settings.sources.verify(new.source, self.db.tenant_id)
        try:
            async with self.db.transaction() as session:
                repository = KnowledgeBaseRepository(session, self.db.tenant_id)
                view = await insert_knowledge_base(repository, new, self.settings)
                retrieval = await self._save_prompt_versions(repository, view.row.id, view.row.retrieval)
                if await repository.update(view.row.id, {"retrieval": retrieval}):
                    view = await reload_view(repository, view.row.id)
                await self.record_event(
                    session, AuditEvent(AuditAction.KNOWLEDGE_BASE_CREATE, [view.row.id], view.row.id)
                )
                has_routing_texts = bool(new.routing.descriptions or new.routing.examples)
                if has_routing_texts:
                    await self._enqueue_text_embedding(session, view)
        except IntegrityError as exc:
            raise KnowledgeBaseExists(
                f"A knowledge base named {new.name!r} exists already. Choose another name."
            ) from exc
        if has_routing_texts:
            await self.embed_routing_texts(self.db.tenant_id, view.index.id)
        return view

    async def find(self, reference: str) -> KnowledgeBaseView:
        """Return a knowledge base by id or name. Raises KnowledgeBaseNotFound."""
        async with self.db.transaction(allow_generic_plans=True) as session:
            return await self.find_in_session(session, reference)

    async def find_in_session(self, session: Session, reference: str) -> KnowledgeBaseView:
        """Return a knowledge base by id or name, in an open transaction.

        Args:
            session: The transaction.
            reference: Name or id.

        Returns:
            The knowledge base with its shared counterpart.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist, or the key may not read it.
        """
        key = decode_id("kb", reference) or reference
        if "\0" in reference:
            raise KnowledgeBaseNotFound
        view = await KnowledgeBaseRepository(session, self.db.tenant_id).find(key)
        if view is None or not self.principal.can_access(view.row.id):
            raise KnowledgeBaseNotFound
        return view

    async def find_with_counts(self, reference: str) -> KnowledgeBaseView:
        """Return a knowledge base with its counts, read in one snapshot. Raises KnowledgeBaseNotFound."""
        async with self.db.transaction(snapshot=True) as session:
            view = await self.find_in_session(session, reference)
            return await KnowledgeBaseRepository(session, self.db.tenant_id).add_counts(
                view, reader=self.principal.user_id
            )

    async def list_knowledge_bases(
        self, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> Sequence[KnowledgeBaseView]:
        """List knowledge bases with counts, newest first, read in one snapshot.

        Args:
            after: Creation time and id of the last knowledge base of the previous page, or None.
            limit: The maximum number of knowledge bases.

        Returns:
            The knowledge bases.
        """
        async with self.db.transaction(snapshot=True) as session:
            repository = KnowledgeBaseRepository(session, self.db.tenant_id)
            return await repository.list_knowledge_bases(
                allowed_ids=self.get_allowed_ids(), after=after, limit=limit, reader=self.principal.user_id
            )

    async def list_accessible(self, session: Session, *, max_count: int) -> Sequence[KnowledgeBaseView]:
        """Return all knowledge bases that the key may read, by name; empty if there are more than ``max_count``."""
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
        """Return the knowledge bases that the key may read. If there are too many, leave out the empty first.

        Args:
            session: An open transaction.
            requested_ids: Only knowledge bases with these ids are returned. None allows all.
            max_count: The maximum number of knowledge bases, after empty ones are left out.
            max_with_empty: Up to this number, all knowledge bases are returned. The default is ``max_count``.

        Returns:
            The knowledge bases, and whether other knowledge bases that can have results were left out. If no knowledge
            base can have results, only the newest is returned.
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

    async def update(
        self, reference: str, changes: dict[str, Any], *, check: Callable[[KnowledgeBaseView], None] | None = None
    ) -> KnowledgeBaseView:
        """Change titles, ``retrieval``, ``routing``, ``graph``, ``source``, ``enrichment`` or ``metadata_filter``.

        A job applies a new ``metadata_filter`` to the documents. Other changes apply immediately.

        Args:
            reference: Name or id of the knowledge base.
            changes: New values by field.
            check: Check of the stored knowledge base under its lock, before the change; None without one.

        Returns:
            The changed knowledge base with counts.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            InvalidInputError: A value is not valid.
            NoDocumentStore: ``metadata_filter``, ``graph`` or ``enrichment`` changes, but the knowledge base stores no
                documents.
            BackfillInProgress: Another change of ``metadata_filter`` is being applied.
            ForbiddenError: The caller's key is restricted to a user.
        """
        self.require_unrestricted_key()
        if source := changes.get("source"):
            await self.settings.sources.verify(parse_stored_source(source), self.db.tenant_id)
        async with self.db.transaction() as session:
            view = await self.find_in_session(session, reference)
            if check is not None:
                repository = KnowledgeBaseRepository(session, self.db.tenant_id)
                await repository.lock(view.row.id)
                locked = await reload_view(repository, view.row.id)
                check(await repository.add_counts(locked, reader=None))  # with the texts of the routing
            if strategy := changes.get("retrieval", {}).get("strategy"):
                require_valid_choice("strategy", strategy, self.settings.strategies, ("body", "retrieval", "strategy"))
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
            is_changed = await repository.update(view.row.id, columns)
            if is_changed:
                await self.record_event(
                    session, AuditEvent(AuditAction.KNOWLEDGE_BASE_UPDATE, [view.row.id], view.row.id)
                )
                if routing is not None:
                    await self._enqueue_text_embedding(session, view)
            changed = await repository.add_counts(await reload_view(repository, view.row.id), reader=None)
        if is_changed and routing is not None:
            await self.embed_routing_texts(self.db.tenant_id, view.index.id)
        return changed

    async def _save_prompt_versions(
        self, repository: KnowledgeBaseRepository, kb_id: UUID, retrieval: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Lock the knowledge base, store new prompt versions, and return the settings with the versions' numbers.

        Settings that ``retrieval`` leaves out keep their values.
        """
        await repository.lock(kb_id)
        retrieval = {**(await reload_view(repository, kb_id)).row.retrieval, **retrieval}
        prompts = PromptRepository(repository.session, repository.tenant_id, PromptOwner(kb_id=kb_id))
        return await prompts.save_versions(retrieval, key_id=self.principal.key_id)

    async def _enqueue_text_embedding(self, session: Session, kb: KnowledgeBaseView) -> None:
        """Enqueue the embedding of routing texts, in case the model does not answer the request."""
        await self.queue.enqueue(
            session, ROUTING_JOB, tenant_id=self.db.tenant_id, payload={"index": str(kb.index.id)}, priority=INTERACTIVE
        )

    async def _begin_backfill(self, session: Session, kb_id: UUID, metadata_filter: dict[str, Any]) -> dict[str, Any]:
        """Enqueue a metadata backfill, and return the columns to set until it ends. Raises BackfillInProgress."""
        check_metadata_filter(metadata_filter)
        repository = KnowledgeBaseRepository(session, self.db.tenant_id)
        await repository.lock(kb_id)
        row = (await reload_view(repository, kb_id)).row
        if row.pending_metadata_filter is not None and not _is_same_json(metadata_filter, row.pending_metadata_filter):
            raise BackfillInProgress
        if row.pending_metadata_filter is None and _is_same_json(metadata_filter, row.metadata_filter):
            return {}
        payload = {"knowledge_base": str(kb_id)}
        # Interactive priority, because a caller waits for it. With bulk priority it would run after all uploads of that
        # time.
        await self.queue.enqueue(
            session, BACKFILL_JOB, tenant_id=self.db.tenant_id, payload=payload, priority=INTERACTIVE
        )
        return {"pending_metadata_filter": metadata_filter}

    async def delete(self, reference: str) -> UUID:
        """Delete a knowledge base.

        The knowledge base disappears immediately, and its name can be used again. A job removes its contents.

        Args:
            reference: Name or id of the knowledge base.

        Returns:
            The id of the deletion.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            ForbiddenError: The caller's key is restricted to a user.
        """
        self.require_unrestricted_key()
        async with self.db.transaction() as session:
            kb_id = (await self.find_in_session(session, reference)).row.id
            deleted = await SoftDeleteRepository(session, self.db.tenant_id, kb_id).soft_delete()
            if deleted is None:  # another request has deleted it
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
        """Add an audit event of the caller in this transaction."""
        await AuditRepository(session, self.db.tenant_id).add(event, Actor.from_principal(self.principal))

    def require_unrestricted_key(self) -> None:
        """Raise ForbiddenError if the key is restricted to a user, because all users share the knowledge bases."""
        if self.principal.user_id is not None:
            raise ForbiddenError

    def get_allowed_ids(self) -> list[UUID] | None:
        """Return the ids of the knowledge bases that a restricted key may read, or None for all."""
        allowed = self.principal.knowledge_base_ids
        return None if allowed is None else list(allowed)

    def _check_changes(self, view: KnowledgeBaseView, changes: Mapping[str, Any]) -> None:
        """Check that the changes fit the kind of the knowledge base. Raises NoDocumentStore, InvalidInputError."""
        if {"metadata_filter", "graph"} & changes.keys():
            view.require_documents()
        if graph := changes.get("graph"):
            GraphSettings(**graph).check(self.settings.extractor_versions)
        if enrichment := changes.get("enrichment"):
            view.require_documents()
            EnrichmentSettings.from_stored(enrichment).check(self.settings.chat_models)
        if source := changes.get("source"):
            new_source = parse_stored_source(source)
            view.require_kind_of(new_source)
            self.settings.sources.check(new_source, self.db.tenant_id)

    def _check_new(self, new: NewKnowledgeBase) -> None:
        embedder = self.settings.embedders.get_by_name(new.model, new.dimensions)
        require_valid_choice(
            "strategy", new.retrieval.strategy, self.settings.strategies, ("body", "retrieval", "strategy")
        )
        check_chunking(resolve_chunking(new.chunking, embedder), self.settings, embedder)
        check_metadata_filter(new.metadata_filter or {})
        new.graph.check(self.settings.extractor_versions)
        get_analyzer_id(new.language)
        if new.source is not None:
            self.settings.sources.check(new.source, self.db.tenant_id)
        new.enrichment.check(self.settings.chat_models)


def _is_same_json(metadata_filter: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two values are equal as JSON; in Python, ``True == 1``."""
    return json.dumps(metadata_filter, sort_keys=True) == json.dumps(other, sort_keys=True)
