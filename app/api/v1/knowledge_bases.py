"""Knowledge bases."""

from dataclasses import asdict
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field, StringConstraints, field_validator, model_validator

from app.api.bodies import STORABLE, Text
from app.api.dependencies import CurrentAdmin, CurrentPage, CurrentReader, CurrentResources, GuardedRoute, next_cursor
from app.api.problems import PROBLEM
from app.api.v1.deletion_header import gone, told_by_header
from app.api.v1.http_source_settings import HttpSourceIn, HttpSourceOut
from app.api.v1.reindex_state import ChunkingOut, EmbeddingOut, ReindexOut, reindex_out, undo_until
from app.api.v1.retrieval_settings import RetrievalIn, RetrievalOut
from app.api.v1.routing import RoutingIn, RoutingOut
from app.api.v1.schemas import Input, Listing, Metadata, Options, Time
from app.bootstrap import Resources
from app.errors import Forbidden, InvalidInput
from app.ids import PREFIXES, encode_id
from app.indexing.types import HeldBack
from app.ingestion.chunking import chunker_options
from app.knowledge_bases.types import Chunking, KnowledgeBaseView, NewKnowledgeBase

router = APIRouter(prefix="/knowledge-bases", tags=["knowledge bases"], route_class=GuardedRoute)
_DEFAULTS = Chunking()
BY_REINDEX = {"embedding", "chunking", "language"}
OF_DOCUMENTS = {"embedding", "chunking", "metadata_filter"}
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]


class EmbeddingIn(Input):
    """The embedding model, one of those in GET /v1/capabilities; without it the default one."""

    model: Text | None = None
    dimensions: int | None = Field(None, ge=1, le=4000)


class ChunkingIn(Input):
    """How documents are cut; sizes in tokens of the embedding model, ``options`` those of the chunker."""

    strategy: Text = _DEFAULTS.strategy
    max_tokens: int = Field(_DEFAULTS.max_tokens, ge=16, le=8192)
    overlap_tokens: int = Field(_DEFAULTS.overlap_tokens, ge=0, le=4096)
    options: Options = Field(default_factory=dict)

    def settings(self) -> Chunking:
        """The same with every option said. Raises InvalidInput."""
        options = chunker_options(self.strategy, self.options, loc=("body", "chunking", "options"))
        return Chunking(self.strategy, self.max_tokens, self.overlap_tokens, options)


class KnowledgeBaseIn(Input):
    """A new knowledge base; all but the name have defaults.

    One of kind ``http`` holds no documents: its ``source``, another's search, is asked in their place.
    """

    name: Name
    kind: Literal["documents", "http"] = "documents"
    source: HttpSourceIn | None = None
    title: Annotated[str, StringConstraints(max_length=300), STORABLE] | None = None
    description: Annotated[str, StringConstraints(max_length=4000), STORABLE] | None = None
    embedding: EmbeddingIn = EmbeddingIn()
    chunking: ChunkingIn = ChunkingIn()
    retrieval: RetrievalIn = RetrievalIn()
    routing: RoutingIn = RoutingIn()
    metadata_filter: Metadata = Field(default_factory=dict)
    language: Text = "english"

    @field_validator("name")
    @classmethod
    def _no_id(cls, name: str) -> str:
        if any(name.startswith(f"{prefix}_") for prefix in PREFIXES):
            raise ValueError("must not begin like an id")
        return name

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        if (self.kind == "http") != (self.source is not None):
            raise ValueError("a source is given with kind http, and with no other")
        if self.kind == "http" and (named := sorted(OF_DOCUMENTS & self.model_fields_set)):
            raise ValueError(f"{', '.join(named)}: not for a knowledge base of kind http, which holds no documents")
        return self


class KnowledgeBaseChanges(Input):
    """What can be changed without indexing anew; for the rest there is POST /v1/knowledge-bases/{kb}/reindex."""

    title: Annotated[str, StringConstraints(max_length=300), STORABLE] | None = None
    description: Annotated[str, StringConstraints(max_length=4000), STORABLE] | None = None
    retrieval: RetrievalIn | None = None
    routing: RoutingIn | None = None
    metadata_filter: Metadata | None = None
    source: HttpSourceIn | None = None

    @model_validator(mode="before")
    @classmethod
    def _by_reindex(cls, data: Any) -> Any:
        if isinstance(data, dict) and (named := sorted(BY_REINDEX & data.keys())):
            raise ValueError(f"{', '.join(named)}: changed by POST /v1/knowledge-bases/{{kb}}/reindex")
        return data


