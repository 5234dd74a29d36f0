"""Schemas of knowledge bases and their settings."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from app.api.http import example_values
from app.api.http.request_models import STORABLE, Text
from app.api.v1.knowledge_bases.enrichment_settings import EnrichmentSettingsOut, EnrichmentSettingsRequest
from app.api.v1.knowledge_bases.graph_settings import GraphSettingsOut, GraphSettingsRequest
from app.api.v1.knowledge_bases.reindex_status import (
    ChunkingOut,
    EmbeddingOut,
    ReindexOut,
)
from app.api.v1.knowledge_bases.retrieval_settings import (
    RetrievalSettingsOut,
    RetrievalSettingsRequest,
    RetrievalSettingsUpdate,
)
from app.api.v1.knowledge_bases.routing import RoutingSettingsOut, RoutingSettingsRequest
from app.api.v1.knowledge_bases.source_settings import (
    KIND_DESCRIPTION,
    KnowledgeBaseKind,
    SourceOut,
    SourceRequest,
    get_source_kind,
)
from app.api.v1.schemas import ListResponse, Metadata, Options, StrictRequestModel, Time
from app.ids import PREFIXES
from app.ingestion.chunking import parse_chunker_options
from app.knowledge_bases.types import RequestedChunking

_DEFAULT_CHUNKING = RequestedChunking()
REINDEX_ONLY_FIELDS = {"embedding", "chunking", "language"}
DOCUMENT_ONLY_FIELDS = {"embedding", "chunking", "graph", "metadata_filter", "enrichment"}
KnowledgeBaseName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]


NEW_KNOWLEDGE_BASE_EXAMPLE: dict[str, Any] = {
    "name": "support",
    "title": "Answers for customers",
    "chunking": {"strategy": "headered", "max_tokens": 200, "overlap_tokens": 50},
    "retrieval": {"strategy": "hybrid", "top_k": 5},
    "metadata_filter": {"audience": "customers"},
}


class EmbeddingModelRequest(StrictRequestModel):
    """Embedding model. ``GET /v1/capabilities`` lists the available models."""

    model: Text | None = Field(
        None, description="Name of the model. Default: the default model of the service.", examples=[None]
    )
    dimensions: int | None = Field(
        None,
        ge=1,
        le=4000,
        description="Number of dimensions of the vectors, 1 to 4,000. Default: those of the model.",
        examples=[None],
    )


class ChunkingRequest(StrictRequestModel):
    """Chunking: how documents are cut. Sizes are tokens of the embedding model."""

    strategy: Text = Field(
        _DEFAULT_CHUNKING.strategy,
        description="Name of the chunker; `GET /v1/capabilities` lists them.",
        examples=["headered"],
    )
    max_tokens: int | None = Field(
        _DEFAULT_CHUNKING.max_tokens,
        ge=16,
        le=8192,
        description="Maximum size of a chunk in tokens, 16 to 8,192. The limit of the embedding model applies too. "
        "Default: that of the embedding model, which `embedding_models` of `GET /v1/capabilities` has.",
        examples=[200],
    )
    overlap_tokens: int = Field(
        _DEFAULT_CHUNKING.overlap_tokens,
        ge=0,
        le=4096,
        description="Overlap of neighbour chunks in tokens, 0 to 4,096.",
        examples=[50],
    )
    options: Options = Field(
        default_factory=dict,
        description="Options of the chunker. `GET /v1/capabilities` describes them.",
        examples=[{}],
    )

    def to_chunking(self) -> RequestedChunking:
        """Convert the body to chunking settings with all options.

        Raises:
            InvalidInputError: The chunker or an option is unknown or invalid.
        """
        options = parse_chunker_options(self.strategy, self.options, loc=("body", "chunking", "options"))
        return RequestedChunking(self.strategy, self.max_tokens, self.overlap_tokens, options)


class KnowledgeBaseCreate(StrictRequestModel):
    """New knowledge base. All fields except ``name`` have defaults."""

    model_config = ConfigDict(json_schema_extra={"examples": [NEW_KNOWLEDGE_BASE_EXAMPLE]})

    name: KnowledgeBaseName = Field(
        description="Name, unique in the tenant: 1 to 63 lower-case letters, digits, `_` and `-`. It must not "
        "begin like an id.",
        examples=["support"],
    )
    kind: KnowledgeBaseKind = Field("documents", description=KIND_DESCRIPTION, examples=["documents"])
    source: SourceRequest | None = Field(None, description="Source of every kind but `documents`.")
    title: Annotated[str, StringConstraints(max_length=300), STORABLE] | None = Field(
        None, description="Title for people, at most 300 characters.", examples=["Frequently asked questions"]
    )
    description: Annotated[str, StringConstraints(max_length=4000), STORABLE] | None = Field(
        None,
        description="Description for people, at most 4,000 characters.",
        examples=["Answers to questions of customers."],
    )
    embedding: EmbeddingModelRequest = Field(
        EmbeddingModelRequest(), description="Embedding model; only for the kind `documents`.", examples=[{}]
    )
    chunking: ChunkingRequest = Field(
        ChunkingRequest(),
        description="Chunking; only for the kind `documents`.",
        examples=[{"strategy": "headered", "max_tokens": 200, "overlap_tokens": 50}],
    )
    retrieval: RetrievalSettingsRequest = Field(
        RetrievalSettingsRequest(),
        description="Default settings of searches.",
        examples=[{"strategy": "hybrid", "top_k": 5}],
    )
    routing: RoutingSettingsRequest = Field(
        RoutingSettingsRequest(),
        description="Routing settings: what the knowledge base is about.",
        examples=[{"descriptions": ["Questions of customers about bookings"]}],
    )
    graph: GraphSettingsRequest = Field(
        GraphSettingsRequest(),
        description="Settings of the entity graph; only for the kind `documents`.",
        examples=[{"enabled": True, "metadata_keys": ["author"]}],
    )
    metadata_filter: Metadata = Field(
        default_factory=dict,
        description="Enforced metadata: it is set on every document, over that of the uploader, and every search "
        "filters by it.",
        examples=[{"department": "hr"}],
    )
    enrichment: EnrichmentSettingsRequest = Field(
        EnrichmentSettingsRequest(),
        description="Enrichment of documents by a chat model; only for the kind `documents`. It is off by default.",
        examples=[{"enabled": False}],
    )
    language: Text = Field(
        "english",
        description="Language of the lexical analysis, such as `english` or `german`; `auto` detects it per "
        "document. `GET /v1/capabilities` lists them.",
        examples=["english"],
    )

    @field_validator("name")
    @classmethod
    def _reject_id_like_name(cls, name: str) -> str:
        if any(name.startswith(f"{prefix}_") for prefix in PREFIXES):
            raise ValueError("must not begin with the prefix of an id, such as kb_")
        return name

    @model_validator(mode="after")
    def _check_kind_fields(self) -> Self:
        if (self.kind == "documents") != (self.source is None):
            raise ValueError("a source is needed for every kind but documents, which has none")
        if self.source is None:
            return self
        if (kind := get_source_kind(self.source)) != self.kind:
            raise ValueError(f"the source has the fields of the kind {kind}, but the kind is {self.kind}")
        if rejected := sorted(DOCUMENT_ONLY_FIELDS & self.model_fields_set):
            raise ValueError(
                f"{', '.join(rejected)}: not for a knowledge base of kind {self.kind}, which holds no documents"
            )
        return self


class KnowledgeBaseUpdate(StrictRequestModel):
    """Changes of a knowledge base that need no reindex. ``POST /v1/knowledge-bases/{kb}/reindex`` makes all other
    changes.
    """

    title: Annotated[str, StringConstraints(max_length=300), STORABLE] | None = Field(
        None, description="Title for people, at most 300 characters; null removes it.", examples=["Staff handbook"]
    )
    description: Annotated[str, StringConstraints(max_length=4000), STORABLE] | None = Field(
        None,
        description="Description for people, at most 4,000 characters; null removes it.",
        examples=["Rules for leave, travel and expenses."],
    )
    retrieval: RetrievalSettingsUpdate | None = Field(
        None,
        description="Default settings of searches. Fields left out keep their values; null sets the default.",
        examples=[{"strategy": "hybrid", "top_k": 8}],
    )
    routing: RoutingSettingsRequest | None = Field(
        None,
        description="Routing settings, replaced as a whole.",
        examples=[{"descriptions": ["Rules for leave, travel and expenses of staff"]}],
    )
    graph: GraphSettingsRequest | None = Field(
        None,
        description="Settings of the entity graph, replaced as a whole. They apply to the next search index: "
        "`index.action` is then `reindex`.",
        examples=[{"enabled": True, "metadata_keys": ["author"]}],
    )
    metadata_filter: Metadata | None = Field(
        None,
        description="Enforced metadata, replaced as a whole. A job applies it to all documents.",
        examples=[{"department": "hr"}],
    )
    enrichment: EnrichmentSettingsRequest | None = Field(
        None,
        description="Enrichment of documents by a chat model, replaced as a whole.",
        examples=[{"enabled": False}],
    )
    source: SourceRequest | None = Field(
        None, description="Source, replaced as a whole; not for the kind `documents`. Its kind cannot change."
    )

    @model_validator(mode="before")
    @classmethod
    def _reject_reindex_fields(cls, data: Any) -> Any:
        if isinstance(data, dict) and (rejected := sorted(REINDEX_ONLY_FIELDS & data.keys())):
            raise ValueError(f"{', '.join(rejected)}: change this by POST /v1/knowledge-bases/{{kb}}/reindex")
        return data


class SearchIndexOut(BaseModel):
    """Live search index of a knowledge base."""

    state: Literal["exact", "building", "hnsw"] = Field(
        description="State of the vector index: `exact` (none, all vectors are compared), `building` or `hnsw`.",
        examples=["exact"],
    )
    reason: str | None = Field(
        description="Reason why a large knowledge base has no vector index; null otherwise.", examples=[None]
    )
    size_bytes: int = Field(description="Size of the vector index in bytes; 0 without one.", examples=[0])
    recall: float | None = Field(
        description="Measured recall of the vector index: the share of the 10 nearest chunks that it finds, for a "
        "sample of up to 20 chunks. If the index was dropped because its recall is too low, this recall. Null "
        "without a measurement.",
        examples=[None],
    )
    average_length: float = Field(
        description="Mean length of a chunk in terms, which BM25 uses. It follows the chunks when it changes by "
        "more than 5 %.",
        examples=[86.4],
    )
    analyzer: str = Field(
        description="Analyzer that built the words of the index: its language and version.", examples=["english-v2"]
    )
    action: Literal["reindex"] | None = Field(
        description="`reindex` if no configured embedding model fits the index, or if another version of the analyzer "
        "built it; null otherwise. `POST /v1/knowledge-bases/{kb}/reindex` brings it up to date.",
        examples=[None],
    )
    problem: str | None = Field(
        description="Reason of the `action`; null without one. With an older version of the analyzer, searches and "
        "uploads work as before.",
        examples=[None],
    )


class KnowledgeBaseOut(BaseModel):
    """Knowledge base with its settings and counts."""

    etag_fields: ClassVar = frozenset(KnowledgeBaseUpdate.model_fields) | {"pending_metadata_filter"}

    id: str = Field(description="Id of the knowledge base.", examples=[example_values.KNOWLEDGE_BASE_ID])
    name: str = Field(description="Name, unique in the tenant.", examples=[example_values.KNOWLEDGE_BASE_NAME])
    kind: KnowledgeBaseKind = Field(description=KIND_DESCRIPTION, examples=["documents"])
    source: SourceOut | None = Field(
        None, description="Source. Not present for the kind `documents`.", exclude_if=lambda source: source is None
    )
    title: str = Field(description="Title for people; default: the name.", examples=["Staff handbook"])
    description: str | None = Field(
        description="Description for people; null without one.", examples=["Rules for leave, travel and expenses."]
    )
    language: str = Field(description="Language of the lexical analysis.", examples=["english"])
    embedding: EmbeddingOut = Field(description="Embedding model of the live search index.")
    chunking: ChunkingOut = Field(description="Chunking of the live search index.")
    retrieval: RetrievalSettingsOut = Field(description="Default settings of searches.")
    routing: RoutingSettingsOut = Field(description="Routing settings.")
    graph: GraphSettingsOut = Field(description="Settings of the entity graph.")
    metadata_filter: dict[str, Any] = Field(
        description="Enforced metadata: every search filters by it.", examples=[{"department": "hr"}]
    )
    pending_metadata_filter: dict[str, Any] | None = Field(
        description="Enforced metadata that a job applies to the documents now; null without one.", examples=[None]
    )
    enrichment: EnrichmentSettingsOut = Field(description="Settings of the enrichment by a chat model.")
    index: SearchIndexOut = Field(description="Live search index.")
    reindex: ReindexOut | None = Field(
        description="Search index that is being built next to the live one; null without one.", examples=[None]
    )
    rollback_until: Time | None = Field(
        description="Time until which a rollback to the former search index is possible, in UTC; null without one.",
        examples=[None],
    )
    document_count: int = Field(description="Number of documents of all levels.", examples=[12])
    chunk_count: int = Field(description="Number of chunks.", examples=[480])
    created_at: Time = Field(description="Time of creation, in UTC.", examples=[example_values.CREATED_AT])
    updated_at: Time = Field(description="Time of the last change, in UTC.", examples=[example_values.UPDATED_AT])


class KnowledgeBaseList(ListResponse[KnowledgeBaseOut]):
    """Page of knowledge bases."""
