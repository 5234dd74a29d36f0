"""Progress of a document as server-sent events (WHATWG HTML, section 9.2)."""

import json
from collections.abc import AsyncIterator
from contextlib import ExitStack, aclosing

from fastapi import APIRouter, Header, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from app.api.dependencies import AuthenticatedRoute, CurrentReader
from app.api.http import example_values
from app.api.http.path_parameters import DocumentPath, KnowledgeBasePath
from app.api.http.sse import CountedEventStreamResponse
from app.api.v1.documents.documents import decode_document_id, to_document_out
from app.bootstrap import TenantServices
from app.db.models.tenant_data import DocumentRow
from app.documents.service import FINAL_STATUSES
from app.documents.types import DocumentNotFound
from app.errors import NotFoundError, UnavailableError

router = APIRouter(prefix="/knowledge-bases/{kb}/documents", tags=["documents"], route_class=AuthenticatedRoute)
# Proxies close connections without traffic after about a minute.
KEEPALIVE_INTERVAL_SECONDS = 15.0
# A stream ends after this time. The caller connects again, and its key is checked again.
MAX_STREAM_SECONDS = 600.0


def format_event_id(document: DocumentRow) -> str:
    """Return the event id of a document's state. A caller that resumes with this id does not receive the state
    again.
    """
    progress = document.progress or {}
    return f"{document.version}.{document.status}.{progress.get('done', progress.get('waiting_for', ''))}"


@router.get(
    "/{document}/events",
    summary="Stream the progress of a document",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Events `status` and `progress` during ingestion, then `ready`, `failed` or `deleted`.",
            "content": {
                "text/event-stream": {
                    "itemSchema": {"type": "object"},  # as in OpenAPI 3.2: one event of the stream
                    "example": f'id: 1.ready.40\nevent: ready\ndata: {{"id":"{example_values.DOCUMENT_ID}"}}\n\n',
                }
            },
        },
        204: {"description": "`Last-Event-ID` names the final state: no event follows"},
    },
)
async def stream_document_events(
    kb: KnowledgeBasePath,
    document: DocumentPath,
    tenant: CurrentReader,
    last_event_id: str | None = Header(
        None,
        max_length=200,
        description="Id of the last event that the caller has seen; the stream continues after it. At most 200 "
        "characters.",
        examples=["1.embedding.12"],
    ),
) -> Response:
    """Stream the state of a document as server-sent events, until it is ready or failed.

    The events are `status` and `progress` during ingestion, then `ready`, `failed` or `deleted`. Their data is the
    document, or its id after a deletion. A stream ends after 10 minutes at the latest; `Last-Event-ID` resumes it.
    """
    with ExitStack() as exit_stack:
        exit_stack.enter_context(tenant.quotas.track_stream())
        row = await tenant.documents.get(kb, decode_document_id(document))
        if row.status in FINAL_STATUSES and format_event_id(row) == last_event_id:
            return Response(status_code=204)
        return CountedEventStreamResponse(_stream_events(tenant, kb, document, last_event_id), exit_stack.pop_all())


async def _stream_events(
    tenant: TenantServices, kb: str, reference: str, last_event_id: str | None
) -> AsyncIterator[bytes]:
    status: tuple[int, str] | None = None
    states = tenant.documents.stream_states(
        kb, decode_document_id(reference), MAX_STREAM_SECONDS, repeat_interval_seconds=KEEPALIVE_INTERVAL_SECONDS
    )
    try:
        name = (await tenant.knowledge_bases.find(kb)).row.name
        async with aclosing(states) as updates:
            async for state in updates:
                if state is None:
                    raise DocumentNotFound
                if format_event_id(state) == last_event_id:
                    yield KEEPALIVE_COMMENT
                else:
                    last_event_id = format_event_id(state)
                    yield _format_event(state, name, is_same_status=status == (state.version, state.status))
                status = state.version, state.status
    except NotFoundError:
        yield format_sse_event(event="deleted", data_str=json.dumps({"id": reference}), id="deleted")
    except UnavailableError:
        return  # the caller connects again with the last id


def _format_event(document: DocumentRow, knowledge_base: str, *, is_same_status: bool) -> bytes:
    event_name = document.status if document.status in FINAL_STATUSES else "progress" if is_same_status else "status"
    data = to_document_out(document, knowledge_base).model_dump_json()
    return format_sse_event(event=event_name, data_str=data, id=format_event_id(document))
