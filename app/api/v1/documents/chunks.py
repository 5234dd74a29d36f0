"""Chunks of documents."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import Field

from app.api.dependencies import AuthenticatedRoute, CurrentPageParams, CurrentReader, encode_cursor
from app.api.http import example_values
from app.api.http.include_schemas import IncludedOut, to_included_fields
from app.api.http.locator_schema import LocatorOut, to_locator_out
from app.api.http.path_parameters import ChunkPath, DocumentPath, KnowledgeBasePath
from app.api.http.warning_schema import to_warnings_out
from app.api.v1.documents.chunk_includes import IncludeNames, IncludeWarningsOut
from app.api.v1.documents.documents import decode_document_id
from app.api.v1.documents.images import ImageOut, to_image_out
from app.api.v1.documents.nodes import LineBoxesOut, OffsetUnit, decode_node_id, to_line_box_fields
from app.api.v1.documents.provided_graph_schemas import (
    ProvidedEntityOut,
    ProvidedRelationOut,
    to_provided_graph_fields,
)
from app.api.v1.schemas import ListResponse, SourceEnd, SourceStart
from app.db.models.tenant_data import ChunkRow, DocumentRow
from app.documents import types
from app.documents.content.offsets import OffsetConverter
from app.documents.content.service import ChunkView
from app.documents.locator import Locator, build_locator
from app.documents.types import ChunkNotFound
from app.graph.includes.service import ChunkIncludes
from app.ids import decode_id, encode_id

router = APIRouter(
    prefix="/knowledge-bases/{kb}/documents/{document}", tags=["documents"], route_class=AuthenticatedRoute
)


class ChunkOut(IncludedOut):
    """Chunk of the live version of a document."""

    id: str = Field(
        description="Id of the chunk. It stays the same when the same bytes are indexed again with the same settings.",
        examples=[example_values.CHUNK_ID],
    )
    chunk_index: int = Field(
        description="Index of the chunk in its document, from 0. A deleted chunk leaves a gap.", examples=[3]
    )
    total_chunks: int = Field(description="Number of chunks of the document.", examples=[40])
    text: str = Field(
        description="Text of the chunk.", examples=["Parents may take up to 14 months of parental leave."]
    )
    table_head: str | None = Field(
        description="Head of a table that the text repeats, because it begins inside the table. `text` begins with "
        "`table_head` and a line break, which are not in the range `start` to `end`. Null without a repeated head.",
        examples=["| Part | Price EUR |\n| --- | --- |"],
    )
    start: int = Field(
        description="Offset of the first character in the stored text, in code points, or in UTF-16 units with "
        "`offsets=utf16`.",
        examples=[5120],
    )
    end: int = Field(
        description="Offset behind the last character in the stored text, in the same unit.", examples=[5171]
    )
    source_start: SourceStart = None
    source_end: SourceEnd = None
    tokens: int = Field(description="Number of tokens of the text by the embedding model.", examples=[12])
    page: int | None = Field(description="First page, from 1; null if the format has no pages.", examples=[4])
    page_end: int | None = Field(description="Last page, from 1; null if the format has no pages.", examples=[4])
    slide: int | None = Field(description="Slide, from 1; null if the format has no slides.", examples=[None])
    section_titles: list[str] = Field(
        description="Headings above the chunk, outermost first.", examples=[["Leave", "Parental leave"]]
    )
    locator: LocatorOut = Field(
        description="Place of the chunk in its file.", examples=[{"page": 4, "page_end": 4, "section_path": ["Leave"]}]
    )
    node_path: list[str] = Field(
        description="Ids of the nodes from the root of the document tree to the smallest node that contains the chunk.",
        examples=[[example_values.NODE_ID]],
    )
    depth: int = Field(description="Number of nodes above the last node of `node_path`.", examples=[2])
    image: ImageOut | None = Field(
        description="Image that the chunk describes; null if the chunk is text of the document.", examples=[None]
    )
    metadata: dict[str, Any] = Field(
        description="Metadata of this chunk alone; empty unless the chunk was uploaded with metadata.",
        examples=[{"paragraph": 7}],
    )
    provided_entities: list[ProvidedEntityOut] | None = Field(
        None,
        description="Entities that came with the chunk. Only present if entities or relations came with it.",
        exclude_if=lambda items: items is None,
    )
    provided_relations: list[ProvidedRelationOut] | None = Field(
        None,
        description="Relations that came with the chunk. Only present if entities or relations came with it.",
        exclude_if=lambda items: items is None,
    )


class ChunkList(ListResponse[ChunkOut], IncludeWarningsOut):
    """Page of chunks."""


class ChunkDetailOut(ChunkOut, LineBoxesOut, IncludeWarningsOut):
    """Chunk with its position on the pages and its neighbours."""

    previous_chunk_id: str | None = Field(
        description="Id of the chunk before this one; null for the first chunk.",
        examples=["chk_6e2c9x0p3r8vbt41mkwy75ahzd"],
    )
    next_chunk_id: str | None = Field(
        description="Id of the chunk after this one; null for the last chunk.",
        examples=["chk_1h7v4d9q2zs0xj3w8nfp6kcm5t"],
    )


def decode_chunk_id(text: str) -> UUID:
    """Decode the id of a chunk in a path.

    Raises:
        ChunkNotFound: The text is no id of a chunk.
    """
    decoded = decode_id("chk", text)
    if decoded is None:
        raise ChunkNotFound
    return decoded


def encode_node_path(document: UUID, version: int, path: Sequence[int]) -> list[str]:
    """Return the ids of the nodes from the root to the node with a path."""
    return list(_encode_node_path(document, version, tuple(path)))


# The cache saves digests: each id needs a digest, and searches often find chunks of the same nodes.
@lru_cache(maxsize=10_000)
def _encode_node_path(document: UUID, version: int, path: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(
        encode_id("nod", types.build_node_id(document, version, path[:depth])) for depth in range(len(path) + 1)
    )


def to_chunk_fields(
    chunk: ChunkRow,
    document: DocumentRow,
    offsets: OffsetConverter,
    included: ChunkIncludes | None = None,
) -> dict[str, Any]:
    """Return the fields that the list and the single chunk share.

    Args:
        chunk: Chunk of the live version.
        document: Document of the chunk.
        offsets: Conversion of offsets to the requested unit.
        included: Loaded includes of the chunk.
    """
    return {
        "id": encode_id("chk", chunk.id),
        "chunk_index": chunk.ordinal,
        "total_chunks": document.chunk_count,
        "text": chunk.content,
        "table_head": chunk.table_head,
        "start": offsets(chunk.start_offset),
        "end": offsets(chunk.end_offset),
        "source_start": chunk.source_start,
        "source_end": chunk.source_end,
        "tokens": chunk.token_count,
        "page": chunk.page,
        "page_end": chunk.page_end,
        "slide": chunk.slide,
        "section_titles": chunk.section_titles,
        "locator": to_locator_out(_build_locator(chunk, document)),
        "node_path": encode_node_path(document.id, chunk.version, chunk.node_path),
        "depth": len(chunk.node_path),
        "image": to_image_out(encode_id("kb", document.kb_id), document.id, chunk.image_ordinal, chunk.media_type),
        "metadata": chunk.attributes,
        **to_provided_graph_fields(chunk.provided_graph),
        **to_included_fields({} if included is None else included.select(chunk)),
    }


def _build_locator(chunk: ChunkRow, document: DocumentRow) -> Locator:
    place = None if chunk.place_start is None or chunk.place_end is None else (chunk.place_start, chunk.place_end)
    return build_locator(
        media_type=document.media_type,
        source_uri=document.source_uri,
        pages=(chunk.page, chunk.page_end),
        slide=chunk.slide,
        place=place,
        section_titles=chunk.section_titles,
    )


def to_chunk_detail_fields(view: ChunkView) -> dict[str, Any]:
    """Return the fields that only a single chunk has.

    Args:
        view: The chunk.
    """
    neighbours = {"previous_chunk_id": view.previous_id, "next_chunk_id": view.next_id}
    encoded = {name: None if id_ is None else encode_id("chk", id_) for name, id_ in neighbours.items()}
    return {**to_line_box_fields(view.line_boxes), **encoded}


@router.get("/chunks", summary="List the chunks of a document", response_model=ChunkList)
async def list_chunks(
    kb: KnowledgeBasePath,
    document: DocumentPath,
    page: CurrentPageParams,
    tenant: CurrentReader,
    include: IncludeNames,
    node: Annotated[
        str | None,
        Query(description="Id of a node: only chunks with text of this node.", examples=[example_values.NODE_ID]),
    ] = None,
    offsets: OffsetUnit = None,
) -> ChunkList:
    """Return the chunks of the live version in reading order.

    With `node`, the list has only chunks whose text is at least partly in that node.
    """
    below = None if node is None else decode_node_id(node)
    view = await tenant.content.list_chunks(
        kb,
        decode_document_id(document),
        node_id=below,
        after=page.parse_ordinal_cursor(),
        limit=page.row_limit,
        utf16=offsets == "utf16",
    )
    chunks = view.chunks[: page.limit]
    included = await tenant.chunk_includes.load(include, chunks)
    items = [ChunkOut(**to_chunk_fields(chunk, view.document, view.offsets, included)) for chunk in chunks]
    has_more = len(view.chunks) > page.limit
    cursor = encode_cursor(chunks[-1].ordinal) if has_more else None
    reply = ChunkList(items=items, next_cursor=cursor, **page.build_count_fields())
    reply.warnings += to_warnings_out(included.warnings)
    return reply


@router.get("/chunks/{chunk}", summary="Get a chunk", response_model=ChunkDetailOut)
async def get_chunk(
    kb: KnowledgeBasePath,
    document: DocumentPath,
    chunk: ChunkPath,
    tenant: CurrentReader,
    include: IncludeNames,
    offsets: OffsetUnit = None,
) -> ChunkDetailOut:
    """Return a chunk of the live version with its place in the document tree, its position on the pages and its
    neighbours.
    """
    view = await tenant.content.get_chunk(
        kb, decode_document_id(document), decode_chunk_id(chunk), utf16=offsets == "utf16"
    )
    included = await tenant.chunk_includes.load(include, [view.chunk])
    return ChunkDetailOut(
        **to_chunk_fields(view.chunk, view.document, view.offsets, included),
        **to_chunk_detail_fields(view),
        warnings=to_warnings_out(included.warnings),
    )
