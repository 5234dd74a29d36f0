"""Changes of all documents of a knowledge base as server-sent events (WHATWG HTML, section 9.2)."""

import json
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import format_sse_event

from app.api.dependencies import AuthenticatedRoute, CurrentReader, CurrentResources
from app.api.http import example_values
from app.api.http.path_parameters import KnowledgeBasePath
from app.api.http.sse import CountedEventStreamResponse, add_keepalive
from app.api.v1.documents.deletions import to_deletion_out
from app.api.v1.documents.documents import to_document_out
from app.bootstrap import Resources, TenantServices
from app.documents.change_stream import Change
from app.errors import NotFoundError, UnavailableError

router = APIRouter(prefix="/knowledge-bases/{kb}", tags=["documents"], route_class=AuthenticatedRoute)
# A stream ends after this time. The caller connects again, and its key is checked again.
MAX_STREAM_SECONDS = 600
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@router.get(
    "/events",
    summary="Stream the changes of documents",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Events `start`, `document`, `deletion` and `deleted`.",
            "content": {
                "text/event-stream": {
                    "itemSchema": {"type": "object"},  # as in OpenAPI 3.2: one event of the stream
                    "example": f'id: 1772444415250000\nevent: document\ndata: {{"id":"{example_values.DOCUMENT_ID}"}}'
                    "\n\n",
                }
            },
        },
    },
)
async def stream_knowledge_base_events(
    kb: KnowledgeBasePath,
    tenant: CurrentReader,
    resources: CurrentResources,
    wait: Annotated[
        int,
        Query(
            ge=0,
            le=MAX_STREAM_SECONDS,
            description="Duration of the stream in seconds. 0 ends it after the changes since `Last-Event-ID`.",
            examples=[60],
        ),
    ] = MAX_STREAM_SECONDS,
    last_event_id: str | None = Header(
        None,
        pattern=r"^[0-9]{1,16}$",
        description="Id of the last event that the caller has seen; the stream continues after it.",
        examples=["1772444415250000"],
    ),
) -> Response:
    """Stream the state of all documents of a knowledge base as server-sent events.

    The first event is `start`; its data is the id of the knowledge base. Each change of a document is an event
    `document` with the document as data. `deletion` has the receipt of a deletion of documents. `deleted` ends the
    stream, because the knowledge base was deleted. A stream ends after 10 minutes at the latest. `Last-Event-ID`
    resumes it without a gap, and can repeat states.
    """
    with ExitStack() as exit_stack:
        exit_stack.enter_context(tenant.quotas.track_stream())
        await tenant.knowledge_bases.find(kb)
        resumed_at = None if last_event_id is None else _EPOCH + timedelta(microseconds=int(last_event_id))
        events = add_keepalive(_stream_events(tenant, resources, kb, resumed_at, wait))
        return CountedEventStreamResponse(events, exit_stack.pop_all())


async def _stream_events(
    tenant: TenantServices, resources: Resources, kb: str, resumed_at: datetime | None, wait: int
) -> AsyncGenerator[bytes]:
    stream = tenant.document_changes.stream_changes(kb, resumed_at, wait)
    try:
        async with aclosing(stream) as changes:
            async for change in changes:
                yield _format_event(change, resources)
    except NotFoundError:
        yield format_sse_event(event="deleted", data_str=json.dumps({"id": kb}), id="0")
    except UnavailableError:
        return  # the caller connects again with the last id


def _format_event(change: Change, resources: Resources) -> bytes:
    event_id = str((change.position - _EPOCH) // timedelta(microseconds=1))
    if change.document is not None:
        name, data = "document", to_document_out(change.document, change.knowledge_base).model_dump_json()
    elif change.deletion is not None:
        name, data = "deletion", to_deletion_out(change.deletion, resources).model_dump_json()
    else:
        name, data = "start", json.dumps({"knowledge_base": change.knowledge_base})
    return format_sse_event(event=name, data_str=data, id=event_id)
