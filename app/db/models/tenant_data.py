"""Tables of knowledge bases, search indexes, documents, nodes and chunks. Row-level security is forced."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, REAL
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, CreatedAtMixin, TenantOwnedMixin, UpdatedAtMixin

_EMPTY = text("'{}'")
_GRAPH_SETTINGS = text("""'{"enabled": true, "metadata_keys": [], "extractors": []}'""")
# Inside DocumentRow, the name `bytes` is a column.
Digest = bytes


class KnowledgeBaseRow(UpdatedAtMixin, TenantOwnedMixin, Base):
    """A named set of documents with common settings for chunking, embedding and search.

    A knowledge base of another kind than ``documents`` has no documents: it searches its ``source``.
    """

    __tablename__ = "knowledge_base"
    __table_args__ = (
        UniqueConstraint("tenant_id", "name"),
        CheckConstraint("kind in ('documents', 'http', 'agent_search', 'pgvector')", name="kind"),
    )

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str]
    title: Mapped[str | None]
    description: Mapped[str | None]
    language: Mapped[str] = mapped_column(server_default=text("'english'"))
    chunking: Mapped[dict[str, Any]] = mapped_column(JSONB)
    retrieval: Mapped[dict[str, Any]] = mapped_column(JSONB)
    metadata_filter: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=_EMPTY)
    pending_metadata_filter: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    filter_revision: Mapped[int] = mapped_column(server_default=text("0"))
    deleted_at: Mapped[datetime | None]
    kind: Mapped[str] = mapped_column(server_default=text("'documents'"))
    source: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    routing: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=_EMPTY)
    routing_texts: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=_EMPTY)
    enrichment: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    graph: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=_GRAPH_SETTINGS)


class SearchIndex(CreatedAtMixin, TenantOwnedMixin, Base):
    """One generation of a knowledge base's chunks and search rows.

    ``identity`` names the embedding model and the analyzer of the generation. The service refuses queries with another
    identity. One generation is live. A second one can be building, and the previous one is kept for a rollback.
    ``graph`` has the settings of the entity extraction that built the graph; null if there is no graph.
    """

    __tablename__ = "search_index"
    __table_args__ = (
        UniqueConstraint("tenant_id", "kb_id", "id"),
        ForeignKeyConstraint(
            ["tenant_id", "kb_id"], ["knowledge_base.tenant_id", "knowledge_base.id"], ondelete="CASCADE"
        ),
        CheckConstraint("dim between 1 and 16000", name="dim"),
        CheckConstraint("state in ('live', 'building', 'retired')", name="state"),
        CheckConstraint("avgdl > 0", name="avgdl"),
        CheckConstraint("vector_index in ('exact', 'building', 'hnsw')", name="vector_index"),
        CheckConstraint("skip_reason in ('no_owner', 'too_many', 'too_wide', 'inexact')", name="skip_reason"),
        Index("search_index_live_idx", "tenant_id", "kb_id", unique=True, postgresql_where=text("state = 'live'")),
        Index(
            "search_index_building_idx", "tenant_id", "kb_id", unique=True, postgresql_where=text("state = 'building'")
        ),
        Index("search_index_retired_idx", "tenant_id", "retired_at", postgresql_where=text("state = 'retired'")),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    kb_id: Mapped[UUID]
    identity: Mapped[dict[str, Any]] = mapped_column(JSONB)
    dim: Mapped[int]
    state: Mapped[str] = mapped_column(server_default=text("'building'"))
    avgdl: Mapped[float] = mapped_column(REAL, server_default=text("100"))
    vector_index: Mapped[str] = mapped_column(server_default=text("'exact'"))
    skip_reason: Mapped[str | None]
    built_chunks: Mapped[int | None] = mapped_column(BigInteger)
    deleted_chunks: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    index_bytes: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    settings: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    started_at: Mapped[datetime | None]
    retired_at: Mapped[datetime | None]
    error: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    job_id: Mapped[UUID | None]
    documents_done: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    documents_total: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    languages: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'"))
    graph: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    recall: Mapped[float | None] = mapped_column(REAL)


class DocumentRow(UpdatedAtMixin, TenantOwnedMixin, Base):
    """An uploaded document. ``version`` is the newest version.

    Searches see ``live_version``, and ``chunk_count`` counts its chunks. ``quota_key_id`` is the API key whose storage
    quota counts the newest version. ``metadata_revision`` is the revision of the knowledge base's enforced metadata
    that was last applied to the document.
    """

    __tablename__ = "document"
    __table_args__ = (
        UniqueConstraint("tenant_id", "kb_id", "id"),
        ForeignKeyConstraint(
            ["tenant_id", "kb_id"], ["knowledge_base.tenant_id", "knowledge_base.id"], ondelete="CASCADE"
        ),
        CheckConstraint("status in ('queued', 'parsing', 'chunking', 'embedding', 'ready', 'failed')", name="status"),
        CheckConstraint("scope_level in ('shared', 'tenant', 'user', 'chat_shared', 'chat_agent')", name="scope_level"),
        Index(
            "document_external_id_idx", "tenant_id", "kb_id", "scope_key", "external_id",
            unique=True, postgresql_where=text("external_id is not null"),
        ),
        Index(
            "document_sha256_idx", "tenant_id", "kb_id", "scope_key", "sha256",
            unique=True, postgresql_where=text("external_id is null"),
        ),
        Index("document_bytes_idx", "tenant_id", "sha256"),
        # BRIN, because any other index on a column that changes often would slow each change of a row down.
        Index(
            "document_updated_at_idx", "updated_at",
            postgresql_using="brin", postgresql_with={"pages_per_range": 16, "autosummarize": "on"},
        ),
        Index("document_expires_idx", "tenant_id", "expires_at", postgresql_where=text("expires_at is not null")),
        Index(
            "document_scope_idx", "tenant_id", "scope_key", "kb_id",
            postgresql_where=text("scope_level in ('user', 'chat_shared', 'chat_agent')"),
        ),
    )  # fmt: skip

    id: Mapped[UUID] = mapped_column(primary_key=True)
    kb_id: Mapped[UUID]
    version: Mapped[int] = mapped_column(server_default=text("1"))
    live_version: Mapped[int | None]
    external_id: Mapped[str | None]
    source: Mapped[str]
    title: Mapped[str | None]
    source_uri: Mapped[str | None]
    source_created_at: Mapped[datetime | None]
    media_type: Mapped[str]
    encoding: Mapped[str | None]
    bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[Digest] = mapped_column(LargeBinary)
    scope_level: Mapped[str] = mapped_column(server_default=text("'tenant'"))
    scope_key: Mapped[UUID]
    user_id: Mapped[str | None]
    chat_id: Mapped[str | None]
    agent_id: Mapped[str | None]
    dynamic: Mapped[bool] = mapped_column(server_default=text("false"))
    attributes: Mapped[dict[str, Any]] = mapped_column("metadata", JSONB, server_default=_EMPTY)
    filterable: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=_EMPTY)
    expires_at: Mapped[datetime | None]
    status: Mapped[str] = mapped_column(server_default=text("'queued'"))
    progress: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    error: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    warnings: Mapped[list[dict[str, str]]] = mapped_column(JSONB, server_default=text("'[]'"))
    page_count: Mapped[int | None]
    chunk_count: Mapped[int] = mapped_column(server_default=text("0"))
    language: Mapped[str | None]
    quota_key_id: Mapped[UUID | None]
    metadata_revision: Mapped[int] = mapped_column(server_default=text("0"))


class DocumentObject(TenantOwnedMixin, Base):
    """The key of the stored original of a document version. Each object has one row.

    ``parse_identity`` is the identity of the stored parse result of the original; null if none is stored.
    """

    __tablename__ = "document_object"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "document_id"], ["document.tenant_id", "document.id"], ondelete="CASCADE"),
    )

    document_id: Mapped[UUID] = mapped_column(primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    key: Mapped[str]
    parse_identity: Mapped[bytes | None]


class DocumentText(TenantOwnedMixin, Base):
    """The text of the live version of a document. Offsets of nodes and chunks refer to this text.

    ``source_map`` has the positions of the text in the decoded file, as ``SourceMap.to_stored`` returns them.
    ``place_map`` has the numbers of its lines or rows in the same form.
    """

    __tablename__ = "document_text"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "document_id"], ["document.tenant_id", "document.id"], ondelete="CASCADE"),
    )

    document_id: Mapped[UUID] = mapped_column(primary_key=True)
    version: Mapped[int]
    content: Mapped[str]
    source_map: Mapped[bytes | None]
    place_map: Mapped[bytes | None]


class Node(TenantOwnedMixin, Base):
    """An element of the document tree. ``ordinal`` counts in reading order, and the root has 0."""

    __tablename__ = "node"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "document_id"], ["document.tenant_id", "document.id"], ondelete="CASCADE"),
    )

    document_id: Mapped[UUID] = mapped_column(primary_key=True)
    id: Mapped[UUID] = mapped_column(primary_key=True)
    parent_id: Mapped[UUID | None]
    ordinal: Mapped[int]
    kind: Mapped[str]
    level: Mapped[int]
    title: Mapped[str | None]
    start_offset: Mapped[int]
    end_offset: Mapped[int]
    page: Mapped[int | None]
    page_end: Mapped[int | None]
    slide: Mapped[int | None]
    block: Mapped[str | None]


class DocumentPage(TenantOwnedMixin, Base):
    """Lines of one page of a PDF: offsets in the document's text, and boxes (x0, y0, x1, y1) in tenths of a point."""

    __tablename__ = "document_page"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "document_id"], ["document.tenant_id", "document.id"], ondelete="CASCADE"),
    )

    document_id: Mapped[UUID] = mapped_column(primary_key=True)
    page: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    width: Mapped[float] = mapped_column(REAL)
    height: Mapped[float] = mapped_column(REAL)
    starts: Mapped[list[int]] = mapped_column(ARRAY(Integer))
    ends: Mapped[list[int]] = mapped_column(ARRAY(Integer))
    boxes: Mapped[list[int]] = mapped_column(ARRAY(Integer))


