"""Publish a knowledge base: a view and a login for an agent platform, made by a job of the tables' owner."""

from dataclasses import dataclass
from uuid import UUID

from app.audit.types import Action, Event
from app.db.models.base import SYSTEM_TENANT
from app.db.publishing import Place
from app.db.session import Session, TenantDatabase
from app.errors import InvalidInput
from app.ids import new_id
from app.job_queue import INTERACTIVE, JobQueue
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseView
from app.publications.passwords import new_password, scram_verifier
from app.publications.repository import PublicationRepository
from app.publications.types import (
    RESERVED,
    Address,
    NotPublishable,
    PublicationExists,
    PublicationNotFound,
    PublicationOff,
    PublicationView,
    StoredPublication,
    collection_of,
)

PUBLISH_JOB = "settle_publication"


@dataclass(frozen=True, slots=True)
class PublicationService:
    """What a tenant's admin can do.

    Nothing new is published unless it is ``allowed`` on this service, and to this tenant by the operator.
    """

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    queue: JobQueue
    address: Address
    allowed: bool

    async def create(self, reference: str, *, collection: str | None, content_key: str) -> tuple[PublicationView, str]:
        """Publish a knowledge base; a job makes the view. With the password, which nobody can tell again.

        Raises KnowledgeBaseNotFound, PublicationOff, PublicationExists, NotPublishable, HoldsNoDocuments, InvalidInput,
        Forbidden.
        """
        self.knowledge_bases.require_whole()
        if not self.allowed:
            raise PublicationOff
        password = new_password()
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in(session, reference)
            kb.require_documents()
            if self.db.tenant_id == SYSTEM_TENANT:
                raise NotPublishable
            # Whoever deletes it begins with its row, too.
            await KnowledgeBaseRepository(session, self.db.tenant_id).lock(kb.row.id)
            kb = await self.knowledge_bases.find_in(session, reference)
            repository = PublicationRepository(session, self.db.tenant_id, kb.row.id)
            if not await repository.is_allowed():
                raise PublicationOff
            publication_id = new_id()
            added = await repository.add(
                publication_id,
                collection=await _collection(repository, collection, kb.row.name),
                content_key=content_key,
                verifier=scram_verifier(password),
            )
            if not added:
                raise PublicationExists
            await self._request(session, publication_id, kb.row.id)
            await self._record(session, Action.PUBLICATION_CREATE, publication_id, kb.row.id)
            return self._view(_there(await repository.find()), kb), password

    async def get(self, reference: str) -> PublicationView:
        """Raises KnowledgeBaseNotFound, PublicationNotFound, Forbidden."""
        self.knowledge_bases.require_whole()
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in(session, reference)
            return self._view(_there(await PublicationRepository(session, self.db.tenant_id, kb.row.id).find()), kb)

    async def revoke(self, reference: str) -> None:
        """The view is empty from now on, and a job takes it and its login away; nothing where there is none.

        Raises KnowledgeBaseNotFound, Forbidden.
        """
        self.knowledge_bases.require_whole()
        async with self.db.transaction() as session:
            kb_id = (await self.knowledge_bases.find_in(session, reference)).row.id
            revoked = await PublicationRepository(session, self.db.tenant_id, kb_id).revoke()
            if revoked is not None:
                await self._request(session, revoked, kb_id)
                await self._record(session, Action.PUBLICATION_DELETE, revoked, kb_id)

    async def _request(self, session: Session, publication_id: UUID, kb_id: UUID) -> None:
        await request_settling(session, self.queue, self.db.tenant_id, publication_id, kb_id)

    async def _record(self, session: Session, action: Action, publication_id: UUID, kb_id: UUID) -> None:
        await self.knowledge_bases.record(session, Event(action, [publication_id], kb_id))

    def _view(self, stored: StoredPublication, kb: KnowledgeBaseView) -> PublicationView:
        return PublicationView(stored, Place(stored.id).login, self.address, kb.index.identity, kb.index.dim)


async def request_settling(
    session: Session, queue: JobQueue, tenant_id: UUID, publication_id: UUID, kb_id: UUID
) -> None:
    """Have a job do what a publication wants, once this transaction is committed."""
    payload = {"publication": str(publication_id), "knowledge_base": str(kb_id)}
    await queue.enqueue(session, PUBLISH_JOB, tenant_id=tenant_id, payload=payload, priority=INTERACTIVE)


async def follow_swap(session: Session, queue: JobQueue, tenant_id: UUID, kb_id: UUID) -> None:
    """Have the publication of a knowledge base follow its live search index, which has just become another."""
    published = await PublicationRepository(session, tenant_id, kb_id).find()
    if published is not None:
        await request_settling(session, queue, tenant_id, published.id, kb_id)


async def _collection(repository: PublicationRepository, wish: str | None, name: str) -> str:
    """The view's name: the caller's, or one made of the knowledge base's. Raises InvalidInput."""
    if wish is None:
        made = collection_of(name)
        return f"kb_{made}" if await repository.is_keyword(made) else made
    if wish.startswith(RESERVED) or await repository.is_keyword(wish):
        raise InvalidInput("That is a word of Postgres' own.", loc=("body", "collection"))
    return wish


def _there(found: StoredPublication | None) -> StoredPublication:
    if found is None:
        raise PublicationNotFound
    return found
