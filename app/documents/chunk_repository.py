"""Queries that change the chunks of one document."""

import json
from uuid import UUID

from app.db.models.tenant_data import DocumentRow
from app.db.session import Session
from app.db.statements import parse_statement
from app.documents.deletion.repository import NEGATIVE_DELTAS
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.warnings import ServiceWarning, WarningCode

CHUNKS_DELETED = ServiceWarning(
    WarningCode.CHUNKS_DELETED, "The chunks of the document were deleted. Reindex the document to search it again."
)


class DocumentChunkRepository:
    """Queries that change the chunks of documents of one tenant. The caller has locked the document."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def list_ordinals(self, document: DocumentRow) -> list[int]:
        """Return the indexes of the chunks of the newest version in the live search index, in order."""
        rows = await self.session.fetch_rows(_ORDINALS, {**self._build_params(document), "v": document.version})
        return [row["ordinal"] for row in rows]

    async def replace_original(
        self, document: DocumentRow, version: int, former_key: str, key: str, *, sha256: bytes, size: int
    ) -> bool:
        """Give the newest version another original.

        Args:
            document: The document.
            version: Version that must still be the newest one.
            former_key: Object key that the version must still have.
            key: New object key.
            sha256: Hash of the new original.
            size: Size of the new original in bytes.

        Returns:
            False if another request has changed the document since.
        """
        values = {**self._build_params(document), "v": version, "former_key": former_key, "key": key}
        return await self.session.fetch_row(_REPLACE_ORIGINAL, {**values, "sha256": sha256, "size": size}) is not None

    async def delete_chunks(self, document: DocumentRow) -> None:
        """Delete the chunks of a document in all search indexes, and add a warning to the document."""
        values = self._build_params(document)
        await KnowledgeBaseRepository(self.session, self.tenant_id).lock_indexes(document.kb_id)
        for subtract_statement in NEGATIVE_DELTAS:
            await self.session.fetch_rows(subtract_statement, {**values, "ds": [document.id]})
        await self.session.fetch_rows(_DELETE_CHUNKS, values)
        warning = {"warning": json.dumps([CHUNKS_DELETED.to_json()]), "code": CHUNKS_DELETED.code}
        await self.session.fetch_rows(_MARK_WITHOUT_CHUNKS, {**values, **warning})

    def _build_params(self, document: DocumentRow) -> dict[str, object]:
        return {"t": self.tenant_id, "kb": document.kb_id, "d": document.id}


_ORDINALS = parse_statement("""
select c.ordinal from chunk c
 where c.tenant_id = :t and c.kb_id = :kb and c.document_id = :d and c.version = :v
   and c.index_id = (select id from search_index where tenant_id = :t and kb_id = :kb and state = 'live')
 order by c.ordinal""")
_REPLACE_ORIGINAL = parse_statement("""
with replaced as (
  update document_object o set key = :key
    from document d
   where d.tenant_id = :t and d.kb_id = :kb and d.id = :d and d.version = :v
     and o.tenant_id = :t and o.document_id = :d and o.version = :v and o.key = :former_key
  returning 1
)
update document set sha256 = :sha256, bytes = :size, updated_at = now()
 where tenant_id = :t and kb_id = :kb and id = :d and exists (select from replaced) returning 1""")
_DELETE_CHUNKS = parse_statement("delete from chunk where tenant_id = :t and kb_id = :kb and document_id = :d")
_MARK_WITHOUT_CHUNKS = parse_statement("""
update document set chunk_count = 0, updated_at = now(), warnings = case
    when live_version is null or warnings @> jsonb_build_array(jsonb_build_object('code', :code::text)) then warnings
    else warnings || :warning::jsonb end
 where tenant_id = :t and kb_id = :kb and id = :d""")
