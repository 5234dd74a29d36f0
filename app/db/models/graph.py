"""Tables of the entity graph. Row-level security is forced."""

from typing import Any
from uuid import UUID

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    SmallInteger,
    Table,
    Text,
    literal_column,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.dialects.postgresql import UUID as PG_UUID
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, CreatedAtMixin, TenantOwnedMixin

_CHUNK = ["tenant_id", "index_id", "chunk_id"], ["chunk.tenant_id", "chunk.index_id", "chunk.id"]
_GIN: dict[str, Any] = {"postgresql_using": "gin", "postgresql_with": {"fastupdate": "on"}}


class ChunkEntity(TenantOwnedMixin, Base):
    """The entities of a chunk: keys, counts, names, and a letter for the kind of each."""

    __tablename__ = "chunk_entity"
    __table_args__ = (
        ForeignKeyConstraint(*_CHUNK, ondelete="CASCADE"),
        Index("chunk_entity_keys", "keys", **_GIN),
    )

    index_id: Mapped[UUID] = mapped_column(primary_key=True)
    chunk_id: Mapped[UUID] = mapped_column(primary_key=True)
    scope_key: Mapped[UUID]
    keys: Mapped[list[int]] = mapped_column(ARRAY(Integer))
    counts: Mapped[list[int]] = mapped_column(ARRAY(SmallInteger))
    names: Mapped[list[str]] = mapped_column(ARRAY(Text))
    kinds: Mapped[str]
    types: Mapped[list[str] | None] = mapped_column(ARRAY(Text))


class EntityAlias(CreatedAtMixin, TenantOwnedMixin, Base):
    """A correction by people: a merge of two entities, or with a document the split of one."""

    __tablename__ = "entity_alias"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "kb_id"], ["knowledge_base.tenant_id", "knowledge_base.id"], ondelete="CASCADE"
        ),
        ForeignKeyConstraint(
            ["tenant_id", "kb_id", "document_id"],
            ["document.tenant_id", "document.kb_id", "document.id"],
            ondelete="CASCADE",
        ),
        CheckConstraint("key <> target_key", name="key"),
        Index(
            "entity_alias_key",
            *("tenant_id", "kb_id", "key", "document_id"),
            unique=True,
            postgresql_nulls_not_distinct=True,
        ),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    kb_id: Mapped[UUID]
    key: Mapped[int]
    target_key: Mapped[int]
    document_id: Mapped[UUID | None]
    target_name: Mapped[str | None]
    created_by: Mapped[str | None]


class Relation(TenantOwnedMixin, Base):
    """A relation between two entities of a chunk, with the place of its evidence in the chunk's text."""

    __tablename__ = "relation"
    __table_args__ = (
        ForeignKeyConstraint(*_CHUNK, ondelete="CASCADE"),
        Index("relation_keys", literal_column("(ARRAY[subject_key, object_key])"), **_GIN),
    )

    index_id: Mapped[UUID] = mapped_column(primary_key=True)
    chunk_id: Mapped[UUID] = mapped_column(primary_key=True)
    ordinal: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    subject_key: Mapped[int]
    object_key: Mapped[int]
    predicate: Mapped[str]
    start_offset: Mapped[int | None]
    end_offset: Mapped[int | None]
    method: Mapped[str]


# Changes of the numbers of chunks and titles of each entity. Transactions only append rows, like those of
# ``term_document_frequency``.
entity = Table(
    "entity",
    Base.metadata,
    Column("tenant_id", PG_UUID(as_uuid=True), nullable=False),
    Column("index_id", PG_UUID(as_uuid=True), nullable=False),
    Column("key", Integer, nullable=False),
    Column("chunks", Integer, nullable=False),
    Column("titles", Integer, nullable=False, server_default=text("0")),
    Column("name", Text),
    Index("entity_key", "tenant_id", "index_id", "key", postgresql_include=["chunks", "titles"]),
    Index(
        "entity_name",
        *("tenant_id", "index_id", "name"),
        postgresql_ops={"name": "text_pattern_ops"},
        postgresql_where=text("name is not null"),
    ),
    Index("entity_negative", "tenant_id", "index_id", "key", postgresql_where=text("chunks < 0")),
)
# Number of chunks that name an entity and that not every API key may see, like ``private_frequency``.
private_entity_frequency = Table(
    "private_entity_frequency",
    Base.metadata,
    Column("tenant_id", PG_UUID(as_uuid=True), nullable=False),
    Column("index_id", PG_UUID(as_uuid=True), nullable=False),
    Column("scope_key", PG_UUID(as_uuid=True), nullable=False),
    Column("key", Integer, nullable=False),
    Column("chunks", Integer, nullable=False),
    Index("private_entity_frequency_key", "tenant_id", "index_id", "scope_key", "key", postgresql_include=["chunks"]),
)
