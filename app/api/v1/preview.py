"""Preview: parse, tree and chunks of a file or a text that is not stored."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal, Self

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field, field_validator, model_validator

from app.api.bodies import Text
from app.api.dependencies import CurrentWriter, GuardedRoute
from app.api.json_limits import LIMIT, MAX_JSON_BYTES
from app.api.problems import PROBLEM, problem
from app.api.streamed import FORM, checked, content_type, read_json, refuse_large
from app.api.v1.knowledge_bases import ChunkingIn
from app.api.v1.nodes import MAX_DEPTH
from app.api.v1.schemas import Identifier, Input
from app.api.v1.upload_forms import UploadForm
from app.bootstrap import TenantServices
from app.documents.uploads import OVERHEAD
from app.errors import Unsupported
from app.ingestion.preview import MOST_BYTES, Preview, PreviewWishes
from app.ingestion.types import IngestionError, TreeNode

router = APIRouter(tags=["preview"], route_class=GuardedRoute)
MOST_CHUNKS = 200
MOST_NODES = 2000


class Wishes(Input):
    """How to cut: as a knowledge base does, or as ``chunking`` says; without either by the defaults."""

    knowledge_base: Identifier | None = None
    chunking: ChunkingIn | None = None

    @model_validator(mode="after")
    def _not_both(self) -> Self:
        if self.knowledge_base is not None and self.chunking is not None:
            raise ValueError("send either knowledge_base or chunking")
        return self

    def wishes(self, encoding: str | None = None) -> PreviewWishes:
        """The room's form of it. Raises InvalidInput for an option that the chunker does not know."""
        return PreviewWishes(encoding, self.knowledge_base, self.chunking.settings() if self.chunking else None)


class PreviewForm(Wishes):
    """The fields beside the file; ``chunking`` is JSON."""

    @field_validator("chunking", mode="before")
    @classmethod
    def _parse(cls, value: Any) -> Any:
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError("must be a JSON object") from None


class TextPreview(Wishes):
    """A text that comes in the body."""

    text: Text = Field(min_length=1)
    media_type: Literal["text/plain", "text/markdown", "text/html"] | None = None


class QualityOut(BaseModel):
    """How well the file could be read; pages, or slides, count from 1.

    ``suspected_scans`` are pages of a PDF without any text; ``garbled_ratio`` is the share of noise in the text;
    ``pictures`` are those that would be described or embedded, of which the text here says no more than a number.
    """

    pages: int | None
    empty_pages: list[int]
    suspected_scans: list[int]
    garbled_ratio: float
    tables: int
    pictures: int
    characters: int
    tokens: int


class PreviewNodeOut(BaseModel):
    """A node of the tree; a leaf has its text. There are no ids: there is no document."""

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
    text: str | None
    children: list["PreviewNodeOut"]


class PreviewChunkOut(BaseModel):
    """A chunk; ``node_path`` leads from the root to its node, by the positions of children."""

    chunk_index: int
    text: str
    start: int
    end: int
    tokens: int
    page: int | None
    page_end: int | None
    slide: int | None
    section_titles: list[str]
    node_path: list[int]


class PreviewOut(BaseModel):
    """What ingestion would make of it.

    ``truncated`` where that is more than is shown here: chunks, nodes, or text of which only the beginning was cut.
    """

    media_type: str
    title: str | None
    page_count: int | None
    warnings: list[str]
    quality: QualityOut
    tree: PreviewNodeOut
    chunks: list[PreviewChunkOut]
    total_chunks: int
    truncated: bool


def tree_out(root: TreeNode, text: str) -> tuple[PreviewNodeOut, bool]:
    """The first nodes in reading order as a tree, and whether there are more."""
    top = _node_out(root, text, 0)
    waiting = [(child, top) for child in reversed(root.children)]
    made, too_deep = 1, False
    while waiting and made < MOST_NODES:
        node, parent = waiting.pop()
        if parent.depth == MAX_DEPTH:
            too_deep = True
            continue
        out = _node_out(node, text, parent.depth + 1)
        parent.children.append(out)
        waiting += [(child, out) for child in reversed(node.children)]
        made += 1
    return top, too_deep or bool(waiting)


