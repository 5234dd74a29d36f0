"""What the tools take and give."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from app.api.http.request_models import STORABLE, RequestModel
from app.api.http.warning_schema import WarningOut

QueryText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=32_000), STORABLE]
Name = Annotated[str, StringConstraints(max_length=512), STORABLE]


class ToolArguments(RequestModel):
    """What a tool is called with: one that is not known is refused, not ignored."""

    model_config = ConfigDict(extra="forbid")


class SearchArguments(ToolArguments):
    """Of ``search``."""

    query: QueryText = Field(description="What to look for, in plain words")


class FetchArguments(ToolArguments):
    """Of ``fetch``."""

    id: Name = Field(description="The id of a document, from a search result")


class KnowledgeSearchArguments(ToolArguments):
    """Of ``search_knowledge``."""

    query: QueryText = Field(description="What to look for, in plain words")
    knowledge_bases: Annotated[list[Name], Field(min_length=1, max_length=100)] | None = Field(
        None, description="Names or ids of the knowledge bases to search; all of them without it"
    )
    filter: dict[str, Any] | None = Field(
        None,
        description='Conditions on metadata, all of which hold: {"year": {"gte": 2024}, "language": ["en", "fr"]}. '
        "Operators: gte, lte, gt, lt, contains, starts_with, ends_with, exists, not; and, or, not take filters",
    )
    top_k: int | None = Field(None, ge=1, le=50, description="How many passages; 5 without it, or as configured")


class KnowledgeBaseListArguments(ToolArguments):
    """Of ``list_knowledge_bases``."""

    cursor: Annotated[str, Field(max_length=512)] | None = Field(
        None, description="next_cursor of the page before; the first page without it"
    )


class DocumentHitOut(BaseModel):
    """A document that was found; ``id`` is what ``fetch`` takes."""

    id: str
    title: str
    url: str


class CitedDocumentOut(BaseModel):
    """The document of a passage. What an HTTP source has found has no ``id``, and its ``url`` is the source's."""

    id: str | None
    title: str
    url: str | None


class DocumentSearchOut(BaseModel):
    """Of ``search``, best first: documents that ``fetch`` has."""

    results: list[DocumentHitOut]


class FetchedDocumentOut(BaseModel):
    """Of ``fetch``; ``metadata`` says whether there is more text than this."""

    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, Any]


class RetrievedChunkOut(BaseModel):
    """A passage: ``score`` orders, ``citation`` says where it stands, ``flags`` what in it speaks to a model."""

    text: str
    citation: str
    score: float
    similarity: float | None
    knowledge_base: str
    document: CitedDocumentOut
    page: int | None
    slide: int | None
    section_titles: list[str]
    metadata: dict[str, Any]
    flags: list[str]


class KnowledgeSearchOut(BaseModel):
    """Of ``search_knowledge``, best first."""

    results: list[RetrievedChunkOut]
    warnings: list[WarningOut]


class KnowledgeBaseSummaryOut(BaseModel):
    """A knowledge base, and how much is in it."""

    id: str
    name: str
    title: str | None
    description: str | None
    language: str
    documents: int
    chunks: int
    created_at: datetime


class KnowledgeBaseListOut(BaseModel):
    """Of ``list_knowledge_bases``, newest first."""

    knowledge_bases: list[KnowledgeBaseSummaryOut]
    next_cursor: str | None = None
