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

from app.api.dependencies import CurrentReader, GuardedRoute
from app.api.v1.documents import document_id
from app.api.v1.schemas import Listing
from app.db.models.tenant_data import Node
from app.documents.line_boxes import LineBoxes
from app.documents.node_table import TableNode
from app.documents.offsets import Offsets
from app.documents.reading import TreeView
from app.documents.types import NodeNotFound
from app.ids import decode_id, encode_id

router = APIRouter(prefix="/knowledge-bases/{kb}/documents/{document}", tags=["documents"], route_class=GuardedRoute)
# Deeper than any parser's headings; a reply that nests much deeper could not be written as JSON.
MAX_DEPTH = 100
PIECE_CHARACTERS = 128 * 1024
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
OffsetUnit = Annotated[
    Literal["utf16"] | None, Query(description="Count start and end in UTF-16 units; in code points without it")
]


class NodeFacts(BaseModel):
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


class TreeNodeOut(NodeFacts):
    """A node of the whole tree: a leaf has its text, others their children as far as ``depth`` asks for them."""

    text: str | None
    children: list["TreeNodeOut"]


class TreeOut(BaseModel):
    """The document tree; null before the first version is ready."""

    document: str
    version: int | None
    root: TreeNodeOut | None


class ChildOut(BaseModel):
    """What is right below a node."""

    id: str
    kind: str
    title: str | None


class BoxOut(BaseModel):
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


class PlacesOut(BaseModel):
    """Where a text stands: its lines (the first 2,000 of them), and the pages they are on. Empty but for PDFs."""

    boxes: list[BoxOut]
    page_sizes: list[PageSizeOut]


class NodeOut(NodeFacts, PlacesOut):
    """A node by itself, with the text of its whole range and where that stands."""

    text: str
    children: list[ChildOut]


def node_id(text: str) -> UUID:
    """The id in a path or a query. Raises NodeNotFound for what is no node's id, as for one that is not there."""
    found = decode_id("nod", text)
    if found is None:
        raise NodeNotFound
    return found


def node_facts(node: Node | TableNode, *, depth: int, offsets: Offsets) -> dict[str, Any]:
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


def place_facts(places: LineBoxes) -> dict[str, Any]:
    """The fields of PlacesOut."""
    return {
        "boxes": [BoxOut(page=one.page, x0=one.x0, y0=one.y0, x1=one.x1, y1=one.y1) for one in places.boxes],
        "page_sizes": [PageSizeOut(page=one.page, width=one.width, height=one.height) for one in places.sizes],
    }


def tree_json(view: TreeView, *, depth: int) -> Iterator[str]:
    """Yield a TreeOut as JSON, node by node, down to ``depth``; siblings come in their order.

    Nodes that were added by indexing again come behind their other siblings.
    """
    head = {"document": encode_id("doc", view.document.id), "version": view.document.live_version}
    yield f'{_json(head)[:-1]},"root":'
    if not len(view.nodes):
        yield "null}"
        return
    yield _opening(view, 0, depth=0)
    waiting = [view.nodes.children(0) if depth else iter(())]
    is_first = True
    while waiting:
        if (number := next(waiting[-1], None)) is None:
            waiting.pop()
            is_first = False
            yield "]}"
            continue
        yield ("" if is_first else ",") + _opening(view, number, depth=len(waiting))
        waiting.append(view.nodes.children(number) if len(waiting) < depth else iter(()))
        is_first = True
    yield "}"


def _opening(view: TreeView, number: int, *, depth: int) -> str:
    """A TreeNodeOut up to its children."""
    node = view.nodes[number]
    facts = node_facts(node, depth=depth, offsets=view.offsets)
    is_leaf = view.nodes.is_leaf(number)
    facts["text"] = view.text[node.start_offset : node.end_offset] if is_leaf else None
    return f'{_json(facts)[:-1]},"children":['


class TreeResponse(StreamingResponse):
    """A document tree that is written while it is sent: it is never in memory as a whole."""

    def __init__(self, view: AbstractAsyncContextManager[TreeView], *, depth: int) -> None:
        super().__init__((), media_type="application/json")
        self._view = view
        self._depth = depth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it. Raises what opening the tree raises before anything is sent."""
        async with self._view as view:
            self.body_iterator = _pieces(tree_json(view, depth=self._depth))
            await super().__call__(scope, receive, send)


async def _pieces(parts: Iterator[str]) -> AsyncIterator[bytes]:
    """Join parts of JSON into pieces; a thread does it, because fifty thousand nodes take a second."""
    while piece := await asyncio.to_thread(_piece, parts):
        yield piece


def _piece(parts: Iterator[str]) -> bytes:
    joined, size = [], 0
    for part in parts:
        joined.append(part)
        size += len(part)
        if size >= PIECE_CHARACTERS:
            break
    return "".join(joined).encode()


@router.get("/tree", response_model=TreeOut)
async def get_tree(
    kb: str,
    document: str,
    tenant: CurrentReader,
    depth: Annotated[int, Query(ge=0, le=MAX_DEPTH, description="How far below the root; 0 is the root alone")] = (
        MAX_DEPTH
    ),
    offsets: OffsetUnit = None,
) -> Response:
    """The live version's tree; a node above the leaves that has no children here was cut by `depth`."""
    return TreeResponse(tenant.reading.tree(kb, document_id(document), utf16=offsets == "utf16"), depth=depth)


@router.get("/nodes/{node}", response_model=NodeOut)
async def get_node(kb: str, document: str, node: str, tenant: CurrentReader, offsets: OffsetUnit = None) -> NodeOut:
    """A node of the live version with its text and what is right below it."""
    view = await tenant.reading.node(kb, document_id(document), node_id(node), utf16=offsets == "utf16")
    children = [ChildOut(id=encode_id("nod", one.id), kind=one.kind, title=one.title) for one in view.children]
    facts = node_facts(view.node, depth=len(view.ancestors), offsets=view.offsets)
    return NodeOut(**facts, **place_facts(view.places), text=view.text, children=children)


@router.get("/nodes/{node}/ancestors", response_model=Listing[NodeFacts])
async def list_ancestors(
    kb: str, document: str, node: str, tenant: CurrentReader, offsets: OffsetUnit = None
) -> Listing[NodeFacts]:
    """The nodes above a node, from the root to its parent, all of them on one page."""
    utf16 = offsets == "utf16"
    above, counted = await tenant.reading.ancestors(kb, document_id(document), node_id(node), utf16=utf16)
    items = [NodeFacts(**node_facts(one, depth=depth, offsets=counted)) for depth, one in enumerate(above)]
    return Listing(items=items)
