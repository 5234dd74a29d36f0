"""What the service takes and gives, as its JSON has it: a field that is new is simply there, too."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

Role = Literal["admin", "writer", "reader"]
Status = Literal["queued", "parsing", "chunking", "embedding", "ready", "failed"]
FINAL: frozenset[str] = frozenset({"ready", "failed"})


class Message(TypedDict):
    """One turn of a conversation; ``role`` is customer, user, agent, assistant, tool or system."""

    role: str
    content: str


class Scope(TypedDict, total=False):
    """Levels that are seen beside the tenant's own."""

    user_id: str | None
    chat_id: str | None
    agent_id: str | None


class SearchOptions(TypedDict, total=False):
    """What a search may say beside its question; ``filter`` is in Carrel's filter language."""

    queries: Sequence[str | Mapping[str, Any]]
    messages: Sequence[Message]
    top_k: int
    score_threshold: float | None
    strategy: str
    strategy_options: Mapping[str, Any]
    transformers: Sequence[str | Mapping[str, Any]]
    filter: Mapping[str, Any] | None
    scope: Scope
    exclude_dynamic: bool
    expand: Literal["none", "window", "section", "parent"]
    expand_options: Mapping[str, Any]
    rerank: bool
    return_vectors: bool
    explain: bool
    timeout_seconds: float
    routing: Mapping[str, int] | Literal[False]  # where knowledge bases are to be chosen


class ResultDocument(TypedDict):
    """The document of a result; one from an HTTP source has no id."""

    id: str | None
    source: str
    title: str | None
    source_uri: str | None
    source_created_at: str | None
    metadata: dict[str, Any]


class Result(TypedDict):
    """A passage; ``score`` orders, ``similarity`` is the cosine with the query. From an HTTP source it has no id."""

    score: float
    scores: dict[str, float | None]
    similarity: float | None
    text: str
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


class CarrelWarning(TypedDict):
    """Something that was left out or done otherwise: a stable code for programs and one sentence for people."""

    code: str
    message: str


class SearchReply(TypedDict):
    """Results best first, and how they came about; ``warnings`` say what was left out."""

    results: list[Result]
    queries: list[str]
    strategy: str
    degraded: list[dict[str, str]]
    warnings: list[CarrelWarning]
    timings_ms: dict[str, float]


class DocumentOptions(TypedDict, total=False):
    """What is said of a document when it is uploaded; times are RFC 3339."""

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
    """What is said of a text when it is uploaded."""

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
    """Which documents are listed."""

    status: Status
    external_id: str
    filter: Mapping[str, Any]
    user_id: str
    chat_id: str
    agent_id: str


class Progress(TypedDict):
    """How far a document is, or what it waits for."""

    done: NotRequired[int]
    total: NotRequired[int]
    unit: NotRequired[str]
    waiting_for: NotRequired[str]


class Document(TypedDict):
    """A document; ``status`` and ``error`` are the newest version's, ``live_version`` is what searches see."""

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
    """A passage of a document as it is stored."""

    id: str
    chunk_index: int
    text: str
    page: int | None
    metadata: dict[str, Any]


class Deletion(TypedDict):
    """What a deletion by filter began."""

    deletion: str
    deleted: int


class Receipt(TypedDict):
    """What a deletion removed, and what was left of it, by table."""

    id: str
    kind: str
    documents: int
    chunks: int
    bytes: int
    requested_at: str
    finished_at: str | None
    remaining: dict[str, int] | None


class ImportCounts(TypedDict):
    """What an import took in, what was there already, and what is there with another original."""

    documents: int
    chunks: int
    existing: int
    conflicts: int


class KnowledgeBase(TypedDict):
    """A knowledge base with its settings and the state of its index."""

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
    """The SQL view of a knowledge base; ``connection`` is the block for the platform that reads it."""

    id: str
    state: Literal["preparing", "ready"]
    blocked_reason: str | None
    connection: dict[str, Any]
    warnings: list[CarrelWarning]
    created_at: str


class NewSqlView(SqlView):
    """A SQL view that was just created; ``password`` is shown only in this reply."""

    password: str


class ApiKey(TypedDict):
    """A key without its secret."""

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
    """A key that was just made; ``key`` is shown this once."""

    key: str


class Tenant(TypedDict):
    """A tenant."""

    id: str
    name: str
    created_at: str


class NewTenant(Tenant):
    """A tenant that was just made, with its first key."""

    api_key: dict[str, Any]


class Me(TypedDict):
    """Who is calling."""

    tenant: dict[str, str]
    key: dict[str, Any]
    limits: dict[str, float]
    usage: dict[str, int]
