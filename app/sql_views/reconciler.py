"""Jobs of SQL views: create them, point them to the live search index, and drop them."""

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
    """What the jobs call. Without ``owner_database`` no SQL view is created, and each says why."""

    database: Database
    queue: JobQueue
    owner_database: OwnerDatabase | None

    async def reconcile(self, tenant_id: UUID, kb_id: UUID, sql_view_id: UUID) -> None:
        """Create, update or drop one SQL view; doing it again changes nothing. Raises MaintenanceFailed."""
        if self.owner_database is None:
            await self._record_missing_owner(tenant_id, kb_id, sql_view_id)
            return
        async with self.owner_database.connect() as connection:
            is_removed = await SqlViewManager(connection, self.owner_database).apply(tenant_id, sql_view_id)
        logger.info("sql_view.reconciled", sql_view=str(sql_view_id), removed=is_removed)

    async def drop_all(self, tenant_id: UUID, kb_id: UUID) -> list[UUID]:
        """Drop all SQL views of a deleted knowledge base.

        Returns:
            The SQL views whose view or role could not be dropped yet. They show nothing: delete their rows with
            ``delete_revoked``, so that the deletion goes on, and try again with ``drop_deleted``.
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
        """Remove the rows of revoked SQL views. Without its row a view is empty, whatever its login does."""
        async with self.database.transaction(tenant_id) as session:
            await SqlViewRepository(session, tenant_id, kb_id).delete_revoked(sql_view_ids)

    async def drop_deleted(self, tenant_id: UUID, sql_view_ids: Sequence[UUID]) -> int:
        """Drop views and roles whose rows were released; returns how many roles the database still has."""
        if not sql_view_ids:
            return 0
        if self.owner_database is not None:
            with suppress(MaintenanceFailed):  # then they are still there, and are counted
                async with self.owner_database.connect() as connection:
                    manager = SqlViewManager(connection, self.owner_database)
                    for sql_view_id in sql_view_ids:
                        await manager.remove(sql_view_id)
        async with self.database.transaction(tenant_id) as session:
            return await count_roles(session, [SqlViewNames(view_id).login for view_id in sql_view_ids])

    async def terminate_overdue_sessions(self) -> None:
        """End the sessions of SQL views' logins that overstep their limits. Raises MaintenanceFailed."""
        if self.owner_database is None:
            return
        async with self.owner_database.connect() as connection:
            terminated_count = await SqlViewManager(connection, self.owner_database).terminate_overdue_sessions()
        if terminated_count:
            logger.warning("sql_view.sessions_terminated", sessions=terminated_count)

    async def scan(self) -> None:
        """Give each that wants something a job, and drop what belongs to none. Raises MaintenanceFailed."""
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
            raise MaintenanceFailed("CARREL_ADMIN_DATABASE_URL is needed to drop a SQL view.")
