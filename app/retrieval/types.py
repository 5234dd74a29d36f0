"""Types of retrieval: requests, queries, hits, results and errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self
from uuid import UUID

from app.documents.locator import Locator, build_locator
from app.documents.scopes import DocumentScope
from app.documents.source_map import SourceRange
from app.errors import UnavailableError
from app.graph.subgraph import Subgraph
from app.inference.embedding import ImageFile, Vectors
from app.inference.embedding.search_defaults import RequestedThreshold
from app.prompts.types import ActivePrompt, PromptName
from app.retrieval.citation import format_citation, get_cited_name
from app.retrieval.explain import AutoThreshold, Explanation, Reformulation
from app.retrieval.hit_parts import HitChunk, HitDocument
from app.retrieval.routes import RoutingOptions
from app.warnings import ServiceWarning

ChunkKey = bytes
"""Key of a chunk in a ranking: the 16 bytes of its search index followed by the 16 bytes of its id.

A ranking looks up keys a thousand times. Bytes cache their hash; a pair of UUIDs computes it each time.
"""
RetrieverName = Literal["dense", "lexical"]
RepeatPolicy = Literal["demote", "allow", "exclude"]  # of hits whose text is already in the conversation
Combination = Literal["best", "sum"]  # of the scores of one chunk for several queries
MAX_EXPANDED_CHARACTERS = 2_000_000  # of all expanded texts of one result together
MAX_NAMED_DUPLICATES = 100  # of one hit in a response
NamedTransformer = str | tuple[str, Mapping[str, Any]]  # a name, or a name with options


class SearchUnavailable(UnavailableError):
    """No retriever can answer now; try again."""

    code = "search_unavailable"


@dataclass(frozen=True, slots=True)
class Message:
    """Message of a conversation.

    Attributes:
        role: ``customer``, ``user``, ``agent``, ``assistant``, ``tool`` or ``system``.
        content: Text of the message.
    """

    role: str
    content: str


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """Query of a search: a text, an image, or a vector with or without a text.

    Attributes:
        text: Text of the query; None if the query has none.
        vector: Vector of unit length that the caller provided; None if the query has to be embedded.
        image: Image to search with; None if the query has none.
        loc: Location of the query in the request, for error messages.
        is_extra: Whether a transformer added the query; such a query is dropped if the time is short.
    """

    text: str | None = None
    vector: Vectors | None = None
    image: ImageFile | None = None
    loc: tuple[str | int, ...] = ("body", "query")
    is_extra: bool = False


@dataclass(frozen=True, slots=True)
class Expansion:
    """Expansion of the text of a result.

    Attributes:
        kind: ``window``: neighbour chunks; ``section``: the section; ``parent``: the parent node.
        window: Number of neighbour chunks on each side.
        max_characters: Maximum length of the text. A longer text is cut so that the chunk is in the middle.
        merge_share: Minimum share for auto-merging: a parent replaces its chunks if at least this share of the chunks
            is among the best results. The text of a parent is never cut. None expands every result.
    """

    kind: Literal["window", "section", "parent"]
    window: int = 1
    max_characters: int = 8000
    merge_share: float | None = None

    def limit_characters(self, hit_count: int) -> Self:
        """Return a copy with a lower limit, so that the texts of all hits stay within the limit of one result."""
        return replace(self, max_characters=min(self.max_characters, MAX_EXPANDED_CHARACTERS // hit_count))


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """Request of one search, with ``queries`` or ``messages``.

    Attributes:
        queries: Queries; a string is a query with a text.
        messages: Conversation, oldest message first.
        knowledge_bases: Names or ids to search; None searches all that the API key may read.
        top_k: Number of hits; None uses the setting of the knowledge base, or its default.
        score_threshold: Minimum similarity of a hit; ``auto`` for each model's calibrated threshold, None for no limit.
        strategy: Name of the strategy; None uses the setting of the knowledge base.
        strategy_options: Options of the strategy.
        transformers: Transformers to run; None uses the stored transformers, or the default transformers.
        stored_transformers: Transformers stored in the agent of the request; None if the agent names none.
        conversation: Whether messages before the last question are used; None uses the stored setting.
        stored_conversation: Setting of the agent for ``conversation``; None if the agent has none.
        prompts: Prompts of the agent of the request.
        filter: Metadata filter; None for no filter.
        scope: User, chat and agent whose documents are searched in addition to the documents for all users.
        routing: Options of routing; None routes only if ``knowledge_bases`` is None.
        exclude_dynamic: Whether dynamic documents are left out.
        expansion: Expansion of the hits' texts; None for none.
        rerank: Whether the hits are reranked.
        return_vectors: Whether hits get their vectors.
        include: Names of the includes that hits get.
        repeat: Treatment of hits whose text is already in the messages of agents and tools.
        combine: How the scores of a chunk for several queries count; None uses the setting of the knowledge base.
        collapse: Whether identical texts of one knowledge base become one hit.
        max_text_characters: Number of characters after which the caller cuts the texts of hits; None for no limit.
        has_citation_prefix: Whether the caller puts the citation in brackets before each text, and cuts both together.
        needs_analysis: Whether an answer is written from the result, so that the conversation is analyzed.
        accepts_graph_text: Whether the caller returns a text of the graph, which takes the place of the last hit.
        explain: Whether the result has an explanation.
        timeout_seconds: Time limit of the search.
        notices: Warnings about the request, which the result repeats.
    """

    queries: Sequence[str | Query] = ()
    messages: Sequence[Message] = ()
    knowledge_bases: Sequence[str] | None = None
    top_k: int | None = None
    score_threshold: RequestedThreshold | None = None
    strategy: str | None = None
    strategy_options: Mapping[str, Any] = field(default_factory=dict)
    transformers: Sequence[NamedTransformer] | None = None
    stored_transformers: Sequence[Mapping[str, Any]] | None = None
    conversation: bool | None = None
    stored_conversation: bool | None = None
    prompts: Mapping[PromptName, ActivePrompt] = field(default_factory=dict)
    filter: Mapping[str, Any] | None = None
    scope: DocumentScope = field(default_factory=DocumentScope)
    routing: RoutingOptions | None = None
    exclude_dynamic: bool = False
    expansion: Expansion | None = None
    rerank: bool = False
    return_vectors: bool = False
    include: Sequence[str] = ()
    repeat: RepeatPolicy = "demote"
    combine: Combination | None = None
    collapse: bool = False
    max_text_characters: int | None = None
    has_citation_prefix: bool = False
    needs_analysis: bool = False
    accepts_graph_text: bool = False
    explain: bool = False
    timeout_seconds: float = 5.0
    notices: Sequence[ServiceWarning] = ()


class HitDuplicate(NamedTuple):
    """Chunk with the text of a better hit of the same knowledge base.

    Attributes:
        document_id, chunk_id: Ids of the document and the chunk.
        chunk_index: Index of the chunk in its document, from 0.
        source: Name of the document.
    """

    document_id: UUID
    chunk_id: UUID
    chunk_index: int
    source: str


class Scores(NamedTuple):
    """Scores of a chunk from the retrievers, the best of all queries.

    Attributes:
        dense: Cosine; None if the dense retriever did not find the chunk.
        lexical: BM25 score; None if the lexical retriever did not find the chunk.
        fused: Score after fusion; None if the strategy does not fuse.
    """

    dense: float | None
    lexical: float | None
    fused: float | None


NO_SCORES = Scores(None, None, None)


class RetrieverRank(NamedTuple):
    """Rank of a chunk in the ranked list of one retriever for one query. Ranks begin at 1, query indexes at 0."""

    query: int
    retriever: RetrieverName
    rank: int
    score: float


class TextSpan(NamedTuple):
    """Text with its ranges of the stored text and the file. A ``table_head`` before the text is not in the ranges."""

    text: str
    start: int
    end: int
    table_head: str | None = None
    source_range: SourceRange = None
    place: SourceRange = None


@dataclass(frozen=True, slots=True)
class Hit:
    """Chunk that a search found, with its document and scores.

    Attributes:
        key: Key of the chunk in a ranking.
        chunk: The chunk.
        document: Its document.
        knowledge_base: Name of the knowledge base.
        score: Score of the strategy; a higher score is better.
        similarity: Highest cosine with any of the queries; None if it is not known.
        scores: Scores of the retrievers.
        expanded_span: Expanded text; None if the text was not expanded.
        expanded_pages: First and last page of the expanded text; None if it is not known.
        vector: Vector of the chunk, if the caller requested it.
        ranks: Ranks in the lists of the retrievers, if the caller requested an explanation.
        is_external: Whether the hit comes from an HTTP source, so that its chunk and document are not stored.
        path_names: Names on the way of the graph walk to the hit, if the caller requested an explanation.
        is_repeated: Whether its text is already in the conversation of the search.
        included: Items of the requested includes, by the name of the include.
        duplicates: Chunks with the same text that the hit represents; None if identical texts are separate hits.
    """

    key: ChunkKey
    chunk: HitChunk
    document: HitDocument
    knowledge_base: str
    score: float
    similarity: float | None
    scores: Scores = NO_SCORES
    expanded_span: TextSpan | None = None
    expanded_pages: tuple[int, int] | None = None
    vector: Sequence[float] | None = None
    ranks: Sequence[RetrieverRank] = ()
    is_external: bool = False
    path_names: Sequence[str] = ()
    is_repeated: bool = False
    included: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    duplicates: Sequence[HitDuplicate] | None = None

    @property
    def text_span(self) -> TextSpan:
        """Text of the result: the expanded text, or the text of the chunk."""
        chunk = self.chunk
        own_span = TextSpan(chunk.content, chunk.start, chunk.end, chunk.table_head, chunk.source_range, chunk.place)
        return self.expanded_span or own_span

    @property
    def pages(self) -> tuple[int | None, int | None]:
        """First and last page of the text of the result; None if the format has no pages."""
        return (self.chunk.page, self.chunk.page_end) if self.expanded_pages is None else self.expanded_pages

    @property
    def size_bytes(self) -> int:
        """Approximate number of bytes in a response, which may contain the metadata twice."""
        own_metadata, vector = self.document.own_metadata, self.vector
        metadata = 2 * len(self.chunk.metadata.raw_json) + (0 if own_metadata is None else len(own_metadata.raw_json))
        metadata += 200 * sum(map(len, self.included.values()))
        metadata += 200 * len((self.duplicates or ())[:MAX_NAMED_DUPLICATES])
        return len(self.text_span.text) + metadata + (0 if vector is None else 12 * len(vector))

    @property
    def locator(self) -> Locator:
        """Place of the text of the result in its file."""
        return build_locator(
            media_type=self.document.metadata.entries.get("$media_type"),
            source_uri=self.document.source_uri,
            pages=self.pages,
            slide=self.chunk.slide,
            place=self.text_span.place,
            section_titles=self.chunk.section_titles,
        )

    @property
    def cited_name(self) -> str:
        """Name of the document in citations."""
        media_type = self.document.metadata.entries.get("$media_type")
        return get_cited_name(self.document.source, media_type, self.locator)

    @property
    def citation(self) -> str:
        """Citation to display: the name of the document with page, slide, or sheet and rows."""
        return format_citation(self.cited_name, self.locator)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Result of one search.

    Attributes:
        hits: Hits, best first.
        queries: Texts of the queries after transformation.
        strategy: Name of the strategy.
        warnings: Warnings and notices.
        timings_ms: Milliseconds of each step.
        explanation: Explanation; None if it was not requested.
        is_complete: Whether no part of the search was left out.
        reformulation: Reformulation of the conversation; None if there is none.
        languages: Languages of the searched knowledge bases.
        answer_prompt: Prompt for an answer from the result; None if there is none.
        degraded_steps: Steps that failed or had too little time, each with the reason.
        subgraph: Part of the entity graph that connects the hits; None if it was not requested.
        graph_text: Text of this part of the graph, which counts as a result; None if there is none.
        auto_thresholds: Calibrated thresholds of the searched knowledge bases; None if ``auto`` was not requested.
    """

    hits: Sequence[Hit]
    queries: Sequence[str]
    strategy: str
    warnings: Sequence[ServiceWarning]
    timings_ms: Mapping[str, float]
    explanation: Explanation | None = None
    is_complete: bool = True
    reformulation: Reformulation | None = None
    languages: Sequence[str] = ()
    answer_prompt: ActivePrompt | None = None
    degraded_steps: Mapping[str, str] = field(default_factory=dict)
    auto_thresholds: Sequence[AutoThreshold] | None = None
    subgraph: Subgraph | None = None
    graph_text: str | None = None
