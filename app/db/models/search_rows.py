"""Tables that the retrievers read, and statistics for term weights. Row-level security is forced."""

from typing import Any
from uuid import UUID

from pgvector.sqlalchemy import HALFVEC, SPARSEVEC
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    Table,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, REAL
from sqlalchemy.dialects.postgresql import UUID as PG_UUID
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, TenantOwnedMixin

_EMPTY = text("'{}'")


class ChunkEmbedding(TenantOwnedMixin, Base):
    """Rows of the dense retriever: the vector of each chunk, partitioned by dimension, without text."""

    __tablename__ = "chunk_embedding"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "index_id", "chunk_id"], ["chunk.tenant_id", "chunk.index_id", "chunk.id"], ondelete="CASCADE"
        ),
        CheckConstraint("vector_dims(embedding) = dim", name="dim"),
        {"postgresql_partition_by": "LIST (dim)"},
    )

    index_id: Mapped[UUID] = mapped_column(primary_key=True)
    chunk_id: Mapped[UUID] = mapped_column(primary_key=True)
    dim: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    scope_key: Mapped[UUID]
    attributes: Mapped[dict[str, Any]] = mapped_column("metadata", JSONB, server_default=_EMPTY)
    embedding: Mapped[Any] = mapped_column(HALFVEC())


class ChunkLexical(TenantOwnedMixin, Base):
    """Rows of the lexical retriever (BM25): saturated term weights of a chunk, and its keys for the inverted index."""

    __tablename__ = "chunk_lexical"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "index_id", "chunk_id"], ["chunk.tenant_id", "chunk.index_id", "chunk.id"], ondelete="CASCADE"
        ),
        Index("chunk_lexical_keys", "keys", postgresql_using="gin", postgresql_with={"fastupdate": "on"}),
    )

    index_id: Mapped[UUID] = mapped_column(primary_key=True)
    chunk_id: Mapped[UUID] = mapped_column(primary_key=True)
    dl: Mapped[int]
    scope_key: Mapped[UUID]
    attributes: Mapped[dict[str, Any]] = mapped_column("metadata", JSONB, server_default=_EMPTY)
    terms: Mapped[Any] = mapped_column(SPARSEVEC())
    keys: Mapped[list[int]] = mapped_column(ARRAY(Integer))


# Transactions append changes as new rows, so they never wait for a lock on a common row. A job merges the rows. The
# table therefore has no primary key and no mapped class.
term_document_frequency = Table(
    "term_document_frequency",
    Base.metadata,
    Column("tenant_id", PG_UUID(as_uuid=True), nullable=False),
    Column("index_id", PG_UUID(as_uuid=True), nullable=False),
    Column("key", Integer, nullable=False),
    Column("df", Integer, nullable=False),
    # Upper bound of the weights of this key in the counted chunks.
    Column("max_weight", REAL, nullable=False, server_default=text("1")),
    Index("term_document_frequency_key", "tenant_id", "index_id", "key", postgresql_include=["df", "max_weight"]),
)
# Number of chunks in an index, and the sum of their lengths in tokens. Transactions only append rows.
index_totals = Table(
    "index_totals",
    Base.metadata,
    Column("tenant_id", PG_UUID(as_uuid=True), nullable=False),
    Column("index_id", PG_UUID(as_uuid=True), nullable=False),
    Column("chunks", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("merged", Boolean, nullable=False, server_default=text("false")),
    Index("index_totals_changed_idx", "tenant_id", "index_id", postgresql_where=text("not merged")),
    Index("index_totals_idx", "tenant_id", "index_id", postgresql_include=["chunks", "tokens"]),
)
# Number of chunks with a key that not every API key may see, by scope key. The scope key `ALL_PRIVATE` counts all
# private chunks. A null key counts chunks instead of chunks with a key. Transactions only append rows. The document
# frequency for a
# restricted key is that of the index, minus all private chunks, plus those of its visible scopes.
private_frequency = Table(
    "private_frequency",
    Base.metadata,
    Column("tenant_id", PG_UUID(as_uuid=True), nullable=False),
    Column("index_id", PG_UUID(as_uuid=True), nullable=False),
    Column("scope_key", PG_UUID(as_uuid=True), nullable=False),
    Column("key", Integer),
    Column("chunks", Integer, nullable=False),
    Index("private_frequency_key", "tenant_id", "index_id", "scope_key", "key", postgresql_include=["chunks"]),
)
