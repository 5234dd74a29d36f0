"""The lanes that search reads, and what their words are weighed with. Row-level security is forced on every table."""

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
    """Dense lane: one row a chunk, partitioned by dimension, without text."""

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
    """BM25 lane: saturated term weights and the keys of its inverted index."""

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


# Append-only deltas, merged by a job: no hot row, hence no primary key and no mapped class.
term_document_frequency = Table(
    "term_document_frequency",
    Base.metadata,
    Column("tenant_id", PG_UUID(as_uuid=True), nullable=False),
    Column("index_id", PG_UUID(as_uuid=True), nullable=False),
    Column("key", Integer, nullable=False),
    Column("df", Integer, nullable=False),
    # No weight of the key in the rows that this one counts is greater.
    Column("max_weight", REAL, nullable=False, server_default=text("1")),
    Index("term_document_frequency_key", "tenant_id", "index_id", "key", postgresql_include=["df", "max_weight"]),
)
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
# Of the chunks that not every key sees: in how many the key is, by level, and at ``ALL_PRIVATE`` of all those levels
# together; without a key, how many chunks there are. Deltas as well: what a key narrowed to a user sees is the index's
# own frequency, less all private ones, and those of the levels that it sees.
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
