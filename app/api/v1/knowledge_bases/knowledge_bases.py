"""Knowledge bases."""

from dataclasses import asdict
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field, StringConstraints, field_validator, model_validator

from app.api.dependencies import (
    AuthenticatedRoute,
    CurrentAdmin,
    CurrentPageParams,
    CurrentReader,
    CurrentResources,
    encode_cursor,
)
from app.api.http.problems import PROBLEM_RESPONSE
from app.api.http.request_models import STORABLE, Text
from app.api.v1.deletion_header import create_deletion_response, describe_deletion_header
from app.api.v1.knowledge_bases.http_source_settings import HttpSourceOut, HttpSourceRequest
from app.api.v1.knowledge_bases.reindex_status import (
    ChunkingOut,
    EmbeddingOut,
    ReindexOut,
    get_rollback_deadline,
    to_reindex_out,
)
from app.api.v1.knowledge_bases.retrieval_settings import RetrievalSettingsOut, RetrievalSettingsRequest
from app.api.v1.knowledge_bases.routing import RoutingSettingsOut, RoutingSettingsRequest
from app.api.v1.schemas import ListResponse, Metadata, Options, StrictRequestModel, Time
from app.bootstrap import Resources
from app.errors import ForbiddenError, InvalidInputError
from app.ids import PREFIXES, encode_id
from app.index_maintenance.types import VectorIndexSkipReason
from app.ingestion.chunking import parse_chunker_options
from app.knowledge_bases.types import Chunking, KnowledgeBaseView, NewKnowledgeBase

router = APIRouter(prefix="/knowledge-bases", tags=["knowledge bases"], route_class=AuthenticatedRoute)
_DEFAULT_CHUNKING = Chunking()
REINDEX_ONLY_FIELDS = {"embedding", "chunking", "language"}
DOCUMENT_ONLY_FIELDS = {"embedding", "chunking", "metadata_filter"}
KnowledgeBaseName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]


class EmbeddingModelRequest(StrictRequestModel):
    """The embedding model, one of those in GET /v1/capabilities; without it the default one."""

    model: Text | None = None
    dimensions: int | None = Field(None, ge=1, le=4000)


class ChunkingRequest(StrictRequestModel):
    """How documents are cut; sizes in tokens of the embedding model, ``options`` those of the chunker."""

    strategy: Text = _DEFAULT_CHUNKING.strategy
    max_tokens: int = Field(_DEFAULT_CHUNKING.max_tokens, ge=16, le=8192)
    overlap_tokens: int = Field(_DEFAULT_CHUNKING.overlap_tokens, ge=0, le=4096)
    options: Options = Field(default_factory=dict)

    def to_chunking(self) -> Chunking:
        """The same with every option said. Raises InvalidInputError."""
        options = parse_chunker_options(self.strategy, self.options, loc=("body", "chunking", "options"))
        return Chunking(self.strategy, self.max_tokens, self.overlap_tokens, options)


class KnowledgeBaseCreate(StrictRequestModel):
    """A new knowledge base; all but the name have defaults.

    One of kind ``http`` holds no documents: its ``source``, another's search, is asked in their place.
    """

    name: KnowledgeBaseName
    kind: Literal["documents", "http"] = "documents"
    source: HttpSourceRequest | None = None
    title: Annotated[str, StringConstraints(max_length=300), STORABLE] | None = None
    description: Annotated[str, StringConstraints(max_length=4000), STORABLE] | None = None
    embedding: EmbeddingModelRequest = EmbeddingModelRequest()
    chunking: ChunkingRequest = ChunkingRequest()
    retrieval: RetrievalSettingsRequest = RetrievalSettingsRequest()
    routing: RoutingSettingsRequest = RoutingSettingsRequest()
    metadata_filter: Metadata = Field(default_factory=dict)
    language: Text = "english"

    @field_validator("name")
    @classmethod
    def _reject_id_like_name(cls, name: str) -> str:
        if any(name.startswith(f"{prefix}_") for prefix in PREFIXES):
            raise ValueError("must not begin like an id")
        return name

    @model_validator(mode="after")
    def _check_kind_fields(self) -> Self:
        if (self.kind == "http") != (self.source is not None):
            raise ValueError("a source is given with kind http, and with no other")
        if self.kind == "http" and (rejected := sorted(DOCUMENT_ONLY_FIELDS & self.model_fields_set)):
            raise ValueError(f"{', '.join(rejected)}: not for a knowledge base of kind http, which holds no documents")
        return self


