"""What ingestion made of a document: its chunks and its tree."""

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from app.api.dependencies import CurrentPage, CurrentReader, GuardedRoute, next_cursor
from app.api.v1.documents import document_id
from app.api.v1.schemas import Listing
from app.documents.types import node_id
from app.ids import encode_id

router = APIRouter(prefix="/knowledge-bases/{kb}/documents/{document}", tags=["documents"], route_class=GuardedRoute)


class ChunkOut(BaseModel):
    """A chunk of the live version; offsets count code points of the stored text."""

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


class NodeOut(BaseModel):
    """A node of the document tree; a paragraph has its text, a section its children."""

    id: str
    kind: str
    level: int
    title: str | None
    text: str | None
    start: int
    end: int
    page: int | None
    page_end: int | None
    slide: int | None
    children: list["NodeOut"] = []


class TreeOut(BaseModel):
    """The document tree; null before the first version is ready."""

    document: str
    version: int | None
    root: NodeOut | None


def node_ids(document: Any, version: int, path: list[int]) -> list[str]:
    """The ids from the root to the node with this path."""
    return [encode_id("nod", node_id(document, version, tuple(path[:depth]))) for depth in range(len(path) + 1)]


@router.get("/chunks", response_model=Listing[ChunkOut])
async def list_chunks(kb: str, document: str, page: CurrentPage, tenant: CurrentReader) -> dict[str, Any]:
    """The live version's chunks in order."""
    row, found = await tenant.documents.chunks(
        kb, document_id(document), after=page.after_number(), limit=page.limit + 1
    )
    items = found[: page.limit]
    out = [
        ChunkOut(
            id=encode_id("chk", chunk.id),
            chunk_index=chunk.ordinal,
            total_chunks=row.chunk_count,
            text=chunk.content,
            start=chunk.start_offset,
            end=chunk.end_offset,
            tokens=chunk.token_count,
            page=chunk.page,
            page_end=chunk.page_end,
            slide=chunk.slide,
            section_titles=chunk.section_titles,
            node_path=node_ids(row.id, chunk.version, chunk.node_path),
        )
        for chunk in items
    ]
    return {"items": out, "next_cursor": next_cursor(items[-1].ordinal) if found[page.limit :] else None}


@router.get("/tree", response_model=TreeOut)
async def get_tree(kb: str, document: str, tenant: CurrentReader) -> TreeOut:
    """The live version's tree of sections and paragraphs."""
    view = await tenant.documents.tree(kb, document_id(document))
    made: dict[Any, NodeOut] = {}
    root = None
    for node in view.nodes:
        leaf = node.kind == "paragraph"
        out = NodeOut(
            id=encode_id("nod", node.id),
            kind=node.kind,
            level=node.level,
            title=node.title,
            text=view.text[node.start_offset : node.end_offset] if leaf else None,
            start=node.start_offset,
            end=node.end_offset,
            page=node.page,
            page_end=node.page_end,
            slide=node.slide,
        )
        made[node.id] = out
        if node.parent_id is None:
            root = out
        else:
            made[node.parent_id].children.append(out)
    return TreeOut(document=encode_id("doc", view.document.id), version=view.document.live_version, root=root)
