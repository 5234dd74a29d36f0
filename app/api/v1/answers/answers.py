"""Answers from what a search finds: as server-sent events while they are written, or as one JSON object."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.sse import format_sse_event
from pydantic import ConfigDict, Field, JsonValue

from app.answering.types import DEFAULT_CONTEXT_TOKENS, AnswerEvent, AnswerRequest
from app.api.dependencies import AuthenticatedRoute, CurrentReader
from app.api.http.problems import PROBLEM_SCHEMA, handle_app_error
from app.api.http.search_quota import consume_search_quota
from app.api.http.server_timing import format_server_timing
from app.api.http.sse import EventStreamResponse, add_keepalive, cancel_on_disconnect
from app.api.v1.answers.answer_events import EVENT_MODELS, AnswerOut, collect_answer, to_event_out
from app.api.v1.schemas import StrictRequestModel
from app.api.v1.search.search import KnowledgeBaseSearchRequest, MultiSearchRequest
from app.bootstrap import TenantServices
from app.errors import AppError
from app.retrieval.types import SearchRequest

router = APIRouter(tags=["answers"], route_class=AuthenticatedRoute)
EXAMPLES: list[JsonValue] = [
    {"query": "How many days of parental leave are there?"},
    {"messages": [{"role": "user", "content": "And for twins?"}], "stream": False, "max_context_tokens": 2000},
]


class AnswerOptions(StrictRequestModel):
    """How an answer is given, beside what is searched for."""

    stream: bool = Field(True, description="Server-sent events; false for one JSON object")
    max_context_tokens: int = Field(
        DEFAULT_CONTEXT_TOKENS,
        ge=200,
        le=200_000,
        description="What the sources may take of the model's context, estimated upwards; only whole passages go in",
    )
    compress: bool = Field(
        False, description="Compress each source with the model to what matters first, for small context windows"
    )

    def to_answer_request(self, search: SearchRequest) -> AnswerRequest:
        """The room's form of it."""
        return AnswerRequest(search, self.max_context_tokens, self.compress)


class KnowledgeBaseAnswerRequest(AnswerOptions, KnowledgeBaseSearchRequest):
    """A search, and how it is answered; ``top_k`` is the most passages that are read, by default as many as fit."""

    model_config = ConfigDict(json_schema_extra={"examples": EXAMPLES})


class MultiAnswerRequest(AnswerOptions, MultiSearchRequest):
    """The same over the named knowledge bases, or all that the key may read."""

    model_config = ConfigDict(json_schema_extra={"examples": EXAMPLES})


def _build_event_schema(name: str, data: Mapping[str, Any]) -> dict[str, Any]:
    schema = {key: value for key, value in data.items() if key != "$defs"}
    string = {"type": "string", "contentMediaType": "application/json", "contentSchema": schema}
    return {"type": "object", "required": ["event", "data"], "properties": {"event": {"const": name}, "data": string}}


_EVENT_SCHEMAS = {
    name: model.model_json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
    for name, model in EVENT_MODELS.items()
}
ANSWER_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "With `stream` events in this order: `query`, `sources`, `token` as often as there is text, "
        "`citations`, `done`; or `error` with a problem, which ends them wherever it comes. Without it one object "
        "with the data of all of them.",
        "content": {
            # As OpenAPI 3.2 tells a stream: the schema of one event.
            "text/event-stream": {
                "itemSchema": {
                    "oneOf": [
                        _build_event_schema(*event) for event in {**_EVENT_SCHEMAS, "error": PROBLEM_SCHEMA}.items()
                    ]
                }
            }
        },
    }
}


@router.post("/answer", response_model=AnswerOut, responses=ANSWER_RESPONSES)
async def answer_question(
    body: MultiAnswerRequest, tenant: CurrentReader, request: Request, response: Response
) -> AnswerOut | Response:
    """Answer a question from several knowledge bases at once."""
    return await _respond(
        tenant, body, body.to_answer_request(body.to_search_request(body.knowledge_bases)), request, response
    )


@router.post("/knowledge-bases/{kb}/answer", response_model=AnswerOut, responses=ANSWER_RESPONSES)
async def answer_from_knowledge_base(
    kb: str, body: KnowledgeBaseAnswerRequest, tenant: CurrentReader, request: Request, response: Response
) -> AnswerOut | Response:
    """Answer a question from one knowledge base."""
    return await _respond(tenant, body, body.to_answer_request(body.to_search_request([kb])), request, response)


async def _respond(
    tenant: TenantServices, options: AnswerOptions, answer_request: AnswerRequest, request: Request, response: Response
) -> AnswerOut | Response:
    """What goes wrong before the first event is an error as everywhere; it counts as a search."""
    await consume_search_quota(tenant, response)
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
