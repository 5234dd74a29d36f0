"""The nouns of retrieval: what is asked, what is found, and the room's errors."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self
from uuid import UUID

from app.documents.scopes import DocumentScope
from app.errors import UnavailableError
from app.ids import get_creation_time
from app.inference.embedding import ImageFile, Vectors
from app.prompts.types import ActivePrompt, PromptName
from app.retrieval.explain import Explanation
from app.retrieval.routes import RoutingOptions
from app.times import to_utc_time

ChunkKey = bytes
"""What names a chunk to the lanes: the 16 bytes of its search index and the 16 of its id, in the order of both.

A ranking looks keys up a thousand times: bytes keep their hash, which a pair of UUIDs makes anew each time.
"""
RetrieverName = Literal["dense", "lexical"]
DegradableStep = Literal["rewrite", "extra_queries", "rerank", "dense", "lexical", "vectors", "http_source", "strategy"]
"""What a search can be answered without."""
# Of all widened texts of an answer together.
MAX_EXPANDED_CHARACTERS = 2_000_000

NamedTransformer = str | tuple[str, Mapping[str, Any]]
"""A transformer by its name, with or without options."""


class SearchUnavailable(UnavailableError):
    """No lane can answer now; try again."""

    code = "search_unavailable"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation; ``role`` is customer, user, agent, assistant, tool or system."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """What is searched for: words, a picture, or a vector of unit length with or without words.

    ``loc`` is where the caller wrote it; an ``is_extra`` one was made beside what was asked, and may be left out.
    """

    text: str | None = None
    vector: Vectors | None = None
    image: ImageFile | None = None
    loc: tuple[str | int, ...] = ("body", "query")
    is_extra: bool = False


@dataclass(frozen=True, slots=True)
class Expansion:
    """How the text of a result is widened: so many neighbours on each side, its section, or its parent.

    The text never grows beyond ``max_characters``; of more, that part is taken which has the passage in its middle.
    With ``merge_share`` a parent comes only where at least this share of its passages is among the best, and as a
    whole.
    """

    kind: Literal["window", "section", "parent"]
    window: int = 1
    max_characters: int = 8000
    merge_share: float | None = None

    def limit_characters(self, hit_count: int) -> Self:
        """The same, so that the texts of so many hits are not too much."""
        return replace(self, max_characters=min(self.max_characters, MAX_EXPANDED_CHARACTERS // hit_count))


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search, by ``queries`` or ``messages``; without ``knowledge_bases`` in all that the key may read.

    These are routed unless ``routing`` says otherwise; named ones only where it says so. ``stored_transformers`` and
    ``prompts`` are those of the agent in whose name it is, as they are stored; ``needs_analysis`` where it is for an
    answer.
    """

    queries: Sequence[str | Query] = ()
    messages: Sequence[Message] = ()
    knowledge_bases: Sequence[str] | None = None
    top_k: int | None = None
    score_threshold: float | None = None
    strategy: str | None = None
    strategy_options: Mapping[str, Any] = field(default_factory=dict)
    transformers: Sequence[NamedTransformer] | None = None
    stored_transformers: Sequence[Mapping[str, Any]] | None = None
    prompts: Mapping[PromptName, ActivePrompt] = field(default_factory=dict)
    filter: Mapping[str, Any] | None = None
    scope: DocumentScope = field(default_factory=DocumentScope)
    routing: RoutingOptions | None = None
    exclude_dynamic: bool = False
    expansion: Expansion | None = None
    rerank: bool = False
    return_vectors: bool = False
    needs_analysis: bool = False
    explain: bool = False
    timeout_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class Reformulation:
    """What a conversation was understood as: the query, why, and the places of the messages that matter to it."""

    query: str
    analysis: str = ""
    related: Sequence[int] = ()


class IndexRef(NamedTuple):
    """The knowledge base of a search index, of the system tenant where it is shared; hits count ``weight`` times."""

    tenant_id: UUID
    name: str
    weight: float = 1.0


@dataclass(frozen=True)
class LazyMetadata:
    """What a lane was stamped with, or metadata, as the database wrote it: much of what is read becomes no result.

    It is decoded when something of it is first looked at.
    """

    raw_json: str

    @classmethod
    def from_entries(cls, entries: Mapping[str, Any]) -> Self:
        """Of what is not stored."""
        return cls(json.dumps(entries))

    @cached_property
    def entries(self) -> dict[str, Any]:
        """Metadata, and names that begin with ``$``, which are reserved."""
        decoded: dict[str, Any] = json.loads(self.raw_json)
        return decoded

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """The caller's metadata."""
        return {key: value for key, value in self.entries.items() if not key.startswith("$")}


