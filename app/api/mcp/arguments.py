"""Schemas of the arguments and results of tools."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from app.api.http.include_schemas import IncludedOut
from app.api.http.request_models import STORABLE, RequestModel
from app.api.http.warning_schema import WarningOut

QueryText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=32_000), STORABLE]
Name = Annotated[str, StringConstraints(max_length=512), STORABLE]


class ToolArguments(RequestModel):
    """Arguments of a tool. An unknown argument is an error."""

    model_config = ConfigDict(extra="forbid")


class SearchArguments(ToolArguments):
    """Arguments of ``search``."""

    query: QueryText = Field(description="What to look for, in plain words")


class FetchArguments(ToolArguments):
    """Arguments of ``fetch``."""

    id: Name = Field(description="The id of a document, from a search result")


class KnowledgeSearchArguments(ToolArguments):
    """Arguments of ``search_knowledge``."""

    query: QueryText = Field(description="What to look for, in plain words")
    knowledge_bases: Annotated[list[Name], Field(min_length=1, max_length=100)] | None = Field(
        None, description="Names or ids of the knowledge bases to search; all knowledge bases by default"
    )
    filter: dict[str, Any] | None = Field(
        None,
        description='Conditions on metadata that all must hold: {"year": {"gte": 2024}, "language": ["en", "fr"]}. '
        "Operators: gte, lte, gt, lt, contains, starts_with, ends_with, exists, not; and, or, not take filters",
    )
    top_k: int | None = Field(
        None, ge=1, le=50, description="Maximum number of passages; 5 by default, or as configured"
    )
    include: Annotated[list[Name], Field(max_length=10)] = Field(
        default_factory=list,
        description="Additions to each passage: entities (names in it), parent_summaries (of the sections above it), "
        "keywords (of its section)",
    )


class KnowledgeBaseListArguments(ToolArguments):
    """Arguments of ``list_knowledge_bases``."""

    cursor: Annotated[str, Field(max_length=512)] | None = Field(
        None, description="next_cursor of the page before; the first page by default"
    )


class DocumentHitOut(BaseModel):
    """Document in the result of ``search``. ``fetch`` accepts its ``id``."""

    id: str
    title: str
    url: str


class CitedDocumentOut(BaseModel):
    """Document of a passage. A result of an HTTP source has no ``id``, and its ``url`` is the address that the source
    returned.
    """

    id: str | None
    title: str
    url: str | None


class DocumentSearchOut(BaseModel):
    """Result of ``search``: documents, best first."""

    results: list[DocumentHitOut]


class FetchedDocumentOut(BaseModel):
    """Result of ``fetch``. If the text is longer, ``metadata`` has ``truncated: true``."""

    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, Any]


class RetrievedChunkOut(IncludedOut):
    """Passage. ``score`` is the score of the strategy, ``citation`` has document and page for people.

    If the passage begins inside a table, ``text`` begins with ``table_head``, the column names of that table.

    ``flags`` mark text that resembles instructions to a language model.
    """

    text: str
    citation: str
    score: float
    similarity: float | None
    knowledge_base: str
    document: CitedDocumentOut
    page: int | None
    slide: int | None
    section_titles: list[str]
    table_head: str | None
    metadata: dict[str, Any]
    flags: list[str]


class KnowledgeSearchOut(BaseModel):
    """Result of ``search_knowledge``: passages, best first, after a text about the names that connect them."""

    connections: str | None = Field(None, exclude_if=lambda text: text is None)
    results: list[RetrievedChunkOut]
    warnings: list[WarningOut]


class KnowledgeBaseSummaryOut(BaseModel):
    """Knowledge base with the number of its documents and chunks."""

    id: str
    name: str
    title: str | None
    description: str | None
    language: str
    documents: int
    chunks: int
    created_at: datetime


class KnowledgeBaseListOut(BaseModel):
    """Result of ``list_knowledge_bases``: a page of knowledge bases, newest first."""

    knowledge_bases: list[KnowledgeBaseSummaryOut]
    next_cursor: str | None = None
