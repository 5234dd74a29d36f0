"""Counts of the rows that remain of a deleted document, knowledge base or tenant.

The tables come from the database catalog, so a new table is counted by its columns without a change here. A table that
cannot be counted must be named below with the reason, or a test fails.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from app.db.session import Session
from app.db.statements import parse_statement
from app.idempotency import delete_stored_responses

# Tables with ids, counts and times. They outlive every deletion until their retention time ends.
RETAINED_LOGS = frozenset({"audit_event", "deletion"})
# Tables with numbers of a tenant or a knowledge base, without content. ``chat`` records the owner of each chat, so that
# no other user gets the chat.
RETAINED_NUMBERS = frozenset(
    {"chat", "embedding_usage", "enrichment_usage", "key_usage", "row_allowance", "tenant_usage", "usage_day"}
)
# Sums over a knowledge base. Deleted documents were subtracted from them.
RETAINED_SUMS = frozenset({"term_document_frequency", "index_totals", "private_frequency", "private_entity_frequency"})
# Deliveries of webhooks, retained for 30 days: ids, statuses, names of knowledge bases.
RETAINED_DELIVERIES = frozenset({"webhook_delivery"})
# Stored files. Documents are made from them, and the files are retained. The receipt counts them.
RETAINED_FILES = frozenset({"stored_file"})
# Golden sets and evaluations: queries of people and ids, without content. A deleted document is shown as missing.
RETAINED_REFERENCES = frozenset({"golden_set", "golden_item", "evaluation", "evaluation_result"})
# Tables without data of documents or knowledge bases. Stored responses are counted in ``idempotency_subject``, by the
# objects that they name.
UNRELATED_TABLES = frozenset(
    {"tenant", "api_key_use", "idempotency_key", "tenant_queue", "provider_rate_limit", "quota_lock", "rate_bucket",
     "webhook", "worker_heartbeat"}
)  # fmt: skip
RETAINED_BY_KIND = {
    "document": RETAINED_LOGS
    | RETAINED_NUMBERS
    | RETAINED_SUMS
    | RETAINED_DELIVERIES
    | RETAINED_FILES
    | RETAINED_REFERENCES,
    "documents": RETAINED_LOGS
    | RETAINED_NUMBERS
    | RETAINED_SUMS
    | RETAINED_DELIVERIES
    | RETAINED_FILES
    | RETAINED_REFERENCES,
    "knowledge_base": RETAINED_LOGS | RETAINED_NUMBERS | RETAINED_DELIVERIES | RETAINED_FILES | RETAINED_REFERENCES,
    "tenant": RETAINED_LOGS,
}
Columns = frozenset[str]

# The payload of a job names documents by their id, or by the object keys of their originals:
# ``tenant/document/upload``.
_NAMES_DOCUMENT = """(
x.payload ->> 'document' = any((:ds::uuid[])::text[]) or
exists (select from jsonb_array_elements_text(coalesce(x.payload -> 'keys', '[]')
                                              || coalesce(x.payload -> 'prefixes', '[]')) k
         where split_part(k, '/', 2) = any((:ds::uuid[])::text[])))"""

_NAMES_KNOWLEDGE_BASE = """
x.payload ->> 'knowledge_base' = (:kb::uuid)::text or x.payload ->> 'index' = any((:indexes::uuid[])::text[])"""


class ResidueRepository:
    """Queries that count the remaining rows of deleted objects of one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def count_document_rows(
        self, kb_id: UUID | None, documents: Sequence[UUID], *, excluded_job_id: UUID
    ) -> dict[str, int]:
        """Return the number of rows of deleted documents by table. The calling job is not counted."""
        values = {"kb": kb_id, "ds": list(documents), "job": excluded_job_id}
        return await self._count_rows(values, build_document_count)

    async def count_knowledge_base_rows(
        self, kb_id: UUID, indexes: Sequence[UUID], *, excluded_job_id: UUID
    ) -> dict[str, int]:
        """Return the number of rows of a deleted knowledge base and its search indexes by table.

        The calling job is not counted.
        """
        values = {"kb": kb_id, "indexes": list(indexes), "job": excluded_job_id}
        return await self._count_rows(values, build_knowledge_base_count)

    async def count_tenant_rows(self) -> dict[str, int]:
        """Return the number of rows of a deleted tenant by table."""
        return await self._count_rows({}, build_tenant_count)

    async def delete_late_document_rows(self, documents: Sequence[UUID], *, excluded_job_id: UUID) -> None:
        """Delete rows that may have been written after the documents were deleted.

        The rows are stored responses, and jobs for originals of earlier versions.
        """
        await delete_stored_responses(self.session, self.tenant_id, documents)
        await self.session.fetch_rows(
            _REMOVE_JOBS, {"t": self.tenant_id, "ds": list(documents), "job": excluded_job_id}
        )

    async def merge_subtracted_entities(self, kb_id: UUID | None) -> None:
        """Merge the counts of entities that lost chunks, so that names without a chunk disappear.

        The merge waits for index maintenance and for other merges of the knowledge base.

        Args:
            kb_id: The knowledge base of deleted documents.
        """
        values = {"t": self.tenant_id, "kb": kb_id}
        if await self.session.fetch_row(_HAS_SUBTRACTED_ENTITIES, values) is None:
            return
        indexes = await self.session.fetch_rows(_LOCK_INDEXES, values)
        for index in indexes:
            await self.session.fetch_rows(_MERGE_SUBTRACTED_ENTITIES, {"t": self.tenant_id, "i": index["id"]})

    async def delete_late_knowledge_base_rows(
        self, kb_id: UUID, indexes: Sequence[UUID], *, excluded_job_id: UUID
    ) -> None:
        """Delete rows that may have been written after the knowledge base was deleted.

        The rows are stored responses, and jobs for the search indexes and documents of the knowledge base.
        """
        await delete_stored_responses(self.session, self.tenant_id, [kb_id])
        values = {"t": self.tenant_id, "kb": kb_id, "indexes": list(indexes), "job": excluded_job_id}
        await self.session.fetch_rows(_REMOVE_JOBS_OF_KNOWLEDGE_BASE, values)

    async def _count_rows(self, values: Mapping[str, Any], build_count: Any) -> dict[str, int]:
        columns_by_table = {
            row["name"]: frozenset(row["columns"]) for row in await self.session.fetch_rows(LIST_TENANT_TABLES, {})
        }
        parts = [part for name, columns in sorted(columns_by_table.items()) if (part := build_count(name, columns))]
        query = parse_statement(" union all ".join(parts))
        rows = await self.session.fetch_rows(query, {"t": self.tenant_id, **values})
        return {row["name"]: row["rows"] for row in rows}