@dataclass(frozen=True, slots=True)
class HitChunk:
    """What a search tells of a chunk; ``ordinal`` is the API's chunk_index, ``node_path`` leads from the root."""

    id: UUID
    version: int
    ordinal: int
    content: str
    start: int
    end: int
    page: int | None
    page_end: int | None
    slide: int | None
    section_titles: list[str]
    node_path: list[int]
    image_ordinal: int | None
    media_type: str | None
    metadata: LazyMetadata

    @property
    def attributes(self) -> dict[str, Any]:
        """The metadata of the document, with its own."""
        return self.metadata.attributes

    @property
    def flags(self) -> list[str]:
        """What in it speaks to a model."""
        flags: list[str] = self.metadata.entries.get("$suspicious", [])
        return flags


@dataclass(frozen=True, slots=True)
class HitDocument:
    """What a search tells of the chunk's document; ``own_metadata`` is its metadata, where the chunk's stamp has others
    beside.

    ``tenant_id`` is the system tenant's where it is shared.
    """

    tenant_id: UUID
    id: UUID
    chunk_count: int
    metadata: LazyMetadata
    own_metadata: LazyMetadata | None = None

    @property
    def source(self) -> str:
        """Its name."""
        name: str = self.metadata.entries["$source"]
        return name

    @property
    def title(self) -> str | None:
        """Where it has one."""
        return self.metadata.entries.get("$title")

    @property
    def source_uri(self) -> str | None:
        """Where it is from."""
        return self.metadata.entries.get("$source_uri")

    @property
    def source_created_at(self) -> datetime | None:
        """What it says of itself."""
        created = self.metadata.entries.get("$source_created_at")
        return None if created is None else to_utc_time(datetime.fromisoformat(created))

    @property
    def attributes(self) -> dict[str, Any]:
        """The caller's metadata."""
        return self.metadata.attributes if self.own_metadata is None else self.own_metadata.entries

    @property
    def effective_date(self) -> datetime:
        """What it says of itself, else when it was first uploaded."""
        return self.source_created_at or get_creation_time(self.id)


class Scores(NamedTuple):
    """A chunk's cosine and BM25, best of all queries, None where the lane did not find it; what both were fused to."""

    dense: float | None
    lexical: float | None
    fused: float | None


NO_SCORES = Scores(None, None, None)


class RetrieverRank(NamedTuple):
    """Rank of a chunk in the results of one retriever for one query; ``rank`` counts from 1."""

    query: int
    retriever: RetrieverName
    rank: int
    score: float


class TextSpan(NamedTuple):
    """A text, and its range of the document's stored text."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Hit:
    """A found chunk with its document; ``expanded_span`` is what its text was widened to, ``ranks`` are there to
    explain.

    The chunk and the document of a hit that ``is_external``, from an HTTP source, are not stored here: their ids only
    order hits.
    """

    key: ChunkKey
    chunk: HitChunk
    document: HitDocument
    knowledge_base: str
    score: float
    similarity: float | None
    scores: Scores = NO_SCORES
    expanded_span: TextSpan | None = None
    vector: Sequence[float] | None = None
    ranks: Sequence[RetrieverRank] = ()
    is_external: bool = False

    @property
    def text_span(self) -> TextSpan:
        """The text to show."""
        return self.expanded_span or TextSpan(self.chunk.content, self.chunk.start, self.chunk.end)

    @property
    def size_bytes(self) -> int:
        """About how many bytes it has in a reply, which may tell metadata as the chunk's and as the document's."""
        own_metadata, vector = self.document.own_metadata, self.vector
        metadata = 2 * len(self.chunk.metadata.raw_json) + (0 if own_metadata is None else len(own_metadata.raw_json))
        return len(self.text_span.text) + metadata + (0 if vector is None else 12 * len(vector))

    @property
    def citation(self) -> str:
        """For people: the source and where in it."""
        chunk, source = self.chunk, self.document.source
        if chunk.slide is not None:
            return f"{source}, slide {chunk.slide}"
        if chunk.page is None:
            return source
        if chunk.page_end in (None, chunk.page):
            return f"{source}, p. {chunk.page}"
        return f"{source}, pp. {chunk.page}\u2013{chunk.page_end}"


def round_score(score: float) -> float:
    """As callers see it: what ties there is a tie."""
    return round(score, 6)


def get_sort_key(hit: Hit) -> tuple[float, UUID, int]:
    """What hits are sorted by: best first, ties by document and chunk_index."""
    return -round_score(hit.score), hit.document.id, hit.chunk.ordinal


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hits best first, and how they came about; ``is_complete`` where nothing that was to be searched was left out.

    ``degraded_steps`` is what did not fit into its time or did not answer, each by a word and why.
    ``languages`` are those of what was searched; ``answer_prompt`` is for whoever answers from it.
    """

    hits: Sequence[Hit]
    queries: Sequence[str]
    strategy: str
    warnings: Sequence[str]
    timings_ms: Mapping[str, float]
    explanation: Explanation | None = None
    is_complete: bool = True
    reformulation: Reformulation | None = None
    languages: Sequence[str] = ()
    answer_prompt: ActivePrompt | None = None
    degraded_steps: Mapping[str, str] = field(default_factory=dict)
