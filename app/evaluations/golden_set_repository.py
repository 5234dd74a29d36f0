"""SQL of golden sets and their items."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from app.db.page_counts import fetch_page
from app.db.session import Session
from app.db.statements import Record, parse_statement
from app.evaluations.types import GoldenItem, GoldenItemDraft, GoldenSet, Position, Relevance
from app.ids import generate_id


class GoldenSetRepository:
    """Repository of the golden sets of one tenant, in one transaction."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def add(self, name: str, description: str | None) -> GoldenSet:
        """Insert a golden set, and return it."""
        added = await self._fetch_set(_ADD, {"id": generate_id(), "name": name, "description": description})
        assert added is not None
        return added

    async def find(self, set_id: UUID) -> GoldenSet | None:
        """Return a golden set, or None if it does not exist."""
        return await self._fetch_set(_FIND, {"id": set_id})

    async def lock(self, set_id: UUID) -> GoldenSet | None:
        """Lock a golden set, so that no other transaction changes its items, and return it; None if it is missing."""
        if await self.session.fetch_row(_LOCK, {"tenant": self.tenant_id, "id": set_id}) is None:
            return None
        return await self.find(set_id)

    async def list_sets(self, *, after: Position | None, limit: int) -> list[GoldenSet]:
        """Return a page of the golden sets, newest first. ``after`` is the last one of the page before."""
        after_time, after_id = after or (None, None)
        values = {"tenant": self.tenant_id, "after_time": after_time, "after_id": after_id, "limit": limit}
        return [GoldenSet(**row) for row in await fetch_page(self.session, _PAGE, values)]

    async def update(self, set_id: UUID, name: str, description: str | None) -> GoldenSet | None:
        """Change a golden set, and return it; None if it is missing."""
        return await self._fetch_set(_UPDATE, {"id": set_id, "name": name, "description": description})

    async def remove(self, set_id: UUID) -> bool:
        """Delete a golden set with its items and evaluations; return whether it existed."""
        return await self.session.fetch_row(_REMOVE, {"tenant": self.tenant_id, "id": set_id}) is not None

    async def list_items(self, set_id: UUID, *, after: Position | None, limit: int) -> list[GoldenItem]:
        """Return a page of the items of a golden set, newest first. ``after`` is the last one of the page before."""
        after_time, after_id = after or (None, None)
        values = {"tenant": self.tenant_id, "set": set_id, "after_time": after_time, "after_id": after_id}
        return [to_item(row) for row in await fetch_page(self.session, _ITEM_PAGE, {**values, "limit": limit})]

    async def find_items(self, set_id: UUID, digests: Collection[bytes]) -> dict[bytes, GoldenItem]:
        """Return the items of a golden set that have one of the hashes, by hash."""
        values = {"tenant": self.tenant_id, "set": set_id, "digests": list(digests)}
        return {row["digest"]: to_item(row) for row in await self.session.fetch_rows(_ITEMS_BY_DIGEST, values)}

    async def upsert_items(self, set_id: UUID, drafts: Sequence[GoldenItemDraft]) -> dict[bytes, GoldenItem]:
        """Insert items, or replace what is relevant in the items with the same query. Return the items by hash.

        Args:
            set_id: Golden set, which the caller has locked.
            drafts: Items with different queries.
        """
        rows = [
            {
                "id": str(generate_id()),
                "query": draft.query,
                "messages": draft.messages,
                "digest": draft.digest.hex(),
                "relevant": [relevance.to_json() for relevance in draft.relevant],
            }
            for draft in drafts
        ]
        values = {"tenant": self.tenant_id, "set": set_id, "items": json.dumps(rows)}
        await self.session.fetch_rows(_TOUCH, {"tenant": self.tenant_id, "id": set_id})
        return {row["digest"]: to_item(row) for row in await self.session.fetch_rows(_UPSERT_ITEMS, values)}

    async def find_item(self, set_id: UUID, item_id: UUID) -> GoldenItem | None:
        """Return an item of a golden set, or None if it does not exist."""
        row = await self.session.fetch_row(_FIND_ITEM, {"tenant": self.tenant_id, "set": set_id, "id": item_id})
        return None if row is None else to_item(row)

    async def replace_relevant(self, set_id: UUID, item_id: UUID, relevant: Sequence[Relevance]) -> None:
        """Replace what is relevant in an item of a golden set, which the caller has locked."""
        stored = json.dumps([relevance.to_json() for relevance in relevant])
        values = {"tenant": self.tenant_id, "set": set_id, "id": item_id, "relevant": stored}
        await self.session.fetch_rows(_TOUCH, {"tenant": self.tenant_id, "id": set_id})
        await self.session.fetch_rows(_REPLACE_RELEVANT, values)

    async def remove_item(self, set_id: UUID, item_id: UUID) -> bool:
        """Delete an item of a golden set; return whether it existed."""
        values = {"tenant": self.tenant_id, "set": set_id, "id": item_id}
        return await self.session.fetch_row(_REMOVE_ITEM, values) is not None

    async def locate_documents(self, document_ids: Collection[UUID]) -> dict[UUID, UUID]:
        """Return the tenant's knowledge bases of documents that can be read, by document.

        A shared document is read through the tenant's knowledge base with the same name.
        """
        values = {"tenant": self.tenant_id, "ids": list(document_ids)}
        return {row["id"]: row["kb_id"] for row in await self.session.fetch_rows(_LOCATE_DOCUMENTS, values)}

    async def find_live_chunks(
        self, document_ids: Collection[UUID], chunk_ids: Collection[UUID]
    ) -> set[tuple[UUID, UUID]]:
        """Return the pairs of document and chunk that a live search index has."""
        values = {"tenant": self.tenant_id, "ids": list(document_ids), "chunks": list(chunk_ids)}
        rows = await self.session.fetch_rows(_LIVE_CHUNKS, values)
        return {(row["document_id"], row["id"]) for row in rows}

    async def _fetch_set(self, query: Any, values: Mapping[str, Any]) -> GoldenSet | None:
        row = await self.session.fetch_row(query, {"tenant": self.tenant_id, **values})
        return None if row is None else GoldenSet(**row)


