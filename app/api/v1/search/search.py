"""Search: in one knowledge base, or over several."""

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import ConfigDict, Field, model_validator

from app.api.dependencies import AuthenticatedRoute, CurrentReader
from app.api.http.request_models import Text
from app.api.http.search_quota import search_with_quota
from app.api.v1.knowledge_bases.routing import ROUTING_DESCRIPTION, RoutingRequest, to_routing
from app.api.v1.knowledge_bases.transformers import TransformerConfigs, to_named_transformers
from app.api.v1.schemas import Options, ScopeId, StrictRequestModel
from app.api.v1.search.messages import MessageRequest
from app.api.v1.search.search_queries import QueryRequest, QueryText, parse_query
from app.api.v1.search.search_results import SearchOut, create_search_response
from app.documents.scopes import DocumentScope
from app.errors import InvalidInputError
from app.retrieval.types import Expansion, Message, Query, SearchRequest

router = APIRouter(tags=["search"], route_class=AuthenticatedRoute)


class SearchScopeRequest(StrictRequestModel, frozen=True):
    """The levels that this search sees beside the tenant's own."""

    user_id: ScopeId | None = None
    chat_id: ScopeId | None = None
    agent_id: ScopeId | None = None


class ExpandOptions(StrictRequestModel):
    """How far texts are widened: ``window`` so many passages on each side, and nothing above ``max_characters``.

    With ``merge`` a ``parent`` comes only where at least this share of its passages is among the results.
    All together they have at most 2,000,000 characters: with a ``top_k`` of 500 that is 4,000 each.
    """

    window: int = Field(1, ge=1, le=10)
    max_characters: int = Field(8000, ge=100, le=100_000)
    merge: float | None = Field(None, gt=0, le=1)


class KnowledgeBaseSearchRequest(StrictRequestModel):
    """One of ``query``, ``queries`` and ``messages`` is needed.

    ``queries`` are searched together: words, ``{"vector": [...], "text"?}`` or ``{"image": "<base64>"}``. ``expand``
    widens the text of a result to the passages around it, to its section, or to its parent, the smallest part of the
    document that is more than the passage; results that come to the same section or parent are one.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "How many days of parental leave are there?", "top_k": 5},
                {"query": "parental leave", "filter": {"year": {"gte": 2024}}, "expand": "section", "explain": True},
                {"queries": ["parental leave", "time off after a birth"], "return_vectors": True},
            ]
        }
    )

    query: QueryText | None = None
    queries: Annotated[list[QueryRequest], Field(min_length=1, max_length=16)] | None = None
    messages: Annotated[list[MessageRequest], Field(max_length=10_000)] | None = None
    top_k: int | None = Field(None, ge=1, le=500)
    score_threshold: float | None = Field(None, ge=-1, le=1, description="The least cosine similarity of a result")
    strategy: Text | None = None
    strategy_options: Options = Field(default_factory=dict)
    transformers: TransformerConfigs | None = Field(
        None, description="What makes other queries; `[]` for none. By default the knowledge base's, else `reformulate`"
    )
    filter: dict[str, Any] | None = None
    scope: SearchScopeRequest = SearchScopeRequest()
    exclude_dynamic: bool = Field(False, description="Leave out documents that were uploaded as dynamic")
    expand: Literal["none", "window", "section", "parent"] = "none"
    expand_options: ExpandOptions = ExpandOptions()
    rerank: bool = Field(False, description="Have the configured reranker order the best; `score` is then its own")
    return_vectors: bool = Field(False, description="Add the stored vector to each result")
    explain: bool = Field(
        False,
        description="Include the ranks of each retriever, its plan, and the understood filter and conversation",
    )
    timeout_seconds: float = Field(5.0, gt=0, le=60)

    @model_validator(mode="after")
    def _check_has_query(self) -> "KnowledgeBaseSearchRequest":
        if self.query is None and self.queries is None and self.messages is None:
            raise ValueError("one of query, queries and messages is needed")
        return self

    def to_search_request(self, knowledge_bases: list[str] | None) -> SearchRequest:
        """The room's form of it."""
        queries = [] if self.query is None else [Query(self.query)]
        queries += [
            parse_query(value, loc=("body", "queries", number)) for number, value in enumerate(self.queries or [])
        ]
        messages = [Message(message.role, message.content) for message in self.messages or []]
        if self.scope.agent_id is not None and self.scope.chat_id is None:
            raise InvalidInputError("An agent_id is named together with a chat_id.", loc=("body", "scope", "agent_id"))
        return SearchRequest(
            queries=queries,
            messages=messages,
            knowledge_bases=knowledge_bases,
            top_k=self.top_k,
            score_threshold=self.score_threshold,
            strategy=self.strategy,
            strategy_options=self.strategy_options,
            transformers=None if self.transformers is None else to_named_transformers(self.transformers),
            filter=self.filter,
            scope=DocumentScope(self.scope.user_id, self.scope.chat_id, self.scope.agent_id),
            exclude_dynamic=self.exclude_dynamic,
            expansion=self._to_expansion(),
            rerank=self.rerank,
            return_vectors=self.return_vectors,
            explain=self.explain,
            timeout_seconds=self.timeout_seconds,
        )

    def _to_expansion(self) -> Expansion | None:
        options = self.expand_options
        if options.merge is not None and self.expand != "parent":
            raise InvalidInputError("Only parents are merged.", loc=("body", "expand_options", "merge"))
        if self.expand == "none":
            return None
        return Expansion(self.expand, options.window, options.max_characters, options.merge)


class MultiSearchRequest(KnowledgeBaseSearchRequest):
    """The same over the named knowledge bases, or those of all that the key may read that are most like the query."""

    knowledge_bases: Annotated[list[Text], Field(min_length=1, max_length=100)] | None = None
    routing: RoutingRequest | None = Field(None, description=ROUTING_DESCRIPTION)

    def to_search_request(self, knowledge_bases: list[str] | None) -> SearchRequest:
        """The room's form of it."""
        request = super().to_search_request(knowledge_bases)
        return replace(request, routing=None if self.routing is None else to_routing(self.routing))


@router.post("/knowledge-bases/{kb}/search", response_model=SearchOut)
async def search_knowledge_base(
    kb: str, body: KnowledgeBaseSearchRequest, tenant: CurrentReader, response: Response
) -> SearchOut | Response:
    """Search one knowledge base."""
    return await create_search_response(
        await search_with_quota(tenant, body.to_search_request([kb]), response), response
    )


@router.post("/search", response_model=SearchOut)
async def search_knowledge_bases(
    body: MultiSearchRequest, tenant: CurrentReader, response: Response
) -> SearchOut | Response:
    """Search several knowledge bases at once.

    Where none is named and the key may read more than three, the search is routed: it goes to the three of each
    embedding model that are most like the query, by what their passages and their `routing` say they are about, and to
    those that nothing is known of yet. `routing` says to how many, or `false` for all.
    """
    return await create_search_response(
        await search_with_quota(tenant, body.to_search_request(body.knowledge_bases), response), response
    )
