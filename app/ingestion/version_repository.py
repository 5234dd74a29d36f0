"""The version of a document that is being ingested: what is read of it, what is told of it, and its end."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.db.models.tenant_data import DocumentRow
from app.db.session import Session
from app.db.statements import parse_statement
from app.documents.row_codec import DOCUMENT_COLUMNS, parse_document_row
from app.principal import Quotas
from app.quotas.storage_quota import StorageQuota
from app.warnings import ServiceWarning


@dataclass(frozen=True, slots=True)
class PendingVersion:
    """A document to be ingested, where its original is and where it has to fit; and what the key may use that asks."""

    document: DocumentRow
    object_key: str
    storage_quota: StorageQuota
    key_quotas: Quotas


class VersionRepository:
    """Queries in one tenant, for the worker."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def load_pending(self, document_id: UUID, version: int, *, uploader: UUID) -> PendingVersion | None:
        """A document whose newest version this is and that is not settled, detached; ``uploader`` is a key."""
        values = {"t": self.tenant_id, "d": document_id, "v": version, "uploader": uploader}
        row = await self.session.fetch_row(_LOAD, values)
        if row is None:
            return None
        document = parse_document_row(row)
        quotas, storage_key_quotas = Quotas.from_json(row["tenant_quotas"]), Quotas.from_json(row["storing_quotas"])
        storage_quota = StorageQuota(self.tenant_id, quotas, document.quota_key_id, storage_key_quotas)
        return PendingVersion(document, row["key"], storage_quota, Quotas.from_json(row["key_quotas"]))

    async def lock(self, document_id: UUID, version: int) -> DocumentRow | None:
        """The same as it is now, kept from every other change until the transaction ends."""
        row = await self.session.fetch_row(_LOCK, {"t": self.tenant_id, "d": document_id, "v": version})
        return None if row is None else parse_document_row(row)

    async def set_status(
        self, document_id: UUID, version: int, status: str, progress: Mapping[str, Any] | None = None
    ) -> bool:
        """Move a version that is being ingested along; False when it is gone, settled or no longer the newest."""
        values = {
            "t": self.tenant_id,
            "d": document_id,
            "v": version,
            "status": status,
            "progress": None if progress is None else json.dumps(progress),
        }
        return await self.session.fetch_row(_SET_STATUS, values) is not None

    async def finish(
        self,
        document: DocumentRow,
        index_id: UUID,
        *,
        chunks: int,
        language: str,
        page_count: int | None,
        warnings: Sequence[ServiceWarning],
        image_hashes: Collection[bytes],
    ) -> list[str] | None:
        """The version is whole and ``index_id`` still live: what is left of earlier versions and attempts goes.

        Returns the keys of their objects, to be purged; None when another index has become the live one.
        ``image_hashes`` are the hashes of those that it shows: what was said of them stays.
        """
        values = {
            "t": self.tenant_id,
            "kb": document.kb_id,
            "d": document.id,
            "v": document.version,
            "i": index_id,
            "title": document.title,
            "filterable": json.dumps(document.filterable),
            "chunks": chunks,
            "language": language,
            "pages": page_count,
            "warnings": json.dumps([warning.to_json() for warning in warnings]),
            "image_hashes": list(image_hashes),
        }
        row = await self.session.fetch_row(_FINISH, values)
        assert row is not None
        return row["keys"] if row["finished"] else None


_PENDING_FILTER = "tenant_id = :t and id = :d and version = :v and status not in ('ready', 'failed')"
_LOAD = parse_statement(f"""
select d.*, o.key, (select t.quotas from tenant t where t.id = :t) tenant_quotas,
       (select k.quotas from api_key k where k.tenant_id = :t and k.id = :uploader) key_quotas,
       (select k.quotas from api_key k where k.tenant_id = :t and k.id = d.quota_key_id) storing_quotas
  from (select {DOCUMENT_COLUMNS} from document where {_PENDING_FILTER}) d
  join document_object o on o.tenant_id = d.tenant_id and o.document_id = d.id and o.version = d.version""")  # noqa: S608
_LOCK = parse_statement(f"select {DOCUMENT_COLUMNS} from document where {_PENDING_FILTER} for update")  # noqa: S608  (constants)
_SET_STATUS = parse_statement(f"""
update document set status = :status, progress = :progress::jsonb, updated_at = now()
 where {_PENDING_FILTER} returning 1""")  # noqa: S608  (constants)
_FINISH = parse_statement("""
with finished as (
  update document d
     set status = 'ready', live_version = d.version, title = :title, filterable = :filterable::jsonb, error = null,
         progress = null, warnings = :warnings::jsonb, page_count = :pages, chunk_count = :chunks, language = :language,
         updated_at = now()
    from search_index i
   where d.tenant_id = :t and d.id = :d and i.tenant_id = :t and i.kb_id = :kb and i.id = :i and i.state = 'live'
  returning 1
), vectors as (
  delete from embedding_checkpoint where tenant_id = :t and document_id = :d
), descriptions as (
  delete from image_caption where tenant_id = :t and document_id = :d and sha256 <> all(:image_hashes::bytea[])
), media as (
  delete from document_image where tenant_id = :t and document_id = :d returning key
), originals as (
  delete from document_object where tenant_id = :t and document_id = :d and version < :v returning key
)
select exists (select from finished) finished,
       array(select key from media union all select key from originals) keys""")
