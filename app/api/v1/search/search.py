"""Search in one knowledge base, or in several."""

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import ConfigDict, Field, model_validator

from app.api.dependencies import AuthenticatedRoute, CurrentReader
from app.api.http import example_values
from app.api.http.path_parameters import KnowledgeBasePath
from app.api.http.request_models import Text
from app.api.http.search_quota import search_with_quota
from app.api.v1.knowledge_bases.routing import ROUTING_DESCRIPTION, RoutingRequest, to_routing
from app.api.v1.knowledge_bases.transformers import TransformerConfigs, to_named_transformers
from app.api.v1.option_aliases import AliasedRequestModel
from app.api.v1.schemas import Options, ScopeId, StrictRequestModel
from app.api.v1.search.messages import MessageRequest
from app.api.v1.search.score_threshold import AUTO_DESCRIPTION, ScoreThreshold
from app.api.v1.search.search_queries import QueryRequest, QueryText, parse_query
from app.api.v1.search.search_result_schemas import SearchOut
from app.api.v1.search.search_results import create_search_response
from app.documents.scopes import DocumentScope
from app.errors import InvalidInputError
from app.graph.includes import parse_include_names
from app.retrieval.conversation import REFORMULATE
from app.retrieval.types import Expansion, Message, Query, SearchRequest

router = APIRouter(tags=["search"], route_class=AuthenticatedRoute)


class SearchScopeRequest(StrictRequestModel, frozen=True):
    """Scope of a search: the user, chat and agent whose documents are searched in addition to documents of the shared
    level and of the tenant.
    """

    user_id: ScopeId | None = Field(
        None,
        description="Include documents of this user, 1 to 256 characters. With a key that is restricted to a user, "
        "the ids have no effect if they name another user.",
        examples=[example_values.USER_ID],
    )
    chat_id: ScopeId | None = Field(
        None,
        description="Include documents of this chat, 1 to 256 characters. With `user_id`, the chat is that user's; "
        "without it, the chat belongs to no user.",
        examples=[example_values.CHAT_ID],
    )
    agent_id: ScopeId | None = Field(
        None,
        description="Include documents of this agent in the chat, 1 to 256 characters. Needs `chat_id`.",
        examples=[example_values.AGENT_ID],
    )


class ExpandOptions(StrictRequestModel):
    """Expansion of hits: the text around a hit that the result contains.

    The texts of all results together have at most 2,000,000 characters. With a ``top_k`` of 500, each text has at most
    4,000.
    """

    window: int = Field(
        1, ge=1, le=10, description="Number of neighbour chunks on each side, 1 to 10. Only for `window`.", examples=[1]
    )
    max_characters: int = Field(
        8000,
        ge=100,
        le=100_000,
        description="Maximum length of an expanded text in characters, 100 to 100,000. A longer text is cut "
        "around the chunk.",
        examples=[8000],
    )
    merge: float | None = Field(
        None,
        gt=0,
        le=1,
        description="Auto-merging: replace chunks by their parent only if at least this share of its chunks is "
        "among the results. Above 0, at most 1. Only for `parent`; null expands every result.",
        examples=[0.5],
    )