class IndexOut(BaseModel):
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

    So is ``reindex``. Until ``undo_until`` one can go back to the index of before; null where there is none.
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
    retrieval: RetrievalOut
    routing: RoutingOut
    metadata_filter: dict[str, Any]
    pending_metadata_filter: dict[str, Any] | None
    index: IndexOut
    reindex: ReindexOut | None
    undo_until: Time | None
    document_count: int
    chunk_count: int
    created_at: Time
    updated_at: Time


def knowledge_base_out(view: KnowledgeBaseView, resources: Resources) -> dict[str, Any]:
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
        "pending_metadata_filter": row.pending_filter,
        "index": {
            "state": view.index.vector_index,
            "reason": None if view.index.held_back is None else HeldBack(view.index.held_back).sentence,
            "size_bytes": view.index.index_bytes,
            "average_length": view.index.avgdl,
            "problem": None if row.source else view.mismatch(resources.embedders.identities),
        },
        "reindex": None if view.reindexing is None else reindex_out(view.reindexing),
        "undo_until": undo_until(view, resources),
        "document_count": view.document_count,
        "chunk_count": view.chunk_count,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }


@router.post("", status_code=201, response_model=KnowledgeBaseOut)
async def create_knowledge_base(
    body: KnowledgeBaseIn, tenant: CurrentAdmin, resources: CurrentResources
) -> dict[str, Any]:
    """Make a knowledge base."""
    if tenant.principal.knowledge_base_ids is not None:
        raise Forbidden("A key that is narrowed to knowledge bases cannot make others.")
    new = NewKnowledgeBase(
        name=body.name,
        title=body.title,
        description=body.description,
        language=body.language,
        model=body.embedding.model,
        dimensions=body.embedding.dimensions,
        chunking=body.chunking.settings(),
        retrieval=body.retrieval.settings(),
        routing=body.routing.settings(),
        metadata_filter=body.metadata_filter,
        source=None if body.source is None else body.source.settings(),
    )
    return knowledge_base_out(await tenant.knowledge_bases.create(new), resources)


@router.get("", response_model=Listing[KnowledgeBaseOut])
async def list_knowledge_bases(page: CurrentPage, tenant: CurrentReader, resources: CurrentResources) -> dict[str, Any]:
    """Knowledge bases that the key may see, newest first."""
    found = await tenant.knowledge_bases.page(after=page.after(), limit=page.limit + 1)
    items = found[: page.limit]
    cursor = next_cursor(items[-1].row.created_at, items[-1].row.id) if found[page.limit :] else None
    return {"items": [knowledge_base_out(view, resources) for view in items], "next_cursor": cursor}


@router.get("/{kb}", response_model=KnowledgeBaseOut)
async def get_knowledge_base(kb: str, tenant: CurrentReader, resources: CurrentResources) -> dict[str, Any]:
    """One knowledge base, by id or name."""
    return knowledge_base_out(await tenant.knowledge_bases.describe(kb), resources)


@router.patch(
    "/{kb}",
    response_model=KnowledgeBaseOut,
    responses={409: {"description": "Another metadata_filter is on its way, or there are no documents", **PROBLEM}},
)
async def update_knowledge_base(
    kb: str, body: KnowledgeBaseChanges, tenant: CurrentAdmin, resources: CurrentResources
) -> dict[str, Any]:
    """Change title, description, how it is searched and routed, its source, or what its documents are stamped with.

    `retrieval`, `routing` and `source` are set as a whole: what is left out of one is as by default again.
    A new metadata_filter goes to all documents in the background; until it has, the old one holds beside it.
    """
    changes = body.model_dump(exclude_unset=True)
    for name in ("retrieval", "routing", "metadata_filter", "source"):
        if changes.get(name, ...) is None:
            raise InvalidInput(f"{name} cannot be null.", loc=("body", name))
    if body.retrieval is not None:  # as a whole: what is left out is as by default again
        changes["retrieval"] = asdict(body.retrieval.settings())
    if body.source is not None:
        changes["source"] = asdict(body.source.settings())
    if body.routing is not None:
        changes["routing"] = body.routing.settings()
    return knowledge_base_out(await tenant.knowledge_bases.update(kb, changes), resources)


@router.delete("/{kb}", status_code=204, responses=told_by_header(204, "Out of reach"))
async def delete_knowledge_base(kb: str, tenant: CurrentAdmin) -> Response:
    """Out of every search at once, and its name is free; what is in it is removed by a job."""
    return gone(204, await tenant.knowledge_bases.delete(kb))