def build_document_count(table: str, columns: Columns) -> str | None:
    """Return the SQL that counts rows of documents in a table, or None if the table has no such rows.

    Args:
        table: The name of the table.
        columns: The names of its columns.

    Returns:
        A select of the table's name and the count.
    """
    if table in RETAINED_LOGS:
        return None
    if table == "entity":
        return _COUNT_LOST_ENTITIES
    if table == "document":
        return _build_count(table, "x.id = any(:ds::uuid[])")
    if table == "job":
        return _build_count(table, f"x.id <> :job::uuid and (x.document_id = any(:ds::uuid[]) or {_NAMES_DOCUMENT})")
    if "document_id" in columns:
        kb_condition = " and x.kb_id = :kb::uuid" if "kb_id" in columns else ""
        return _build_count(table, f"x.document_id = any(:ds::uuid[]){kb_condition}")
    if "subject_id" in columns:
        return _build_count(table, "x.subject_id = any(:ds::uuid[])")
    if "chunk_id" in columns:  # a foreign key ties these rows to chunks
        return _COUNT_BY_CHUNK.format(table=table)
    return None


def build_knowledge_base_count(table: str, columns: Columns) -> str | None:
    """Return the SQL that counts rows of a knowledge base in a table.

    Args:
        table: The name of the table.
        columns: The names of its columns.

    Returns:
        A select of the table's name and the count, or None if the table has no such rows or only rows of documents.
    """
    if table in RETAINED_LOGS:
        return None
    if table == "knowledge_base":
        return _build_count(table, "x.id = :kb::uuid")
    if table == "job":
        return _build_count(table, f"x.id <> :job::uuid and ({_NAMES_KNOWLEDGE_BASE})")
    if "kb_id" in columns:
        return _build_count(table, "x.kb_id = :kb::uuid")
    if "index_id" in columns:
        return _build_count(table, "x.index_id = any(:indexes::uuid[])")
    if "subject_id" in columns:
        return _build_count(table, "x.subject_id = :kb::uuid")
    if "knowledge_base_ids" in columns:
        return _build_count(table, "x.knowledge_base_ids @> array[:kb::uuid]")
    return None


