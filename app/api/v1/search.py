"""Search: in one knowledge base, or over several."""

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import ConfigDict, Field, model_validator

from app.api.bodies import Text
from app.api.dependencies import CurrentReader, GuardedRoute
from app.api.searching import admitted_search
from app.api.v1.messages import MessageIn
from app.api.v1.routing import ROUTE, RouteIn, wished_route
from app.api.v1.schemas import Input, Options, ScopeId
from app.api.v1.search_queries import QueryIn, Words, query_of
from app.api.v1.search_results import SearchOut, search_reply
from app.api.v1.transformers import TransformersIn, named
from app.documents.scopes import Scope
from app.errors import InvalidInput
from app.retrieval.types import Expansion, Message, Query, SearchRequest

router = APIRouter(tags=["search"], route_class=GuardedRoute)


class ScopeIn(Input, frozen=True):
    """The levels that this search sees beside the tenant's own."""

    user_id: ScopeId | None = None
    chat_id: ScopeId | None = None
    agent_id: ScopeId | None = None


class ExpandOptions(Input):
    """How far texts are widened: ``window`` so many passages on each side, and nothing above ``max_characters``.

    With ``merge`` a ``parent`` comes only where at least this share of its passages is among the results.
    All together they have at most 2,000,000 characters: with a ``top_k`` of 500 that is 4,000 each.
    """

    window: int = Field(1, ge=1, le=10)
    max_characters: int = Field(8000, ge=100, le=100_000)
    merge: float | None = Field(None, gt=0, le=1)


class SearchIn(Input):
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

    query: Words | None = None
    queries: Annotated[list[QueryIn], Field(min_length=1, max_length=16)] | None = None
    messages: Annotated[list[MessageIn], Field(max_length=10_000)] | None = None
    top_k: int | None = Field(None, ge=1, le=500)
    score_threshold: float | None = Field(None, ge=-1, le=1, description="The least cosine similarity of a result")
    strategy: Text | None = None
    strategy_options: Options = Field(default_factory=dict)
    transformers: TransformersIn | None = Field(
        None, description="What makes other queries; `[]` for none. By default the knowledge base's, else `reformulate`"
    )
    filter: dict[str, Any] | None = None
    scope: ScopeIn = ScopeIn()
    exclude_dynamic: bool = Field(False, description="Leave out documents that were uploaded as dynamic")
    expand: Literal["none", "window", "section", "parent"] = "none"
    expand_options: ExpandOptions = ExpandOptions()
    rerank: bool = Field(False, description="Have the configured reranker order the best; `score` is then its own")
    return_vectors: bool = Field(False, description="Add the stored vector to each result")
    explain: bool = Field(
        False, description="Tell what the lanes gave, how they were searched, and what was understood"
    )
    timeout_seconds: float = Field(5.0, gt=0, le=60)

    @model_validator(mode="after")
    def _asks_something(self) -> "SearchIn":
        if self.query is None and self.queries is None and self.messages is None:
            raise ValueError("one of query, queries and messages is needed")
        return self

    def request(self, knowledge_bases: list[str] | None) -> SearchRequest:
        """The room's form of it."""
        queries = [] if self.query is None else [Query(self.query)]
        queries += [query_of(one, loc=("body", "queries", number)) for number, one in enumerate(self.queries or [])]
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
            transformers=None if self.transformers is None else named(self.transformers),
            filter=self.filter,
            scope=Scope(self.scope.user_id, self.scope.chat_id, self.scope.agent_id),
            exclude_dynamic=self.exclude_dynamic,
            expansion=self._expansion(),
            rerank=self.rerank,
            return_vectors=self.return_vectors,
            explain=self.explain,
            timeout_seconds=self.timeout_seconds,
        )

    def _expansion(self) -> Expansion | None:
        options = self.expand_options
        if options.merge is not None and self.expand != "parent":
            raise InvalidInput("Only parents are merged.", loc=("body", "expand_options", "merge"))
        if self.expand == "none":
            return None
        return Expansion(self.expand, options.window, options.max_characters, options.merge)


class MultiSearchIn(SearchIn):
    """The same over the named knowledge bases, or those of all that the key may read that are most like the query."""

    knowledge_bases: Annotated[list[Text], Field(min_length=1, max_length=100)] | None = None
    routing: RouteIn | None = Field(None, description=ROUTE)

    def request(self, knowledge_bases: list[str] | None) -> SearchRequest:
        """The room's form of it."""
        asked = super().request(knowledge_bases)
        return replace(asked, routing=None if self.routing is None else wished_route(self.routing))


@router.post("/knowledge-bases/{kb}/search", response_model=SearchOut)
async def search_knowledge_base(
    kb: str, body: SearchIn, tenant: CurrentReader, response: Response
) -> SearchOut | Response:
    """Search one knowledge base."""
    return await search_reply(await admitted_search(tenant, body.request([kb]), response), response)


@router.post("/search", response_model=SearchOut)
async def search(body: MultiSearchIn, tenant: CurrentReader, response: Response) -> SearchOut | Response:
    """Search several knowledge bases at once.

    Where none is named and the key may read more than three, the search is routed: it goes to the three of each
    embedding model that are most like the query, by what their passages and their `routing` say they are about, and to
    those that nothing is known of yet. `routing` says to how many, or `false` for all.
    """
    return await search_reply(await admitted_search(tenant, body.request(body.knowledge_bases), response), response)
