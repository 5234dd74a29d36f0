"""Queries that remove the contents of deleted knowledge bases, some documents at a time."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from app.db.session import Session
from app.db.statements import parse_statement
from app.documents.deletion.repository import count_stored_files


class PurgeRepository:
    """Queries that remove contents of deleted knowledge bases of one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def list_knowledge_bases(self) -> list[UUID]:
        """Return the ids of all knowledge bases of the tenant, including knowledge bases that are being deleted."""
        rows = await self.session.fetch_rows(_KNOWLEDGE_BASES, {"t": self.tenant_id})
        return [row["id"] for row in rows]

    async def lock_documents(self, kb_id: UUID, *, limit: int) -> list[UUID]:
        """Lock documents of a knowledge base until the transaction ends, and return their ids."""
        rows = await self.session.fetch_rows(_LOCK_DOCUMENTS, {**self._build_params(kb_id), "limit": limit})
        return [row["id"] for row in rows]

    async def remove_documents(self, kb_id: UUID, documents: Sequence[UUID]) -> int:
        """Delete documents with all rows that depend on them.

        Sums over a search index, such as document frequencies, are not changed, because the search index is deleted as
        a whole.

        Args:
            kb_id: The knowledge base.
            documents: The documents to delete.

        Returns:
            The number of documents that were made from stored files, which are retained.
        """
        rows = await self.session.fetch_rows(_REMOVE_DOCUMENTS, {**self._build_params(kb_id), "ds": list(documents)})
        return await count_stored_files(
            self.session, self.tenant_id, [(row["external_id"], row["sha256"]) for row in rows]
        )

    async def remove_if_empty(self, kb_id: UUID) -> bool:
        """Delete the knowledge base. Return False if new documents have arrived."""
        params = self._build_params(kb_id)
        await self.session.fetch_rows(_LOCK_KNOWLEDGE_BASE, params)
        return await self.session.fetch_row(_REMOVE_IF_EMPTY, params) is not None

    def _build_params(self, kb_id: UUID) -> dict[str, Any]:
        return {"t": self.tenant_id, "kb": kb_id}


_KNOWLEDGE_BASES = parse_statement("select id from knowledge_base where tenant_id = :t order by id")
_LOCK_DOCUMENTS = parse_statement(
    "select id from document where tenant_id = :t and kb_id = :kb order by id limit :limit for update"
)
_REMOVE_DOCUMENTS = parse_statement("""
with deleted as (
  delete from document where tenant_id = :t and kb_id = :kb and id = any(:ds::uuid[]) returning external_id, sha256
)
select external_id, sha256 from deleted where starts_with(external_id, 'file_')""")
_LOCK_KNOWLEDGE_BASE = parse_statement("select 1 from knowledge_base where tenant_id = :t and id = :kb for update")
_REMOVE_IF_EMPTY = parse_statement("""
with removed as (
  delete from knowledge_base k where k.tenant_id = :t and k.id = :kb
     and not exists (select from document d where d.tenant_id = :t and d.kb_id = :kb) returning 1
)
select 1 where exists (select from removed)
             or not exists (select from document where tenant_id = :t and kb_id = :kb)""")
