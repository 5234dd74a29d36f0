"""One row in every table, built from the catalogue, so that each migration runs on data."""

import uuid
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

import asyncpg

TENANT, KB, INDEX, DOCUMENT, CHUNK = (uuid.UUID(int=number) for number in range(101, 106))

# Values that the types do not determine. A nullable column has a value if it is named with its table.
VALUES: Mapping[str, object] = {
    "tenant_id": TENANT,
    "kb_id": KB,
    "index_id": INDEX,
    "document_id": DOCUMENT,
    "chunk_id": CHUNK,
    "tenant.id": TENANT,
    "knowledge_base.id": KB,
    "search_index.id": INDEX,
    "search_index.state": "live",
    "document.id": DOCUMENT,
    "chunk.id": CHUNK,
    "api_key.role": "admin",
    "audit_event.actor": "service",
    "webhook.events": ["document.ready"],
    "prompt_version.kb_id": KB,
    "prompt_version.prompt": "rewrite",
    "sql_view.content_key": "content",
    "sql_view.verifier": "SCRAM-SHA-256$4096:" + "a" * 90,
    "entity_alias.target_key": 2,
    "document_enrichment.state": "queued",
    "golden_item.query": "query",
    "dim": 3,
}
BY_TYPE: Mapping[str, object] = {
    "uuid": uuid.UUID(int=7),
    "text": "text",
    "jsonb": "{}",
    "int4": 1,
    "int8": 1,
    "int2": 1,
    "float4": 1.0,
    "float8": 1.0,
    "bytea": b"bytes",
    "bool": True,
    "date": date(2026, 1, 2),
    "timestamptz": datetime(2026, 1, 2, tzinfo=UTC),
    "halfvec": "[1,2,3]",
    "sparsevec": "{1:0.5}/10",
    "_int4": [1, 2],
    "_int2": [1, 2],
    "_text": ["text"],
    "_uuid": [uuid.UUID(int=7)],
}

_TABLES = """
with recursive known as (
  select c.oid, 0 as depth from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
     and not c.relispartition and c.relname <> 'alembic_version' and c.relnatts > 0
  union select f.conrelid, k.depth + 1 from known k join pg_constraint f on f.confrelid = k.oid and f.contype = 'f'
         join pg_class c on c.oid = f.conrelid and not c.relispartition where k.depth < 10
) select oid::regclass::text from known group by oid order by max(depth), 1"""
_COLUMNS = """
select a.attname, t.typname, format_type(a.atttypid, a.atttypmod) as written
  from pg_attribute a join pg_type t on t.oid = a.atttypid
 where a.attrelid = $1::text::regclass and a.attnum > 0 and not a.attisdropped
   and (a.attnotnull and not a.atthasdef or $1::text || '.' || a.attname = any($2))"""


async def tables(connection: asyncpg.Connection) -> list[str]:
    """Return every table except partitions, Alembic's and those without columns; referenced tables come first."""
    return [row[0] for row in await connection.fetch(_TABLES)]


async def fill(connection: asyncpg.Connection) -> None:
    """Insert a row into each table that is empty."""
    for table in await tables(connection):
        values: dict[str, tuple[str, Any]] = {}
        for name, kind, written in await connection.fetch(_COLUMNS, table, list(VALUES)):
            value = VALUES.get(f"{table}.{name}", VALUES.get(name, BY_TYPE.get(kind)))
            assert value is not None, f"no value for {table}.{name} ({kind}): add one here"
            values[name] = (written, value)
        # The driver does not know pgvector's types, so their values are sent as text.
        casts = [
            f"${number}::text::{kind}" if isinstance(value, str) else f"${number}::{kind}"
            for number, (kind, value) in enumerate(values.values(), 1)
        ]
        await connection.execute(
            f"insert into {table} ({', '.join(values)}) values ({', '.join(casts)}) on conflict do nothing",
            *(value for _, value in values.values()),
        )


async def counts(connection: asyncpg.Connection) -> dict[str, int]:
    """Return the number of rows of every table."""
    return {table: await connection.fetchval(f"select count(*) from {table}") for table in await tables(connection)}
