"""Images of the pages of documents."""

from collections.abc import Collection
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Response
from fastapi.responses import StreamingResponse

from app.api.dependencies import AuthenticatedRoute, CurrentReader
from app.api.http.path_parameters import DocumentPath, KnowledgeBasePath
from app.api.v1.documents.documents import decode_document_id

router = APIRouter(
    prefix="/knowledge-bases/{kb}/documents/{document}", tags=["documents"], route_class=AuthenticatedRoute
)
IMAGE_TYPE = "image/png"
MIN_SCALE, MAX_SCALE = 0.1, 8.0
MAX_ETAGS = 20


def parse_etags(header: str) -> Collection[str]:
    """Return the entity tags of a header `If-None-Match`, at most 20, without the marks of weak comparison.

    Args:
        header: Value of the header. ``*`` names no tag, because an image that does not exist yet is drawn.
    """
    return {tag.strip().removeprefix("W/") for tag in header.split(",", MAX_ETAGS)[:MAX_ETAGS]}


@router.get(
    "/pages/{page}.png",
    summary="Get a page of a document as an image",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The image",
            "content": {IMAGE_TYPE: {"schema": {"type": "string", "format": "binary"}}},
        },
        304: {"description": "The image is the one that `If-None-Match` names"},
    },
)
async def get_page_image(
    kb: KnowledgeBasePath,
    document: DocumentPath,
    page: Annotated[int, Path(ge=1, lt=1 << 31, description="Page, from 1.", examples=[1])],
    tenant: CurrentReader,
    scale: Annotated[
        float,
        Query(
            ge=MIN_SCALE,
            le=MAX_SCALE,
            allow_inf_nan=False,
            description="Pixels of the image for each point of the page, rounded to two decimals. A point is 1/72 "
            "inch, so 2 gives 144 pixels per inch.",
            examples=[2.0],
        ),
    ] = 1.0,
    if_none_match: Annotated[
        str, Header(max_length=2000, description="Entity tags of images that the caller has.", examples=["*"])
    ] = "",
) -> Response:
    """Return a page of the live version of a document as PNG, as it is displayed: rotated, and cut to its visible part.

    Only PDF files have images. The image has the coordinates of `boxes` in `GET …/chunks/{chunk}`, multiplied by
    `scale`: the origin is the upper left corner. A image has at most 16 million pixels.
    """
    image = await tenant.page_images.get(
        kb, decode_document_id(document), page=page, scale=scale, cached_etags=parse_etags(if_none_match)
    )
    headers = {"ETag": image.etag, "Cache-Control": "private, no-cache", "Content-Security-Policy": "sandbox"}
    if image.pieces is None:
        return Response(None, 304, headers)
    headers |= {"Content-Length": str(image.size), "Vary": "Authorization"}
    return StreamingResponse(image.pieces, 200, headers, media_type=IMAGE_TYPE)
