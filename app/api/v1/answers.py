"""Answers from what a search finds: as server-sent events while they are written, or as one JSON object."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.sse import format_sse_event
from pydantic import ConfigDict, Field, JsonValue

from app.answering.types import DEFAULT_CONTEXT_TOKENS, AnswerEvent, AnswerRequest
from app.api.dependencies import CurrentReader, GuardedRoute
from app.api.problems import PROBLEM_SCHEMA, on_app_error
from app.api.searching import admit
from app.api.timings import server_timing
from app.api.v1.answer_events import EVENTS, AnswerOut, answer_out, event_out
from app.api.v1.event_streams import EventStreamResponse, pulsed, unless_left
from app.api.v1.schemas import Input
from app.api.v1.search import MultiSearchIn, SearchIn
from app.bootstrap import TenantServices
from app.errors import AppError
from app.retrieval.types import SearchRequest

router = APIRouter(tags=["answers"], route_class=GuardedRoute)
EXAMPLES: list[JsonValue] = [
    {"query": "How many days of parental leave are there?"},
    {"messages": [{"role": "user", "content": "And for twins?"}], "stream": False, "max_context_tokens": 2000},
]


class AnswerOptions(Input):
    """How an answer is given, beside what is searched for."""

    stream: bool = Field(True, description="Server-sent events; false for one JSON object")
    max_context_tokens: int = Field(
        DEFAULT_CONTEXT_TOKENS,
        ge=200,
        le=200_000,
        description="What the sources may take of the model's context, estimated upwards; only whole passages go in",
    )
    digest: bool = Field(
        False, description="Have the model shorten each source to what matters first, for small context windows"
    )

    def answer_request(self, search: SearchRequest) -> AnswerRequest:
        """The room's form of it."""
        return AnswerRequest(search, self.max_context_tokens, self.digest)


class AnswerIn(AnswerOptions, SearchIn):
    """A search, and how it is answered; ``top_k`` is the most passages that are read, by default as many as fit."""

    model_config = ConfigDict(json_schema_extra={"examples": EXAMPLES})


class MultiAnswerIn(AnswerOptions, MultiSearchIn):
    """The same over the named knowledge bases, or all that the key may read."""

    model_config = ConfigDict(json_schema_extra={"examples": EXAMPLES})


def _event_schema(name: str, data: Mapping[str, Any]) -> dict[str, Any]:
    told = {key: value for key, value in data.items() if key != "$defs"}
    string = {"type": "string", "contentMediaType": "application/json", "contentSchema": told}
    return {"type": "object", "required": ["event", "data"], "properties": {"event": {"const": name}, "data": string}}


_SCHEMAS = {
    name: model.model_json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
    for name, model in EVENTS.items()
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "With `stream` events in this order: `query`, `sources`, `token` as often as there is text, "
        "`citations`, `done`; or `error` with a problem, which ends them wherever it comes. Without it one object "
        "with the data of all of them.",
        "content": {
            # As OpenAPI 3.2 tells a stream: the schema of one event.
            "text/event-stream": {
                "itemSchema": {"oneOf": [_event_schema(*one) for one in {**_SCHEMAS, "error": PROBLEM_SCHEMA}.items()]}
            }
        },
    }
}


@router.post("/answer", response_model=AnswerOut, responses=RESPONSES)
async def answer(
    body: MultiAnswerIn, tenant: CurrentReader, request: Request, response: Response
) -> AnswerOut | Response:
    """Answer a question from several knowledge bases at once."""
    return await _answer(tenant, body, body.answer_request(body.request(body.knowledge_bases)), request, response)


@router.post("/knowledge-bases/{kb}/answer", response_model=AnswerOut, responses=RESPONSES)
async def answer_from_knowledge_base(
    kb: str, body: AnswerIn, tenant: CurrentReader, request: Request, response: Response
) -> AnswerOut | Response:
    """Answer a question from one knowledge base."""
    return await _answer(tenant, body, body.answer_request(body.request([kb])), request, response)


async def _answer(
    tenant: TenantServices, options: AnswerOptions, asked: AnswerRequest, request: Request, response: Response
) -> AnswerOut | Response:
    """What goes wrong before the first event is an error as everywhere; it counts as a search."""
    await admit(tenant, response)
    events = tenant.answering.answer(asked)
    if not options.stream:
        whole = await unless_left(request, answer_out(events))
        tenant.quotas.count(searches=1)
        response.headers["Server-Timing"] = server_timing(whole.timings_ms)
        return whole
    first = await anext(events)
    tenant.quotas.count(searches=1)
    return EventStreamResponse(pulsed(_told(request, first, events)), dict(response.headers))


async def _told(request: Request, first: AnswerEvent, events: AsyncGenerator[AnswerEvent]) -> AsyncGenerator[bytes]:
    try:
        async with aclosing(events):
            yield _event(first)
            async for event in events:
                yield _event(event)
    except AppError as exc:
        problem = await on_app_error(request, exc)
        yield format_sse_event(event="error", data_str=bytes(problem.body).decode())


def _event(event: AnswerEvent) -> bytes:
    name, data = event_out(event)
    return format_sse_event(event=name, data_str=data.model_dump_json())
