"""The document tree: as a whole, a node of it, and what is above a node."""

import asyncio
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel

from app.api.dependencies import CurrentReader, GuardedRoute
from app.api.v1.documents import document_id
from app.api.v1.schemas import Listing
from app.db.models.tenant_data import Node
from app.documents.line_boxes import LineBoxes
from app.documents.offsets import Offsets
from app.documents.reading import TreeView
from app.documents.types import NodeNotFound
from app.ids import decode_id, encode_id

router = APIRouter(prefix="/knowledge-bases/{kb}/documents/{document}", tags=["documents"], route_class=GuardedRoute)
# Deeper than any parser's headings; a reply that nests much deeper could not be written as JSON.
MAX_DEPTH = 100
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


def node_facts(node: Node, *, depth: int, offsets: Offsets) -> dict[str, Any]:
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


def tree_out(view: TreeView, *, depth: int) -> TreeNodeOut | None:
    """The nodes down to ``depth`` as a tree. A node's parent comes before it, and siblings come in their order.

    Nodes that were added by indexing anew come behind all others.
    """
    parents = {node.parent_id for node in view.nodes}
    made: dict[UUID, TreeNodeOut] = {}
    root = None
    for node in view.nodes:
        parent = None if node.parent_id is None else made.get(node.parent_id)
        if node.parent_id is not None and (parent is None or parent.depth == depth):
            continue
        out = TreeNodeOut(
            **node_facts(node, depth=0 if parent is None else parent.depth + 1, offsets=view.offsets),
            text=view.text[node.start_offset : node.end_offset] if node.id not in parents else None,
            children=[],
        )
        made[node.id] = out
        if parent is None:
            root = out
        else:
            parent.children.append(out)
    return root


@router.get("/tree", response_model=TreeOut)
async def get_tree(
    kb: str,
    document: str,
    tenant: CurrentReader,
    depth: Annotated[int, Query(ge=0, le=MAX_DEPTH, description="How far below the root; 0 is the root alone")] = (
        MAX_DEPTH
    ),
    offsets: OffsetUnit = None,
) -> TreeOut:
    """The live version's tree; a node above the leaves that has no children here was cut by `depth`."""
    view = await tenant.reading.tree(kb, document_id(document), utf16=offsets == "utf16")
    root = await asyncio.to_thread(tree_out, view, depth=depth)  # fifty thousand nodes take a second
    return TreeOut(document=encode_id("doc", view.document.id), version=view.document.live_version, root=root)


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
