"""Jobs of SQL views: create them, update them for a new live search index, and drop them."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from app.db.index_ddl import MaintenanceFailed, OwnerDatabase
from app.db.session import Database
from app.db.sql_view_ddl import SqlViewManager, SqlViewNames
from app.jobs.queue import JobQueue
from app.logging import get_logger
from app.sql_views.repository import SqlViewRepository, count_roles
from app.sql_views.service import request_reconcile

logger = get_logger(__name__)

NO_OWNER = "no_owner"


@dataclass(frozen=True, slots=True)
class SqlViewReconciler:
    """Creation, update and removal of SQL views in the database, called by jobs.

    ``owner_database`` connects with the role that owns the tables. Without it, no view is created, and each row records
    the reason.
    """

    database: Database
    queue: JobQueue
    owner_database: OwnerDatabase | None

    async def reconcile(self, tenant_id: UUID, kb_id: UUID, sql_view_id: UUID) -> None:
        """Create, update or drop one SQL view. A repetition changes nothing.

        Args:
            tenant_id: The tenant.
            kb_id: The knowledge base.
            sql_view_id: The SQL view.

        Raises:
            MaintenanceFailed: The database rejected the change, or no owner is configured for a drop.
        """
        if self.owner_database is None:
            await self._record_missing_owner(tenant_id, kb_id, sql_view_id)
            return
        async with self.owner_database.connect() as connection:
            is_removed = await SqlViewManager(connection, self.owner_database).apply(tenant_id, sql_view_id)
        logger.info("sql_view.reconciled", sql_view=str(sql_view_id), removed=is_removed)

    async def drop_all(self, tenant_id: UUID, kb_id: UUID) -> list[UUID]:
        """Drop all SQL views of a deleted knowledge base.

        Args:
            tenant_id: The tenant.
            kb_id: The knowledge base.

        Returns:
            The SQL views whose view or role cannot be dropped yet. These views return no rows. Delete the rows of the
            SQL views with
            ``delete_revoked``, so that the deletion can continue, and call ``drop_deleted`` later.
        """
        async with self.database.transaction(tenant_id) as session:
            repository = SqlViewRepository(session, tenant_id, kb_id)
            await repository.revoke()
            sql_view_ids = await repository.list_ids()
        remaining = []
        for sql_view_id in sql_view_ids:
            try:
                await self.reconcile(tenant_id, kb_id, sql_view_id)
            except MaintenanceFailed as exc:
                logger.warning("sql_view.drop_failed", sql_view=str(sql_view_id), error=type(exc.__cause__).__name__)
                remaining.append(sql_view_id)
        return remaining

    async def delete_revoked(self, tenant_id: UUID, kb_id: UUID, sql_view_ids: Sequence[UUID]) -> None:
        """Delete the rows of revoked SQL views. A view whose SQL view has no row returns nothing."""
        async with self.database.transaction(tenant_id) as session:
            await SqlViewRepository(session, tenant_id, kb_id).delete_revoked(sql_view_ids)

    async def drop_deleted(self, tenant_id: UUID, sql_view_ids: Sequence[UUID]) -> int:
        """Drop views and roles of SQL views whose rows were deleted.

        Args:
            tenant_id: The tenant whose transaction counts the roles.
            sql_view_ids: The SQL views.

        Returns:
            The number of roles that remain.
        """
        if not sql_view_ids:
            return 0
        if self.owner_database is not None:
            with suppress(MaintenanceFailed):  # the remaining roles are counted below
                async with self.owner_database.connect() as connection:
                    manager = SqlViewManager(connection, self.owner_database)
                    for sql_view_id in sql_view_ids:
                        await manager.remove(sql_view_id)
        async with self.database.transaction(tenant_id) as session:
            return await count_roles(session, [SqlViewNames(view_id).login for view_id in sql_view_ids])

    async def terminate_overdue_sessions(self) -> None:
        """Terminate sessions of SQL views' logins that exceed their limits. Raises MaintenanceFailed."""
        if self.owner_database is None:
            return
        async with self.owner_database.connect() as connection:
            terminated_count = await SqlViewManager(connection, self.owner_database).terminate_overdue_sessions()
        if terminated_count:
            logger.warning("sql_view.sessions_terminated", sessions=terminated_count)

    async def scan(self) -> None:
        """Enqueue a job for each SQL view that is out of date, and drop views and roles without a row.

        Raises:
            MaintenanceFailed: The database rejected a statement of the owner.
        """
        if self.owner_database is None:
            return
        await self.terminate_overdue_sessions()
        async with self.owner_database.connect() as connection:
            manager = SqlViewManager(connection, self.owner_database)
            due = await manager.find_due()
            if orphans := await manager.drop_orphans():
                logger.info("sql_view.orphans_dropped", sql_views=orphans)
        for tenant_id, kb_id, sql_view_id in due:
            async with self.database.transaction(tenant_id) as session:
                await request_reconcile(session, self.queue, tenant_id, sql_view_id, kb_id)

    async def _record_missing_owner(self, tenant_id: UUID, kb_id: UUID, sql_view_id: UUID) -> None:
        async with self.database.transaction(tenant_id) as session:
            repository = SqlViewRepository(session, tenant_id, kb_id)
            await repository.set_skip_reason(sql_view_id, NO_OWNER)
            if await repository.remove_uncreated(sql_view_id):
                return
            sql_view = await repository.find()
        if sql_view is None or sql_view.id != sql_view_id:
            raise MaintenanceFailed("A SQL view cannot be dropped. Set CARREL_ADMIN_DATABASE_URL.")
