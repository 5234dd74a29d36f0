"""Queries for knowledge bases as vector stores: ids in the order of time, labels, and files by status."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import func, select, text

from app.db.document_visibility import READABLE_CONDITION
from app.db.models.files import VectorStoreLabels
from app.db.models.tenant_data import DocumentRow, KnowledgeBaseRow
from app.db.session import Session
from app.db.statements import parse_statement


class VectorStoreRepository:
    """Queries for the vector stores of one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def list_ids(
        self, *, allowed_ids: Sequence[UUID] | None, cursor_id: UUID | None, newest_first: bool, limit: int
    ) -> list[UUID]:
        """List ids of knowledge bases in the order of creation.

        Args:
            allowed_ids: Only knowledge bases with these ids are listed. None allows all.
            cursor_id: Id of the last knowledge base of the previous page, or None.
            newest_first: Whether the order is descending.
            limit: The maximum number of ids.

        Returns:
            The ids.
        """
        kb = KnowledgeBaseRow
        query = select(kb.id).where(kb.tenant_id == self.tenant_id, kb.deleted_at.is_(None))
        if allowed_ids is not None:
            query = query.where(kb.id.in_(allowed_ids))
        if cursor_id is not None:
            query = query.where(kb.id < cursor_id if newest_first else kb.id > cursor_id)
        return list(await self.session.scalars(query.order_by(kb.id.desc() if newest_first else kb.id).limit(limit)))

    async def load_labels(self, ids: Sequence[UUID]) -> dict[UUID, dict[str, Any]]:
        """Return labels by knowledge base id, without knowledge bases that have no labels."""
        query = select(VectorStoreLabels.kb_id, VectorStoreLabels.labels).where(
            VectorStoreLabels.tenant_id == self.tenant_id, VectorStoreLabels.kb_id.in_(ids)
        )
        return {row.kb_id: row.labels for row in await self.session.execute(query)}

    async def set_labels(self, kb_id: UUID, labels: Mapping[str, str]) -> bool:
        """Replace the labels of a knowledge base. Return False if they are unchanged."""
        values = {"t": self.tenant_id, "kb": kb_id, "labels": json.dumps(dict(labels))}
        return await self.session.fetch_row(_SET_LABELS, values) is not None

    async def count_files(self, ids: Sequence[UUID], *, reader: str | None) -> dict[UUID, tuple[dict[str, int], int]]:
        """Return the number of documents by status and their total size, by knowledge base.

        Args:
            ids: The knowledge bases.
            reader: The user that the caller's key is restricted to. Only documents that this user may read are counted.

        Returns:
            Counts by status, and bytes, for each knowledge base with documents.
        """
        query = (
            select(DocumentRow.kb_id, DocumentRow.status, func.count(), func.coalesce(func.sum(DocumentRow.bytes), 0))
            .where(DocumentRow.tenant_id == self.tenant_id, DocumentRow.kb_id.in_(ids))
            .group_by(DocumentRow.kb_id, DocumentRow.status)
        )
        if reader is not None:
            query = query.where(text(READABLE_CONDITION).bindparams(reader=reader))
        counts: dict[UUID, tuple[dict[str, int], int]] = {}
        for kb_id, status, count, size in await self.session.execute(query):
            status_counts, total = counts.get(kb_id, ({}, 0))
            counts[kb_id] = ({**status_counts, status: count}, total + int(size))
        return counts

    async def count_waiting_files(self, ids: Sequence[UUID], *, key_lineage_id: UUID | None) -> dict[UUID, int]:
        """Return the number of files of batches that wait for their job, by knowledge base.

        Args:
            ids: The knowledge bases.
            key_lineage_id: Only batches of this key lineage are counted. None counts all.

        Returns:
            Counts by knowledge base.
        """
        rows = await self.session.fetch_rows(
            _COUNT_WAITING_FILES, {"t": self.tenant_id, "kbs": list(ids), "key": key_lineage_id}
        )
        return {row["kb_id"]: row["files"] for row in rows}


_COUNT_WAITING_FILES = parse_statement("""
select b.kb_id, count(*) as files from file_batch b
 cross join lateral (select from file_batch_file f
                      where f.tenant_id = b.tenant_id and f.batch_id = b.id
                        and f.document_id is null and f.error is null offset 0) f
 where b.tenant_id = :t and b.kb_id = any(:kbs::uuid[]) and b.job_id is not null
   and (:key::uuid is null or b.key_lineage_id = :key)
   and exists (select from job j where j.tenant_id = b.tenant_id and j.id = b.job_id and j.state <> 'dead')
 group by b.kb_id""")
_SET_LABELS = parse_statement("""
insert into vector_store_labels as s (tenant_id, kb_id, metadata) values (:t, :kb, :labels::jsonb)
on conflict (tenant_id, kb_id) do update set metadata = excluded.metadata where s.metadata <> excluded.metadata
returning 1""")