class KnowledgeBaseSearchRequest(AliasedRequestModel):
    """Search in one knowledge base. One of ``query``, ``queries`` and ``messages`` is required."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "How many days of parental leave are there?", "top_k": 5},
                {"query": "parental leave", "filter": {"year": {"gte": 2024}}, "expand": "section", "explain": True},
                {"queries": ["parental leave", "time off after a birth"], "return_vectors": True},
                {
                    "messages": [
                        {"role": "user", "content": "How many days of parental leave are there?"},
                        {"role": "assistant", "content": "Parents get 60 days of leave."},
                        {"role": "user", "content": "And for twins?"},
                    ],
                    "repeat": "exclude",
                },
            ]
        }
    )

    query: QueryText | None = Field(
        None,
        description="Text to search for, 1 to 32,000 characters.",
        examples=["How many days of parental leave are there?"],
    )
    queries: Annotated[list[QueryRequest], Field(min_length=1, max_length=16)] | None = Field(
        None,
        description='Queries that are searched together, 1 to 16: texts, `{"text": "..."}`, '
        '`{"vector": [...], "text"?}` or `{"image": "<base64>"}`. A result counts with its best query.',
        examples=[["parental leave", "time off after a birth"]],
    )
    messages: Annotated[list[MessageRequest], Field(max_length=10_000)] | None = Field(
        None,
        description="Conversation, newest message last, at most 10,000 messages. Its last question is searched "
        "for; the transformer `reformulate` makes it complete.",
        examples=[[{"role": "user", "content": "And for twins?"}]],
    )
    top_k: int | None = Field(
        None,
        ge=1,
        le=500,
        description="Maximum number of results, 1 to 500. Default: `retrieval.top_k` of the knowledge base, else 5.",
        examples=[5],
    )
    score_threshold: ScoreThreshold | None = Field(
        None,
        description="Minimum cosine similarity of a result, -1 to 1, or `auto`. Not applied to results without "
        f"`similarity`; a warning says so. {AUTO_DESCRIPTION}",
        examples=[0.3, "auto"],
    )
    strategy: Text | None = Field(
        None,
        description="Strategy: `hybrid`, `dense` (aliases `simple`, `similarity`), `lexical`, `multi_query`, `hyde`, "
        "or one of a plugin. Default: that of the knowledge base, else `hybrid`.",
        examples=["hybrid"],
    )
    strategy_options: Options = Field(
        default_factory=dict,
        description="Options of the strategy. `GET /v1/capabilities` describes them. Each one left out has the "
        "value of the knowledge base, else its default.",
        examples=[{"dense_weight": 0.6}],
    )
    transformers: TransformerConfigs | None = Field(
        None,
        description="Transformers that change the queries, in this order, at most 8: names, or objects with "
        "options. `[]` runs none. Default: those of the knowledge base, after `reformulate`.",
        examples=[["reformulate"]],
    )
    conversation: bool | None = Field(
        None,
        description="Whether the messages before the last question are used. `true` runs `reformulate` before all "
        "`transformers`. `false` searches the last question as it is. Default: the setting of the agent or the "
        "knowledge base, else `true`. `transformers` of the request replace the default `reformulate`.",
        examples=[True],
    )
    filter: dict[str, Any] | None = Field(
        None,
        description='Metadata filter. All keys must match: a value, a list of values, `{"gte", "gt", "lte", '
        '"lt"}`, `{"contains"}`, `{"not"}`, `{"exists"}`; `and`, `or` and `not` combine filters.',
        examples=[{"year": {"gte": 2024}}],
    )
    scope: SearchScopeRequest = Field(
        SearchScopeRequest(),
        description="Levels to read in addition to the shared level and that of the tenant.",
        examples=[{"user_id": example_values.USER_ID}],
    )
    exclude_dynamic: bool = Field(
        False, description="Leave out documents that were uploaded with `dynamic`.", examples=[False]
    )
    expand: Literal["none", "window", "section", "parent"] = Field(
        "none",
        description="Expansion of the text of results: `window` adds neighbour chunks, `section` returns the "
        "section, `parent` the next larger node. Results with the same section or parent become one.",
        examples=["section"],
    )
    expand_options: ExpandOptions = Field(
        ExpandOptions(), description="Options of `expand`.", examples=[{"max_characters": 4000}]
    )
    rerank: bool = Field(
        False,
        description="Reorder the best candidates with the configured reranker. `score` is then that of the reranker.",
        examples=[False],
    )
    repeat: Literal["demote", "allow", "exclude"] = Field(
        "demote",
        description="Treatment of results whose text is already in a message of an agent, an assistant, a tool or "
        "the system in `messages`. `demote` puts them behind all other results, with lower scores. `exclude` leaves "
        "them out, and other results take their places. `allow` changes nothing. White space, punctuation, Markdown "
        "and citation marks do not count.",
        examples=["demote"],
    )
    combine: Literal["best", "sum"] | None = Field(
        None,
        description="How a result counts that several queries found. `best`: with its best score for one query. "
        "`sum`: with the sum of its scores, divided by the number of queries. Null for the setting "
        "of the agent or the knowledge base, else the default of the strategy: `best` for `dense`, `sum` for the "
        "others. It also applies to queries that transformers add.",
        examples=["sum"],
    )
    collapse: bool = Field(
        False,
        description="Merge results with identical texts of one knowledge base, so that `top_k` counts distinct texts. "
        "The best one stays, with the others in `duplicates`. White space does not count.",
        examples=[True],
    )
    include: Annotated[list[Text], Field(max_length=10)] = Field(
        default_factory=list,
        description="Additions to each result: `entities` that the chunk names, `parent_summaries` of the sections "
        "above it, `keywords` of its section. A slow one is left out with a warning.",
        examples=[["entities", "parent_summaries", "keywords"]],
    )
    return_vectors: bool = Field(False, description="Add the stored vector to each result.", examples=[False])
    explain: bool = Field(
        False,
        description="Add an explanation: ranks and plans of the retrievers, the filter and the conversation as "
        "understood.",
        examples=[False],
    )
    timeout_seconds: float = Field(
        5.0,
        gt=0,
        le=60,
        description="Time budget of the search in seconds, above 0, at most 60. Slow steps are left out to keep it.",
        examples=[5.0],
    )

    @model_validator(mode="after")
    def _check_has_query(self) -> "KnowledgeBaseSearchRequest":
        if self.query is None and self.queries is None and self.messages is None:
            raise ValueError("one of query, queries and messages is needed")
        return self

    def to_search_request(self, knowledge_bases: list[str] | None) -> SearchRequest:
        """Convert the body to a search request of the retrieval package.

        Args:
            knowledge_bases: Ids or names to search; None to route the search.

        Raises:
            InvalidInputError: Queries, scope or options do not fit together.
        """
        queries = [] if self.query is None else [Query(self.query)]
        queries += [
            parse_query(value, loc=("body", "queries", number)) for number, value in enumerate(self.queries or [])
        ]
        messages = [Message(message.role, message.content) for message in self.messages or []]
        if self.scope.agent_id is not None and self.scope.chat_id is None:
            raise InvalidInputError("An agent_id needs a chat_id. Send both.", loc=("body", "scope", "agent_id"))
        transformers = None if self.transformers is None else to_named_transformers(self.transformers)
        if self.conversation is False and any(REFORMULATE in (item, item[0]) for item in transformers or ()):
            message = "reformulate needs the conversation. Leave out the transformer, or conversation."
            raise InvalidInputError(message, loc=("body", "conversation"))
        return SearchRequest(
            queries=queries,
            messages=messages,
            knowledge_bases=knowledge_bases,
            top_k=self.top_k,
            score_threshold=self.score_threshold,
            strategy=self.strategy,
            strategy_options=self.strategy_options,
            transformers=transformers,
            conversation=self.conversation,
            filter=self.filter,
            scope=DocumentScope(self.scope.user_id, self.scope.chat_id, self.scope.agent_id),
            exclude_dynamic=self.exclude_dynamic,
            expansion=self._to_expansion(),
            rerank=self.rerank,
            return_vectors=self.return_vectors,
            include=parse_include_names(self.include, loc=("body", "include")),
            accepts_graph_text=True,
            repeat=self.repeat,
            combine=self.combine,
            collapse=self.collapse,
            explain=self.explain,
            timeout_seconds=self.timeout_seconds,
        )

    def _to_expansion(self) -> Expansion | None:
        options = self.expand_options
        if options.merge is not None and self.expand != "parent":
            raise InvalidInputError('merge needs expand "parent".', loc=("body", "expand_options", "merge"))
        if self.expand == "none":
            return None
        return Expansion(self.expand, options.window, options.max_characters, options.merge)


class MultiSearchRequest(KnowledgeBaseSearchRequest):
    """Search in several knowledge bases: the named ones, or the ones that are most similar to the query."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "How many days of parental leave are there?", "knowledge_bases": ["handbook", "faq"]},
                {"query": "How many days of parental leave are there?", "routing": {"top_n": 3}, "top_k": 10},
            ]
        }
    )

    knowledge_bases: Annotated[list[Text], Field(min_length=1, max_length=100)] | None = Field(
        None,
        description="Ids or names of the knowledge bases to search, 1 to 100. Default: all that the key may read, "
        "routed.",
        examples=[["handbook", "faq"]],
    )
    routing: RoutingRequest | None = Field(None, description=ROUTING_DESCRIPTION, examples=[{"top_n": 3}])

    def to_search_request(self, knowledge_bases: list[str] | None) -> SearchRequest:
        """Convert the body to a search request, with its routing options."""
        request = super().to_search_request(knowledge_bases)
        return replace(request, routing=None if self.routing is None else to_routing(self.routing))


