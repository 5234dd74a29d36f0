"""Preview: parse, tree and chunks of a file or a text that is not stored."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal, Self

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field, field_validator, model_validator

from app.api.dependencies import AuthenticatedRoute, CurrentWriter
from app.api.http.json_limits import DEFAULT_JSON_LIMIT, MAX_JSON_BYTES
from app.api.http.problems import PROBLEM_RESPONSE, create_problem_response
from app.api.http.request_models import Text
from app.api.http.streaming_body import (
    MULTIPART_FORM,
    parse_content_type,
    read_json_body,
    reject_oversized_body,
    validate_body,
)
from app.api.http.warning_schema import WarningOut, to_warnings_out
from app.api.v1.documents.nodes import MAX_DEPTH
from app.api.v1.documents.upload_schemas import UploadForm
from app.api.v1.knowledge_bases.knowledge_bases import ChunkingRequest
from app.api.v1.schemas import Identifier, StrictRequestModel
from app.bootstrap import TenantServices
from app.documents.upload.multipart import MAX_FORM_OVERHEAD_BYTES
from app.errors import UnsupportedMediaTypeError
from app.ingestion.preview.service import MAX_FILE_BYTES, Preview, PreviewOptions
from app.ingestion.types import IngestionError, TreeNode

router = APIRouter(tags=["preview"], route_class=AuthenticatedRoute)
MAX_CHUNKS = 200
MAX_NODES = 2000


class PreviewOptionsRequest(StrictRequestModel):
    """How to cut: as a knowledge base does, or as ``chunking`` says; without either by the defaults."""

    knowledge_base: Identifier | None = None
    chunking: ChunkingRequest | None = None

    @model_validator(mode="after")
    def _check_not_both(self) -> Self:
        if self.knowledge_base is not None and self.chunking is not None:
            raise ValueError("send either knowledge_base or chunking")
        return self

    def to_preview_options(self, encoding: str | None = None) -> PreviewOptions:
        """The room's form of it. Raises InvalidInputError for an option that the chunker does not know."""
        return PreviewOptions(encoding, self.knowledge_base, self.chunking.to_chunking() if self.chunking else None)


class PreviewForm(PreviewOptionsRequest):
    """The fields beside the file; ``chunking`` is JSON."""

    @field_validator("chunking", mode="before")
    @classmethod
    def _parse_chunking(cls, value: Any) -> Any:
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError("must be a JSON object") from None


class TextPreviewRequest(PreviewOptionsRequest):
    """A text that comes in the body."""

    text: Text = Field(min_length=1)
    media_type: Literal["text/plain", "text/markdown", "text/html"] | None = None


class ParseQualityOut(BaseModel):
    """How well the file could be read; pages, or slides, count from 1.

    ``suspected_scans`` are pages of a PDF without any text; ``garbled_ratio`` is the share of noise in the text;
    ``images`` are those that would be described or embedded, of which the text here says no more than a number.
    """

    pages: int | None
    empty_pages: list[int]
    suspected_scans: list[int]
    garbled_ratio: float
    tables: int
    images: int
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
    warnings: list[WarningOut]
    quality: ParseQualityOut
    tree: PreviewNodeOut
    chunks: list[PreviewChunkOut]
    total_chunks: int
    truncated: bool


def to_tree_out(root: TreeNode, text: str) -> tuple[PreviewNodeOut, bool]:
    """The first nodes in reading order as a tree, and whether there are more."""
    root_out = _to_node_out(root, text, 0)
    stack = [(child, root_out) for child in reversed(root.children)]
    node_count, is_too_deep = 1, False
    while stack and node_count < MAX_NODES:
        node, parent = stack.pop()
        if parent.depth == MAX_DEPTH:
            is_too_deep = True
            continue
        out = _to_node_out(node, text, parent.depth + 1)
        parent.children.append(out)
        stack += [(child, out) for child in reversed(node.children)]
        node_count += 1
    return root_out, is_too_deep or bool(stack)


def _to_node_out(node: TreeNode, text: str, depth: int) -> PreviewNodeOut:
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


def to_preview_out(result: Preview) -> PreviewOut:
    """The reply, cut to a size that a page can show."""
    tree, has_more_nodes = to_tree_out(result.tree.root, result.tree.text)
    shown = list(zip(result.drafts, result.token_counts, strict=True))[:MAX_CHUNKS]
    return PreviewOut(
        media_type=result.media_type,
        title=result.title,
        page_count=result.page_count,
        warnings=to_warnings_out(result.warnings),
        quality=ParseQualityOut(**asdict(result.quality), tokens=result.tokens),
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
        total_chunks=len(result.drafts),
        truncated=result.truncated or has_more_nodes or len(result.drafts) > MAX_CHUNKS,
    )


_REQUEST_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            MULTIPART_FORM: {
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
            "application/json": {
                "schema": TextPreviewRequest.model_json_schema(ref_template="#/components/schemas/{model}")
            },
        },
    }
}


def parse_form(fields: Mapping[str, str]) -> PreviewOptions:
    """A field that was left empty counts as not sent."""
    provided = {name: value for name, value in fields.items() if value != ""}
    encoding = {name: provided.pop(name) for name in ("encoding",) if name in provided}
    return validate_body(PreviewForm, provided).to_preview_options(validate_body(UploadForm, encoding).encoding)


async def _receive_preview(request: Request, tenant: TenantServices) -> Preview:
    kind, boundary = parse_content_type(request)
    max_bytes = MAX_FILE_BYTES + MAX_FORM_OVERHEAD_BYTES if kind == MULTIPART_FORM else MAX_JSON_BYTES
    reject_oversized_body(request, max_bytes, max_bytes)
    if kind == MULTIPART_FORM and boundary:
        return await tenant.preview.preview_upload(request.stream(), boundary, parse_form)
    if kind != "application/json":
        raise UnsupportedMediaTypeError(
            "Send multipart/form-data with a part named 'file', or application/json with 'text'."
        )
    body = await read_json_body(request, TextPreviewRequest, max_bytes=MAX_JSON_BYTES, limit=DEFAULT_JSON_LIMIT)
    return await tenant.preview.preview_text(body.text, body.to_preview_options(), media_type=body.media_type)


@router.post(
    "/preview",
    response_model=PreviewOut,
    openapi_extra=_REQUEST_BODY,
    responses={
        409: {"description": "The knowledge base's embedding model is not configured", **PROBLEM_RESPONSE},
        415: {"description": "No parser reads this kind of file", **PROBLEM_RESPONSE},
    },
)
async def preview_document(request: Request, tenant: CurrentWriter) -> PreviewOut | Response:
    """Show how a file, or a text, would be read and cut, and how well it can be read; nothing of it is stored."""
    try:
        result = await _receive_preview(request, tenant)
    except IngestionError as exc:  # what an uploaded document would fail with
        errors = [{"loc": ["body"], "msg": exc.message}]
        return create_problem_response(request, 422, exc.code, exc.message, errors=errors)
    return await asyncio.to_thread(to_preview_out, result)
