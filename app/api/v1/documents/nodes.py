"""The document tree: as a whole, a node of it, and what is above a node."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from app.api.dependencies import AuthenticatedRoute, CurrentReader
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
# Deeper than any parser's headings; a reply that nests much deeper could not be written as JSON.
MAX_DEPTH = 100
MAX_PIECE_CHARACTERS = 128 * 1024
_encode_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
OffsetUnit = Annotated[
    Literal["utf16"] | None, Query(description="Count start and end in UTF-16 units; in code points without it")
]


class NodeSummaryOut(BaseModel):
    """A node and its place; ``start`` and ``end`` are a range of the stored text, ``depth`` is 0 at the root.

    ``level`` is the heading's, ``block`` what the parser took a paragraph for.
    """

    id: str
    parent_id: str | None
    kind: str
    level: int
    depth: int
    title: str | None
    start: int
    end: int
    page: int | None
    page_end: int | None
    slide: int | None
    block: str | None


class NodeSummaryList(ListResponse[NodeSummaryOut]):
    """A page of nodes."""


class TreeNodeOut(NodeSummaryOut):
    """A node of the whole tree: a leaf has its text, others their children as far as ``depth`` asks for them."""

    text: str | None
    children: list["TreeNodeOut"]


class DocumentTreeOut(BaseModel):
    """The document tree; null before the first version is ready."""

    document: str
    version: int | None
    root: TreeNodeOut | None


class ChildNodeOut(BaseModel):
    """What is right below a node."""

    id: str
    kind: str
    title: str | None


class LineBoxOut(BaseModel):
    """Where a printed line stands on its page as it is shown, in points from the top left corner."""

    page: int
    x0: float
    y0: float
    x1: float
    y1: float


class PageSizeOut(BaseModel):
    """The size of a page as it is shown, in points."""

    page: int
    width: float
    height: float


class LineBoxesOut(BaseModel):
    """Where a text stands: its lines (the first 2,000 of them), and the pages they are on. Empty but for PDFs."""

    boxes: list[LineBoxOut]
    page_sizes: list[PageSizeOut]


class NodeOut(NodeSummaryOut, LineBoxesOut):
    """A node by itself, with the text of its whole range and where that stands."""

    text: str
    children: list[ChildNodeOut]


def decode_node_id(text: str) -> UUID:
    """The id in a path or a query. Raises NodeNotFound for what is no node's id, as for one that is not there."""
    decoded = decode_id("nod", text)
    if decoded is None:
        raise NodeNotFound
    return decoded


def to_node_fields(node: Node | TableNode, *, depth: int, offsets: OffsetConverter) -> dict[str, Any]:
    """What every form of a node has in common."""
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
    """The fields of LineBoxesOut."""
    return {
        "boxes": [
            LineBoxOut(page=item.page, x0=item.x0, y0=item.y0, x1=item.x1, y1=item.y1) for item in line_boxes.boxes
        ],
        "page_sizes": [PageSizeOut(page=item.page, width=item.width, height=item.height) for item in line_boxes.sizes],
    }


def stream_tree_json(view: TreeView, *, depth: int) -> Iterator[str]:
    """Yield a DocumentTreeOut as JSON, node by node, down to ``depth``; siblings come in their order.

    Nodes that were added by indexing again come behind their other siblings.
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
    """A TreeNodeOut up to its children."""
    node = view.nodes[number]
    fields = to_node_fields(node, depth=depth, offsets=view.offsets)
    is_leaf = view.nodes.is_leaf(number)
    fields["text"] = view.text[node.start_offset : node.end_offset] if is_leaf else None
    return f'{_encode_json(fields)[:-1]},"children":['


class TreeResponse(StreamingResponse):
    """A document tree that is written while it is sent: it is never in memory as a whole."""

    def __init__(self, view: AbstractAsyncContextManager[TreeView], *, depth: int) -> None:
        super().__init__((), media_type="application/json")
        self._view = view
        self._depth = depth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it. Raises what opening the tree raises before anything is sent."""
        async with self._view as view:
            self.body_iterator = _join_pieces(stream_tree_json(view, depth=self._depth))
            await super().__call__(scope, receive, send)


async def _join_pieces(parts: Iterator[str]) -> AsyncIterator[bytes]:
    """Join parts of JSON into pieces; a thread does it, because fifty thousand nodes take a second."""
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


@router.get("/tree", response_model=DocumentTreeOut)
async def get_document_tree(
    kb: str,
    document: str,
    tenant: CurrentReader,
    depth: Annotated[int, Query(ge=0, le=MAX_DEPTH, description="How far below the root; 0 is the root alone")] = (
        MAX_DEPTH
    ),
    offsets: OffsetUnit = None,
) -> Response:
    """The live version's tree; a node above the leaves that has no children here was cut by `depth`."""
    return TreeResponse(
        tenant.content.read_tree(kb, decode_document_id(document), utf16=offsets == "utf16"), depth=depth
    )


@router.get("/nodes/{node}", response_model=NodeOut)
async def get_node(kb: str, document: str, node: str, tenant: CurrentReader, offsets: OffsetUnit = None) -> NodeOut:
    """A node of the live version with its text and what is right below it."""
    view = await tenant.content.get_node(
        kb, decode_document_id(document), decode_node_id(node), utf16=offsets == "utf16"
    )
    children = [
        ChildNodeOut(id=encode_id("nod", child.id), kind=child.kind, title=child.title) for child in view.children
    ]
    fields = to_node_fields(view.node, depth=len(view.ancestors), offsets=view.offsets)
    return NodeOut(**fields, **to_line_box_fields(view.line_boxes), text=view.text, children=children)


@router.get("/nodes/{node}/ancestors", response_model=NodeSummaryList)
async def list_node_ancestors(
    kb: str, document: str, node: str, tenant: CurrentReader, offsets: OffsetUnit = None
) -> NodeSummaryList:
    """The nodes above a node, from the root to its parent, all of them on one page."""
    utf16 = offsets == "utf16"
    ancestors, node_offsets = await tenant.content.list_ancestors(
        kb, decode_document_id(document), decode_node_id(node), utf16=utf16
    )
    items = [
        NodeSummaryOut(**to_node_fields(node_row, depth=depth, offsets=node_offsets))
        for depth, node_row in enumerate(ancestors)
    ]
    return NodeSummaryList(items=items)
