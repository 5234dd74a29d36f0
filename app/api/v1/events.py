"""A document's progress as server-sent events (WHATWG HTML, section 9.2)."""

import json
from collections.abc import AsyncIterator
from contextlib import ExitStack, aclosing

from fastapi import APIRouter, Header, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from app.api.dependencies import CurrentReader, GuardedRoute
from app.api.v1.documents import document_id, document_out
from app.api.v1.event_streams import CountedStream
from app.bootstrap import TenantServices
from app.db.models.tenant_data import Document
from app.documents.service import FINAL
from app.documents.types import DocumentNotFound
from app.errors import NotFound, Unavailable

router = APIRouter(prefix="/knowledge-bases/{kb}/documents", tags=["documents"], route_class=GuardedRoute)
# Proxies give up on connections that are silent for a minute or so.
KEEPALIVE_SECONDS = 15.0
# A stream ends now and then, so that the caller's key is looked at again when it comes back.
STREAM_SECONDS = 600.0


def event_id(document: Document) -> str:
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
async def follow_document(
    kb: str, document: str, tenant: CurrentReader, last_event_id: str | None = Header(None, max_length=200)
) -> Response:
    """Its state now and every change of it until it is ready or failed; resumes behind `Last-Event-ID`."""
    with ExitStack() as held:
        held.enter_context(tenant.quotas.streaming())
        found = await tenant.documents.get(kb, document_id(document))
        if found.status in FINAL and event_id(found) == last_event_id:
            return Response(status_code=204)
        return CountedStream(_events(tenant, kb, document, last_event_id), held.pop_all())


async def _events(tenant: TenantServices, kb: str, reference: str, last_event_id: str | None) -> AsyncIterator[bytes]:
    status: tuple[int, str] | None = None
    states = tenant.documents.follow(kb, document_id(reference), STREAM_SECONDS, pulse=KEEPALIVE_SECONDS)
    try:
        name = (await tenant.knowledge_bases.find(kb)).row.name
        async with aclosing(states) as following:
            async for state in following:
                if state is None:
                    raise DocumentNotFound
                if event_id(state) == last_event_id:
                    yield KEEPALIVE_COMMENT
                else:
                    last_event_id = event_id(state)
                    yield _event(state, name, stays=status == (state.version, state.status))
                status = state.version, state.status
    except NotFound:
        yield format_sse_event(event="deleted", data_str=json.dumps({"id": reference}), id="deleted")
    except Unavailable:
        return  # who follows comes back with the last id


def _event(document: Document, knowledge_base: str, *, stays: bool) -> bytes:
    kind = document.status if document.status in FINAL else "progress" if stays else "status"
    data = document_out(document, knowledge_base).model_dump_json()
    return format_sse_event(event=kind, data_str=data, id=event_id(document))
