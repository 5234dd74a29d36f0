"""Queries for batches of stored files and for the results of their files."""

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import func, select, update

from app.db.models.files import BatchFile, FileBatch
from app.db.models.tenant_data import DocumentRow
from app.db.session import Session
from app.db.statements import parse_statement
from app.documents.repository import DocumentRowFilters, apply_filters
from app.documents.types import DocumentNotFound
from app.errors import AppError, ConflictError


class FileAttachmentCancelled(ConflictError):
    """The batch was cancelled before this file was attached. Attach the file again."""


class FileBatchRepository:
    """Queries for file batches of one tenant.

    ``reader`` is the user that the API key of the caller is restricted to, or None.
    """

    def __init__(self, session: Session, tenant_id: UUID, *, reader: str | None) -> None:
        self.session = session
        self.tenant_id = tenant_id
        self.reader = reader

    async def add(self, batch: FileBatch, files: Sequence[BatchFile]) -> None:
        """Insert a batch and its files. The files wait for the batch's job.

        Args:
            batch: The batch.
            files: The files, each with its ordinal, stored file and metadata.
        """
        self.session.add(batch)
        await self.session.flush()
        values = {
            "t": self.tenant_id,
            "kb": batch.kb_id,
            "batch": batch.id,
            "ordinals": [file.ordinal for file in files],
            "files": [file.file_id for file in files],
            "attributes": [None if file.attributes is None else json.dumps(file.attributes) for file in files],
        }
        await self.session.fetch_rows(_ADD_FILES, values)

    async def get(self, batch_id: UUID) -> FileBatch | None:
        """Return a batch, or None."""
        query = select(FileBatch).where(FileBatch.tenant_id == self.tenant_id, FileBatch.id == batch_id)
        return await self.session.scalar(query)

    async def count_documents_by_status(self, batch: FileBatch) -> dict[str, int]:
        """Return the numbers of the batch's readable documents by status.

        Args:
            batch: The batch.

        Returns:
            Counts by status.
        """
        query = apply_filters(
            select(DocumentRow.status, func.count().label("files")), DocumentRowFilters(reader=self.reader)
        )
        is_same_document = (BatchFile.tenant_id == DocumentRow.tenant_id) & (BatchFile.document_id == DocumentRow.id)
        query = query.join(BatchFile, is_same_document).where(
            DocumentRow.tenant_id == self.tenant_id, DocumentRow.kb_id == batch.kb_id, BatchFile.batch_id == batch.id
        )
        return {row.status: row.files for row in await self.session.execute(query.group_by(DocumentRow.status))}

    async def count_without_document(self, batch_id: UUID) -> tuple[int, int]:
        """Return the number of waiting files and the number of rejected files."""
        row = await self.session.fetch_row(_COUNT_WITHOUT_DOCUMENT, {"t": self.tenant_id, "batch": batch_id})
        assert row is not None
        return row["waiting"], row["refused"]

    async def list_files(self, batch: FileBatch) -> list[tuple[BatchFile, DocumentRow | None]]:
        """List the files of a batch in their order. Files whose document the caller may not read are left out.

        Args:
            batch: The batch.

        Returns:
            Pairs of file and document. The document is None for files that wait or were rejected.
        """
        query = select(BatchFile).where(BatchFile.tenant_id == self.tenant_id, BatchFile.batch_id == batch.id)
        rows = list(await self.session.scalars(query.order_by(BatchFile.ordinal)))
        ids = [row.document_id for row in rows if row.document_id is not None]
        documents = apply_filters(select(DocumentRow), DocumentRowFilters(ids=ids, reader=self.reader))
        documents = documents.where(DocumentRow.tenant_id == self.tenant_id, DocumentRow.kb_id == batch.kb_id)
        documents_by_id = {document.id: document for document in await self.session.scalars(documents)}
        return [
            (row, documents_by_id.get(row.document_id) if row.document_id else None)
            for row in rows
            if row.document_id is None or row.document_id in documents_by_id
        ]

    async def list_waiting_files(self, batch_id: UUID, *, after_ordinal: int, limit: int) -> list[BatchFile]:
        """List files that are neither attached nor rejected.

        Args:
            batch_id: The batch.
            after_ordinal: The ordinal of the last file of the previous page, or -1.
            limit: The maximum number of files.

        Returns:
            The files in their order.
        """
        query = select(BatchFile).where(
            BatchFile.tenant_id == self.tenant_id,
            BatchFile.batch_id == batch_id,
            BatchFile.ordinal > after_ordinal,
            BatchFile.document_id.is_(None),
            BatchFile.error.is_(None),
        )
        return list(await self.session.scalars(query.order_by(BatchFile.ordinal).limit(limit)))

    async def find_job_error(self, batch: FileBatch) -> dict[str, Any] | None:
        """Return the error for which the batch's job was given up, or None if the job still has to attach files.

        Args:
            batch: The batch.

        Returns:
            The error's code and message.
        """
        job = await self.session.fetch_row(_GET_JOB, {"t": self.tenant_id, "id": batch.job_id})
        if job is not None and job["state"] != "dead":
            return None
        error = (job and job["error"]) or {}
        return {
            "code": error.get("code", AppError.code),
            "message": error.get("message", "The job failed too often. Attach the files again."),
        }

    async def attach(self, file: BatchFile, document_id: UUID) -> None:
        """Record the document of a file. Raises DocumentNotFound, FileAttachmentCancelled."""
        if await self.session.fetch_row(_LOCK_DOCUMENT, {"t": self.tenant_id, "id": document_id}) is None:
            raise DocumentNotFound
        if await self.session.fetch_row(_ATTACH, {**self._build_params(file), "document": document_id}) is None:
            raise FileAttachmentCancelled

    async def reject(self, file: BatchFile, error: AppError) -> None:
        """Record the error for which a file is not attached."""
        error_json = json.dumps({"code": error.code, "message": error.message})
        await self.session.fetch_rows(_REJECT, {**self._build_params(file), "error": error_json})

    async def close(self, batch_id: UUID) -> None:
        """Record that the batch's job is complete."""
        await self._update(batch_id, job_id=None)

    async def cancel_waiting_files(self, batch_id: UUID) -> int:
        """Delete the waiting files of a batch, mark the batch as cancelled, and return the number of deleted files."""
        rows = await self.session.fetch_rows(_CANCEL_WAITING, {"t": self.tenant_id, "batch": batch_id})
        await self.add_cancelled_files(batch_id, len(rows))
        return len(rows)

    async def add_cancelled_files(self, batch_id: UUID, count: int) -> None:
        """Add to the number of cancelled files of a batch, and mark the batch as cancelled.

        Args:
            batch_id: The batch.
            count: The number of files that were removed before they were ready.
        """
        await self._update(
            batch_id,
            cancelled=FileBatch.cancelled + count,
            cancelled_at=func.coalesce(FileBatch.cancelled_at, func.now()),
        )

    async def _update(self, batch_id: UUID, **values: Any) -> None:
        conditions = (FileBatch.tenant_id == self.tenant_id, FileBatch.id == batch_id)
        await self.session.execute(update(FileBatch).where(*conditions).values(**values))

    def _build_params(self, file: BatchFile) -> dict[str, Any]:
        return {"t": self.tenant_id, "batch": file.batch_id, "ordinal": file.ordinal}