def to_item(row: Record) -> GoldenItem:
    """Return an item from its row."""
    return GoldenItem(
        id=row["id"],
        query=row["query"],
        messages=row["messages"],
        relevant=[Relevance.from_json(stored) for stored in row["relevant"]],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


_SET_COLUMNS = """s.id, s.name, s.description, s.created_at, s.updated_at,
(select count(*) from golden_item i where i.tenant_id = s.tenant_id and i.set_id = s.id) as item_count"""
_ITEM_COLUMNS = "id, query, messages, digest, relevant, created_at, updated_at"
_ADD = parse_statement(f"""
insert into golden_set as s (tenant_id, id, name, description) values (:tenant, :id, :name, :description)
returning {_SET_COLUMNS}""")  # noqa: S608
_FIND = parse_statement(f"select {_SET_COLUMNS} from golden_set s where s.tenant_id = :tenant and s.id = :id")  # noqa: S608
_LOCK = parse_statement("select 1 from golden_set where tenant_id = :tenant and id = :id for no key update")
_PAGE = parse_statement(f"""
select {_SET_COLUMNS} from golden_set s
 where s.tenant_id = :tenant
   and (:after_time::timestamptz is null or (s.created_at, s.id) < (:after_time, :after_id::uuid))
 order by s.created_at desc, s.id desc limit :limit""")  # noqa: S608
_UPDATE = parse_statement(f"""
update golden_set s set name = :name, description = :description, updated_at = now()
 where s.tenant_id = :tenant and s.id = :id returning {_SET_COLUMNS}""")  # noqa: S608
_TOUCH = parse_statement("update golden_set set updated_at = now() where tenant_id = :tenant and id = :id")
_REMOVE = parse_statement("delete from golden_set where tenant_id = :tenant and id = :id returning 1")
_ITEM_PAGE = parse_statement(f"""
select {_ITEM_COLUMNS} from golden_item
 where tenant_id = :tenant and set_id = :set
   and (:after_time::timestamptz is null or (created_at, id) < (:after_time, :after_id::uuid))
 order by created_at desc, id desc limit :limit""")  # noqa: S608
_ITEMS_BY_DIGEST = parse_statement(f"""
select {_ITEM_COLUMNS} from golden_item
 where tenant_id = :tenant and set_id = :set and digest = any(:digests::bytea[])""")  # noqa: S608
_UPSERT_ITEMS = parse_statement(f"""
insert into golden_item as i (tenant_id, set_id, id, query, messages, digest, relevant)
select :tenant::uuid, :set::uuid, x.id, x.query, x.messages, decode(x.digest, 'hex'), x.relevant
  from jsonb_to_recordset(:items::jsonb) as x(id uuid, query text, messages jsonb, digest text, relevant jsonb)
on conflict (tenant_id, set_id, digest) do update set relevant = excluded.relevant,
   updated_at = case when i.relevant = excluded.relevant then i.updated_at else now() end
returning {_ITEM_COLUMNS}""")  # noqa: S608
_FIND_ITEM = parse_statement(f"""
select {_ITEM_COLUMNS} from golden_item where tenant_id = :tenant and set_id = :set and id = :id""")  # noqa: S608
_REPLACE_RELEVANT = parse_statement("""
update golden_item set relevant = :relevant::jsonb, updated_at = now()
 where tenant_id = :tenant and set_id = :set and id = :id""")
_REMOVE_ITEM = parse_statement(
    "delete from golden_item where tenant_id = :tenant and set_id = :set and id = :id returning 1"
)
_LOCATE_DOCUMENTS = parse_statement("""
select d.id, k.id as kb_id from document d
  join knowledge_base h on h.tenant_id = d.tenant_id and h.id = d.kb_id and h.deleted_at is null
  join knowledge_base k on k.tenant_id = :tenant::uuid and k.deleted_at is null
   and (k.id = h.id or h.tenant_id = system_tenant() and k.name = h.name)
 where d.tenant_id = any(array[:tenant::uuid, system_tenant()]) and d.id = any(:ids::uuid[])
   and (d.tenant_id = :tenant::uuid or d.scope_level = 'shared')
   and (d.expires_at is null or d.expires_at > now())""")
_LIVE_CHUNKS = parse_statement("""
select c.id, c.document_id from document d
  join search_index i on i.tenant_id = d.tenant_id and i.kb_id = d.kb_id and i.state = 'live'
  join chunk c on c.tenant_id = i.tenant_id and c.index_id = i.id and c.id = any(:chunks::uuid[])
   and c.document_id = d.id
 where d.tenant_id = any(array[:tenant::uuid, system_tenant()]) and d.id = any(:ids::uuid[])""")
