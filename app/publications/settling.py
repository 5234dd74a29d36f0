"""What the jobs do for publications: make them, have them follow the live search index, and take them away."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from app.db.maintenance import MaintenanceFailed, OwnerDatabase
from app.db.publishing import Place, PublicationOwner
from app.db.session import Database
from app.job_queue import JobQueue
from app.logging import get_logger
from app.publications.repository import PublicationRepository, count_roles
from app.publications.service import request_settling

logger = get_logger(__name__)

NO_OWNER = "no_owner"


@dataclass(frozen=True, slots=True)
class PublicationSettling:
    """What the jobs call. Without ``owner`` nothing is published, and each publication says why."""

    database: Database
    queue: JobQueue
    owner: OwnerDatabase | None

    async def settle(self, tenant_id: UUID, kb_id: UUID, publication_id: UUID) -> None:
        """Do what one publication wants; doing it again changes nothing. Raises MaintenanceFailed."""
        if self.owner is None:
            await self._hold_back(tenant_id, kb_id, publication_id)
            return
        async with self.owner.connect() as connection:
            is_gone = await PublicationOwner(connection, self.owner).settle(tenant_id, publication_id)
        logger.info("publication.settled", publication=str(publication_id), gone=is_gone)

    async def take_away(self, tenant_id: UUID, kb_id: UUID) -> list[UUID]:
        """Take away all publications of a knowledge base that was withdrawn.

        Returns:
            The publications whose view or role could not be dropped yet. They show nothing: ``release`` their rows, so
            that the deletion goes on, and try again with ``remove_released``.
        """
        async with self.database.transaction(tenant_id) as session:
            repository = PublicationRepository(session, tenant_id, kb_id)
            await repository.revoke()
            publications = await repository.all()
        left = []
        for publication_id in publications:
            try:
                await self.settle(tenant_id, kb_id, publication_id)
            except MaintenanceFailed as exc:
                logger.warning("publication.left", publication=str(publication_id), error=type(exc.__cause__).__name__)
                left.append(publication_id)
        return left

    async def release(self, tenant_id: UUID, kb_id: UUID, publications: Sequence[UUID]) -> None:
        """Remove the rows of revoked publications. Without its row a view is empty, whatever its login does."""
        async with self.database.transaction(tenant_id) as session:
            await PublicationRepository(session, tenant_id, kb_id).release(publications)

    async def remove_released(self, tenant_id: UUID, publications: Sequence[UUID]) -> int:
        """Drop views and roles whose rows were released; returns how many roles the database still has."""
        if not publications:
            return 0
        if self.owner is not None:
            with suppress(MaintenanceFailed):  # then they are still there, and are counted
                async with self.owner.connect() as connection:
                    owner = PublicationOwner(connection, self.owner)
                    for publication_id in publications:
                        await owner.remove(publication_id)
        async with self.database.transaction(tenant_id) as session:
            return await count_roles(session, [Place(one).login for one in publications])

    async def end_overdue_sessions(self) -> None:
        """End the sessions of publications' logins that overstep their limits. Raises MaintenanceFailed."""
        if self.owner is None:
            return
        async with self.owner.connect() as connection:
            ended = await PublicationOwner(connection, self.owner).end_overdue_sessions()
        if ended:
            logger.warning("publication.sessions_ended", sessions=ended)

    async def look_after_all(self) -> None:
        """Give each that wants something a job, and drop what belongs to none. Raises MaintenanceFailed."""
        if self.owner is None:
            return
        await self.end_overdue_sessions()
        async with self.owner.connect() as connection:
            owner = PublicationOwner(connection, self.owner)
            due = await owner.due()
            if strays := await owner.drop_strays():
                logger.info("publication.strays_dropped", publications=strays)
        for tenant_id, kb_id, publication_id in due:
            async with self.database.transaction(tenant_id) as session:
                await request_settling(session, self.queue, tenant_id, publication_id, kb_id)

    async def _hold_back(self, tenant_id: UUID, kb_id: UUID, publication_id: UUID) -> None:
        async with self.database.transaction(tenant_id) as session:
            repository = PublicationRepository(session, tenant_id, kb_id)
            await repository.hold_back(publication_id, NO_OWNER)
            if await repository.remove_unmade(publication_id):
                return
            published = await repository.find()
        if published is None or published.id != publication_id:
            raise MaintenanceFailed("CARREL_ADMIN_DATABASE_URL is needed to take a publication away.")
