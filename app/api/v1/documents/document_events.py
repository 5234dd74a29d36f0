"""A document's progress as server-sent events (WHATWG HTML, section 9.2)."""

import json
from collections.abc import AsyncIterator
from contextlib import ExitStack, aclosing

from fastapi import APIRouter, Header, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from app.api.dependencies import AuthenticatedRoute, CurrentReader
from app.api.http.sse import CountedEventStreamResponse
from app.api.v1.documents.documents import decode_document_id, to_document_out
from app.bootstrap import TenantServices
from app.db.models.tenant_data import DocumentRow
from app.documents.service import FINAL_STATUSES
from app.documents.types import DocumentNotFound
from app.errors import NotFoundError, UnavailableError

router = APIRouter(prefix="/knowledge-bases/{kb}/documents", tags=["documents"], route_class=AuthenticatedRoute)
# Proxies give up on connections that are silent for a minute or so.
KEEPALIVE_INTERVAL_SECONDS = 15.0
# A stream ends now and then, so that the caller's key is looked at again when it comes back.
MAX_STREAM_SECONDS = 600.0


def format_event_id(document: DocumentRow) -> str:
    """Names a state: a caller that has seen it is not told again."""
    progress = document.progress or {}
    return f"{document.version}.{document.status}.{progress.get('done', progress.get('waiting_for', ''))}"


@router.get(
    "/{document}/events",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "`status` and `progress` while it is ingested, then `ready`, `failed` or `deleted`; "
            "the data is the document, or its id where it is deleted",
            "content": {"text/event-stream": {}},
        },
        204: {"description": "`Last-Event-ID` names its final state: nothing is to come"},
        429: {"description": "The tenant, or the key, has as many event streams as its quota allows"},
    },
)
async def stream_document_events(
    kb: str, document: str, tenant: CurrentReader, last_event_id: str | None = Header(None, max_length=200)
) -> Response:
    """Its state now and every change of it until it is ready or failed; resumes behind `Last-Event-ID`."""
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
        return  # who follows comes back with the last id


def _format_event(document: DocumentRow, knowledge_base: str, *, is_same_status: bool) -> bytes:
    event_name = document.status if document.status in FINAL_STATUSES else "progress" if is_same_status else "status"
    data = to_document_out(document, knowledge_base).model_dump_json()
    return format_sse_event(event=event_name, data_str=data, id=format_event_id(document))
