"""Search: in one knowledge base, or over several."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field, StringConstraints, model_validator

from app.api.dependencies import CurrentReader, GuardedRoute
from app.api.v1.chunks import node_ids
from app.api.v1.media import MediaOut, media_out
from app.api.v1.schemas import STORABLE, Input, ScopeId, Text, Time
from app.documents.scopes import Scope
from app.errors import InvalidInput
from app.ids import encode_id
from app.retrieval.types import Hit, Message, SearchRequest, SearchResult

router = APIRouter(tags=["search"], route_class=GuardedRoute)
Query = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=32_000), STORABLE]


class MessageIn(Input):
    """One turn of a conversation."""

    role: Annotated[str, StringConstraints(pattern=r"^(customer|agent|tool|user|assistant|system)$"), STORABLE]
    content: Text


class ScopeIn(Input):
    """The levels that this search sees beside the tenant's own."""

    user_id: ScopeId | None = None
    chat_id: ScopeId | None = None
    agent_id: ScopeId | None = None


class SearchIn(Input):
    """One of ``query``, ``queries`` and ``messages`` is needed."""

    query: Query | None = None
    queries: Annotated[list[Query], Field(min_length=1, max_length=16)] | None = None
    messages: Annotated[list[MessageIn], Field(max_length=10_000)] | None = None
    top_k: int | None = Field(None, ge=1, le=500)
    score_threshold: float | None = Field(None, ge=-1, le=1, description="The least cosine similarity of a result")
    strategy: Text | None = None
    strategy_options: dict[str, Any] = Field(default_factory=dict)
    filter: dict[str, Any] | None = None
    scope: ScopeIn = ScopeIn()
    timeout_seconds: float = Field(5.0, gt=0, le=60)

    @model_validator(mode="after")
    def _asks_something(self) -> "SearchIn":
        if self.query is None and self.queries is None and self.messages is None:
            raise ValueError("one of query, queries and messages is needed")
        return self

    def request(self, knowledge_bases: list[str] | None) -> SearchRequest:
        """The room's form of it."""
        queries = [*([self.query] if self.query else []), *(self.queries or [])]
        messages = [Message(message.role, message.content) for message in self.messages or []]
        if self.scope.agent_id is not None and self.scope.chat_id is None:
            raise InvalidInput("An agent_id is named together with a chat_id.", loc=("body", "scope", "agent_id"))
        return SearchRequest(
            queries=queries,
            messages=messages,
            knowledge_bases=knowledge_bases,
            top_k=self.top_k,
            score_threshold=self.score_threshold,
            strategy=self.strategy,
            strategy_options=self.strategy_options,
            filter=self.filter,
            scope=Scope(self.scope.user_id, self.scope.chat_id, self.scope.agent_id),
            timeout_seconds=self.timeout_seconds,
        )


class MultiSearchIn(SearchIn):
    """The same over the named knowledge bases, or all that the key may read."""

    knowledge_bases: Annotated[list[Text], Field(min_length=1, max_length=100)] | None = None


class FoundDocument(BaseModel):
    """The document of a result."""

    id: str
    source: str
    title: str | None
    source_uri: str | None
    source_created_at: Time | None
    metadata: dict[str, Any]


class ResultOut(BaseModel):
    """A passage; ``score`` orders, ``similarity`` is the cosine with the query (null: the query was not embedded)."""

    score: float
    similarity: float | None
    text: str
    chunk_id: str
    chunk_index: int
    total_chunks: int
    document: FoundDocument
    knowledge_base: str
    page: int | None
    page_end: int | None
    slide: int | None
    section_titles: list[str]
    node_path: list[str]
    media: MediaOut | None
    metadata: dict[str, Any]
    citation: str


class SearchOut(BaseModel):
    """Results best first, and how they came about."""

    results: list[ResultOut]
    queries: list[str]
    strategy: str
    warnings: list[str]
    timings_ms: dict[str, float]


def _result(hit: Hit) -> ResultOut:
    chunk, document = hit.chunk, hit.document
    return ResultOut(
        score=round(hit.score, 6),
        similarity=None if hit.similarity is None else round(hit.similarity, 6),
        text=chunk.content,
        chunk_id=encode_id("chk", chunk.id),
        chunk_index=chunk.ordinal,
        total_chunks=document.chunk_count,
        document=FoundDocument(
            id=encode_id("doc", document.id),
            source=document.source,
            title=document.title,
            source_uri=document.source_uri,
            source_created_at=document.source_created_at,
            metadata=document.attributes,
        ),
        knowledge_base=hit.knowledge_base,
        page=chunk.page,
        page_end=chunk.page_end,
        slide=chunk.slide,
        section_titles=chunk.section_titles,
        node_path=node_ids(document.id, chunk.version, chunk.node_path),
        media=media_out(hit.knowledge_base, document.id, chunk.media_ordinal, chunk.media_type),
        metadata=chunk.attributes,
        citation=hit.citation,
    )


def _out(result: SearchResult) -> SearchOut:
    return SearchOut(
        results=[_result(hit) for hit in result.hits],
        queries=list(result.queries),
        strategy=result.strategy,
        warnings=list(result.warnings),
        timings_ms=dict(result.timings_ms),
    )


@router.post("/knowledge-bases/{kb}/search", response_model=SearchOut)
async def search_knowledge_base(kb: str, body: SearchIn, tenant: CurrentReader) -> SearchOut:
    """Search one knowledge base."""
    return _out(await tenant.retrieval.search(body.request([kb])))


@router.post("/search", response_model=SearchOut)
async def search(body: MultiSearchIn, tenant: CurrentReader) -> SearchOut:
    """Search several knowledge bases at once."""
    return _out(await tenant.retrieval.search(body.request(body.knowledge_bases)))
