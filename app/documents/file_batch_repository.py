"""Queries for batches of files, and for what has become of each of their files."""

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import func, select, update

from app.db.models.openai import BatchFile, FileBatch
from app.db.models.tenant_data import Document
from app.db.session import Session
from app.db.statements import statement
from app.documents.repository import DocumentFilters, narrowed
from app.documents.types import DocumentNotFound
from app.errors import AppError, Conflict


class FileWithdrawn(Conflict):
    """The batch was cancelled before this file of it was attached."""


class FileBatchRepository:
    """Queries in one tenant; ``reader`` is the user that the key is narrowed to."""

    def __init__(self, session: Session, tenant_id: UUID, *, reader: str | None) -> None:
        self.session = session
        self.tenant_id = tenant_id
        self.reader = reader

    async def add(self, batch: FileBatch, files: Sequence[BatchFile]) -> None:
        """Insert it with its files, which wait."""
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
        await self.session.rows(_ADD_FILES, values)

    async def get(self, batch_id: UUID) -> FileBatch | None:
        """The batch."""
        query = select(FileBatch).where(FileBatch.tenant_id == self.tenant_id, FileBatch.id == batch_id)
        return await self.session.scalar(query)

    async def states(self, batch: FileBatch) -> dict[str, int]:
        """How many documents of it that the key may read are in which state."""
        query = narrowed(select(Document.status, func.count().label("files")), DocumentFilters(reader=self.reader))
        here = (BatchFile.tenant_id == Document.tenant_id) & (BatchFile.document_id == Document.id)
        query = query.join(BatchFile, here).where(
            Document.tenant_id == self.tenant_id, Document.kb_id == batch.kb_id, BatchFile.batch_id == batch.id
        )
        return {row.status: row.files for row in await self.session.execute(query.group_by(Document.status))}

    async def without_document(self, batch_id: UUID) -> tuple[int, int]:
        """How many wait, and how many were refused."""
        row = await self.session.row(_WITHOUT, {"t": self.tenant_id, "batch": batch_id})
        assert row is not None
        return row["waiting"], row["refused"]

    async def files(self, batch: FileBatch) -> list[tuple[BatchFile, Document | None]]:
        """In their order, with the documents that they were made; those that the key may not read are left out."""
        query = select(BatchFile).where(BatchFile.tenant_id == self.tenant_id, BatchFile.batch_id == batch.id)
        rows = list(await self.session.scalars(query.order_by(BatchFile.ordinal)))
        ids = [row.document_id for row in rows if row.document_id is not None]
        documents = narrowed(select(Document), DocumentFilters(ids=ids, reader=self.reader))
        documents = documents.where(Document.tenant_id == self.tenant_id, Document.kb_id == batch.kb_id)
        found = {document.id: document for document in await self.session.scalars(documents)}
        return [
            (row, found.get(row.document_id) if row.document_id else None)
            for row in rows
            if row.document_id is None or row.document_id in found
        ]

    async def waiting(self, batch_id: UUID, *, beyond: int, limit: int) -> list[BatchFile]:
        """Some that are neither attached nor refused yet, in their order."""
        query = select(BatchFile).where(
            BatchFile.tenant_id == self.tenant_id,
            BatchFile.batch_id == batch_id,
            BatchFile.ordinal > beyond,
            BatchFile.document_id.is_(None),
            BatchFile.error.is_(None),
        )
        return list(await self.session.scalars(query.order_by(BatchFile.ordinal).limit(limit)))

    async def given_up(self, batch: FileBatch) -> dict[str, Any] | None:
        """Why nobody attaches any more what waits; None where the job is still to do it."""
        job = await self.session.row(_JOB, {"t": self.tenant_id, "id": batch.job_id})
        if job is not None and job["state"] != "dead":
            return None
        error = (job and job["error"]) or {}
        return {"code": error.get("code", AppError.code), "message": error.get("message", "It was given up.")}

    async def attach(self, file: BatchFile, document_id: UUID) -> None:
        """It is this document now. Raises DocumentNotFound for one that is gone, FileWithdrawn."""
        if await self.session.row(_HOLD, {"t": self.tenant_id, "id": document_id}) is None:
            raise DocumentNotFound
        if await self.session.row(_ATTACH, {**self._place(file), "document": document_id}) is None:
            raise FileWithdrawn

    async def refuse(self, file: BatchFile, error: AppError) -> None:
        """It is not attached, and this is why."""
        told = json.dumps({"code": error.code, "message": error.message})
        await self.session.rows(_REFUSE, {**self._place(file), "error": told})

    async def close(self, batch_id: UUID) -> None:
        """The job has done what it had to do."""
        await self._change(batch_id, job_id=None)

    async def stop(self, batch_id: UUID) -> int:
        """Cancel it: what waits is attached no more; how many that are."""
        rows = await self.session.rows(_STOP, {"t": self.tenant_id, "batch": batch_id})
        await self.count_cancelled(batch_id, len(rows))
        return len(rows)

    async def count_cancelled(self, batch_id: UUID, count: int) -> None:
        """So many of it were taken out before they were ready."""
        await self._change(
            batch_id,
            cancelled=FileBatch.cancelled + count,
            cancelled_at=func.coalesce(FileBatch.cancelled_at, func.now()),
        )

    async def _change(self, batch_id: UUID, **values: Any) -> None:
        of_batch = (FileBatch.tenant_id == self.tenant_id, FileBatch.id == batch_id)
        await self.session.execute(update(FileBatch).where(*of_batch).values(**values))

    def _place(self, file: BatchFile) -> dict[str, Any]:
        return {"t": self.tenant_id, "batch": file.batch_id, "ordinal": file.ordinal}


_ADD_FILES = statement("""
insert into openai_batch_file (tenant_id, batch_id, ordinal, file_id, kb_id, attributes)
select :t::uuid, :batch::uuid, f.ordinal, f.file_id, :kb::uuid, f.attributes
  from unnest(:ordinals::integer[], :files::uuid[], :attributes::jsonb[]) f(ordinal, file_id, attributes)""")
_WITHOUT = statement("""
select count(*) filter (where error is null) as waiting, count(*) filter (where error is not null) as refused
  from openai_batch_file where tenant_id = :t and batch_id = :batch and document_id is null""")
_JOB = statement("select state, error from job where tenant_id = :t and id = :id")
_HOLD = statement("select 1 from document where tenant_id = :t and id = :id for key share")
_WAITS = "tenant_id = :t and batch_id = :batch and document_id is null and error is null"
_ATTACH = statement(f"""
update openai_batch_file set document_id = :document, attributes = null where {_WAITS} and ordinal = :ordinal
returning 1""")  # noqa: S608  (a constant)
_REFUSE = statement(f"""
update openai_batch_file set error = :error::jsonb, attributes = null
 where {_WAITS} and ordinal = :ordinal""")  # noqa: S608  (a constant)
_STOP = statement(f"delete from openai_batch_file where {_WAITS} returning 1")  # noqa: S608  (a constant)
