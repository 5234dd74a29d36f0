"""The nouns of a knowledge base: its settings and the identity of its search index."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from app.db.models.base import SYSTEM_TENANT
from app.errors import ConflictError, NotFoundError
from app.http_sources.types import HttpSource
from app.inference.embedding import Embedder, EmbeddingIdentity
from app.inference.embedding.model_registry import Embedders
from app.knowledge_bases.routing_settings import RoutingSettings
from app.knowledge_bases.stored_rows import LiveIndex, StoredKnowledgeBase
from app.lexical.languages import AUTO, get_analyzer_id
from app.prompts.types import PromptSettings

DEFAULT_NAME = "default"


class KnowledgeBaseNotFound(NotFoundError):
    """There is no such knowledge base."""

    code = "knowledge_base_not_found"


class KnowledgeBaseExists(ConflictError):
    """A knowledge base of that name is there already."""

    code = "knowledge_base_exists"


class BackfillInProgress(ConflictError):
    """The last change of metadata_filter is still on its way to the documents; try again when it is done."""

    code = "metadata_filter_pending"


class IndexMismatch(ConflictError):
    """The knowledge base was embedded by a model that is not configured now."""

    code = "index_mismatch"


class ReindexInProgress(ConflictError):
    """A next index is being built, or could not be: wait for it, ask for the same again, or cancel it first."""

    code = "reindex_in_progress"


class ReindexNotFound(NotFoundError):
    """The knowledge base is not being indexed anew."""

    code = "reindex_not_found"


class NothingToRollBack(ConflictError):
    """There is no former search index any more that the knowledge base could go back to."""

    code = "nothing_to_roll_back"


class NoDocumentStore(ConflictError):
    """The knowledge base is of kind http: it holds no documents and no index of its own."""

    code = "no_document_store"


@dataclass(frozen=True, slots=True)
class Chunking:
    """How documents are cut; sizes in the embedding model's own tokens, ``options`` the chunker's own."""

    strategy: str = "headered"
    max_tokens: int = 170
    overlap_tokens: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Retrieval(PromptSettings):
    """How a search that does not say otherwise is done.

    Each of ``transformers`` is ``{"name", "options"}``; None leaves it to the search. ``rewrite_prompt`` is for those
    that take one, ``answer_prompt`` for answers.
    """

    strategy: str = "hybrid"
    top_k: int = 5
    strategy_options: Mapping[str, Any] = field(default_factory=dict)
    transformers: Sequence[Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class NewKnowledgeBase:
    """What a caller may say about a knowledge base; with a ``source`` it is of kind http."""

    name: str
    title: str | None = None
    description: str | None = None
    language: str = "english"
    model: str | None = None
    dimensions: int | None = None
    chunking: Chunking = Chunking()
    retrieval: Retrieval = Retrieval()
    metadata_filter: dict[str, Any] | None = None
    routing: RoutingSettings = field(default_factory=RoutingSettings)
    source: HttpSource | None = None


@dataclass(frozen=True, slots=True)
class ReindexOptions:
    """What is to be another when a knowledge base is indexed anew; what is not named stays."""

    model: str | None = None
    dimensions: int | None = None
    chunking: Chunking | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """A search index that is built beside the live one, with its own settings; ``job_id`` is the job that builds it.

    One that ``was_live`` is being gone back to.
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

    @property
    def settings(self) -> dict[str, Any]:
        """As they are stored."""
        return {"chunking": asdict(self.chunking), "language": self.language}


@dataclass(frozen=True, slots=True)
class ReindexProgress:
    """How far the next generation is: ``done`` of ``total`` documents, or why it has stopped.

    ``last_error`` is why it waits, where its job ended early and is tried again.
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
        """In a word."""
        return "building" if self.error is None else "failed"


@dataclass(frozen=True, slots=True)
class KnowledgeBaseView:
    """A knowledge base with its live search index; ``shared_counterpart`` is the operator's of the same name, which all
    may read.

    What is counted is not there in every view: documents, chunks, the ``reindex_progress`` under way, ``retired_at``,
    since when a former index is kept, and the texts that it is routed by. ``row_version`` is another after every change
    of the rows that it was read from.
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
        """Its state, and that of its twin where there is one."""
        return (
            self.row_version
            if self.shared_counterpart is None
            else f"{self.row_version},{self.shared_counterpart.row_version}"
        )

    @property
    def source(self) -> HttpSource | None:
        """What answers in its place, where it holds no documents."""
        return None if self.row.source is None else HttpSource.from_stored(self.row.source)

    def require_documents(self) -> None:
        """Raises NoDocumentStore."""
        if self.row.source is not None:
            raise NoDocumentStore

    @property
    def languages(self) -> list[str]:
        """In which a query is analysed: in all that its words may have been indexed in."""
        return self.index.languages if self.row.language == AUTO else [self.row.language]

    @property
    def chunking(self) -> Chunking:
        """Typed form of the stored settings."""
        return Chunking(**self.row.chunking)

    @property
    def retrieval(self) -> Retrieval:
        """Typed form of the stored settings."""
        return Retrieval.from_stored(self.row.retrieval)

    @property
    def weight(self) -> float:
        """How much what is found in it counts beside what is found elsewhere."""
        return float(self.row.routing.get("scale", 1.0))

    @property
    def routing(self) -> RoutingSettings:
        """Typed form of the stored settings; the texts are there where they were counted."""
        return RoutingSettings(**self.row.routing, **self.routing_texts)

    @property
    def is_shared(self) -> bool:
        """Whether it is the operator's, which tenants search beside their own of its name."""
        return self.row.tenant_id == SYSTEM_TENANT

    @property
    def display_name(self) -> str:
        """Its name in what a caller is told, who may have one of the same name."""
        return f"the shared {self.row.name!r}" if self.is_shared else repr(self.row.name)

    @property
    def _subject(self) -> str:
        return f"{'Shared knowledge' if self.is_shared else 'Knowledge'} base {self.row.name!r}"

    def find_mismatch(self, configured: Sequence[EmbeddingIdentity]) -> str | None:
        """What differs between the index and what would be put in, as a sentence; None when a configured model fits."""
        for name, index_value in asdict(EmbeddingIdentity.from_index_identity(self.index.identity)).items():
            matching = [identity for identity in configured if getattr(identity, name) == index_value]
            if not matching:
                configured_values = " or ".join(dict.fromkeys(repr(getattr(identity, name)) for identity in configured))
                return (
                    f"{self._subject} was embedded with {name} {index_value!r}, "
                    f"but {configured_values} is configured; reindex it or restore the setting."
                )
            configured = matching
        return self.analyzer_mismatch

    @property
    def analyzer_mismatch(self) -> str | None:
        """That the words of the index were made by another analyzer than a query's are, as a sentence."""
        index_analyzer, analyzer = self.index.identity.get("analyzer"), get_analyzer_id(self.row.language)
        if index_analyzer != analyzer:
            return f"{self._subject} was analysed by {index_analyzer!r}, not {analyzer!r}; reindex it."
        return None

    def require_match(self, configured: Sequence[EmbeddingIdentity]) -> None:
        """Raises IndexMismatch when vectors of no configured model may meet those of the index."""
        reason = self.find_mismatch(configured)
        if reason is not None:
            raise IndexMismatch(reason)

    def get_embedder(self, embedders: Embedders) -> Embedder:
        """The one that makes vectors for the index. Raises IndexMismatch."""
        embedder = embedders.find_by_identity(self.index.identity)
        if embedder is None:
            raise IndexMismatch(self.find_mismatch(embedders.identities))
        return embedder
