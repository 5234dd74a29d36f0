"""Document tree: the whole tree, one node, and the ancestors of a node."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from itertools import chain
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field
from starlette.types import Receive, Scope, Send

from app.api.dependencies import AuthenticatedRoute, CurrentReader
from app.api.http import example_values
from app.api.http.path_parameters import DocumentPath, KnowledgeBasePath, NodePath
from app.api.v1.documents.documents import decode_document_id
from app.api.v1.schemas import ListResponse
from app.db.models.tenant_data import Node
from app.documents.content.line_boxes import LineBoxes
from app.documents.content.node_table import TableNode
from app.documents.content.offsets import OffsetConverter
from app.documents.content.service import TreeView
from app.documents.types import NodeNotFound
from app.ids import decode_id, encode_id

router = APIRouter(
    prefix="/knowledge-bases/{kb}/documents/{document}", tags=["documents"], route_class=AuthenticatedRoute
)
# No parser creates deeper headings, and a response with much deeper nesting cannot be encoded as JSON.
MAX_DEPTH = 100
MAX_PIECE_CHARACTERS = 128 * 1024
_encode_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
OffsetUnit = Annotated[
    Literal["utf16"] | None,
    Query(description="`utf16` counts offsets in UTF-16 code units. Default: code points.", examples=["utf16"]),
]


class NodeSummaryOut(BaseModel):
    """Node of a document tree, without its text."""

    id: str = Field(description="Id of the node.", examples=[example_values.NODE_ID])
    parent_id: str | None = Field(
        description="Id of the parent node; null for the root.", examples=["nod_72dkvq1m4h8c7tn0wrp5s9xz3e"]
    )
    kind: str = Field(
        description="Kind of the node: `document` (the root), `section`, `paragraph`, `sentence` or `topic`.",
        examples=["section"],
    )
    level: int = Field(description="Level of the heading of a section, from 1; 0 for other nodes.", examples=[2])
    depth: int = Field(description="Number of nodes above this one; 0 for the root.", examples=[2])
    title: str | None = Field(
        description="Heading of a section, or title of the document; null without one.", examples=["Parental leave"]
    )
    start: int = Field(
        description="Offset of the first character in the stored text, in code points, or in UTF-16 units with "
        "`offsets=utf16`.",
        examples=[5120],
    )
    end: int = Field(
        description="Offset behind the last character in the stored text, in the same unit.", examples=[6480]
    )
    page: int | None = Field(description="First page, from 1; null if the format has no pages.", examples=[4])
    page_end: int | None = Field(description="Last page, from 1; null if the format has no pages.", examples=[5])
    slide: int | None = Field(description="Slide, from 1; null if the format has no slides.", examples=[None])
    block: str | None = Field(
        description="Kind of block of a paragraph: `heading`, `paragraph`, `list_item`, `table`, `code`, `note`, "
        "`record` or `image`; null for other nodes.",
        examples=[None],
    )


class NodeSummaryList(ListResponse[NodeSummaryOut]):
    """Page of nodes."""


class TreeNodeOut(NodeSummaryOut):
    """Node of a document tree with its children, down to the requested depth."""

    text: str | None = Field(
        description="Text of a leaf; null for a node with children.",
        examples=["Parents may take up to 14 months of parental leave."],
    )
    children: list["TreeNodeOut"] = Field(
        description="Children in reading order; empty for leaves and at the requested depth.", examples=[[]]
    )


class DocumentTreeOut(BaseModel):
    """Document tree of the live version."""

    document: str = Field(description="Id of the document.", examples=[example_values.DOCUMENT_ID])
    version: int | None = Field(description="Live version; null before the first version is ready.", examples=[1])
    root: TreeNodeOut | None = Field(description="Root of the tree; null before the first version is ready.")


class ChildNodeOut(BaseModel):
    """Child of a node."""

    id: str = Field(description="Id of the child.", examples=["nod_5c0e8r2y7kb9paf3w6sm1t4vdh"])
    kind: str = Field(
        description="Kind of the child: `section`, `paragraph`, `sentence` or `topic`.", examples=["paragraph"]
    )
    title: str | None = Field(description="Heading of the child; null without one.", examples=[None])


class LineBoxOut(BaseModel):
    """Position of a printed line on its page as it is displayed: rotated, and cut to its visible part.

    Multiplied by `scale`, it is the position in the image of the page (`GET …/pages/{page}.png`).
    """

    page: int = Field(description="Page, from 1.", examples=[4])
    x0: float = Field(description="Left edge, in points from the left edge of the page.", examples=[72.0])
    y0: float = Field(description="Upper edge, in points from the upper edge of the page.", examples=[140.5])
    x1: float = Field(description="Right edge, in points from the left edge of the page.", examples=[512.3])
    y1: float = Field(description="Lower edge, in points from the upper edge of the page.", examples=[152.5])


class PageSizeOut(BaseModel):
    """Size of a page as it is displayed."""

    page: int = Field(description="Page, from 1.", examples=[4])
    width: float = Field(description="Width in points.", examples=[595.3])
    height: float = Field(description="Height in points.", examples=[841.9])


class LineBoxesOut(BaseModel):
    """Positions of a text on its pages."""

    boxes: list[LineBoxOut] = Field(
        description="Boxes of the lines of the text, at most 2,000. Empty unless the document is a PDF."
    )
    page_sizes: list[PageSizeOut] = Field(
        description="Sizes of the pages of these lines. Empty unless the document is a PDF."
    )


class NodeOut(NodeSummaryOut, LineBoxesOut):
    """Node of a document tree with its text and its position on the pages."""

    text: str = Field(
        description="Text of the whole range of the node.",
        examples=["Parental leave\n\nParents may take up to 14 months of parental leave."],
    )
    children: list[ChildNodeOut] = Field(description="Children in reading order, without their text.")


def decode_node_id(text: str) -> UUID:
    """Decode the id of a node in a path or a query.

    Raises:
        NodeNotFound: The text is no id of a node.
    """
    decoded = decode_id("nod", text)
    if decoded is None:
        raise NodeNotFound
    return decoded


def to_node_fields(node: Node | TableNode, *, depth: int, offsets: OffsetConverter) -> dict[str, Any]:
    """Return the fields that all schemas of a node share.

    Args:
        node: Node of the document tree.
        depth: Number of ancestors of the node.
        offsets: Conversion of offsets to the requested unit.
    """
    return {
        "id": encode_id("nod", node.id),
        "parent_id": None if node.parent_id is None else encode_id("nod", node.parent_id),
        "kind": node.kind,
        "level": node.level,
        "depth": depth,
        "title": node.title,
        "start": offsets(node.start_offset),
        "end": offsets(node.end_offset),
        "page": node.page,
        "page_end": node.page_end,
        "slide": node.slide,
        "block": node.block,
    }


def to_line_box_fields(line_boxes: LineBoxes) -> dict[str, Any]:
    """Return the fields of ``LineBoxesOut``."""
    return {
        "boxes": [
            LineBoxOut(page=item.page, x0=item.x0, y0=item.y0, x1=item.x1, y1=item.y1) for item in line_boxes.boxes
        ],
        "page_sizes": [PageSizeOut(page=item.page, width=item.width, height=item.height) for item in line_boxes.sizes],
    }


def stream_tree_json(view: TreeView, *, depth: int) -> Iterator[str]:
    """Yield a ``DocumentTreeOut`` as JSON, node by node; siblings keep their order.

    Nodes that a reindex has added come after their other siblings.

    Args:
        view: Tree with the text of the document.
        depth: Number of levels below the root to include.
    """
    head = {"document": encode_id("doc", view.document.id), "version": view.document.live_version}
    yield f'{_encode_json(head)[:-1]},"root":'
    if not len(view.nodes):
        yield "null}"
        return
    yield _format_node_opening(view, 0, depth=0)
    stack = [view.nodes.iter_children(0) if depth else iter(())]
    is_first = True
    while stack:
        if (number := next(stack[-1], None)) is None:
            stack.pop()
            is_first = False
            yield "]}"
            continue
        yield ("" if is_first else ",") + _format_node_opening(view, number, depth=len(stack))
        stack.append(view.nodes.iter_children(number) if len(stack) < depth else iter(()))
        is_first = True
    yield "}"


def _format_node_opening(view: TreeView, number: int, *, depth: int) -> str:
    """Return a ``TreeNodeOut`` as JSON up to its children."""
    node = view.nodes[number]
    fields = to_node_fields(node, depth=depth, offsets=view.offsets)
    is_leaf = view.nodes.is_leaf(number)
    fields["text"] = view.text[node.start_offset : node.end_offset] if is_leaf else None
    return f'{_encode_json(fields)[:-1]},"children":['


class TreeResponse(StreamingResponse):
    """Response with a document tree that is encoded while it is sent; it is never in memory as a whole.

    ``opening`` and ``ending`` are the JSON before and behind the tree if the tree is a field of a larger object.
    """

    def __init__(
        self, view: AbstractAsyncContextManager[TreeView], *, depth: int, opening: str = "", ending: str = ""
    ) -> None:
        super().__init__((), media_type="application/json")
        self._view = view
        self._depth = depth
        self._opening, self._ending = opening, ending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the tree. If the tree cannot be opened, the error is raised before anything is sent."""
        async with self._view as view:
            parts = chain([self._opening], stream_tree_json(view, depth=self._depth), [self._ending])
            self.body_iterator = _join_pieces(parts)
            await super().__call__(scope, receive, send)


