"""Export of knowledge bases as archives, and import of archives."""

from dataclasses import asdict

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field
from starlette.types import Receive, Scope, Send

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin
from app.api.http.path_parameters import KnowledgeBasePath
from app.errors import UnsupportedMediaTypeError
from app.object_store.content_disposition import format_content_disposition
from app.transfer.export_service import KnowledgeBaseExport

ARCHIVE_MEDIA_TYPE = "application/x-tar"
router = APIRouter(prefix="/knowledge-bases/{kb}", tags=["knowledge bases"], route_class=AuthenticatedRoute)
_BINARY = {"type": "string", "format": "binary"}
_ARCHIVE_BODY = {"requestBody": {"required": True, "content": {ARCHIVE_MEDIA_TYPE: {"schema": _BINARY}}}}


class ImportOut(BaseModel):
    """Counts of an import."""

    documents: int = Field(description="Number of imported documents.", examples=[12])
    chunks: int = Field(description="Number of their chunks.", examples=[480])
    existing: int = Field(
        description="Number of documents that existed before and were left as they are.", examples=[0]
    )
    conflicts: int = Field(
        description="Number of documents that exist with another original and were left as they are.", examples=[0]
    )


class ExportResponse(StreamingResponse):
    """Response with an archive that is written while it is sent. It occupies a slot for exports until it ends."""

    def __init__(self, export: KnowledgeBaseExport, headers: dict[str, str]) -> None:
        super().__init__((), 200, headers, media_type=ARCHIVE_MEDIA_TYPE)
        self._export = export

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the archive. Raises TooManyTransfers and TransfersBusy before anything is sent."""
        async with self._export.open_stream() as pieces:
            self.body_iterator = pieces
            await super().__call__(scope, receive, send)


@router.get(
    "/export",
    summary="Export a knowledge base",
    response_class=StreamingResponse,
    responses={
        200: {"description": "The archive", "content": {ARCHIVE_MEDIA_TYPE: {"schema": _BINARY}}},
    },
)
async def export_knowledge_base(kb: KnowledgeBasePath, tenant: CurrentAdmin) -> StreamingResponse:
    """Return a knowledge base as one tar archive: settings, originals, parsed text, chunks and vectors.

    An incomplete archive has no end marker, so an import detects it.
    """
    export = await tenant.exports.export(kb)
    headers = {"Content-Disposition": format_content_disposition(f"{export.kb.row.name}.tar", inline=False)}
    return ExportResponse(export, headers)


@router.post(
    "/import",
    summary="Import an archive",
    response_model=ImportOut,
    openapi_extra=_ARCHIVE_BODY,
)
async def import_archive(kb: KnowledgeBasePath, request: Request, tenant: CurrentAdmin) -> dict[str, int]:
    """Import the documents of an archive. Nothing is parsed or embedded again.

    The body is an archive, or its manifest with some of its documents. Each document is searchable as soon as it is
    imported. Documents that exist are left as they are, so the same request can be sent again after a failure.
    """
    import_target = await tenant.imports.find_target(kb)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != ARCHIVE_MEDIA_TYPE:
        raise UnsupportedMediaTypeError(f"Send {ARCHIVE_MEDIA_TYPE}.")
    return asdict(await tenant.imports.import_archive(import_target, request.stream()))
