"""Rows of corrections: merges and splits of entities."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from app.db.page_counts import fetch_page
from app.db.session import Session
from app.db.statements import parse_statement
from app.graph.entities.statements import CORRECTED_KEY, CORRECTIONS


@dataclass(frozen=True, slots=True)
class Correction:
    """A merge, or with a document the split of an entity. ``created_by`` is the id of an API key, or ``operator``."""

    id: UUID
    key: int
    target_key: int
    document_id: UUID | None
    target_name: str | None
    created_by: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class NewCorrection:
    """A correction to store, as in ``Correction``."""

    id: UUID
    key: int
    target_key: int
    document_id: UUID | None
    target_name: str | None


class CorrectionRepository:
    """Corrections of one knowledge base."""

    def __init__(self, session: Session, tenant_id: UUID, kb_id: UUID) -> None:
        self.session = session
        self.values: dict[str, Any] = {"t": tenant_id, "kb": kb_id}

    async def list_corrections(self, *, after: tuple[datetime, UUID] | None, limit: int) -> list[Correction]:
        """List corrections, newest first.

        Args:
            after: Time and id of the last correction of the page before.
            limit: Maximum number of corrections.
        """
        at, last_id = after or (None, None)
        rows = await fetch_page(self.session, _LIST, {**self.values, "at": at, "last_id": last_id, "limit": limit})
        return [Correction(*row) for row in rows]

    async def count(self) -> int:
        """Return the number of corrections."""
        row = await self.session.fetch_row(_COUNT, self.values)
        return 0 if row is None else int(row["corrections"])

    async def has_chunks(self, index_id: UUID, key: int) -> bool:
        """Return whether a chunk names an entity, or a split made it."""
        return await self.session.fetch_row(_FIND_KEY, {**self.values, "i": index_id, "key": key}) is not None

    async def merge(self, correction_id: UUID, key: int, target_key: int, created_by: str) -> None:
        """Store a merge. Entities that count as ``key`` count as ``target_key`` too, so no chain of merges remains.

        Both keys must not be merged into others. The caller has locked the knowledge base.
        """
        values = {**self.values, "id": correction_id, "key": key, "target": target_key, "by": created_by}
        for statement in (_DROP_REVERSED, _MOVE_TARGETS, _ADD_MERGE):
            await self.session.fetch_rows(statement, values)

    async def list_raw_keys(self, index_id: UUID, document_id: UUID, key: int) -> list[int]:
        """Return the keys in a document's chunks that count as an entity."""
        values = {**self.values, "i": index_id, "document": document_id, "key": key}
        return [row["key"] for row in await self.session.fetch_rows(_LIST_RAW_KEYS, values)]

    async def split(
        self, ids: Sequence[UUID], keys: Sequence[int], document_id: UUID, target_key: int, name: str, created_by: str
    ) -> None:
        """Store a split: in one document, the keys count as ``target_key``."""
        values = {**self.values, "ids": list(ids), "keys": list(keys), "document": document_id, "target": target_key}
        await self.session.fetch_rows(_ADD_SPLITS, {**values, "name": name, "by": created_by})

    async def add(self, corrections: Sequence[NewCorrection], created_by: str) -> None:
        """Store corrections. Keys that have a correction of the same document, or a merge, keep it."""
        columns = {
            "ids": [row.id for row in corrections],
            "keys": [row.key for row in corrections],
            "targets": [row.target_key for row in corrections],
            "documents": [row.document_id for row in corrections],
            "names": [row.target_name for row in corrections],
        }
        await self.session.fetch_rows(_ADD_ALL, {**self.values, **columns, "by": created_by})

    async def delete(self, correction_id: UUID) -> bool:
        """Delete a correction. Return whether it existed."""
        return await self.session.fetch_row(_DELETE, {**self.values, "id": correction_id}) is not None


_LIST = parse_statement("""
select id, key, target_key, document_id, target_name, created_by, created_at from entity_alias
 where tenant_id = :t and kb_id = :kb
   and (:at::timestamptz is null or (created_at, id) < (:at::timestamptz, :last_id::uuid))
 order by created_at desc, id desc limit :limit""")
_COUNT = parse_statement("select count(*) as corrections from entity_alias where tenant_id = :t and kb_id = :kb")
_FIND_KEY = parse_statement("""
select 1 where (select sum(chunks) from entity where tenant_id = :t and index_id = :i and key = :key) > 0
   or exists (select from entity_alias where tenant_id = :t and kb_id = :kb and target_key = :key)""")
_DROP_REVERSED = parse_statement("""
delete from entity_alias where tenant_id = :t and kb_id = :kb and key = :target and target_key = :key""")
_MOVE_TARGETS = parse_statement("""
update entity_alias set target_key = :target where tenant_id = :t and kb_id = :kb and target_key = :key""")
_ADD_MERGE = parse_statement("""
insert into entity_alias (tenant_id, kb_id, id, key, target_key, created_by)
values (:t::uuid, :kb::uuid, :id::uuid, :key, :target, :by::text)""")
_LIST_RAW_KEYS = parse_statement(f"""
select distinct k.key from chunk c
  join chunk_entity e on e.tenant_id = c.tenant_id and e.index_id = c.index_id and e.chunk_id = c.id
 cross join lateral unnest(e.keys) k(key)
{CORRECTIONS.format(key="k.key", document="c.document_id")}
 where c.tenant_id = :t and c.kb_id = :kb and c.index_id = :i and c.document_id = :document
   and {CORRECTED_KEY.format(key="k.key")} = :key""")  # noqa: S608
_ADD_SPLITS = parse_statement("""
insert into entity_alias (tenant_id, kb_id, id, key, target_key, document_id, target_name, created_by)
select :t::uuid, :kb::uuid, u.id, u.key, :target::int, :document::uuid, :name::text, :by::text
  from unnest(:ids::uuid[], :keys::int[]) u(id, key)
on conflict (tenant_id, kb_id, key, document_id)
  do update set target_key = excluded.target_key, target_name = excluded.target_name""")
_ADD_ALL = parse_statement("""
insert into entity_alias (tenant_id, kb_id, id, key, target_key, document_id, target_name, created_by)
select :t::uuid, :kb::uuid, u.id, u.key, u.target, u.document, u.name, :by::text
  from unnest(:ids::uuid[], :keys::int[], :targets::int[], :documents::uuid[], :names::text[])
    u(id, key, target, document, name)
on conflict (tenant_id, kb_id, key, document_id) do nothing""")
_DELETE = parse_statement("""
delete from entity_alias where tenant_id = :t and kb_id = :kb and id = :id returning 1""")
