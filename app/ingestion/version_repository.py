"""Read, update and finish the version of a document that is being ingested."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.db.models.tenant_data import DocumentRow
from app.db.session import Session
from app.db.statements import parse_statement
from app.documents.row_codec import DOCUMENT_COLUMNS, parse_document_row
from app.documents.types import PARSE_RESULT_SUFFIX
from app.principal import Quotas
from app.quotas.storage_quota import StorageQuota
from app.warnings import ServiceWarning


@dataclass(frozen=True, slots=True)
class PendingVersion:
    """Version of a document that is to be ingested.

    Attributes:
        document: Row of the document.
        object_key: Key of the uploaded file in the object store.
        storage_quota: Storage quota that the chunks count against.
        key_quotas: Quotas of the API key that uploaded the version.
    """

    document: DocumentRow
    object_key: str
    storage_quota: StorageQuota
    key_quotas: Quotas


class VersionRepository:
    """Repository of the versions that the worker ingests for one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def load_pending(self, document_id: UUID, version: int, *, uploader: UUID) -> PendingVersion | None:
        """Load a version that is to be ingested.

        Args:
            document_id: The document.
            version: The version.
            uploader: API key that uploaded the version.

        Returns:
            The version, or None if it is not the document's newest one, or is ready or failed.
        """
        values = {"t": self.tenant_id, "d": document_id, "v": version, "uploader": uploader}
        row = await self.session.fetch_row(_LOAD, values)
        if row is None:
            return None
        document = parse_document_row(row)
        quotas, storage_key_quotas = Quotas.from_json(row["tenant_quotas"]), Quotas.from_json(row["storing_quotas"])
        storage_quota = StorageQuota(self.tenant_id, quotas, document.quota_key_id, storage_key_quotas)
        return PendingVersion(document, row["key"], storage_quota, Quotas.from_json(row["key_quotas"]))

    async def lock(self, document_id: UUID, version: int, object_key: str) -> DocumentRow | None:
        """Lock the document until the transaction ends.

        Args:
            document_id: The document.
            version: The version that was ingested.
            object_key: Key of the original that was ingested. A change of one uploaded chunk replaces the original.

        Returns:
            The row of the document, or None if the version need not be ingested, or has another original now.
        """
        values = {"t": self.tenant_id, "d": document_id, "v": version}
        row = await self.session.fetch_row(_LOCK, values)
        original = await self.session.fetch_row(_ORIGINAL, values) if row is not None else None
        if original is None or original["key"] != object_key:
            return None
        return None if row is None else parse_document_row(row)

    async def set_status(
        self, document_id: UUID, version: int, status: str, progress: Mapping[str, Any] | None = None
    ) -> bool:
        """Set the status and progress of a version that is being ingested.

        Args:
            document_id: The document.
            version: The version.
            status: New status.
            progress: Counts of the status, such as ``done`` and ``total``.

        Returns:
            False if the document was deleted, or the version is ready, failed or no longer the newest one.
        """
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
        """Make the version the live one with status ready, and delete the rows of earlier versions and attempts.

        Args:
            document: Row of the document.
            index_id: Search index that the chunks were stored in.
            chunks: Number of chunks.
            language: Language of the document.
            page_count: Number of pages or slides.
            warnings: Warnings for the owner of the document.
            image_hashes: SHA-256 hashes of the images of the version, whose descriptions are kept.

        Returns:
            Keys of objects to purge: earlier uploads with their parse results, and images. None if another search
            index has become the live one.
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
            "suffix": PARSE_RESULT_SUFFIX,
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
_ORIGINAL = parse_statement(
    "select key from document_object where tenant_id = :t and document_id = :d and version = :v"
)
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
  delete from document_object where tenant_id = :t and document_id = :d and version < :v returning key, parse_identity
)
select exists (select from finished) finished,
       array(select key from media union all select key from originals
             union all select key || :suffix::text from originals where parse_identity is not null) keys""")