def build_tenant_count(table: str, columns: Columns) -> str | None:  # noqa: ARG001  (the signature of the other two functions)
    """Return the SQL that counts rows of a tenant in a table, or None if the table outlives the tenant.

    Args:
        table: The name of the table.
        columns: Not used. All three functions have the same signature.

    Returns:
        A select of the table's name and the count.
    """
    return (
        None
        if table in RETAINED_LOGS
        else _build_count(table, "true", tenant_column="id" if table == "tenant" else "tenant_id")
    )


def _build_count(table: str, condition: str, *, tenant_column: str = "tenant_id") -> str:
    """Return a select; the table names come from the catalog, and the condition is a constant of this module."""
    return (
        f"select '{table}' as name, count(*) as rows from {table} x where x.{tenant_column} = :t::uuid and {condition}"  # noqa: S608
    )


# The count starts from the chunks, because the rows of a retriever's table do not name the document.
_COUNT_BY_CHUNK = """
select '{table}' as name, count(*) as rows from chunk c
 cross join lateral (select from {table} y
                      where y.tenant_id = c.tenant_id and y.index_id = c.index_id and y.chunk_id = c.id offset 0) x
 where c.tenant_id = :t::uuid and c.kb_id = :kb::uuid and c.document_id = any(:ds::uuid[])"""
# Entities do not name documents. A name remains if it is stored, although no chunk has the entity any more.
_COUNT_LOST_ENTITIES = """
select 'entity' as name, count(*) as rows
  from (select distinct n.index_id, n.key from search_index i
          join entity n on n.tenant_id = i.tenant_id and n.index_id = i.id and n.chunks < 0
         where i.tenant_id = :t::uuid and i.kb_id = :kb::uuid and cardinality(:ds::uuid[]) > 0) k
  join entity x on x.tenant_id = :t::uuid and x.index_id = k.index_id and x.key = k.key and x.name is not null
 where (select sum(s.chunks) from entity s
         where s.tenant_id = :t::uuid and s.index_id = k.index_id and s.key = k.key) <= 0"""
_HAS_SUBTRACTED_ENTITIES = parse_statement("""
select 1 from search_index i join entity n on n.tenant_id = i.tenant_id and n.index_id = i.id and n.chunks < 0
 where i.tenant_id = :t and i.kb_id = :kb limit 1""")
_LOCK_INDEXES = parse_statement("""
select id from search_index where tenant_id = :t and kb_id = :kb order by id for no key update""")
_MERGE_SUBTRACTED_ENTITIES = parse_statement("""
with removed as (
  delete from entity
   where tenant_id = :t and index_id = :i
     and key = any(array(select key from entity where tenant_id = :t and index_id = :i and chunks < 0))
  returning key, chunks, titles, name
)
insert into entity (tenant_id, index_id, key, chunks, titles, name)
select :t, :i, key, sum(chunks), sum(titles), case when sum(chunks) > 0 then max(name collate "C") end
  from removed group by key having sum(chunks) <> 0 or sum(titles) <> 0""")
LIST_TENANT_TABLES = parse_statement("""
select c.relname::text as name, array_agg(a.attname::text) as columns
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
 where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
 group by c.relname having c.relname = 'tenant' or bool_or(a.attname = 'tenant_id')""")
_REMOVE_JOBS = parse_statement(f"""
delete from job x
 where x.tenant_id = :t and x.document_id is null and x.id <> :job and not x.payload ? 'deletion'
   and {_NAMES_DOCUMENT}""")  # noqa: S608
_REMOVE_JOBS_OF_KNOWLEDGE_BASE = parse_statement(f"""
delete from job x where x.tenant_id = :t and x.id <> :job and ({_NAMES_KNOWLEDGE_BASE})""")  # noqa: S608