class KnowledgeBaseUpdate(StrictRequestModel):
    """What can be changed without indexing anew; for the rest there is POST /v1/knowledge-bases/{kb}/reindex."""

    title: Annotated[str, StringConstraints(max_length=300), STORABLE] | None = None
    description: Annotated[str, StringConstraints(max_length=4000), STORABLE] | None = None
    retrieval: RetrievalSettingsRequest | None = None
    routing: RoutingSettingsRequest | None = None
    metadata_filter: Metadata | None = None
    source: HttpSourceRequest | None = None

    @model_validator(mode="before")
    @classmethod
    def _reject_reindex_fields(cls, data: Any) -> Any:
        if isinstance(data, dict) and (rejected := sorted(REINDEX_ONLY_FIELDS & data.keys())):
            raise ValueError(f"{', '.join(rejected)}: changed by POST /v1/knowledge-bases/{{kb}}/reindex")
        return data


class SearchIndexOut(BaseModel):
    """The live index.

    ``problem`` says why no configured model fits it, null when it does. ``reason`` says why a large one has no
    vector index of its own; ``size_bytes`` is that one's size. ``average_length`` is what words are weighed with: the
    mean length of a chunk in terms, followed when it changes by more than 5 %.
    """

    state: Literal["exact", "building", "hnsw"]
    reason: str | None
    size_bytes: int
    average_length: float
    problem: str | None


class KnowledgeBaseOut(BaseModel):
    """A knowledge base; ``pending_metadata_filter`` is on its way to the documents, null when there is none.

    So is ``reindex``. Until ``rollback_until`` one can go back to the index of before; null where there is none.
    One of kind ``http`` has a ``source``, and an index that stays empty.
    """

    id: str
    name: str
    kind: Literal["documents", "http"]
    source: HttpSourceOut | None = Field(None, exclude_if=lambda source: source is None)
    title: str | None
    description: str | None
    language: str
    embedding: EmbeddingOut
    chunking: ChunkingOut
    retrieval: RetrievalSettingsOut
    routing: RoutingSettingsOut
    metadata_filter: dict[str, Any]
    pending_metadata_filter: dict[str, Any] | None
    index: SearchIndexOut
    reindex: ReindexOut | None
    rollback_until: Time | None
    document_count: int
    chunk_count: int
    created_at: Time
    updated_at: Time


class KnowledgeBaseList(ListResponse[KnowledgeBaseOut]):
    """A page of knowledge bases."""


def to_knowledge_base_out(view: KnowledgeBaseView, resources: Resources) -> dict[str, Any]:
    """The body that every route answers with."""
    row, identity = view.row, view.index.identity
    return {
        "id": encode_id("kb", row.id),
        "name": row.name,
        "kind": "documents" if row.source is None else "http",
        "source": row.source,
        "title": row.title,
        "description": row.description,
        "language": row.language,
        "embedding": {"model": identity["model"], "dimensions": view.index.dim},
        "chunking": row.chunking,
        "retrieval": row.retrieval,
        "routing": asdict(view.routing),
        "metadata_filter": row.metadata_filter,
        "pending_metadata_filter": row.pending_metadata_filter,
        "index": {
            "state": view.index.vector_index,
            "reason": None
            if view.index.skip_reason is None
            else VectorIndexSkipReason(view.index.skip_reason).sentence,
            "size_bytes": view.index.index_bytes,
            "average_length": view.index.avgdl,
            "problem": None if row.source else view.find_mismatch(resources.embedders.identities),
        },
        "reindex": None if view.reindex_progress is None else to_reindex_out(view.reindex_progress),
        "rollback_until": get_rollback_deadline(view, resources),
        "document_count": view.document_count,
        "chunk_count": view.chunk_count,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }


