"""Images of documents: the schema of an image in a chunk, and the download of an image."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Response
from fastapi.responses import RedirectResponse, StreamingResponse
from pydantic import BaseModel, Field

from app.api.dependencies import AuthenticatedRoute, CurrentReader, CurrentResources
from app.api.http.path_parameters import DocumentPath, KnowledgeBasePath
from app.api.v1.documents.documents import decode_document_id
from app.ids import encode_id
from app.object_store.content_disposition import format_content_disposition

router = APIRouter(
    prefix="/knowledge-bases/{kb}/documents/{document}", tags=["documents"], route_class=AuthenticatedRoute
)
_BINARY = {"type": "string", "format": "binary"}


class ImageOut(BaseModel):
    """Image that a chunk describes."""

    type: str = Field(description="Media type of the image.", examples=["image/png"])
    url: str = Field(
        description="Path of the image on this server; it needs the same `Authorization` header.",
        examples=["/v1/knowledge-bases/handbook/documents/doc_01jqstb0s0eees8jw23c9yqtgm/images/0"],
    )


def to_image_out(kb: str, document: UUID, ordinal: int | None, media_type: str | None) -> ImageOut | None:
    """Return the image of a chunk; None for a chunk of text.

    Args:
        kb: Id or name of the knowledge base, for the address.
        document: Id of the document.
        ordinal: Number of the image in the document, from 0.
        media_type: Media type of the image.
    """
    if ordinal is None or media_type is None:
        return None
    url = f"/v1/knowledge-bases/{kb}/documents/{encode_id('doc', document)}/images/{ordinal}"
    return ImageOut(type=media_type, url=url)


@router.get(
    "/images/{n}",
    summary="Get an image of a document",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The image",
            "content": {"image/png": {"schema": _BINARY}, "image/jpeg": {"schema": _BINARY}},
        },
        302: {"description": "A link that is valid for a few minutes"},
    },
)
async def get_image(
    kb: KnowledgeBasePath,
    document: DocumentPath,
    n: Annotated[int, Path(ge=0, lt=1 << 31, description="Number of the image in the document, from 0.", examples=[0])],
    tenant: CurrentReader,
    resources: CurrentResources,
) -> Response:
    """Return an image of the live version of a document.

    If the object store creates links, the response is a redirect to a link that is valid for a few minutes. Otherwise
    the response is the image.
    """
    image = await tenant.images.get(kb, decode_document_id(document), n)
    if image.link is not None:
        return RedirectResponse(image.link, 302)
    row = image.row
    headers = {"ETag": f'"{row.sha256.hex()}"', "Content-Security-Policy": "sandbox"}
    headers["Content-Disposition"] = format_content_disposition(image.filename, inline=True)
    headers["Content-Length"] = str(row.bytes)
    stream = resources.objects.stream(row.key, start=0, length=row.bytes)
    return StreamingResponse(stream, 200, headers, media_type=row.media_type)