async def _join_pieces(parts: Iterator[str]) -> AsyncIterator[bytes]:
    """Join parts of JSON into pieces. This function runs in a thread, because 50,000 nodes take a second."""
    while piece := await asyncio.to_thread(_read_piece, parts):
        yield piece


def _read_piece(parts: Iterator[str]) -> bytes:
    collected, size = [], 0
    for part in parts:
        collected.append(part)
        size += len(part)
        if size >= MAX_PIECE_CHARACTERS:
            break
    return "".join(collected).encode()


@router.get("/tree", summary="Get the document tree", response_model=DocumentTreeOut)
async def get_document_tree(
    kb: KnowledgeBasePath,
    document: DocumentPath,
    tenant: CurrentReader,
    depth: Annotated[
        int,
        Query(
            ge=0,
            le=MAX_DEPTH,
            description="Number of levels below the root, 0 to 100; 0 returns the root alone.",
            examples=[2],
        ),
    ] = (MAX_DEPTH),
    offsets: OffsetUnit = None,
) -> Response:
    """Return the tree of the live version: sections, paragraphs and, if the chunker needs them, sentences.

    A node without children and without text was cut by `depth`.
    """
    return TreeResponse(
        tenant.content.read_tree(kb, decode_document_id(document), utf16=offsets == "utf16"), depth=depth
    )