class ChunkRow(TenantOwnedMixin, Base):
    """Text and position of a chunk. Searches read only the rows of the final ``top_k`` hits.

    ``ordinal`` is ``chunk_index`` in the API. If a chunk begins inside a table, ``content`` begins with the head of the
    table and a line break. ``table_head_length`` is the number of characters of that head. ``context_line`` is a line
    of a chat model, which is embedded and indexed before the text. ``provided_graph`` has the entities and relations
    that came with the chunk. ``source_start`` and ``source_end`` are its range of the decoded file, if it is known.
    ``place_start`` and ``place_end`` are its first and last line, or row of a table, if they are known.
    """

    __tablename__ = "chunk"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "kb_id", "document_id"],
            ["document.tenant_id", "document.kb_id", "document.id"],
            ondelete="CASCADE",
        ),
        ForeignKeyConstraint(
            ["tenant_id", "kb_id", "index_id"],
            ["search_index.tenant_id", "search_index.kb_id", "search_index.id"],
            ondelete="CASCADE",
        ),
        Index("chunk_document_idx", "tenant_id", "kb_id", "document_id"),
    )

    index_id: Mapped[UUID] = mapped_column(primary_key=True)
    id: Mapped[UUID] = mapped_column(primary_key=True)
    kb_id: Mapped[UUID]
    document_id: Mapped[UUID]
    version: Mapped[int]
    ordinal: Mapped[int]
    content: Mapped[str]
    start_offset: Mapped[int]
    end_offset: Mapped[int]
    token_count: Mapped[int]
    page: Mapped[int | None]
    page_end: Mapped[int | None]
    slide: Mapped[int | None]
    section_titles: Mapped[list[str]] = mapped_column(JSONB, server_default=text("'[]'"))
    node_path: Mapped[list[int]] = mapped_column(ARRAY(Integer))
    image_ordinal: Mapped[int | None]
    media_type: Mapped[str | None]
    attributes: Mapped[dict[str, Any]] = mapped_column("metadata", JSONB, server_default=_EMPTY)
    table_head_length: Mapped[int | None]
    context_line: Mapped[str | None]
    provided_graph: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    source_start: Mapped[int | None]
    source_end: Mapped[int | None]
    place_start: Mapped[int | None]
    place_end: Mapped[int | None]

    @property
    def table_head(self) -> str | None:
        """Repeated head of the table that the chunk begins in; None for any other chunk."""
        return None if self.table_head_length is None else self.content[: self.table_head_length]
