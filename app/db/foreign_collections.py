"""Reading of pgvector collections in other databases, over one read-only connection for each call."""

import json
import re
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import asyncpg

from app.threads import run_in_thread

SslMode = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]
COLLECTION_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$"
VECTOR_TYPES = frozenset({"vector", "halfvec"})
CONNECTION_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError)
"""Errors of a foreign database. Their texts may have values of rows, so they are not shown."""


class CollectionUnusable(Exception):
    """The collection does not exist, or its columns do not have the expected types."""


@dataclass(frozen=True, slots=True)
class ForeignDatabase:
    """Address and login of a foreign database.

    Attributes:
        address: Checked IP address, to which the connection goes.
        hostname: Name of the host, which the certificate must have with ``verify-full``.
        port: Port.
        database: Name of the database.
        user: Role.
        password: Password of the role; empty without one.
        sslmode: TLS mode of libpq.
    """

    address: str
    hostname: str
    port: int
    database: str
    user: str
    password: str
    sslmode: SslMode


@dataclass(frozen=True, slots=True)
class CollectionRow:
    """Row of a collection: text, title and address of its metadata, and its cosine similarity with the query."""

    text: str | None
    title: str | None
    address: str | None
    similarity: float


class _PinnedContext(ssl.SSLContext):
    """TLS context that checks the certificate for a host name, although the connection goes to an IP address."""

    hostname: str = ""

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        """Return the TLS object for the host name."""
        options["server_hostname"] = self.hostname
        return super().wrap_bio(*arguments[:2], **{"server_side": False, **options})


def _create_tls(database: ForeignDatabase) -> Any:
    """Return the value of ``ssl`` for asyncpg; blocking, because it reads certificates."""
    if database.sslmode == "disable":
        return False
    if database.sslmode in ("allow", "prefer"):
        return database.sslmode
    context = _PinnedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.hostname = database.hostname
    context.check_hostname = database.sslmode == "verify-full"
    if database.sslmode == "require":
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_default_certs()
    return context


@asynccontextmanager
async def connect_read_only(database: ForeignDatabase, *, timeout_seconds: float) -> AsyncIterator[asyncpg.Connection]:
    """Open a read-only connection, whose statements end after the timeout.

    Args:
        database: Address and login.
        timeout_seconds: Maximum time of the connection, and of each statement.

    Raises:
        asyncpg.PostgresError: The database refuses the login.
        OSError: The database cannot be reached.
    """
    milliseconds = max(int(timeout_seconds * 1000), 1)
    connection = await asyncpg.connect(
        host=database.address,
        port=database.port,
        user=database.user,
        password=database.password,  # an empty password keeps PGPASSWORD and .pgpass unread
        database=database.database,
        ssl=await run_in_thread(_create_tls, database),
        timeout=timeout_seconds,
        command_timeout=timeout_seconds,
        statement_cache_size=0,  # a connection pooler may stand before the database
        server_settings={
            "application_name": "carrel",
            "default_transaction_read_only": "on",
            "statement_timeout": str(milliseconds),
        },
    )
    try:
        yield connection
    finally:
        connection.terminate()


def quote_collection(collection: str) -> str:
    """Return the quoted name of a collection. Raises ValueError if it is no identifier."""
    if re.match(COLLECTION_PATTERN, collection) is None:
        raise ValueError("The collection is no identifier.")
    return ".".join(f'"{part}"' for part in collection.split("."))


async def find_vector_type(connection: asyncpg.Connection, collection: str) -> tuple[str, int]:
    """Return the type of a collection's column ``vec``, and its number of dimensions; -1 if the type has none.

    Args:
        connection: Connection to the foreign database.
        collection: Name of the table or view, with or without its schema.

    Raises:
        CollectionUnusable: The collection does not exist, or lacks the column ``vec`` or ``metadata``.
    """
    rows = await connection.fetch(_COLUMNS, quote_collection(collection))
    columns = {row["attname"]: row for row in rows}
    if not columns:
        raise CollectionUnusable("The collection does not exist, or the user may not read it.")
    vector, metadata = columns.get("vec"), columns.get("metadata")
    if vector is None or vector["typname"] not in VECTOR_TYPES:
        raise CollectionUnusable("The collection has no column vec of the type vector or halfvec.")
    if metadata is None or metadata["typname"] not in ("json", "jsonb"):
        raise CollectionUnusable("The collection has no column metadata of the type jsonb.")
    return vector["typname"], vector["atttypmod"]


async def find_nearest(
    connection: asyncpg.Connection,
    collection: str,
    vector: Sequence[float],
    *,
    content_key: str,
    metadata_filter: Mapping[str, Any],
    limit: int,
) -> list[CollectionRow]:
    """Return the rows that are nearest to a vector by cosine, nearest first.

    Args:
        connection: Connection to the foreign database.
        collection: Name of the table or view, with or without its schema.
        vector: The query.
        content_key: Key of the text in the metadata.
        metadata_filter: Metadata that a row must contain; empty for all rows.
        limit: Maximum number of rows.

    Raises:
        CollectionUnusable: The collection does not exist, or its columns have other types or dimensions.
    """
    vector_type, dimensions = await find_vector_type(connection, collection)
    if dimensions not in (-1, len(vector)):
        raise CollectionUnusable(f"The collection has {dimensions} dimensions now, not {len(vector)}.")
    statement = _NEAREST.format(type=vector_type, collection=quote_collection(collection))
    text = json.dumps([float(value) for value in vector])
    rows = await connection.fetch(statement, text, json.dumps(dict(metadata_filter)), limit, content_key)
    return [CollectionRow(**row) for row in rows]


_COLUMNS = """
select a.attname, t.typname, a.atttypmod
  from pg_attribute a join pg_type t on t.oid = a.atttypid
 where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped
   and a.attname in ('id', 'vec', 'metadata')"""
_NEAREST = """
select left(metadata ->> $4, 20000) as text,
       left(coalesce(metadata ->> 'title', metadata ->> '$title', metadata ->> 'source', metadata ->> '$source'), 500)
         as title,
       left(coalesce(metadata ->> 'url', metadata ->> 'source_uri', metadata ->> '$source_uri'), 2048) as address,
       1 - (vec <=> $1::text::{type}) as similarity
  from {collection} where metadata::jsonb @> $2::text::jsonb
 order by vec <=> $1::text::{type} limit $3"""
