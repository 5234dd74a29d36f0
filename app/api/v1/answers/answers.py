"""Answers from search results: as server-sent events, or as one JSON object."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.sse import format_sse_event
from pydantic import ConfigDict, Field, JsonValue

from app.answering.types import DEFAULT_CONTEXT_TOKENS, AnswerEvent, AnswerRequest
from app.api.dependencies import AuthenticatedRoute, CurrentReader
from app.api.http import example_values
from app.api.http.path_parameters import KnowledgeBasePath
from app.api.http.problems import handle_app_error
from app.api.http.search_quota import consume_search_quota
from app.api.http.server_timing import format_server_timing
from app.api.http.sse import EventStreamResponse, add_keepalive, cancel_on_disconnect
from app.api.v1.answers.answer_agent import apply_agent
from app.api.v1.answers.answer_events import EVENT_MODELS, AnswerOut, collect_answer, to_event_out
from app.api.v1.schemas import ScopeId, StrictRequestModel
from app.api.v1.search.search import KnowledgeBaseSearchRequest, MultiSearchRequest
from app.bootstrap import TenantServices
from app.errors import AppError
from app.retrieval.types import SearchRequest

router = APIRouter(tags=["answers"], route_class=AuthenticatedRoute)
EXAMPLES: list[JsonValue] = [
    {"query": "How many days of parental leave are there?", "stream": False},
    {"messages": [{"role": "user", "content": "Is there parental leave for twins?"}], "max_context_tokens": 2000},
]


class AnswerOptions(StrictRequestModel):
    """Options of an answer, in addition to those of the search."""

    stream: bool = Field(
        True,
        description="`true`: server-sent events while the answer is written. `false`: one JSON object.",
        examples=[False],
    )
    max_context_tokens: int = Field(
        DEFAULT_CONTEXT_TOKENS,
        ge=200,
        le=200_000,
        description="Maximum number of tokens of the sources in the context of the chat model, 200 to 200,000, "
        "estimated upwards. Only whole sources are used.",
        examples=[4000],
    )
    compress: bool = Field(
        False,
        description="Let the chat model compress each source first, for models with a small context.",
        examples=[False],
    )

    repeat: Literal["demote", "allow", "exclude"] = Field(
        "allow",
        description="Treatment of sources whose text is already in `messages`, as in a search. By default they are "
        "like other sources, because an answer does not rely on earlier messages.",
        examples=["allow"],
    )

    agent_id: ScopeId | None = Field(
        None,
        description="Id of an agent on its platform, 1 to 256 characters. The answer is written in the name of the "
        "agent: knowledge bases, filter, prompts and limits of its binding apply. Fields of the request take "
        "precedence, but the filter and `max_top_k` of the binding always apply.",
        examples=[example_values.AGENT_ID],
    )
    session_id: ScopeId | None = Field(
        None,
        description="Id of the chat, 1 to 256 characters. If the binding has `session_scope`, documents of this chat "
        "are searched too. With `scope.user_id`, the chat is that user's.",
        examples=[example_values.CHAT_ID],
    )

    def to_answer_request(self, search: SearchRequest) -> AnswerRequest:
        """Convert the body to an answer request."""
        return AnswerRequest(search, self.max_context_tokens, self.compress)


class KnowledgeBaseAnswerRequest(AnswerOptions, KnowledgeBaseSearchRequest):
    """Question to answer from one knowledge base. ``top_k`` limits the number of sources; by default, all sources that
    fit into the prompt are used.
    """

    model_config = ConfigDict(json_schema_extra={"examples": EXAMPLES})


class MultiAnswerRequest(AnswerOptions, MultiSearchRequest):
    """Question to answer from several knowledge bases: the named ones, or the ones most similar to the question."""

    model_config = ConfigDict(json_schema_extra={"examples": EXAMPLES})


def _build_event_schema(name: str, data: Mapping[str, Any]) -> dict[str, Any]:
    schema = {key: value for key, value in data.items() if key != "$defs"}
    data_schema = {
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": schema,
        "description": "Data of the event as JSON.",
        "examples": ["{}"],
    }
    event_schema = {"const": name, "description": "Name of the event."}
    return {
        "type": "object",
        "required": ["event", "data"],
        "properties": {"event": event_schema, "data": data_schema},
    }


_EVENT_SCHEMAS = {
    name: model.model_json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
    for name, model in EVENT_MODELS.items()
}
ANSWER_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "With `stream`, events in this order: `query`, `sources`, one or more `token`, `citations`, "
        "`done`. An event `error` with a problem ends the stream at any place. Without `stream`, one object with the "
        "data of all events.",
        "content": {
            # As in OpenAPI 3.2: the schema of one event of the stream.
            "text/event-stream": {
                "itemSchema": {
                    "oneOf": [
                        _build_event_schema(*event)
                        for event in {**_EVENT_SCHEMAS, "error": {"$ref": "#/components/schemas/Problem"}}.items()
                    ]
                },
                "example": 'event: token\ndata: {"text":"Parents may take "}\n\n',
            }
        },
    }
}


@router.post("/answer", summary="Answer a question", response_model=AnswerOut, responses=ANSWER_RESPONSES)
async def answer_question(
    body: MultiAnswerRequest, tenant: CurrentReader, request: Request, response: Response
) -> AnswerOut | Response:
    """Answer a question from several knowledge bases, with citations.

    Without `knowledge_bases`, the search runs in those of the agent's binding, or it is routed as in
    `POST /v1/search`. The service needs a chat model. A problem
    before the first event is an error response; a later one is an event `error`.
    """
    return await _respond(
        tenant, body, body.to_answer_request(body.to_search_request(body.knowledge_bases)), request, response
    )


@router.post(
    "/knowledge-bases/{kb}/answer",
    summary="Answer a question from a knowledge base",
    response_model=AnswerOut,
    responses=ANSWER_RESPONSES,
)
async def answer_from_knowledge_base(
    kb: KnowledgeBasePath, body: KnowledgeBaseAnswerRequest, tenant: CurrentReader, request: Request, response: Response
) -> AnswerOut | Response:
    """Answer a question from one knowledge base, with citations.

    The service needs a chat model. A problem before the first event is an error response; a later one is an event
    `error`.
    """
    return await _respond(tenant, body, body.to_answer_request(body.to_search_request([kb])), request, response)


async def _respond(
    tenant: TenantServices, options: AnswerOptions, answer_request: AnswerRequest, request: Request, response: Response
) -> AnswerOut | Response:
    """Run the answer and return a stream or an object. An error before the first event is an error response."""
    await consume_search_quota(tenant, response)
    answer_request = await apply_agent(
        tenant,
        answer_request,
        agent_id=options.agent_id,
        session_id=options.session_id,
        provided=options.model_fields_set,
    )
    events = tenant.answering.answer(answer_request)
    if not options.stream:
        result = await cancel_on_disconnect(request, collect_answer(events))
        tenant.quotas.count(searches=1)
        response.headers["Server-Timing"] = format_server_timing(result.timings_ms)
        return result
    first = await anext(events)
    tenant.quotas.count(searches=1)
    return EventStreamResponse(add_keepalive(_stream_events(request, first, events)), dict(response.headers))


async def _stream_events(
    request: Request, first: AnswerEvent, events: AsyncGenerator[AnswerEvent]
) -> AsyncGenerator[bytes]:
    try:
        async with aclosing(events):
            yield _format_event(first)
            async for event in events:
                yield _format_event(event)
    except AppError as exc:
        problem = await handle_app_error(request, exc)
        yield format_sse_event(event="error", data_str=bytes(problem.body).decode())


def _format_event(event: AnswerEvent) -> bytes:
    name, data = to_event_out(event)
    return format_sse_event(event=name, data_str=data.model_dump_json())