@router.post("", status_code=201, response_model=KnowledgeBaseOut)
async def create_knowledge_base(
    body: KnowledgeBaseCreate, tenant: CurrentAdmin, resources: CurrentResources
) -> dict[str, Any]:
    """Make a knowledge base."""
    if tenant.principal.knowledge_base_ids is not None:
        raise ForbiddenError("A key that is narrowed to knowledge bases cannot make others.")
    new = NewKnowledgeBase(
        name=body.name,
        title=body.title,
        description=body.description,
        language=body.language,
        model=body.embedding.model,
        dimensions=body.embedding.dimensions,
        chunking=body.chunking.to_chunking(),
        retrieval=body.retrieval.to_retrieval(),
        routing=body.routing.to_routing_settings(),
        metadata_filter=body.metadata_filter,
        source=None if body.source is None else body.source.to_http_source(),
    )
    return to_knowledge_base_out(await tenant.knowledge_bases.create(new), resources)


@router.get("", response_model=KnowledgeBaseList)
async def list_knowledge_bases(
    page: CurrentPageParams, tenant: CurrentReader, resources: CurrentResources
) -> dict[str, Any]:
    """Knowledge bases that the key may see, newest first."""
    views = await tenant.knowledge_bases.list_knowledge_bases(after=page.parse_cursor(), limit=page.limit + 1)
    items = views[: page.limit]
    cursor = encode_cursor(items[-1].row.created_at, items[-1].row.id) if views[page.limit :] else None
    return {"items": [to_knowledge_base_out(view, resources) for view in items], "next_cursor": cursor}


@router.get("/{kb}", response_model=KnowledgeBaseOut)
async def get_knowledge_base(kb: str, tenant: CurrentReader, resources: CurrentResources) -> dict[str, Any]:
    """One knowledge base, by id or name."""
    return to_knowledge_base_out(await tenant.knowledge_bases.find_with_counts(kb), resources)


@router.patch(
    "/{kb}",
    response_model=KnowledgeBaseOut,
    responses={
        409: {"description": "Another metadata_filter is on its way, or there are no documents", **PROBLEM_RESPONSE}
    },
)
async def update_knowledge_base(
    kb: str, body: KnowledgeBaseUpdate, tenant: CurrentAdmin, resources: CurrentResources
) -> dict[str, Any]:
    """Change title, description, how it is searched and routed, its source, or what its documents are stamped with.

    `retrieval`, `routing` and `source` are set as a whole: what is left out of one is as by default again.
    A new metadata_filter goes to all documents in the background; until it has, the old one holds beside it.
    """
    changes = body.model_dump(exclude_unset=True)
    for name in ("retrieval", "routing", "metadata_filter", "source"):
        if changes.get(name, ...) is None:
            raise InvalidInputError(f"{name} cannot be null.", loc=("body", name))
    if body.retrieval is not None:  # as a whole: what is left out is as by default again
        changes["retrieval"] = asdict(body.retrieval.to_retrieval())
    if body.source is not None:
        changes["source"] = asdict(body.source.to_http_source())
    if body.routing is not None:
        changes["routing"] = body.routing.to_routing_settings()
    return to_knowledge_base_out(await tenant.knowledge_bases.update(kb, changes), resources)


@router.delete("/{kb}", status_code=204, responses=describe_deletion_header(204, "Out of reach"))
async def delete_knowledge_base(kb: str, tenant: CurrentAdmin) -> Response:
    """Out of every search at once, and its name is free; what is in it is removed by a job."""
    return create_deletion_response(204, await tenant.knowledge_bases.delete(kb))
