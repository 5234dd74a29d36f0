"""Types of a walk in the entity graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from uuid import UUID

from app.filters import CompiledFilter
from app.graph.serializers import DEFAULT_SERIALIZER
from app.retrieval.types import ChunkKey

SubgraphContent = Literal["none", "entities", "text"]


@dataclass(frozen=True, slots=True)
class WalkSettings:
    """Settings of a walk; the options of ``graph_rag`` describe them."""

    max_hops: int
    seeds: int
    query_weight: float
    damping: float
    graph_weight: float
    keep_first: int
    relation_filter: Sequence[str] | None
    max_entity_share: float
    fuse_with_vectors: bool
    subgraph: SubgraphContent
    serializer: str = DEFAULT_SERIALIZER


@dataclass(frozen=True, slots=True)
class Aliases:
    """Corrections of a knowledge base: ``keys`` count as ``targets``, in one document or, with None, in all.

    The sequences have the same length and order.
    """

    keys: Sequence[int] = ()
    targets: Sequence[int] = ()
    documents: Sequence[UUID | None] = ()
    _targets: dict[tuple[int, UUID | None], int] = field(init=False, default_factory=dict, compare=False)
    _sources: dict[int, list[tuple[int, bool]]] = field(init=False, default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for key, target, document in zip(self.keys, self.targets, self.documents, strict=True):
            self._targets[key, document] = target
            self._sources.setdefault(target, []).append((key, document is not None))

    def resolve(self, key: int, document_id: UUID | None = None) -> int:
        """Return the key that a key counts as in a document; without a document, by the corrections of all documents.

        A correction of the document takes precedence.
        """
        target = self._targets.get((key, document_id))
        return self._targets.get((key, None), key) if target is None else target

    def list_sources(self, target: int) -> Sequence[tuple[int, bool]]:
        """Return the keys that count as an entity, each with whether it does so in one document alone."""
        return self._sources.get(target, ())


@dataclass(frozen=True, slots=True)
class WalkIndex:
    """Search index of a walk.

    Attributes:
        tenant_id: Owner of the search index.
        kb_id: Its knowledge base.
        name: Name of the knowledge base, for messages.
        index_id: Id of the search index.
        scopes: Scopes that the caller may read.
        filter: Compiled metadata filter.
        is_user_restricted: Whether the numbers of chunks count only what the caller's restricted key can read.
    """

    tenant_id: UUID
    kb_id: UUID
    name: str
    index_id: UUID
    scopes: Sequence[UUID]
    filter: CompiledFilter
    is_user_restricted: bool


class EntityCount(NamedTuple):
    """Number of chunks that name an entity, and of those that have it as a title."""

    chunks: int
    titles: int


class IndexState(NamedTuple):
    """State of a search index before a walk.

    Attributes:
        has_graph: Whether the search index has a graph.
        has_expired: Whether expired documents are not deleted yet.
        chunk_count: Number of chunks; for a restricted key, of those that it can read.
        aliases: Corrections of the knowledge base.
        counts: Numbers of chunks by the key of the entity. Entities that no chunk names are missing.
    """

    has_graph: bool
    has_expired: bool
    chunk_count: int
    aliases: Aliases
    counts: Mapping[int, EntityCount]


class QueryEntity(NamedTuple):
    """Entity that a query names.

    Attributes:
        key: Key of the entity, after corrections.
        name: Normalized name in the query.
        chunks: Number of chunks that name the entity.
        weight: Share of the query's restart mass.
    """

    key: int
    name: str
    chunks: int
    weight: float


@dataclass(frozen=True, slots=True)
class WalkStart:
    """Start of a walk in one search index.

    Attributes:
        index: The search index.
        state: Its state.
        seeds: Ids of the chunks of the best hits.
        seed_masses: Mass of each seed.
        entities: Entities of the queries.
    """

    index: WalkIndex
    state: IndexState
    seeds: Sequence[UUID]
    seed_masses: Sequence[float]
    entities: Sequence[QueryEntity]


class WalkRow(NamedTuple):
    """Chunk that a walk reached.

    Attributes:
        step: Step of the walk, from 1.
        chunk: Key of the chunk.
        mass: Mass of the chunk.
        entity: Key of the entity by which the walk reached the chunk; None for the start.
        source: Key of the chunk before that entity; None if a query names the entity.
        is_cut: Whether entities with little mass were left out.
    """

    step: int
    chunk: ChunkKey
    mass: float
    entity: int | None
    source: ChunkKey | None
    is_cut: bool


@dataclass(frozen=True, slots=True)
class WalkPath:
    """Way from the start of a walk to a chunk.

    Attributes:
        source: Key of the hit from which the walk started; None if it started at a name of a query.
        entities: Keys of the entities in their order.
    """

    source: ChunkKey | None
    entities: Sequence[int]


@dataclass(slots=True)
class WalkOutcome:
    """Outcome of the walks of one search.

    Attributes:
        paths: Way to each chunk that the walks reached.
        masses: Mass of each chunk.
        query_entities: Entities of the queries, by the 16 bytes of the search index's id.
        aliases: Corrections, by the 16 bytes of the search index's id.
    """

    paths: dict[ChunkKey, WalkPath] = field(default_factory=dict)
    masses: dict[ChunkKey, float] = field(default_factory=dict)
    query_entities: dict[bytes, Sequence[QueryEntity]] = field(default_factory=dict)
    aliases: Mapping[bytes, Aliases] = field(default_factory=dict)
