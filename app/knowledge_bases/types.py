"""Types of knowledge bases: settings, generations, views and errors."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from app.db.models.base import SYSTEM_TENANT
from app.errors import ConflictError, InvalidInputError, NotFoundError
from app.inference.embedding import Embedder, EmbeddingIdentity
from app.inference.embedding.local_models import find_local_model, is_local
from app.inference.embedding.model_registry import Embedders
from app.knowledge_bases.enrichment_settings import EnrichmentSettings
from app.knowledge_bases.graph_settings import GraphSettings, IndexGraph
from app.knowledge_bases.routing_settings import RoutingSettings
from app.knowledge_bases.stored_rows import LiveIndex, StoredKnowledgeBase
from app.lexical.analyzers import list_older_versions, parse_analyzer_version
from app.lexical.languages import AUTO, get_analyzer_id
from app.prompts.types import PromptSettings
from app.source_kinds.clients import AnySource, parse_stored_source

DEFAULT_NAME = "default"


class KnowledgeBaseNotFound(NotFoundError):
    """The knowledge base does not exist, or this API key may not read it. Check its name or id."""

    code = "knowledge_base_not_found"


class KnowledgeBaseExists(ConflictError):
    """A knowledge base with this name exists already. Choose another name."""

    code = "knowledge_base_exists"


class BackfillInProgress(ConflictError):
    """The last change of metadata_filter is still being applied to the documents. Try again when it has ended."""

    code = "metadata_filter_pending"


class IndexMismatch(ConflictError):
    """No configured embedding model fits the knowledge base. Reindex it or restore the model."""

    code = "index_mismatch"


class ReindexInProgress(ConflictError):
    """Another reindex is running or has failed. Wait for it, repeat it with the same settings, or cancel it."""

    code = "reindex_in_progress"


class ReindexNotFound(NotFoundError):
    """No reindex of the knowledge base is running or has failed. There is nothing to cancel."""

    code = "reindex_not_found"


class NothingToRollBack(ConflictError):
    """The knowledge base has no former search index. Reindex it with the former settings instead."""

    code = "nothing_to_roll_back"


class NoDocumentStore(ConflictError):
    """The knowledge base searches a source and stores no documents. Use a knowledge base of kind documents."""

    code = "no_document_store"


@dataclass(frozen=True, slots=True)
class Chunking:
    """Chunker of documents, with its ``options`` and sizes. Sizes count tokens of the embedding model."""

    strategy: str = "headered"
    max_tokens: int = 170
    overlap_tokens: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RequestedChunking:
    """Chunking of a request. If ``max_tokens`` is None, the default of the embedding model applies."""

    strategy: str = "headered"
    max_tokens: int | None = None
    overlap_tokens: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Retrieval(PromptSettings):
    """Defaults of searches in a knowledge base.

    Each of ``transformers`` is ``{"name", "options"}``. None leaves the choice to the search. With ``conversation``,
    the messages before the last question are used. ``combine`` says how several queries count; None leaves it to the
    strategy. ``rewrite_prompt`` is used by transformers that call a chat model,
    ``answer_prompt`` by answers.
    """

    strategy: str = "hybrid"
    top_k: int = 5
    strategy_options: Mapping[str, Any] = field(default_factory=dict)
    transformers: Sequence[Mapping[str, Any]] | None = None
    conversation: bool = True
    combine: Literal["best", "sum"] | None = None


@dataclass(frozen=True, slots=True)
class NewKnowledgeBase:
    """Fields of a new knowledge base. With a ``source``, its kind is that of the source."""

    name: str
    title: str | None = None
    description: str | None = None
    language: str = "english"
    model: str | None = None
    dimensions: int | None = None
    chunking: Chunking | RequestedChunking = RequestedChunking()
    retrieval: Retrieval = Retrieval()
    metadata_filter: dict[str, Any] | None = None
    routing: RoutingSettings = field(default_factory=RoutingSettings)
    source: AnySource | None = None
    graph: GraphSettings = field(default_factory=GraphSettings)
    enrichment: EnrichmentSettings = field(default_factory=EnrichmentSettings)


@dataclass(frozen=True, slots=True)
class ReindexOptions:
    """Settings of a reindex. None keeps the present value."""

    model: str | None = None
    dimensions: int | None = None
    chunking: Chunking | RequestedChunking | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """A search index that is being built with its own settings, while the live search index stays in use.

    ``job_id`` is the job that builds the generation. ``was_live`` is True during a rollback.
    """

    id: UUID
    kb_id: UUID
    identity: dict[str, Any]
    dim: int
    avgdl: float
    chunking: Chunking
    language: str
    error: dict[str, Any] | None
    job_id: UUID | None
    was_live: bool = False
    graph: dict[str, Any] | None = None

    @property
    def index_graph(self) -> IndexGraph | None:
        """Settings that build the graph of the generation; None if it gets no graph."""
        return IndexGraph.from_stored(self.graph)

    @property
    def analyzer_version(self) -> int:
        """Version of the analyzer of the generation."""
        return parse_analyzer_version(self.identity.get("analyzer"))

    @property
    def settings(self) -> dict[str, Any]:
        """Stored form of the settings."""
        return {"chunking": asdict(self.chunking), "language": self.language}


@dataclass(frozen=True, slots=True)
class ReindexProgress:
    """Progress of the next generation: ``done`` of ``total`` documents, or the ``error`` that has stopped it.

    ``last_error`` is the error of the last attempt, if the job waits for another attempt.
    """

    identity: dict[str, Any]
    dim: int
    chunking: dict[str, Any]
    language: str
    done: int
    total: int
    started_at: datetime
    error: dict[str, Any] | None
    last_error: dict[str, Any] | None

    @property
    def state(self) -> str:
        """State of the build: ``building`` or ``failed``."""
        return "building" if self.error is None else "failed"


@dataclass(frozen=True, slots=True)
class KnowledgeBaseView:
    """A knowledge base with its live search index.

    ``shared_counterpart`` is the system tenant's knowledge base with the same name, which all tenants may read. Only
    some queries load the counts, ``reindex_progress``, ``retired_at`` (the time at which a former search index was
    retired) and ``routing_texts``. ``row_version`` changes with every change of the rows.
    """

    row: StoredKnowledgeBase
    index: LiveIndex
    row_version: str
    document_count: int = 0
    chunk_count: int = 0
    shared_counterpart: "KnowledgeBaseView | None" = None
    reindex_progress: ReindexProgress | None = None
    retired_at: datetime | None = None
    routing_texts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def cache_token(self) -> str:
        """Row versions of the knowledge base and of its shared counterpart."""
        return (
            self.row_version
            if self.shared_counterpart is None
            else f"{self.row_version},{self.shared_counterpart.row_version}"
        )

    @property
    def source(self) -> AnySource | None:
        """External service that answers searches, or None if the knowledge base stores documents."""
        return None if self.row.source is None else parse_stored_source(self.row.source)

    @property
    def kind(self) -> str:
        """Kind of the knowledge base: ``documents``, or the kind of its source."""
        return "documents" if self.source is None else self.source.kind

    def require_kind_of(self, source: AnySource) -> None:
        """Raise InvalidInputError if a source has another kind than the knowledge base."""
        if self.source is None:
            message = "A knowledge base of kind documents has no source. Remove it."
            raise InvalidInputError(message, loc=("body", "source"))
        if source.kind != self.kind:
            message = f"The source has kind {source.kind}, not {self.kind}. Create another knowledge base."
            raise InvalidInputError(message, loc=("body", "source"))

    def require_documents(self) -> None:
        """Raise NoDocumentStore if the knowledge base searches an external service."""
        if self.row.source is not None:
            raise NoDocumentStore

    @property
    def languages(self) -> list[str]:
        """Languages in which queries are analyzed: all languages of the indexed documents."""
        return self.index.languages if self.row.language == AUTO else [self.row.language]

    @property
    def chunking(self) -> Chunking:
        """Typed form of the stored chunking settings."""
        return Chunking(**self.row.chunking)

    @property
    def retrieval(self) -> Retrieval:
        """Typed form of the stored retrieval settings."""
        return Retrieval.from_stored(self.row.retrieval)

    @property
    def graph(self) -> GraphSettings:
        """Typed form of the stored graph settings."""
        return GraphSettings(**self.row.graph)

    @property
    def enrichment(self) -> EnrichmentSettings:
        """Typed form of the stored settings of the enrichment."""
        return EnrichmentSettings.from_stored(self.row.enrichment)

    @property
    def index_graph(self) -> IndexGraph | None:
        """Settings that built the graph of the search index; None if it has no graph."""
        return IndexGraph.from_stored(self.index.graph)

    @property
    def weight(self) -> float:
        """Factor for the scores of hits, in a search over several knowledge bases."""
        return float(self.row.routing.get("scale", 1.0))

    @property
    def routing(self) -> RoutingSettings:
        """Typed form of the stored routing settings. The texts are present only if the query loaded the counts."""
        return RoutingSettings(**self.row.routing, **self.routing_texts)

    @property
    def is_shared(self) -> bool:
        """Whether the knowledge base belongs to the system tenant.

        Tenants search a shared knowledge base together with their own knowledge base of the same name.
        """
        return self.row.tenant_id == SYSTEM_TENANT

    @property
    def display_name(self) -> str:
        """Name for messages. It distinguishes a shared knowledge base from a tenant's with the same name."""
        return f"the shared {self.row.name!r}" if self.is_shared else repr(self.row.name)

    @property
    def _subject(self) -> str:
        return f"{'Shared knowledge' if self.is_shared else 'Knowledge'} base {self.row.name!r}"

    def find_mismatch(self, configured: Sequence[EmbeddingIdentity]) -> str | None:
        """Return a sentence about the difference between the search index and the configured models.

        Args:
            configured: Identities of the configured models.

        Returns:
            The sentence, or None if one of the models and the analyzer fit.
        """
        for name, index_value in asdict(EmbeddingIdentity.from_index_identity(self.index.identity)).items():
            matching = [identity for identity in configured if getattr(identity, name) == index_value]
            if not matching:
                configured_values = " or ".join(dict.fromkeys(repr(getattr(identity, name)) for identity in configured))
                cure = "Reindex it or restore the setting."
                if name == "model" and self._has_missing_weights(configured[0]):
                    cure = f"Run `carrel models pull {index_value}` and restart the service, or reindex it."
                return (
                    f"{self._subject} was embedded with {name} {index_value!r}, "
                    f"but {configured_values} is configured. {cure}"
                )
            configured = matching
        return self.analyzer_mismatch

    def _has_missing_weights(self, default: EmbeddingIdentity) -> bool:
        """Return whether the model that is not configured would be found if its weights were on the machine."""
        identity = EmbeddingIdentity.from_index_identity(self.index.identity)
        model = find_local_model(identity.model, identity.precision)
        return model is not None and is_local(default.model, default.precision)

    @property
    def analyzer_mismatch(self) -> str | None:
        """Sentence about an analyzer that cannot analyze queries for the search index, or None."""
        index_analyzer, analyzer = self.index.identity.get("analyzer"), get_analyzer_id(self.row.language)
        if index_analyzer != analyzer and not self.has_older_analyzer:
            return f"{self._subject} was analyzed by {index_analyzer!r}, not {analyzer!r}. Reindex it."
        return None

    @property
    def analyzer_version(self) -> int:
        """Version of the analyzer that built the search index. Documents and queries are analyzed by this version."""
        return parse_analyzer_version(self.index.identity.get("analyzer"))

    @property
    def has_older_analyzer(self) -> bool:
        """Whether an older version of the analyzer built the search index. Searches and uploads continue to use it."""
        older = [get_analyzer_id(self.row.language, version) for version in list_older_versions()]
        return self.index.identity.get("analyzer") in older

    def find_reindex_reason(
        self, configured: Sequence[EmbeddingIdentity], extractor_versions: Mapping[str, str]
    ) -> str | None:
        """Return a sentence about the reason to reindex, or None.

        Args:
            configured: Identities of the configured models.
            extractor_versions: Versions of the installed extractors of entities by name.
        """
        mismatch = self.find_mismatch(configured)
        if mismatch is not None:
            return mismatch
        if not self.has_older_analyzer:
            return self._find_graph_mismatch(extractor_versions)
        return (
            f"{self._subject} was analyzed by an older version ({self.index.identity['analyzer']!r}, not "
            f"{get_analyzer_id(self.row.language)!r}). It works as before. Reindex it to use the new version."
        )

    def _find_graph_mismatch(self, extractor_versions: Mapping[str, str]) -> str | None:
        """Return a sentence about graph settings that differ from those that built the search index, or None."""
        if self.index.graph == self.graph.to_index_graph(extractor_versions):
            return None
        if self.index.graph is None:
            return f"{self._subject} has no graph yet. It works as before. Reindex it to build the graph."
        if not self.graph.enabled:
            return f"{self._subject} still has a graph, which its settings switch off. Reindex it to remove the graph."
        return f"{self._subject} has a graph of other settings. It works as before. Reindex it to apply the settings."

    def require_match(self, configured: Sequence[EmbeddingIdentity]) -> None:
        """Raise IndexMismatch if no configured model fits the search index."""
        reason = self.find_mismatch(configured)
        if reason is not None:
            raise IndexMismatch(reason)

    def get_embedder(self, embedders: Embedders) -> Embedder:
        """Return the embedder of the search index. Raises IndexMismatch."""
        embedder = embedders.find_by_identity(self.index.identity)
        if embedder is None:
            raise IndexMismatch(self.find_mismatch(embedders.identities))
        return embedder
