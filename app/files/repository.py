"""Queries for stored files and for the documents made from them."""

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
    """Queries for the stored files of one tenant that the caller's key may read.

    A stored file belongs to no knowledge base and to no user. Therefore a restricted key reads only files that a key of
    its own lineage stored. A lineage is a key with its replacements after rotations.
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
        """Insert a file."""
        self.session.add(file)
        await self.session.flush()

    async def get(self, ids: Sequence[UUID]) -> dict[UUID, StoredFile]:
        """Return by id the files that exist and that the key may read."""
        query = select(StoredFile).where(*self._visibility_conditions, StoredFile.id.in_(ids))
        return {file.id: file for file in await self.session.scalars(query)}

    async def list_files(
        self, *, purpose: str | None, after: UUID | None, newest_first: bool, limit: int
    ) -> list[StoredFile]:
        """List files in the order of their ids, which is the order of creation.

        Args:
            purpose: Only files with this purpose are listed. None lists all.
            after: Id of the last file of the previous page, or None.
            newest_first: Whether the order is descending.
            limit: The maximum number of files.

        Returns:
            The files.
        """
        query = select(StoredFile).where(*self._visibility_conditions)
        if purpose is not None:
            query = query.where(StoredFile.purpose == purpose)
        if after is not None:
            query = query.where(StoredFile.id < after if newest_first else StoredFile.id > after)
        order = StoredFile.id.desc() if newest_first else StoredFile.id.asc()
        return list(await self.session.scalars(query.order_by(order).limit(limit)))

    async def remove(self, file_id: UUID) -> bool:
        """Delete a file and the stored responses that name it.

        Args:
            file_id: The file.

        Returns:
            False if the file does not exist.
        """
        statement = (
            delete(StoredFile).where(*self._visibility_conditions, StoredFile.id == file_id).returning(StoredFile.id)
        )
        removed = (await self.session.execute(statement)).first() is not None
        await delete_stored_responses(self.session, self.tenant_id, [file_id])
        return removed

    async def list_documents(self, file: StoredFile) -> list[tuple[UUID, UUID]]:
        """List the documents that were made from a file.

        A document counts if its external id is the file's id and its content hash is the file's hash. The external id
        alone is not sufficient, because other APIs let callers choose it freely.

        Args:
            file: The stored file.

        Returns:
            Pairs of knowledge base id and document id.
        """
        # The condition on knowledge bases lets the query use the index, which begins with the knowledge base.
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
