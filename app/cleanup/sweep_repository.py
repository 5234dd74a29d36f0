"""Queries of the sweepers in one tenant."""

from collections.abc import Collection
from datetime import timedelta
from uuid import UUID

from sqlalchemy import delete, func, text
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models.files import StoredFile
from app.db.models.ingestion_state import EmbeddingCheckpoint, IdempotencyKey
from app.db.models.webhooks import WebhookDelivery
from app.documents.types import PARSE_RESULT_SUFFIX
from app.idempotency import RETENTION

# The age at which stored vectors of an unfinished ingestion are deleted. The ingestion then computes the vectors again.
MAX_CHECKPOINT_AGE = timedelta(days=7)
# Deliveries of webhooks can be listed and sent again for this time.
MAX_DELIVERY_AGE = timedelta(days=30)


class SweepRepository:
    """Queries of the sweepers for the expired and orphaned rows of one tenant."""

    def __init__(self, session: AsyncSession, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def find_existing_keys(self, documents: Collection[UUID]) -> set[str]:
        """Return the object keys of originals, parse results, images and stored files that rows with these ids name.

        Args:
            documents: Ids of documents or stored files.

        Returns:
            The keys that a row names.
        """
        keys = await self.session.scalars(
            text(_EXISTING_KEYS),
            {"tenant": self.tenant_id, "documents": list(documents), "suffix": PARSE_RESULT_SUFFIX},
        )
        return set(keys)

    async def remove_old_responses(self) -> int:
        """Delete stored responses that are too old for retries, and return their number."""
        return await self._remove_older_than(IdempotencyKey, RETENTION)

    async def remove_old_checkpoints(self) -> int:
        """Delete old vectors of versions whose ingestion never ended, and return their number."""
        return await self._remove_older_than(EmbeddingCheckpoint, MAX_CHECKPOINT_AGE)

    async def remove_old_deliveries(self) -> int:
        """Delete old webhook deliveries, and return their number."""
        return await self._remove_older_than(WebhookDelivery, MAX_DELIVERY_AGE)

    async def remove_expired_files(self) -> int:
        """Delete expired stored files, and return their number. A later sweep deletes their objects."""
        statement = (
            delete(StoredFile)
            .where(StoredFile.tenant_id == self.tenant_id, StoredFile.expires_at <= func.now())
            .returning(StoredFile.id)
        )
        return len((await self.session.execute(statement)).all())

    async def _remove_older_than(
        self, table: type[IdempotencyKey | EmbeddingCheckpoint | WebhookDelivery], age: timedelta
    ) -> int:
        statement = (
            delete(table)
            .where(table.tenant_id == self.tenant_id, table.created_at < func.now() - age)
            .returning(table.tenant_id)
        )
        return len((await self.session.execute(statement)).all())


_EXISTING_KEYS = """
select key from document_object where tenant_id = :tenant and document_id = any(:documents)
union all select key || :suffix from document_object
 where tenant_id = :tenant and document_id = any(:documents) and parse_identity is not null
union all select key from document_image where tenant_id = :tenant and document_id = any(:documents)
union all select key from stored_file where tenant_id = :tenant and id = any(:documents)"""
