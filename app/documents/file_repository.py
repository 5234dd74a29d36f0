"""Queries for files that are kept for themselves, and for the documents that were made of them."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import delete, func, or_, select

from app.access import Principal
from app.db.models.openai import KeptFile
from app.db.models.tenant_data import Document, KnowledgeBase
from app.db.session import Session
from app.idempotency import forget_answers
from app.ids import encode_id


class FileRepository:
    """Queries in one tenant, as one key sees its files.

    A file is in no knowledge base and belongs to no user: a key that is narrowed sees those that came by
    its own line of keys.
    """

    def __init__(self, session: Session, principal: Principal) -> None:
        self.session = session
        self.tenant_id = principal.tenant_id
        is_narrowed = principal.knowledge_base_ids is not None or principal.user_id is not None
        self._visible = [
            KeptFile.tenant_id == principal.tenant_id,
            or_(KeptFile.expires_at.is_(None), KeptFile.expires_at > func.now()),
            *([KeptFile.key_id == principal.line_id] if is_narrowed else []),
        ]

    async def add(self, file: KeptFile) -> None:
        """Insert it."""
        self.session.add(file)
        await self.session.flush()

    async def get(self, ids: Sequence[UUID]) -> dict[UUID, KeptFile]:
        """Those of them that are there."""
        query = select(KeptFile).where(*self._visible, KeptFile.id.in_(ids))
        return {file.id: file for file in await self.session.scalars(query)}

    async def page(self, *, purpose: str | None, after: UUID | None, newest_first: bool, limit: int) -> list[KeptFile]:
        """In the order of their ids, which is that of time."""
        query = select(KeptFile).where(*self._visible)
        if purpose is not None:
            query = query.where(KeptFile.purpose == purpose)
        if after is not None:
            query = query.where(KeptFile.id < after if newest_first else KeptFile.id > after)
        order = KeptFile.id.desc() if newest_first else KeptFile.id.asc()
        return list(await self.session.scalars(query.order_by(order).limit(limit)))

    async def remove(self, file_id: UUID) -> bool:
        """False where it is gone already."""
        gone = delete(KeptFile).where(*self._visible, KeptFile.id == file_id).returning(KeptFile.id)
        removed = (await self.session.execute(gone)).first() is not None
        await forget_answers(self.session, self.tenant_id, [file_id])
        return removed

    async def documents(self, file: KeptFile) -> list[tuple[UUID, UUID]]:
        """Knowledge base and id of each document that was made of it.

        Its name alone is no sign of that: at another door anybody may call a document so.
        """
        # By knowledge base, as the index has it: one over all documents' external ids there is none.
        kbs = select(KnowledgeBase.id).where(
            KnowledgeBase.tenant_id == self.tenant_id, KnowledgeBase.deleted_at.is_(None)
        )
        query = select(Document.kb_id, Document.id).where(
            Document.tenant_id == self.tenant_id,
            Document.kb_id.in_(kbs),
            Document.external_id == encode_id("file", file.id),
            Document.sha256 == file.sha256,
        )
        return [(kb_id, document_id) for kb_id, document_id in await self.session.execute(query)]
