"""What an upload may carry: the fields of a form, and the JSON body."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from app.api.http.request_models import STORABLE, Text
from app.api.http.streaming_body import validate_body
from app.api.v1.schemas import Identifier, LargeRequestModel, Metadata, ScopeId, Title, WebAddress
from app.documents.scopes import DocumentScope
from app.documents.types import MAX_PROVIDED_CHUNKS, DocumentFields, ProvidedChunk
from app.times import ProvidedTime


def require_future(value: datetime) -> datetime:
    """A time that is still to come."""
    if value <= datetime.now(UTC):
        raise ValueError("must be in the future")
    return value


class DocumentFieldsRequest(LargeRequestModel):
    """What a caller may say about a document."""

    metadata: Metadata | None = None
    title: Title | None = None
    external_id: Identifier | None = None
    source_uri: WebAddress | None = None
    source_created_at: ProvidedTime | None = None
    user_id: ScopeId | None = None
    chat_id: ScopeId | None = None
    agent_id: ScopeId | None = None
    dynamic: bool | None = None
    expires_at: Annotated[ProvidedTime, AfterValidator(require_future)] | None = None

    def to_document_fields(self) -> DocumentFields:
        """The room's form of it. Raises InvalidInputError for a combination of ids that names no scope."""
        fields = self.model_dump(exclude={"user_id", "chat_id", "agent_id", "text", "chunks", "media_type"})
        scope = DocumentScope(self.user_id, self.chat_id, self.agent_id)
        scope.determine_level()
        return DocumentFields(**fields, scope=scope)


class UploadForm(DocumentFieldsRequest):
    """The fields beside the file; ``metadata`` is JSON."""

    encoding: Annotated[str, StringConstraints(max_length=40), STORABLE] | None = None

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
                raise ValueError("is not an encoding that is known here") from None
        return value


class ProvidedChunkRequest(LargeRequestModel):
    """A chunk that was cut elsewhere; without a vector it is embedded here."""

    text: Text = Field(min_length=1)
    metadata: Metadata | None = None
    section_titles: list[Title] = Field([], max_length=20)
    page: int | None = Field(None, ge=1, lt=2**31)
    vector: list[float] | None = Field(None, min_length=1, max_length=4000)

    def to_provided_chunk(self) -> ProvidedChunk:
        """The room's form of it."""
        return ProvidedChunk(self.text, self.metadata or {}, tuple(self.section_titles), self.page, self.vector)


class TextDocumentCreate(DocumentFieldsRequest):
    """A document that comes in the body: as text, or as chunks."""

    text: str | None = Field(None, min_length=1)
    chunks: list[ProvidedChunkRequest] | None = Field(None, min_length=1, max_length=MAX_PROVIDED_CHUNKS)
    media_type: Literal["text/plain", "text/markdown", "text/html"] | None = None

    @model_validator(mode="after")
    def _check_exactly_one(self) -> Self:
        if (self.text is None) == (self.chunks is None):
            raise ValueError("send either text or chunks")
        if self.chunks is not None and self.media_type is not None:
            raise ValueError("media_type goes with text")
        return self


def parse_form(fields: Mapping[str, str]) -> DocumentFields:
    """A field that was left empty counts as not sent."""
    return validate_body(
        UploadForm, {name: value for name, value in fields.items() if value != ""}
    ).to_document_fields()
