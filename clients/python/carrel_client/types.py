"""Types of the JSON objects of the service. A newer service may return more fields."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

Role = Literal["admin", "writer", "reader"]
Status = Literal["queued", "parsing", "chunking", "embedding", "ready", "failed"]
FINAL: frozenset[str] = frozenset({"ready", "failed"})


class Message(TypedDict):
    """Message of a conversation; ``role`` is customer, user, agent, assistant, tool or system."""

    role: str
    content: str


class Scope(TypedDict, total=False):
    """Scope: user, chat and agent whose documents are searched or listed in addition to the documents of the tenant."""

    user_id: str | None
    chat_id: str | None
    agent_id: str | None


IncludeName = Literal["entities", "parent_summaries", "keywords"]


class SearchOptions(TypedDict, total=False):
    """Options of a search; ``filter`` is a metadata filter of Carrel."""

    queries: Sequence[str | Mapping[str, Any]]
    messages: Sequence[Message]
    top_k: int
    score_threshold: float | Literal["auto"] | None  # auto: the calibrated threshold of the embedding model
    strategy: str
    strategy_options: Mapping[str, Any]
    transformers: Sequence[str | Mapping[str, Any]]
    conversation: bool  # false: the last message is searched as it is
    filter: Mapping[str, Any] | None
    scope: Scope
    exclude_dynamic: bool
    expand: Literal["none", "window", "section", "parent"]
    expand_options: Mapping[str, Any]
    rerank: bool
    repeat: Literal["demote", "exclude", "allow"]  # results whose text is in messages already
    combine: Literal["best", "sum"] | None  # scores of a result that several queries found
    collapse: bool  # identical texts of one knowledge base become one result, which names the others
    include: Sequence[IncludeName]
    return_vectors: bool
    explain: bool
    timeout_seconds: float
    routing: Mapping[str, int] | Literal[False]  # if the service selects knowledge bases


class ResultDocument(TypedDict):
    """Document of a result; a result of an HTTP source has no document ID."""

    id: str | None
    source: str
    title: str | None
    source_uri: str | None
    source_created_at: str | None
    metadata: dict[str, Any]


class ResultLocator(TypedDict, total=False):
    """Place of a text in its file: first and last page, line or row, and the web address of the document."""

    page: int
    page_end: int
    slide: int
    lines: list[int]
    sheet: str
    rows: list[int]
    section_path: list[str]
    url: str


class Duplicate(TypedDict):
    """Chunk with the text of a result that represents it, if the search sets ``collapse``."""

    document_id: str
    chunk_id: str
    chunk_index: int
    source: str


class Result(TypedDict):
    """Found passage; results are ordered by ``score``. ``similarity`` is the cosine of passage and query. HTTP sources
    return no IDs. If the passage begins inside a table, ``text`` begins with ``table_head`` and a line break, which are
    not part of ``start`` to ``end``.
    """

    score: float
    scores: dict[str, float | None]
    similarity: float | None
    text: str
    table_head: str | None
    start: int
    end: int
    chunk_start: int
    chunk_end: int
    chunk_id: str | None
    chunk_index: int
    total_chunks: int
    document: ResultDocument
    knowledge_base: str
    page: int | None
    page_end: int | None
    slide: int | None
    section_titles: list[str]
    node_path: list[str]
    image: dict[str, str] | None
    metadata: dict[str, Any]
    flags: list[str]
    citation: str
    locator: ResultLocator
    source_start: NotRequired[int]
    source_end: NotRequired[int]
    duplicates: NotRequired[list[Duplicate]]
    duplicate_count: NotRequired[int]


class CarrelWarning(TypedDict):
    """Warning about a partial result: a stable code for programs and a sentence for people."""

    code: str
    message: str


class KnowledgeBaseThreshold(TypedDict):
    """Calibrated threshold of a knowledge base; None if its embedding model has none."""

    knowledge_base: str
    shared: bool
    score_threshold: float | None


class SearchReply(TypedDict):
    """Response of a search: results, best first, and warnings about partial results. ``auto_thresholds`` is present if
    the request has the ``score_threshold`` ``auto``.
    """

    results: list[Result]
    queries: list[str]
    strategy: str
    degraded: list[dict[str, str]]
    warnings: list[CarrelWarning]
    auto_thresholds: NotRequired[list[KnowledgeBaseThreshold]]
    timings_ms: dict[str, float]


class DocumentOptions(TypedDict, total=False):
    """Fields of an uploaded file; times are RFC 3339."""

    title: str
    metadata: Mapping[str, Any]
    external_id: str
    source_uri: str
    source_created_at: str
    encoding: str
    user_id: str
    chat_id: str
    agent_id: str
    expires_at: str


class TextOptions(TypedDict, total=False):
    """Fields of an uploaded text; times are RFC 3339."""

    title: str
    media_type: str
    metadata: Mapping[str, Any]
    external_id: str
    source_uri: str
    source_created_at: str
    user_id: str
    chat_id: str
    agent_id: str
    dynamic: bool
    expires_at: str


class DocumentFilters(TypedDict, total=False):
    """Filters of a list of documents."""

    status: Status
    external_id: str
    filter: Mapping[str, Any]
    user_id: str
    chat_id: str
    agent_id: str


class Progress(TypedDict):
    """Progress of an ingestion, or the reason why it waits."""

    done: NotRequired[int]
    total: NotRequired[int]
    unit: NotRequired[str]
    waiting_for: NotRequired[str]


class Document(TypedDict):
    """Document. ``status`` and ``error`` belong to the newest version; searches use ``live_version``."""

    id: str
    knowledge_base: str
    source: str
    title: str | None
    external_id: str | None
    source_uri: str | None
    media_type: str
    bytes: int
    sha256: str
    version: int
    live_version: int | None
    status: Status
    progress: Progress | None
    error: dict[str, Any] | None
    warnings: list[CarrelWarning]
    chunk_count: int
    page_count: int | None
    language: str | None
    metadata: dict[str, Any]
    scope: dict[str, Any]
    dynamic: bool
    expires_at: str | None
    created_at: str
    updated_at: str


class Chunk(TypedDict):
    """Stored chunk of a document."""

    id: str
    chunk_index: int
    text: str
    page: int | None
    metadata: dict[str, Any]
    source_start: NotRequired[int]
    source_end: NotRequired[int]
    entities: NotRequired[list[dict[str, Any]]]
    parent_summaries: NotRequired[list[dict[str, Any]]]
    keywords: NotRequired[list[dict[str, Any]]]
    provided_entities: NotRequired[list[dict[str, Any]]]
    provided_relations: NotRequired[list[dict[str, Any]]]


class Deletion(TypedDict):
    """Deletion of several documents: id of the deletion, and number of deleted documents."""

    deletion: str
    deleted: int


class Receipt(TypedDict):
    """Receipt of a deletion: removed and remaining rows by table."""

    id: str
    kind: str
    documents: int
    chunks: int
    bytes: int
    requested_at: str
    finished_at: str | None
    remaining: dict[str, int] | None


class QueueJob(TypedDict):
    """Job of the queue: what waits, runs or failed, and why."""

    id: str
    tenant: str
    kind: str
    state: str
    waiting_for: str | None
    stage: str | None
    document: str | None
    knowledge_base: str | None
    attempts: int
    max_attempts: int | None
    error: dict[str, str | None] | None
    created_at: str
    age_seconds: float
    due_at: str


class ImportCounts(TypedDict):
    """Counts of an import: imported documents, existing documents, and conflicts (another original is stored)."""

    documents: int
    chunks: int
    existing: int
    conflicts: int


class KnowledgeBase(TypedDict):
    """Knowledge base with its settings and the state of its search index."""

    id: str
    name: str
    title: str | None
    description: str | None
    created_at: str
    embedding: dict[str, Any]
    chunking: dict[str, Any]
    retrieval: dict[str, Any]
    metadata_filter: dict[str, Any]
    language: str


class SqlView(TypedDict):
    """SQL view of a knowledge base; ``connection`` has the connection details for the platform that reads it."""

    id: str
    state: Literal["preparing", "ready"]
    blocked_reason: str | None
    connection: dict[str, Any]
    warnings: list[CarrelWarning]
    created_at: str


class NewSqlView(SqlView):
    """New SQL view; only this response has the ``password``."""

    password: str


class ExternalSearch(TypedDict):
    """Configuration block of an agent platform that calls the external-search contract."""

    type: Literal["external"]
    hostname: str
    port: int
    path: str
    api_key: str
    top_k: int
    max_messages: int
    timeout_seconds: float


class EnrichmentStatusReply(TypedDict):
    """State of the enrichment of a knowledge base by a chat model. ``documents`` has their number by state."""

    enabled: bool
    model: str | None
    documents: dict[str, int]
    waiting_for: str | None
    calls_today: int
    tokens_today: int
    max_tokens_per_day: int


class EnrichmentEstimateReply(TypedDict):
    """Estimated cost of the documents that are not enriched."""

    documents: int
    sampled_documents: int
    calls: int
    input_tokens: int
    output_tokens: int
    total_tokens: int
    is_calibrated: bool


class EntityFilters(TypedDict, total=False):
    """Filters of a list of entities: parts of the name, and a scope."""

    prefix: str
    q: str  # words of the name, each from its beginning
    user_id: str
    chat_id: str
    agent_id: str
    level: Literal["shared"]


class EntityItem(TypedDict):
    """Entity that readable chunks name."""

    id: str
    name: str
    kinds: list[str]
    type: str | None
    chunks: int
    titles: int


class EntityWithChunks(EntityItem):
    """Entity with a page of its chunks, and with the entities that share chunks with it."""

    aliases: list[dict[str, Any]]
    chunk_list: list[dict[str, Any]]
    next_cursor: str | None
    degree: int
    neighbours: list[dict[str, Any]]
    truncated: bool


class EntityCorrection(TypedDict):
    """Correction of an entity: a merge, or with a document a split."""

    id: str
    entity: str
    target: str
    document: str | None
    name: str | None
    created_at: str


class DocumentGraphReply(TypedDict):
    """Entities of a document (``nodes``), the chunks that name them and relations (``edges``)."""

    document: str
    version: int | None
    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    truncated: bool
    warnings: list[dict[str, Any]]


class ApiKey(TypedDict):
    """API key without its secret."""

    id: str
    name: str
    role: Role
    hint: str
    knowledge_bases: list[str] | None
    user_id: str | None
    created_at: str
    expires_at: str | None
    last_used_at: str | None


class NewApiKey(ApiKey):
    """New API key; only this response has the secret, in ``key``."""

    key: str


class Tenant(TypedDict):
    """Tenant."""

    id: str
    name: str
    created_at: str


class NewTenant(Tenant):
    """New tenant with its first API key."""

    api_key: dict[str, Any]


class GoldenSetReply(TypedDict):
    """Golden set: queries whose relevant documents are known."""

    id: str
    name: str
    description: str | None
    item_count: int
    created_at: str
    updated_at: str


class GoldenItemInput(TypedDict, total=False):
    """Item to add to a golden set: ``query`` or ``messages``. ``relevant`` has ids: ``document``, ``chunk``."""

    query: str
    messages: Sequence[Mapping[str, str]]
    relevant: Sequence[Mapping[str, str]]


class GoldenItemReply(TypedDict):
    """Item of a golden set. ``relevant`` has ``document``, ``chunk``, ``knowledge_base`` and ``missing``."""

    id: str
    query: str | None
    messages: list[dict[str, str]] | None
    relevant: list[dict[str, Any]]
    created_at: str
    updated_at: str


class EvaluationReply(TypedDict):
    """Evaluation of a golden set. ``figures`` has the values of each measure, and the difference of two settings."""

    id: str
    set: str
    settings: list[dict[str, Any]]
    state: Literal["queued", "running", "done", "failed"]
    progress: dict[str, int]
    figures: list[dict[str, Any]]
    warnings: list[CarrelWarning]
    error: dict[str, str] | None
    created_at: str
    finished_at: str | None


class EvaluationResult(TypedDict):
    """Results of one item of the golden set, one for each setting."""

    item: str
    query: str | None
    messages: list[dict[str, str]] | None
    results: list[dict[str, Any]]


class Me(TypedDict):
    """Caller: tenant, API key, limits and usage."""

    tenant: dict[str, str]
    key: dict[str, Any]
    limits: dict[str, float]
    usage: dict[str, int]
