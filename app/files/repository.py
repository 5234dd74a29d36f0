"""Queries for files that are kept for themselves, and for the documents that were made of them."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import delete, func, or_, select

from app.db.models.files import StoredFile
from app.db.models.tenant_data import DocumentRow, KnowledgeBaseRow
from app.db.session import Session
from app.idempotency import delete_stored_responses
from app.ids import encode_id
from app.principal import Principal


class FileRepository:
    """Queries in one tenant, as one key sees its files.

    A file is in no knowledge base and belongs to no user: a key that is narrowed sees those that came by
    its own line of keys.
    """

    def __init__(self, session: Session, principal: Principal) -> None:
        self.session = session
        self.tenant_id = principal.tenant_id
        is_restricted = principal.knowledge_base_ids is not None or principal.user_id is not None
        self._visibility_conditions = [
            StoredFile.tenant_id == principal.tenant_id,
            or_(StoredFile.expires_at.is_(None), StoredFile.expires_at > func.now()),
            *([StoredFile.key_lineage_id == principal.key_lineage_id] if is_restricted else []),
        ]

    async def add(self, file: StoredFile) -> None:
        """Insert it."""
        self.session.add(file)
        await self.session.flush()

    async def get(self, ids: Sequence[UUID]) -> dict[UUID, StoredFile]:
        """Those of them that are there."""
        query = select(StoredFile).where(*self._visibility_conditions, StoredFile.id.in_(ids))
        return {file.id: file for file in await self.session.scalars(query)}

    async def list_files(
        self, *, purpose: str | None, after: UUID | None, newest_first: bool, limit: int
    ) -> list[StoredFile]:
        """In the order of their ids, which is that of time."""
        query = select(StoredFile).where(*self._visibility_conditions)
        if purpose is not None:
            query = query.where(StoredFile.purpose == purpose)
        if after is not None:
            query = query.where(StoredFile.id < after if newest_first else StoredFile.id > after)
        order = StoredFile.id.desc() if newest_first else StoredFile.id.asc()
        return list(await self.session.scalars(query.order_by(order).limit(limit)))

    async def remove(self, file_id: UUID) -> bool:
        """False where it is gone already."""
        statement = (
            delete(StoredFile).where(*self._visibility_conditions, StoredFile.id == file_id).returning(StoredFile.id)
        )
        removed = (await self.session.execute(statement)).first() is not None
        await delete_stored_responses(self.session, self.tenant_id, [file_id])
        return removed

    async def list_documents(self, file: StoredFile) -> list[tuple[UUID, UUID]]:
        """Knowledge base and id of each document that was made of it.

        Its name alone is no sign of that: at another door anybody may call a document so.
        """
        # By knowledge base, as the index has it: one over all documents' external ids there is none.
        kbs = select(KnowledgeBaseRow.id).where(
            KnowledgeBaseRow.tenant_id == self.tenant_id, KnowledgeBaseRow.deleted_at.is_(None)
        )
        query = select(DocumentRow.kb_id, DocumentRow.id).where(
            DocumentRow.tenant_id == self.tenant_id,
            DocumentRow.kb_id.in_(kbs),
            DocumentRow.external_id == encode_id("file", file.id),
            DocumentRow.sha256 == file.sha256,
        )
        return [(kb_id, document_id) for kb_id, document_id in await self.session.execute(query)]
