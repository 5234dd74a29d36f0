"""Sources of knowledge bases without documents: one schema for each kind."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Discriminator, Field, StringConstraints, Tag

from app.api.http.request_models import STORABLE
from app.api.v1.knowledge_bases.http_source_settings import HttpSourceOut, HttpSourceRequest
from app.api.v1.schemas import StrictRequestModel
from app.db.foreign_collections import COLLECTION_PATTERN, SslMode
from app.settings.http_sources import is_plain_path
from app.settings.pgvector_sources import HOSTNAME_PATTERN
from app.source_kinds.agent_search import AgentSearchSource
from app.source_kinds.pgvector import PgvectorSource

KnowledgeBaseKind = Literal["documents", "http", "agent_search", "pgvector"]
KIND_DESCRIPTION = (
    "`documents` stores documents. The other kinds store nothing and search a source. `http` searches an HTTP "
    "endpoint, `agent_search` an endpoint of the external-search contract, `pgvector` a table of another database."
)
_Identifier = Annotated[str, StringConstraints(min_length=1, max_length=63), STORABLE]
_Reference = Annotated[str, StringConstraints(max_length=103), STORABLE]
_TAG_PREFIX = "source kind "


def _check_path(path: str) -> str:
    """Check the path of an endpoint. Raises ValueError."""
    if not path.startswith("/") or not is_plain_path(path):
        raise ValueError("must begin with / and have no dot segments, empty segments and path parameters")
    return path


def _check_metadata(value: dict[str, Any]) -> dict[str, Any]:
    """Check that the values of a filter can be stored. Raises ValueError."""
    if any("\0" in str(part) for item in value.items() for part in item):
        raise ValueError("must not contain NUL")
    return value


class AgentSearchSourceRequest(StrictRequestModel):
    """Endpoint of the external-search contract, with the fields of the block ``type: external`` of agent platforms.

    The operator's settings must allow a POST to the address.
    """

    type: Literal["external"] = Field("external", description="Type of the block.", examples=["external"])
    hostname: Annotated[str, StringConstraints(min_length=1, max_length=300), STORABLE] = Field(
        description="Host, with or without a scheme. Without one, https.", examples=["https://search.example.com"]
    )
    port: int | None = Field(None, ge=1, le=65535, description="Port. Default: that of the scheme.", examples=[443])
    path: Annotated[str, StringConstraints(max_length=1000), STORABLE, AfterValidator(_check_path)] = Field(
        description="Path, which begins with `/`.", examples=["/v1/agent-search"]
    )
    api_key: _Reference | None = Field(
        None,
        description="Reference to a secret in `CARREL_HTTP_SOURCES`, as `${NAME}`. It is sent as a Bearer token.",
        examples=["${PARTNER_KEY}"],
    )
    top_k: int = Field(5, ge=1, le=500, description="Maximum number of passages, 1 to 500.", examples=[5])
    max_messages: int = Field(
        20, ge=1, le=20, description="Number of newest messages that are sent, 1 to 20.", examples=[20]
    )
    timeout_seconds: float = Field(
        5.0, ge=0.1, le=30, description="Time limit of a request in seconds, 0.1 to 30.", examples=[5.0]
    )

    def to_source(self) -> AgentSearchSource:
        """Convert the body to an agent search source."""
        return AgentSearchSource(**self.model_dump())


class SourcePrompt(StrictRequestModel):
    """Reference to a prompt of the platform. It is stored and shown; searches do not use it."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=200), STORABLE] = Field(
        description="Id of the prompt.", examples=["handbook/answer"]
    )
    version: int = Field(1, ge=1, description="Version of the prompt.", examples=[3])