def _node_out(node: TreeNode, text: str, depth: int) -> PreviewNodeOut:
    return PreviewNodeOut(
        kind=node.kind.value,
        level=node.level,
        depth=depth,
        title=node.title,
        start=node.start,
        end=node.end,
        page=node.page,
        page_end=node.page_end,
        slide=node.slide,
        block=node.block.value if node.block else None,
        text=None if node.children else text[node.start : node.end],
        children=[],
    )


def preview_out(made: Preview) -> PreviewOut:
    """The reply, cut to a size that a page can show."""
    tree, more = tree_out(made.tree.root, made.tree.text)
    shown = list(zip(made.drafts, made.counts, strict=True))[:MOST_CHUNKS]
    return PreviewOut(
        media_type=made.media_type,
        title=made.title,
        page_count=made.page_count,
        warnings=list(made.warnings),
        quality=QualityOut(**asdict(made.quality), tokens=made.tokens),
        tree=tree,
        chunks=[
            PreviewChunkOut(
                chunk_index=index,
                text=draft.text,
                start=draft.start,
                end=draft.end,
                tokens=tokens,
                page=draft.page,
                page_end=draft.page_end,
                slide=draft.slide,
                section_titles=list(draft.section_titles),
                node_path=list(draft.node_path),
            )
            for index, (draft, tokens) in enumerate(shown)
        ],
        total_chunks=len(made.drafts),
        truncated=made.truncated or more or len(made.drafts) > MOST_CHUNKS,
    )


_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            FORM: {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "encoding": {"type": "string"},
                        "knowledge_base": {"type": "string"},
                        "chunking": {"type": "string", "description": "A JSON object, as of a knowledge base"},
                    },
                }
            },
            "application/json": {"schema": TextPreview.model_json_schema(ref_template="#/components/schemas/{model}")},
        },
    }
}


def read_form(fields: Mapping[str, str]) -> PreviewWishes:
    """A field that was left empty counts as not sent."""
    given = {name: value for name, value in fields.items() if value != ""}
    encoding = {name: given.pop(name) for name in ("encoding",) if name in given}
    return checked(PreviewForm, given).wishes(checked(UploadForm, encoding).encoding)


async def _receive(request: Request, tenant: TenantServices) -> Preview:
    kind, boundary = content_type(request)
    most = MOST_BYTES + OVERHEAD if kind == FORM else MAX_JSON_BYTES
    refuse_large(request, most, most)
    if kind == FORM and boundary:
        return await tenant.preview.preview(request.stream(), boundary, read_form)
    if kind != "application/json":
        raise Unsupported("Send multipart/form-data with a part named 'file', or application/json with 'text'.")
    body = await read_json(request, TextPreview, most=MAX_JSON_BYTES, limit=LIMIT)
    return await tenant.preview.preview_text(body.text, body.wishes(), media_type=body.media_type)


@router.post(
    "/preview",
    response_model=PreviewOut,
    openapi_extra=_BODY,
    responses={
        409: {"description": "The knowledge base's embedding model is not configured", **PROBLEM},
        415: {"description": "No parser reads this kind of file", **PROBLEM},
    },
)
async def preview(request: Request, tenant: CurrentWriter) -> PreviewOut | Response:
    """Show how a file, or a text, would be read and cut, and how well it can be read; nothing of it is stored."""
    try:
        made = await _receive(request, tenant)
    except IngestionError as exc:  # what an uploaded document would fail with
        errors = [{"loc": ["body"], "msg": exc.message}]
        return problem(request, 422, exc.code, exc.message, errors=errors)
    return await asyncio.to_thread(preview_out, made)
