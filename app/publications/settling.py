"""What the jobs do for publications: make them, have them follow the live search index, and take them away."""

from dataclasses import dataclass
from uuid import UUID

from app.db.maintenance import MaintenanceFailed, OwnerDatabase
from app.db.publishing import PublicationOwner
from app.db.session import Database
from app.job_queue import JobQueue
from app.logging import get_logger
from app.publications.repository import PublicationRepository
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
            is_gone = await PublicationOwner(connection).settle(tenant_id, publication_id)
        logger.info("publication.settled", publication=str(publication_id), gone=is_gone)

    async def take_away(self, tenant_id: UUID, kb_id: UUID) -> None:
        """All publications of a knowledge base that was withdrawn. Raises MaintenanceFailed."""
        async with self.database.transaction(tenant_id) as session:
            repository = PublicationRepository(session, tenant_id, kb_id)
            await repository.revoke()
            publications = await repository.all()
        for publication_id in publications:
            await self.settle(tenant_id, kb_id, publication_id)

    async def look_after_all(self) -> None:
        """Give each that wants something a job, and drop what belongs to none. Raises MaintenanceFailed."""
        if self.owner is None:
            return
        async with self.owner.connect() as connection:
            owner = PublicationOwner(connection)
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