_ADD_FILES = parse_statement("""
insert into file_batch_file (tenant_id, batch_id, ordinal, file_id, kb_id, attributes)
select :t::uuid, :batch::uuid, f.ordinal, f.file_id, :kb::uuid, f.attributes
  from unnest(:ordinals::integer[], :files::uuid[], :attributes::jsonb[]) f(ordinal, file_id, attributes)""")
_COUNT_WITHOUT_DOCUMENT = parse_statement("""
select count(*) filter (where error is null) as waiting, count(*) filter (where error is not null) as refused
  from file_batch_file where tenant_id = :t and batch_id = :batch and document_id is null""")
_GET_JOB = parse_statement("select state, error from job where tenant_id = :t and id = :id")
_LOCK_DOCUMENT = parse_statement("select 1 from document where tenant_id = :t and id = :id for key share")
_IS_WAITING = "tenant_id = :t and batch_id = :batch and document_id is null and error is null"
_ATTACH = parse_statement(f"""
update file_batch_file set document_id = :document, attributes = null where {_IS_WAITING} and ordinal = :ordinal
returning 1""")  # noqa: S608  (a constant)
_REJECT = parse_statement(f"""
update file_batch_file set error = :error::jsonb, attributes = null
 where {_IS_WAITING} and ordinal = :ordinal""")  # noqa: S608  (a constant)
_CANCEL_WAITING = parse_statement(f"delete from file_batch_file where {_IS_WAITING} returning 1")  # noqa: S608  (a constant)
