"""Chunks: what ingestion cut a document into."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel

from app.api.dependencies import AuthenticatedRoute, CurrentPageParams, CurrentReader, encode_cursor
from app.api.v1.documents.documents import decode_document_id
from app.api.v1.documents.images import ImageOut, to_image_out
from app.api.v1.documents.nodes import LineBoxesOut, OffsetUnit, decode_node_id, to_line_box_fields
from app.api.v1.schemas import ListResponse
from app.db.models.tenant_data import ChunkRow, DocumentRow
from app.documents import types
from app.documents.content.offsets import OffsetConverter
from app.documents.types import ChunkNotFound
from app.ids import decode_id, encode_id

router = APIRouter(
    prefix="/knowledge-bases/{kb}/documents/{document}", tags=["documents"], route_class=AuthenticatedRoute
)


class ChunkOut(BaseModel):
    """A chunk of the live version; ``start`` and ``end`` are its range of the stored text.

    ``node_path`` leads from the root to the smallest node that holds it, which is ``depth`` levels below the root.
    ``image`` is the picture that the text describes, null for text of the document itself.
    """

    id: str
    chunk_index: int
    total_chunks: int
    text: str
    start: int
    end: int
    tokens: int
    page: int | None
    page_end: int | None
    slide: int | None
    section_titles: list[str]
    node_path: list[str]
    depth: int
    image: ImageOut | None
    metadata: dict[str, Any]


class ChunkList(ListResponse[ChunkOut]):
    """A page of chunks."""


class ChunkDetailOut(ChunkOut, LineBoxesOut):
    """A chunk, where its text stands, and its neighbours; those are null at either end of the document."""

    previous_chunk_id: str | None
    next_chunk_id: str | None


def decode_chunk_id(text: str) -> UUID:
    """The id in a path. Raises ChunkNotFound for what is no chunk's id, as for one that is not there."""
    decoded = decode_id("chk", text)
    if decoded is None:
        raise ChunkNotFound
    return decoded


def encode_node_path(document: UUID, version: int, path: Sequence[int]) -> list[str]:
    """The ids from the root to the node with this path."""
    return list(_encode_node_path(document, version, tuple(path)))


# Passages of the same parts are found again and again, and an id is the digest of a text.
@lru_cache(maxsize=10_000)
def _encode_node_path(document: UUID, version: int, path: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(
        encode_id("nod", types.build_node_id(document, version, path[:depth])) for depth in range(len(path) + 1)
    )


def to_chunk_fields(chunk: ChunkRow, document: DocumentRow, offsets: OffsetConverter) -> dict[str, Any]:
    """What the list and the single chunk have in common."""
    return {
        "id": encode_id("chk", chunk.id),
        "chunk_index": chunk.ordinal,
        "total_chunks": document.chunk_count,
        "text": chunk.content,
        "start": offsets(chunk.start_offset),
        "end": offsets(chunk.end_offset),
        "tokens": chunk.token_count,
        "page": chunk.page,
        "page_end": chunk.page_end,
        "slide": chunk.slide,
        "section_titles": chunk.section_titles,
        "node_path": encode_node_path(document.id, chunk.version, chunk.node_path),
        "depth": len(chunk.node_path),
        "image": to_image_out(encode_id("kb", document.kb_id), document.id, chunk.image_ordinal, chunk.media_type),
        "metadata": chunk.attributes,
    }


def find_neighbour_id(chunk: ChunkRow, document: DocumentRow, *, step: int) -> str | None:
    """The id of the chunk before or behind; None where there is none."""
    ordinal = chunk.ordinal + step
    if not 0 <= ordinal < document.chunk_count:
        return None
    return encode_id("chk", types.build_chunk_id(document.id, chunk.version, ordinal))


@router.get("/chunks", response_model=ChunkList)
async def list_chunks(
    kb: str,
    document: str,
    page: CurrentPageParams,
    tenant: CurrentReader,
    node: Annotated[str | None, Query(description="Only chunks with text of this node, be it a part of it")] = None,
    offsets: OffsetUnit = None,
) -> ChunkList:
    """The live version's chunks in order; with `node` those whose text lies at least partly in that node."""
    below = None if node is None else decode_node_id(node)
    view = await tenant.content.list_chunks(
        kb,
        decode_document_id(document),
        node_id=below,
        after=page.parse_ordinal_cursor(),
        limit=page.limit + 1,
        utf16=offsets == "utf16",
    )
    chunks = view.chunks[: page.limit]
    items = [ChunkOut(**to_chunk_fields(chunk, view.document, view.offsets)) for chunk in chunks]
    has_more = len(view.chunks) > page.limit
    return ChunkList(items=items, next_cursor=encode_cursor(chunks[-1].ordinal) if has_more else None)


@router.get("/chunks/{chunk}", response_model=ChunkDetailOut)
async def get_chunk(
    kb: str, document: str, chunk: str, tenant: CurrentReader, offsets: OffsetUnit = None
) -> ChunkDetailOut:
    """One chunk of the live version, its place in the tree and its neighbours."""
    view = await tenant.content.get_chunk(
        kb, decode_document_id(document), decode_chunk_id(chunk), utf16=offsets == "utf16"
    )
    return ChunkDetailOut(
        **to_chunk_fields(view.chunk, view.document, view.offsets),
        **to_line_box_fields(view.line_boxes),
        previous_chunk_id=find_neighbour_id(view.chunk, view.document, step=-1),
        next_chunk_id=find_neighbour_id(view.chunk, view.document, step=1),
    )