class PgvectorSourceRequest(StrictRequestModel):
    """Table or view of another database, with the fields of the block ``type: pgvector`` of agent platforms.

    It has the columns `id`, `vec` and `metadata`. The operator's settings must allow the database.
    """

    type: Literal["pgvector"] = Field("pgvector", description="Type of the block.", examples=["pgvector"])
    hostname: Annotated[str, StringConstraints(pattern=HOSTNAME_PATTERN)] = Field(
        description="Host of the database, without a scheme.", examples=["db.example.com"]
    )
    port: int = Field(5432, ge=1, le=65535, description="Port of the database.", examples=[5432])
    user: _Identifier = Field(description="Role of the database.", examples=["reader"])
    password: _Reference | None = Field(
        None,
        description="Reference to a secret in `CARREL_PGVECTOR_SOURCES`, as `${NAME}`.",
        examples=["${READER_PASSWORD}"],
    )
    dbname: _Identifier = Field(description="Name of the database.", examples=["vectors"])
    sslmode: SslMode = Field("prefer", description="TLS mode of libpq.", examples=["verify-full"])
    collection: Annotated[str, StringConstraints(pattern=COLLECTION_PATTERN)] = Field(
        description="Table or view, with or without its schema.", examples=["vecs.handbook"]
    )
    content_key: Annotated[str, StringConstraints(min_length=1, max_length=200), STORABLE] = Field(
        "content", description="Key of the text in the column `metadata`.", examples=["content"]
    )
    metadata_filter: Annotated[dict[str, Any], Field(max_length=50), AfterValidator(_check_metadata)] = Field(
        default_factory=dict,
        description="Metadata that a row must contain; empty for all rows.",
        examples=[{"audience": "customers"}],
    )
    embedding_model: Annotated[str, StringConstraints(min_length=1, max_length=300), STORABLE] = Field(
        description="Embedding model of the vectors, as `provider/model`. The service must have the model.",
        examples=["local/bge-small-en-v1.5"],
    )
    embedding_dimensions: int = Field(
        ge=1, le=16_000, description="Number of dimensions of the vectors. It is checked at once.", examples=[384]
    )
    top_k: int = Field(5, ge=1, le=500, description="Maximum number of rows, 1 to 500.", examples=[5])
    prompt: SourcePrompt | None = Field(None, description="Prompt of the platform; searches do not use it.")

    def to_source(self) -> PgvectorSource:
        """Convert the body to a pgvector source."""
        return PgvectorSource(**self.model_dump())


class AgentSearchSourceOut(AgentSearchSourceRequest):
    """Endpoint of the external-search contract."""


class PgvectorSourceOut(PgvectorSourceRequest):
    """Table or view of another database. The password is a reference."""


def _find_tag(value: Any) -> str:
    """Return the tag of a source by its type or by a field that only one kind has."""
    names = ("type", "collection", "hostname")
    fields = value if isinstance(value, dict) else {name: getattr(value, name, None) for name in names}
    kind, collection, hostname = (fields.get(name) for name in names)
    if kind == "pgvector" or (kind is None and collection is not None):
        return f"{_TAG_PREFIX}pgvector"
    if kind == "external" or (kind is None and hostname is not None):
        return f"{_TAG_PREFIX}agent_search"
    return f"{_TAG_PREFIX}http"


SourceRequest = Annotated[
    Annotated[HttpSourceRequest, Tag(f"{_TAG_PREFIX}http")]
    | Annotated[AgentSearchSourceRequest, Tag(f"{_TAG_PREFIX}agent_search")]
    | Annotated[PgvectorSourceRequest, Tag(f"{_TAG_PREFIX}pgvector")],
    Discriminator(_find_tag),
]
SourceOut = Annotated[
    Annotated[HttpSourceOut, Tag(f"{_TAG_PREFIX}http")]
    | Annotated[AgentSearchSourceOut, Tag(f"{_TAG_PREFIX}agent_search")]
    | Annotated[PgvectorSourceOut, Tag(f"{_TAG_PREFIX}pgvector")],
    Discriminator(_find_tag),
]


def get_source_kind(source: BaseModel) -> str:
    """Return the kind of the knowledge base that a source belongs to."""
    return _find_tag(source).removeprefix(_TAG_PREFIX)