@router.post("/knowledge-bases/{kb}/search", summary="Search a knowledge base", response_model=SearchOut)
async def search_knowledge_base(
    kb: KnowledgeBasePath, body: KnowledgeBaseSearchRequest, tenant: CurrentReader, response: Response
) -> SearchOut | Response:
    """Return the chunks of a knowledge base that match the query best.

    Tenants also see the shared knowledge base of the same name. The response header `Server-Timing` has the duration of
    each step. If no retriever answers, the search fails with `search_unavailable`; if another step fails, `degraded`
    names it.
    """
    return await create_search_response(
        await search_with_quota(tenant, body.to_search_request([kb]), response), response
    )


@router.post("/search", summary="Search several knowledge bases", response_model=SearchOut)
async def search_knowledge_bases(
    body: MultiSearchRequest, tenant: CurrentReader, response: Response
) -> SearchOut | Response:
    """Return the chunks of several knowledge bases that match the query best.

    Without `knowledge_bases`, and if the key may read more than three, the search is routed. For each embedding model,
    it then runs in the three knowledge bases that are most similar to the query. The similarity comes from their
    chunks and their `routing` settings. A knowledge base without routing data is always searched. `routing` sets
    another number of knowledge bases; `false` searches all.
    """
    return await create_search_response(
        await search_with_quota(tenant, body.to_search_request(body.knowledge_bases), response), response
    )
