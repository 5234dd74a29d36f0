"""Knowledge bases as archives: out as one stream, in as one stream or in parts."""

from dataclasses import asdict

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin
from app.api.http.problems import PROBLEM_RESPONSE
from app.errors import UnsupportedMediaTypeError
from app.object_store.content_disposition import format_content_disposition
from app.transfer.export_service import KnowledgeBaseExport

ARCHIVE_MEDIA_TYPE = "application/x-tar"
router = APIRouter(prefix="/knowledge-bases/{kb}", tags=["knowledge bases"], route_class=AuthenticatedRoute)
_BINARY = {"type": "string", "format": "binary"}
_ARCHIVE_BODY = {"requestBody": {"required": True, "content": {ARCHIVE_MEDIA_TYPE: {"schema": _BINARY}}}}


class ImportOut(BaseModel):
    """What was taken in.

    ``existing`` counts documents that were there already; ``conflicts`` those that are there with another original, and
    were left as they are.
    """

    documents: int
    chunks: int
    existing: int
    conflicts: int


class ExportResponse(StreamingResponse):
    """An archive that is written while it is sent; it holds a place for an export until it ends."""

    def __init__(self, export: KnowledgeBaseExport, headers: dict[str, str]) -> None:
        super().__init__((), 200, headers, media_type=ARCHIVE_MEDIA_TYPE)
        self._export = export

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it. Raises TooManyTransfers and TransfersBusy before anything is sent."""
        async with self._export.open_stream() as pieces:
            self.body_iterator = pieces
            await super().__call__(scope, receive, send)


@router.get(
    "/export",
    response_class=StreamingResponse,
    responses={
        200: {"description": "The archive", "content": {ARCHIVE_MEDIA_TYPE: {"schema": _BINARY}}},
        409: {"description": "It holds no documents of its own", **PROBLEM_RESPONSE},
    },
)
async def export_knowledge_base(kb: str, tenant: CurrentAdmin) -> StreamingResponse:
    """All of it as one archive: settings, originals, what was parsed, chunks and vectors.

    An archive that was not sent to its end has no end: whoever reads it will say so.
    """
    export = await tenant.exports.export(kb)
    headers = {"Content-Disposition": format_content_disposition(f"{export.kb.row.name}.tar", inline=False)}
    return ExportResponse(export, headers)


@router.post(
    "/import",
    response_model=ImportOut,
    openapi_extra=_ARCHIVE_BODY,
    responses={
        409: {
            "description": "Another model or analyzer than the archive's, or one that is not configured",
            **PROBLEM_RESPONSE,
        },
        415: {"description": "Not an archive", **PROBLEM_RESPONSE},
    },
)
async def import_archive(kb: str, request: Request, tenant: CurrentAdmin) -> dict[str, int]:
    """Take in the documents of an archive; nothing is parsed or embedded again.

    The body is an archive, or its manifest and some of its documents. Each document is searchable at once and whole;
    one that is there already is passed over, so that the same request can be sent again after any failure.
    """
    import_target = await tenant.imports.find_target(kb)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != ARCHIVE_MEDIA_TYPE:
        raise UnsupportedMediaTypeError(f"Send {ARCHIVE_MEDIA_TYPE}.")
    return asdict(await tenant.imports.import_archive(import_target, request.stream()))
