"""Schemas of uploads: fields of a form, and the JSON body."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from app.api.http import example_values
from app.api.http.request_models import STORABLE, Text
from app.api.http.streaming_body import validate_body
from app.api.v1.documents.provided_graph_schemas import (
    ProvidedEntities,
    ProvidedRelations,
    check_entity_number,
    to_provided_graph,
)
from app.api.v1.schemas import Identifier, LargeRequestModel, Metadata, ScopeId, TextMediaType, Title, WebAddress
from app.documents.scopes import DocumentScope
from app.documents.types import MAX_PROVIDED_CHUNKS, DocumentFields, ProvidedChunk
from app.times import ProvidedTime


def require_future(value: datetime) -> datetime:
    """Return a time that is in the future. Any other time makes the request invalid."""
    if value <= datetime.now(UTC):
        raise ValueError("must be in the future")
    return value


class DocumentFieldsRequest(LargeRequestModel):
    """Fields of a document that the uploader may set."""

    metadata: Metadata | None = Field(
        None,
        description="Metadata of the document, a JSON object. Filters and results see it.",
        examples=[{"department": "hr", "year": 2026}],
    )
    title: Title | None = Field(
        None,
        description="Title, 1 to 500 characters. It is searched together with the text.",
        examples=["Staff handbook"],
    )
    external_id: Identifier | None = Field(
        None,
        description="Your id of the document, 1 to 512 characters, unique in knowledge base and scope. An upload "
        "with the same id replaces the document.",
        examples=["handbook-2026"],
    )
    source_uri: WebAddress | None = Field(
        None,
        description="Address of the source, http or https, at most 2,048 characters. It is shown and never fetched.",
        examples=["https://intranet.example.com/handbook.pdf"],
    )
    source_created_at: ProvidedTime | None = Field(
        None,
        description="Time at which the source was created. A time with an offset, between the years 2 and 9998 in UTC.",
        examples=["2026-01-15T00:00:00Z"],
    )
    user_id: ScopeId | None = Field(
        None,
        description="Make the document visible to this user only, 1 to 256 characters. With `chat_id`, the chat "
        "belongs to this user, and the document is visible in this user's chat only.",
        examples=[example_values.USER_ID],
    )
    chat_id: ScopeId | None = Field(
        None,
        description="Make the document visible in this chat only, 1 to 256 characters. Without `user_id`, the chat "
        "belongs to no user. Chats of several users may have the same id.",
        examples=[example_values.CHAT_ID],
    )
    agent_id: ScopeId | None = Field(
        None,
        description="Make the document visible to this agent in the chat only, 1 to 256 characters. Needs `chat_id`.",
        examples=[example_values.AGENT_ID],
    )
    dynamic: bool | None = Field(
        None,
        description="Mark the document as dynamic: searches with `exclude_dynamic` leave it out.",
        examples=[False],
    )
    expires_at: Annotated[ProvidedTime, AfterValidator(require_future)] | None = Field(
        None,
        description="Time at which the document is deleted, in the future. A time with an offset, between the "
        "years 2 and 9998 in UTC.",
        examples=["2027-01-01T00:00:00Z"],
    )

    def to_document_fields(self) -> DocumentFields:
        """Convert the fields to the type of the documents package.

        Raises:
            InvalidInputError: The ids of user, chat and agent do not form a scope.
        """
        fields = self.model_dump(exclude={"user_id", "chat_id", "agent_id", "text", "chunks", "media_type"})
        scope = DocumentScope(self.user_id, self.chat_id, self.agent_id)
        scope.determine_level()
        return DocumentFields(**fields, scope=scope)


class UploadForm(DocumentFieldsRequest):
    """Fields of the form next to the file; ``metadata`` is a JSON object as text."""

    encoding: Annotated[str, StringConstraints(max_length=40), STORABLE] | None = Field(
        None,
        description="Character encoding of a text file, at most 40 characters. Default: detected.",
        examples=["utf-8"],
    )

    @field_validator("metadata", mode="before")
    @classmethod
    def _parse_metadata(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError("must be a JSON object") from None

    @field_validator("encoding")
    @classmethod
    def _check_encoding(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                b"".decode(value)
                "".encode(value)
            except (LookupError, UnicodeError):
                raise ValueError("is no known character encoding") from None
        return value


class ProvidedChunkRequest(LargeRequestModel):
    """Chunk that the caller has cut. Without a vector, the service embeds it."""

    text: Text = Field(
        min_length=1,
        description="Text of the chunk, not empty.",
        examples=["Parents may take up to 14 months of parental leave."],
    )
    metadata: Metadata | None = Field(
        None, description="Metadata of the chunk, in addition to that of the document.", examples=[{"paragraph": 7}]
    )
    section_titles: list[Title] = Field(
        [],
        max_length=20,
        description="Headings above the chunk, outermost first, at most 20.",
        examples=[["Leave", "Parental leave"]],
    )
    page: int | None = Field(None, ge=1, lt=2**31, description="Page of the chunk, from 1.", examples=[4])
    vector: list[float] | None = Field(
        None,
        min_length=1,
        max_length=4000,
        description="Vector by the embedding model of the knowledge base, with its number of dimensions.",
        examples=[[0.0271, -0.0814, 0.0562]],
    )
    entities: ProvidedEntities = Field(
        [],
        description="Entities of the chunk for the entity graph, at most 64 with the ends of `relations`. They are "
        "added to those that the service finds.",
        examples=[[{"name": "Stephen Warbeck", "type": "person"}]],
    )
    relations: ProvidedRelations = Field(
        [],
        description="Relations between entities of the chunk, at most 64. Their ends become entities of the chunk.",
        examples=[[{"subject": "Stephen Warbeck", "predicate": "composed", "object": "Shakespeare in Love"}]],
    )

    @model_validator(mode="after")
    def _check_entities(self) -> Self:
        check_entity_number(self.entities, self.relations)
        return self

    def to_provided_chunk(self) -> ProvidedChunk:
        """Convert the chunk to the type of the documents package."""
        return ProvidedChunk(
            self.text,
            self.metadata or {},
            tuple(self.section_titles),
            self.page,
            self.vector,
            to_provided_graph(self.entities, self.relations),
        )


class TextDocumentCreate(DocumentFieldsRequest):
    """Document in a JSON body: a text, or chunks."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "text": "# Leave\n\nParents may take up to 14 months of parental leave.",
                    "media_type": "text/markdown",
                    "title": "Staff handbook",
                    "external_id": "handbook-2026",
                    "metadata": {"department": "hr"},
                },
                {
                    "chunks": [
                        {"text": "Parents may take up to 14 months of parental leave.", "section_titles": ["Leave"]}
                    ],
                    "external_id": "handbook-leave",
                },
            ]
        }
    )

    text: str | None = Field(
        None,
        min_length=1,
        description="Text of the document, not empty. Either `text` or `chunks` is needed.",
        examples=["# Leave\n\nParents may take up to 14 months of parental leave."],
    )
    chunks: list[ProvidedChunkRequest] | None = Field(
        None,
        min_length=1,
        max_length=MAX_PROVIDED_CHUNKS,
        description="Chunks of the document in reading order, 1 to 10,000, in place of `text`.",
    )
    media_type: TextMediaType | None = Field(
        None,
        description="Media type of `text`: that of any text format in `GET /v1/capabilities`, such as `text/html`, "
        "`text/csv` or `application/json`. Default: `text/markdown` if the text has a heading of Markdown, else "
        "`text/plain`.",
        examples=["text/markdown"],
    )

    @model_validator(mode="after")
    def _check_exactly_one(self) -> Self:
        if (self.text is None) == (self.chunks is None):
            raise ValueError("send either text or chunks")
        if self.chunks is not None and self.media_type is not None:
            raise ValueError("media_type is allowed with text only")
        return self


def parse_form(fields: Mapping[str, str]) -> DocumentFields:
    """Parse the fields of a form. An empty field counts as missing."""
    return validate_body(
        UploadForm, {name: value for name, value in fields.items() if value != ""}
    ).to_document_fields()
