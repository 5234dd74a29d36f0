"""Entities as callers read them, and errors."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.documents.repository import DocumentRowFilters
from app.errors import NotFoundError

MAX_CORRECTIONS = 10_000
"""Maximum number of corrections of a knowledge base."""


class EntityNotFound(NotFoundError):
    """The entity does not exist, or no chunk that this API key may read names it. Check its id."""

    code = "entity_not_found"


@dataclass(frozen=True, slots=True)
class EntityReader:
    """Search index of a knowledge base, and the documents that the caller reads in it.

    Attributes:
        tenant_id: Owner of the rows.
        kb_id: The knowledge base.
        index_id: Its live search index.
        filters: Conditions on the documents: ``reader`` and ``scope_key``.
        is_filtered: Whether the knowledge base enforces metadata on every read.
    """

    tenant_id: UUID
    kb_id: UUID
    index_id: UUID
    filters: DocumentRowFilters
    is_filtered: bool

    @property
    def reads_all_levels(self) -> bool:
        """Whether the caller reads the documents of all levels."""
        return self.filters.reader is None and self.filters.scope_key is None


@dataclass(frozen=True, slots=True)
class NameCondition:
    """Condition on normalized names.

    Attributes:
        prefix: Normalized beginning of the name; empty for all names.
        words: Normalized words that the name contains.
    """

    prefix: str = ""
    words: Sequence[str] = ()

    def is_met_by(self, name: str) -> bool:
        """Return whether a normalized name meets the condition."""
        return name.startswith(self.prefix) and all(word in f" {name}" for word in self.patterns)

    @property
    def patterns(self) -> list[str]:
        """Texts that a name contains behind a space. Words without spaces between them match everywhere."""
        return [f" {word}" if word.isascii() else word for word in self.words]


@dataclass(frozen=True, slots=True)
class EntitySummary:
    """Entity with the numbers of its readable chunks.

    Attributes:
        key: Key of the entity.
        sort_name: Normalized name, by which lists are sorted.
        name: Most frequent spelling in readable chunks.
        kinds: Kinds of the entity in its chunks, sorted.
        type: Most frequent type; None if no chunk has one.
        chunks: Number of readable chunks that name the entity.
        titles: Number of those that name it as a title, a heading or the name of a source.
    """

    key: int
    sort_name: str
    name: str
    kinds: Sequence[str]
    type: str | None
    chunks: int
    titles: int


@dataclass(frozen=True, slots=True)
class EntityPage:
    """Page of entities; ``has_graph`` is False if the search index has no graph."""

    entities: Sequence[EntitySummary]
    has_graph: bool


@dataclass(frozen=True, slots=True)
class EntityChunk:
    """Readable chunk that names an entity, with its document.

    Attributes:
        chunk_id: The chunk.
        document_id: Its document.
        source: Name of the document.
        ordinal: Index of the chunk in its document.
        count: Number of occurrences of the entity in the chunk.
        name: Name as the chunk writes it.
        text: Text of the chunk.
    """

    chunk_id: UUID
    document_id: UUID
    source: str
    ordinal: int
    count: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class NeighbourRelation:
    """Relation between an entity and its neighbour.

    Attributes:
        predicate: The relation, such as ``composed``.
        is_subject: Whether the entity is the subject and the neighbour the object.
        chunks: Number of readable chunks that are evidence.
    """

    predicate: str
    is_subject: bool
    chunks: int


@dataclass(frozen=True, slots=True)
class EntityNeighbour:
    """Entity that shares readable chunks with another.

    Attributes:
        entity: The neighbour.
        shared_chunks: Number of readable chunks that name both.
        weight: Shared chunks divided by the geometric mean of both numbers of chunks, from 0 to 1.
        relations: Relations between both.
    """

    entity: EntitySummary
    shared_chunks: int
    weight: float
    relations: Sequence[NeighbourRelation]


@dataclass(frozen=True, slots=True)
class EntityAliasName:
    """Entity that a correction leads to another, with its name in readable chunks."""

    key: int
    name: str


@dataclass(frozen=True, slots=True)
class EntityDetail:
    """Entity with a page of its chunks and with its neighbours.

    Attributes:
        entity: The entity.
        aliases: Entities that corrections lead to this one, if readable chunks name them.
        chunks: Page of its readable chunks.
        degree: Number of neighbours.
        neighbours: Best neighbours by weight.
        is_truncated: Whether degree and neighbours come from a part of the chunks.
    """

    entity: EntitySummary
    aliases: Sequence[EntityAliasName]
    chunks: Sequence[EntityChunk]
    degree: int
    neighbours: Sequence[EntityNeighbour]
    is_truncated: bool
