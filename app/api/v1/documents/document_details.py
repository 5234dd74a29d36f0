"""One document, with its tree and its first chunks on request."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from app.api.dependencies import AuthenticatedRoute, CurrentReader, encode_cursor
from app.api.http.path_parameters import DocumentPath, KnowledgeBasePath
from app.api.http.request_models import Text
from app.api.v1.documents.chunks import ChunkList, ChunkOut, to_chunk_fields
from app.api.v1.documents.documents import DocumentOut, decode_document_id, to_document_out
from app.api.v1.documents.nodes import MAX_DEPTH, DocumentTreeOut, TreeResponse
from app.documents.content.service import ChunkListView
from app.errors import InvalidInputError

router = APIRouter(prefix="/knowledge-bases/{kb}/documents", tags=["documents"], route_class=AuthenticatedRoute)
MAX_INCLUDED_CHUNKS = 200
TREE, CHUNKS = "tree", "chunks"


class DocumentDetailOut(DocumentOut):
    """Document, with the parts that ``include`` names."""

    tree: DocumentTreeOut | None = Field(None, description="Document tree; only with `include=tree`.")
    chunks: ChunkList | None = Field(
        None,
        description="First 200 chunks of the live version; only with `include=chunks`. The list of chunks takes "
        "`next_cursor`.",
    )


def parse_include(text: str | None) -> frozenset[str]:
    """Parse the names in `include`.

    Args:
        text: Names with commas between them; None without any.

    Raises:
        InvalidInputError: A name is unknown.
    """
    names = frozenset(name.strip() for name in (text or "").split(",") if name.strip())
    if unknown := sorted(names - {TREE, CHUNKS}):
        raise InvalidInputError(f"{unknown[0]!r} is unknown. Use tree or chunks.", loc=("query", "include"))
    return names


def _to_chunk_list(view: ChunkListView) -> ChunkList:
    chunks = view.chunks[:MAX_INCLUDED_CHUNKS]
    cursor = encode_cursor(chunks[-1].ordinal) if view.chunks[MAX_INCLUDED_CHUNKS:] else None
    items = [ChunkOut(**to_chunk_fields(chunk, view.document, view.offsets)) for chunk in chunks]
    return ChunkList(items=items, next_cursor=cursor)


@router.get(
    "/{document}", summary="Get a document", response_model=DocumentDetailOut, response_model_exclude_unset=True
)
async def get_document(
    kb: KnowledgeBasePath,
    document: DocumentPath,
    tenant: CurrentReader,
    include: Annotated[
        Text | None,
        Query(max_length=100, description="Parts to add: `tree`, `chunks`, or both.", examples=["tree,chunks"]),
    ] = None,
) -> Response | DocumentDetailOut:
    """Return a document with the state of its ingestion.

    With `include`, the response also has the document tree, the first 200 chunks of the live version, or both.
    """
    names, document_id = parse_include(include), decode_document_id(document)
    row = await tenant.documents.get(kb, document_id)
    out = to_document_out(row, (await tenant.knowledge_bases.find(kb)).row.name)
    details = DocumentDetailOut(**out.model_dump(exclude_unset=True))
    if CHUNKS in names:
        view = await tenant.content.list_chunks(
            kb, document_id, node_id=None, after=-1, limit=MAX_INCLUDED_CHUNKS + 1, utf16=False
        )
        details.chunks = _to_chunk_list(view)
    if TREE not in names:
        return details
    opening = details.model_dump_json(exclude_unset=True)
    return TreeResponse(
        tenant.content.read_tree(kb, document_id, utf16=False),
        depth=MAX_DEPTH,
        opening=f'{opening[:-1]},"tree":',
        ending="}",
    )
