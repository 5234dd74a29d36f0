"""Preview: parse, tree and chunks of a file or a text that is not stored."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Self

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field, field_validator, model_validator

from app.api.dependencies import AuthenticatedRoute, CurrentWriter
from app.api.http import example_values
from app.api.http.json_limits import DEFAULT_JSON_LIMIT, MAX_JSON_BYTES
from app.api.http.problems import create_problem_response
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
from app.api.v1.knowledge_bases.knowledge_base_schemas import ChunkingRequest
from app.api.v1.schemas import Identifier, SourceEnd, SourceStart, StrictRequestModel, TextMediaType
from app.bootstrap import TenantServices
from app.documents.upload.multipart import MAX_FORM_OVERHEAD_BYTES
from app.errors import UnsupportedMediaTypeError
from app.ingestion.preview.service import MAX_FILE_BYTES, Preview, PreviewOptions
from app.ingestion.types import IngestionError, TreeNode

router = APIRouter(tags=["preview"], route_class=AuthenticatedRoute)
MAX_CHUNKS = 200
MAX_NODES = 2000


class PreviewOptionsRequest(StrictRequestModel):
    """Options of a preview: the chunking of a knowledge base, or ``chunking``. Without both, the default chunking
    applies.
    """

    knowledge_base: Identifier | None = Field(
        None, description="Id or name of a knowledge base whose chunking is used.", examples=[None]
    )
    chunking: ChunkingRequest | None = Field(
        None,
        description="Chunking to use; not together with `knowledge_base`.",
        examples=[{"strategy": "headered", "max_tokens": 200}],
    )

    @model_validator(mode="after")
    def _check_not_both(self) -> Self:
        if self.knowledge_base is not None and self.chunking is not None:
            raise ValueError("send either knowledge_base or chunking")
        return self

    def to_preview_options(self, encoding: str | None = None) -> PreviewOptions:
        """Convert the body to options of a preview.

        Args:
            encoding: Character encoding of a text file; None to detect it.

        Raises:
            InvalidInputError: The chunker does not know an option.
        """
        return PreviewOptions(encoding, self.knowledge_base, self.chunking.to_chunking() if self.chunking else None)


class PreviewForm(PreviewOptionsRequest):
    """Fields of the form next to the file; ``chunking`` is a JSON object as text."""

    @field_validator("chunking", mode="before")
    @classmethod
    def _parse_chunking(cls, value: Any) -> Any:
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError("must be a JSON object") from None


class TextPreviewRequest(PreviewOptionsRequest):
    """Preview of a text in a JSON body."""

    text: Text = Field(
        min_length=1,
        description="Text to preview, not empty.",
        examples=["# Leave\n\nParents may take up to 14 months of parental leave."],
    )
    media_type: TextMediaType | None = Field(
        None,
        description="Media type of `text`: that of any text format in `GET /v1/capabilities`, such as `text/html`, "
        "`text/csv` or `application/json`. Default: `text/markdown` if the text has a heading of Markdown, else "
        "`text/plain`.",
        examples=["text/markdown"],
    )


class ParseQualityOut(BaseModel):
    """Quality of the parsed file; pages and slides count from 1."""

    pages: int | None = Field(description="Number of pages or slides; null if the format has none.", examples=[12])
    empty_pages: list[int] = Field(description="Pages without text.", examples=[[]])
    suspected_scans: list[int] = Field(
        description="Pages of a PDF that have no text and are probably scans.", examples=[[]]
    )
    garbled_ratio: float = Field(description="Share of the text that looks like noise, 0 to 1.", examples=[0.0])
    tables: int = Field(description="Number of tables.", examples=[2])
    images: int = Field(description="Number of images that ingestion would describe or embed.", examples=[3])
    characters: int = Field(description="Number of characters of the text.", examples=[24180])
    tokens: int = Field(description="Number of tokens of the text by the embedding model.", examples=[5610])


class LossOut(BaseModel):
    """Report of what the parser did not read: counts by kind, and the share of words that were left out."""

    counts: dict[str, int] = Field(
        description="Number of things that were not read, by the code of their warning.",
        examples=[{"attachments_not_read": 2}],
    )
    words_left_out: int = Field(description="Number of words that were left out, such as navigation.", examples=[120])
    left_out_share: float = Field(description="Share of the words that were left out, 0 to 1.", examples=[0.12])


class PreviewNodeOut(BaseModel):
    """Node of the document tree of a preview. It has no id, because there is no document."""

    kind: str = Field(
        description="Kind of the node: `document` (the root), `section`, `paragraph`, `sentence` or `topic`.",
        examples=["document"],
    )
    level: int = Field(description="Level of the heading of a section, from 1; 0 for other nodes.", examples=[0])
    depth: int = Field(description="Number of nodes above this one; 0 for the root.", examples=[0])
    title: str | None = Field(
        description="Heading of a section, or title of the document; null without one.", examples=["Staff handbook"]
    )
    start: int = Field(description="Offset of the first character in the parsed text, in code points.", examples=[0])
    end: int = Field(
        description="Offset behind the last character in the parsed text, in code points.", examples=[24180]
    )
    page: int | None = Field(description="First page, from 1; null if the format has no pages.", examples=[1])
    page_end: int | None = Field(description="Last page, from 1; null if the format has no pages.", examples=[12])
    slide: int | None = Field(description="Slide, from 1; null if the format has no slides.", examples=[None])
    block: str | None = Field(
        description="Kind of block of a paragraph, such as `paragraph`, `table` or `code`; null for other nodes.",
        examples=[None],
    )
    text: str | None = Field(description="Text of a leaf; null for a node with children.", examples=[None])
    children: list["PreviewNodeOut"] = Field(description="Children in reading order.", examples=[[]])


class PreviewChunkOut(BaseModel):
    """Chunk of a preview."""

    chunk_index: int = Field(description="Index of the chunk, from 0.", examples=[3])
    text: str = Field(
        description="Text of the chunk.", examples=["Parents may take up to 14 months of parental leave."]
    )
    table_head: str | None = Field(
        description="Head of a table that the text repeats, because it begins inside the table. `text` begins with "
        "`table_head` and a line break, which are not in the range `start` to `end`. Null without a repeated head.",
        examples=["| Part | Price EUR |\n| --- | --- |"],
    )
    start: int = Field(description="Offset of the first character in the parsed text, in code points.", examples=[5120])
    end: int = Field(
        description="Offset behind the last character in the parsed text, in code points.", examples=[5171]
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
    node_path: list[int] = Field(
        description="Positions of children from the root of the tree to the node of the chunk, from 0.",
        examples=[[2, 0]],
    )


class PreviewOut(BaseModel):
    """Result of a preview: what ingestion would make of the file."""

    media_type: str = Field(description="Detected media type.", examples=["application/pdf"])
    title: str | None = Field(description="Title of the file; null without one.", examples=["Staff handbook"])
    page_count: int | None = Field(description="Number of pages or slides; null if the format has none.", examples=[12])
    warnings: list[WarningOut] = Field(
        description="Warnings of the parser, as a document would have them.", examples=[[]]
    )
    loss: LossOut = Field(description="What the parser did not read.")
    quality: ParseQualityOut = Field(description="Quality of the parsed file.")
    tree: PreviewNodeOut = Field(description="Document tree, at most 2,000 nodes.")
    chunks: list[PreviewChunkOut] = Field(description="First chunks, at most 200.")
    total_chunks: int = Field(description="Number of chunks of the whole file.", examples=[40])
    truncated: bool = Field(
        description="Whether the file has more chunks, nodes or text than the preview shows.", examples=[False]
    )


def to_tree_out(root: TreeNode, text: str) -> tuple[PreviewNodeOut, bool]:
    """Return the first nodes in reading order as a tree, and whether the document tree has further nodes.

    Args:
        root: Root of the document tree.
        text: Text of the document.
    """
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


def _to_source_fields(start: int | None, end: int | None) -> dict[str, int | None]:
    return {"source_start": start, "source_end": end}


def to_preview_out(result: Preview) -> PreviewOut:
    """Return the response, cut to a size that a page can display."""
    tree, has_more_nodes = to_tree_out(result.tree.root, result.tree.text)
    shown = list(zip(result.drafts, result.token_counts, strict=True))[:MAX_CHUNKS]
    return PreviewOut(
        media_type=result.media_type,
        title=result.title,
        page_count=result.page_count,
        warnings=to_warnings_out(result.warnings),
        loss=LossOut(
            counts=result.loss.counts,
            words_left_out=result.loss.words_left_out,
            left_out_share=result.loss.left_out_share,
        ),
        quality=ParseQualityOut(**asdict(result.quality), tokens=result.tokens),
        tree=tree,
        chunks=[
            PreviewChunkOut(
                chunk_index=index,
                text=draft.content,
                table_head=draft.table_head,
                start=draft.start,
                end=draft.end,
                **_to_source_fields(*result.tree.find_source_range(draft.start, draft.end)),
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
                        "file": {"type": "string", "format": "binary", "description": "The file, at most 50 MiB."},
                        "encoding": {
                            "type": "string",
                            "description": "Character encoding of a text file. Default: detected.",
                            "examples": ["utf-8"],
                        },
                        "knowledge_base": {
                            "type": "string",
                            "description": "Id or name of a knowledge base whose chunking is used.",
                            "examples": [example_values.KNOWLEDGE_BASE_NAME],
                        },
                        "chunking": {
                            "type": "string",
                            "description": "Chunking to use, as a JSON object; not together with `knowledge_base`.",
                            "examples": ['{"strategy": "headered", "max_tokens": 200}'],
                        },
                    },
                },
                "example": {"file": "handbook.md", "chunking": '{"strategy": "headered", "max_tokens": 200}'},
            },
            "application/json": {"schema": {"$ref": "#/components/schemas/TextPreviewRequest"}},
        },
    }
}


def parse_form(fields: Mapping[str, str]) -> PreviewOptions:
    """Parse the fields of a form. An empty field counts as missing."""
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
    summary="Preview a document",
    response_model=PreviewOut,
    openapi_extra=_REQUEST_BODY,
)
async def preview_document(request: Request, tenant: CurrentWriter) -> PreviewOut | Response:
    """Parse and cut a file or a text, and report how well it can be read. Nothing is stored.

    Files have at most 50 MiB. If a file cannot be parsed, the response has the error code that an upload of the file
    would fail with.
    """
    try:
        result = await _receive_preview(request, tenant)
    except IngestionError as exc:  # the error that an uploaded document would have
        errors = [{"loc": ["body"], "msg": exc.message}]
        return create_problem_response(request, 422, exc.code, exc.message, errors=errors)
    return await asyncio.to_thread(to_preview_out, result)