@router.get("/nodes/{node}", summary="Get a node", response_model=NodeOut)
async def get_node(
    kb: KnowledgeBasePath, document: DocumentPath, node: NodePath, tenant: CurrentReader, offsets: OffsetUnit = None
) -> NodeOut:
    """Return a node of the live version with its text, its children and its position on the pages."""
    view = await tenant.content.get_node(
        kb, decode_document_id(document), decode_node_id(node), utf16=offsets == "utf16"
    )
    children = [
        ChildNodeOut(id=encode_id("nod", child.id), kind=child.kind, title=child.title) for child in view.children
    ]
    fields = to_node_fields(view.node, depth=len(view.ancestors), offsets=view.offsets)
    return NodeOut(**fields, **to_line_box_fields(view.line_boxes), text=view.text, children=children)


@router.get("/nodes/{node}/ancestors", summary="List the ancestors of a node", response_model=NodeSummaryList)
async def list_node_ancestors(
    kb: KnowledgeBasePath, document: DocumentPath, node: NodePath, tenant: CurrentReader, offsets: OffsetUnit = None
) -> NodeSummaryList:
    """Return the nodes above a node, from the root to its parent, on one page."""
    utf16 = offsets == "utf16"
    ancestors, node_offsets = await tenant.content.list_ancestors(
        kb, decode_document_id(document), decode_node_id(node), utf16=utf16
    )
    items = [
        NodeSummaryOut(**to_node_fields(node_row, depth=depth, offsets=node_offsets))
        for depth, node_row in enumerate(ancestors)
    ]
    return NodeSummaryList(items=items)
