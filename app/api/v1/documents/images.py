"""The pictures of documents: what chunks say of theirs, and the pictures themselves."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Response
from fastapi.responses import RedirectResponse, StreamingResponse
from pydantic import BaseModel

from app.api.dependencies import AuthenticatedRoute, CurrentReader, CurrentResources
from app.api.v1.documents.documents import decode_document_id
from app.ids import encode_id
from app.object_store.content_disposition import format_content_disposition

router = APIRouter(
    prefix="/knowledge-bases/{kb}/documents/{document}", tags=["documents"], route_class=AuthenticatedRoute
)


class ImageOut(BaseModel):
    """The picture that a chunk describes; ``url`` is a path of this server."""

    type: str
    url: str


def to_image_out(kb: str, document: UUID, ordinal: int | None, media_type: str | None) -> ImageOut | None:
    """The wire form; None for a chunk of text."""
    if ordinal is None or media_type is None:
        return None
    url = f"/v1/knowledge-bases/{kb}/documents/{encode_id('doc', document)}/images/{ordinal}"
    return ImageOut(type=media_type, url=url)


@router.get(
    "/images/{n}",
    response_class=StreamingResponse,
    responses={
        200: {"description": "The picture", "content": {"image/png": {}, "image/jpeg": {}}},
        302: {"description": "A link for a few minutes"},
    },
)
async def get_image(
    kb: str,
    document: str,
    n: Annotated[int, Path(ge=0, lt=1 << 31)],
    tenant: CurrentReader,
    resources: CurrentResources,
) -> Response:
    """A picture of the live version: a link where the object store makes links, else the bytes."""
    image = await tenant.images.get(kb, decode_document_id(document), n)
    if image.link is not None:
        return RedirectResponse(image.link, 302)
    row = image.row
    headers = {"ETag": f'"{row.sha256.hex()}"', "Content-Security-Policy": "sandbox"}
    headers["Content-Disposition"] = format_content_disposition(image.filename, inline=True)
    headers["Content-Length"] = str(row.bytes)
    stream = resources.objects.stream(row.key, start=0, length=row.bytes)
    return StreamingResponse(stream, 200, headers, media_type=row.media_type)
