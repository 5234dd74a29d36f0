"""One document, with its tree and its first chunks on request."""

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from app.api.dependencies import AuthenticatedRoute, CurrentReader, encode_cursor
from app.api.http import example_values
from app.api.http.path_parameters import DocumentPath, KnowledgeBasePath
from app.api.http.request_models import Text
from app.api.http.warning_schema import WarningOut
from app.api.v1.documents.chunks import ChunkList, ChunkOut, to_chunk_fields
from app.api.v1.documents.documents import DocumentOut, decode_document_id, to_document_out
from app.api.v1.documents.nodes import MAX_DEPTH, DocumentTreeOut, TreeResponse
from app.api.v1.schemas import Time
from app.documents.content.service import ChunkListView
from app.enrichment.types import EnrichmentWaitReason
from app.errors import InvalidInputError

router = APIRouter(prefix="/knowledge-bases/{kb}/documents", tags=["documents"], route_class=AuthenticatedRoute)
MAX_INCLUDED_CHUNKS = 200
TREE, CHUNKS = "tree", "chunks"


class DocumentEnrichmentOut(BaseModel):
    """State of the enrichment of a document by a chat model."""

    state: Literal["pending", "running", "capped", "done", "stopped", "failed"] = Field(
        description="`pending`, `running`, `done`, `capped` (a limit of tokens is reached), `stopped` (the enrichment "
        "was switched off) or `failed`.",
        examples=["done"],
    )
    sections: int = Field(description="Number of sections that get a call of the chat model.", examples=[12])
    sections_done: int = Field(description="Number of sections with a reply.", examples=[12])
    calls: int = Field(description="Calls of the chat model for the live version.", examples=[12])
    tokens: int = Field(description="Tokens of these calls.", examples=[18_400])
    waiting_for: EnrichmentWaitReason | None = Field(
        description="`chat_model` or `embedding_endpoint` if the model does not answer, `rate_limit` if the embedding "
        "tokens of the day are used up; null otherwise.",
        examples=[None],
    )
    warnings: Sequence[WarningOut] = Field(description="Parts of replies that were left out.", examples=[[]])
    updated_at: Time = Field(description="Time of the last change, in UTC.", examples=[example_values.UPDATED_AT])


class DocumentDetailOut(DocumentOut):
    """Document, with its enrichment and the parts that ``include`` names."""

    enrichment: DocumentEnrichmentOut | None = Field(
        None,
        description="State of the enrichment by a chat model. Only present if the document was to be enriched.",
        exclude_if=lambda state: state is None,
    )
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
    state = await tenant.enrichment.find_document_state(document_id)
    enrichment = None if state is None else DocumentEnrichmentOut.model_validate(state, from_attributes=True)
    details = DocumentDetailOut(**out.model_dump(exclude_unset=True), enrichment=enrichment)
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
