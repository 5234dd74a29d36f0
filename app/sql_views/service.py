"""Use cases of SQL views. A job with the rights of the tables' owner creates the view and its login."""

from dataclasses import dataclass
from uuid import UUID

from app.audit.types import AuditAction, AuditEvent
from app.db.models.base import SYSTEM_TENANT
from app.db.session import Session, TenantDatabase
from app.db.sql_view_ddl import SqlViewNames
from app.errors import InvalidInputError
from app.ids import generate_id
from app.jobs.queue import INTERACTIVE, JobQueue
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseView
from app.sql_views.connection_info import ConnectionOptions
from app.sql_views.passwords import compute_scram_verifier, generate_password
from app.sql_views.repository import SqlViewRepository
from app.sql_views.types import (
    RESERVED_PREFIX,
    ConnectionAddress,
    SqlViewDetails,
    SqlViewExists,
    SqlViewNotFound,
    SqlViewsDisabled,
    SqlViewUnsupported,
    StoredSqlView,
    build_default_view_name,
)

RECONCILE_SQL_VIEW_JOB = "reconcile_sql_view"
_DEFAULT_OPTIONS = ConnectionOptions()


@dataclass(frozen=True, slots=True)
class SqlViewService:
    """Use cases of a tenant's admin for SQL views.

    A SQL view can be created only if the settings of the service allow SQL views, and the operator allows them for the
    tenant.
    """

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    queue: JobQueue
    address: ConnectionAddress
    is_allowed: bool

    async def create(self, reference: str, *, collection: str | None, content_key: str) -> tuple[SqlViewDetails, str]:
        """Create a SQL view. A job then creates the view and the login in the database.

        Args:
            reference: Name or id of the knowledge base.
            collection: The name of the view. None derives it from the knowledge base's name.
            content_key: The key under which the view's metadata has the text.

        Returns:
            The SQL view, and its password, which is not stored.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            SqlViewsDisabled: The service or the operator does not allow SQL views.
            SqlViewExists: The knowledge base has a SQL view already.
            SqlViewUnsupported: The knowledge base belongs to the system tenant.
            NoDocumentStore: The knowledge base searches an external service and stores no documents.
            InvalidInputError: The name of the view is reserved.
            ForbiddenError: The caller's key is restricted to a user.
        """
        self.knowledge_bases.require_unrestricted_key()
        if not self.is_allowed:
            raise SqlViewsDisabled
        password = generate_password()
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            kb.require_documents()
            if self.db.tenant_id == SYSTEM_TENANT:
                raise SqlViewUnsupported
            # A deletion of the knowledge base locks the same row first.
            await KnowledgeBaseRepository(session, self.db.tenant_id).lock(kb.row.id)
            kb = await self.knowledge_bases.find_in_session(session, reference)
            repository = SqlViewRepository(session, self.db.tenant_id, kb.row.id)
            if not await repository.is_allowed():
                raise SqlViewsDisabled
            sql_view_id = generate_id()
            added = await repository.add(
                sql_view_id,
                collection=await _choose_view_name(repository, collection, kb.row.name),
                content_key=content_key,
                verifier=compute_scram_verifier(password),
            )
            if not added:
                raise SqlViewExists
            await self._request_reconcile(session, sql_view_id, kb.row.id)
            await self._record(session, AuditAction.SQL_VIEW_CREATE, sql_view_id, kb.row.id)
            return self._to_details(_require_sql_view(await repository.find()), kb), password

    async def get(self, reference: str, options: ConnectionOptions = _DEFAULT_OPTIONS) -> SqlViewDetails:
        """Return the SQL view of a knowledge base.

        Args:
            reference: Name or id of the knowledge base.
            options: Choices for the connection block.

        Returns:
            The SQL view.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            SqlViewNotFound: The knowledge base has no SQL view.
            ForbiddenError: The caller's key is restricted to a user.
        """
        self.knowledge_bases.require_unrestricted_key()
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            stored = await SqlViewRepository(session, self.db.tenant_id, kb.row.id).find()
            return self._to_details(_require_sql_view(stored), kb, options)

    async def revoke(self, reference: str) -> None:
        """Revoke the SQL view of a knowledge base, if it has one.

        The view is empty immediately. A job drops the view and its login.

        Args:
            reference: Name or id of the knowledge base.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            ForbiddenError: The caller's key is restricted to a user.
        """
        self.knowledge_bases.require_unrestricted_key()
        async with self.db.transaction() as session:
            kb_id = (await self.knowledge_bases.find_in_session(session, reference)).row.id
            revoked = await SqlViewRepository(session, self.db.tenant_id, kb_id).revoke()
            if revoked is not None:
                await self._request_reconcile(session, revoked, kb_id)
                await self._record(session, AuditAction.SQL_VIEW_DELETE, revoked, kb_id)

    async def _request_reconcile(self, session: Session, sql_view_id: UUID, kb_id: UUID) -> None:
        await request_reconcile(session, self.queue, self.db.tenant_id, sql_view_id, kb_id)

    async def _record(self, session: Session, action: AuditAction, sql_view_id: UUID, kb_id: UUID) -> None:
        await self.knowledge_bases.record_event(session, AuditEvent(action, [sql_view_id], kb_id))

    def _to_details(
        self, stored: StoredSqlView, kb: KnowledgeBaseView, options: ConnectionOptions = _DEFAULT_OPTIONS
    ) -> SqlViewDetails:
        names = SqlViewNames(stored.id)
        return SqlViewDetails(
            stored,
            names.login,
            names.schema,
            self.address,
            kb.index.identity,
            kb.index.dim,
            kb.row.name,
            kb.row.enforced_metadata,
            kb.retrieval.get_version_numbers()["answer"],
            options,
        )


async def request_reconcile(session: Session, queue: JobQueue, tenant_id: UUID, sql_view_id: UUID, kb_id: UUID) -> None:
    """Enqueue a job that reconciles a SQL view after this transaction is committed."""
    payload = {"sql_view": str(sql_view_id), "knowledge_base": str(kb_id)}
    await queue.enqueue(session, RECONCILE_SQL_VIEW_JOB, tenant_id=tenant_id, payload=payload, priority=INTERACTIVE)


async def reconcile_after_swap(session: Session, queue: JobQueue, tenant_id: UUID, kb_id: UUID) -> None:
    """Enqueue a job that updates the SQL view of a knowledge base to its new live search index."""
    sql_view = await SqlViewRepository(session, tenant_id, kb_id).find()
    if sql_view is not None:
        await request_reconcile(session, queue, tenant_id, sql_view.id, kb_id)


async def _choose_view_name(repository: SqlViewRepository, requested: str | None, knowledge_base_name: str) -> str:
    """Return the requested name, or a name made from the knowledge base's name. Raises InvalidInputError."""
    if requested is None:
        default = build_default_view_name(knowledge_base_name)
        return f"kb_{default}" if await repository.is_keyword(default) else default
    if requested.startswith(RESERVED_PREFIX) or await repository.is_keyword(requested):
        raise InvalidInputError("This name is reserved by Postgres. Choose another.", loc=("body", "collection"))
    return requested


def _require_sql_view(sql_view: StoredSqlView | None) -> StoredSqlView:
    if sql_view is None:
        raise SqlViewNotFound
    return sql_view
