"""Schemas of golden sets and their items."""

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, Field, field_validator, model_validator

from app.api.http import example_values
from app.api.v1.schemas import Identifier, ListResponse, StrictRequestModel, Time, Title
from app.api.v1.search.messages import MessageRequest
from app.api.v1.search.search_queries import QueryText
from app.errors import InvalidInputError
from app.evaluations.types import (
    MAX_RELEVANT,
    GoldenItemDraft,
    GoldenSet,
    LocatedItem,
    LocatedRelevance,
    Relevance,
    RelevanceNotFound,
)
from app.ids import decode_id, encode_id

MAX_ITEMS_PER_REQUEST = 500
MAX_MESSAGE_CHARACTERS = 100_000
_MESSAGES = [
    {"role": "user", "content": "How many days of parental leave are there?"},
    {"role": "assistant", "content": "Parents get 60 days of leave."},
    {"role": "user", "content": "And for twins?"},
]


class GoldenSetCreate(StrictRequestModel):
    """New golden set."""

    name: Title = Field(description="Name for people, 1 to 500 characters.", examples=["Questions of new staff"])
    description: Title | None = Field(
        None, description="Description for people, 1 to 500 characters.", examples=["Collected in March."]
    )


class GoldenSetUpdate(StrictRequestModel):
    """Changes of a golden set. Fields left out do not change."""

    name: Title | None = Field(
        None, description="Name for people, 1 to 500 characters.", examples=["Questions of new staff"]
    )
    description: Title | None = Field(
        None,
        description="Description for people, 1 to 500 characters; null removes it.",
        examples=["Collected in March."],
    )

    @field_validator("name")
    @classmethod
    def _check_not_null(cls, value: Any) -> Any:
        if value is None:
            raise ValueError("must not be null")
        return value


class GoldenSetOut(BaseModel):
    """Golden set: queries whose relevant documents are known."""

    etag_fields: ClassVar = frozenset(GoldenSetUpdate.model_fields)

    id: str = Field(description="Id of the golden set.", examples=[example_values.GOLDEN_SET_ID])
    name: str = Field(description="Name for people.", examples=["Questions of new staff"])
    description: str | None = Field(
        description="Description for people; null without one.", examples=["Collected in March."]
    )
    item_count: int = Field(description="Number of items.", examples=[120])
    created_at: Time = Field(description="Time of creation, in UTC.", examples=[example_values.CREATED_AT])
    updated_at: Time = Field(
        description="Time of the last change of the golden set or its items, in UTC.",
        examples=[example_values.UPDATED_AT],
    )


class GoldenSetList(ListResponse[GoldenSetOut]):
    """Page of golden sets."""


class RelevanceRequest(StrictRequestModel):
    """Relevant document, or relevant chunk of a document."""

    document: Identifier = Field(description="Id of the document.", examples=[example_values.DOCUMENT_ID])
    chunk: Identifier | None = Field(
        None,
        description="Id of the chunk in the document. Without it, every chunk of the document counts.",
        examples=[example_values.CHUNK_ID],
    )


class GoldenItemRequest(StrictRequestModel):
    """Query or conversation, and what is relevant to it. One of ``query`` and ``messages`` is required."""

    query: QueryText | None = Field(
        None,
        description="Text to search for, 1 to 32,000 characters.",
        examples=["How many days of parental leave are there?"],
    )
    messages: Annotated[list[MessageRequest], Field(min_length=1, max_length=100)] | None = Field(
        None,
        description="Conversation in place of `query`, newest message last: 1 to 100 messages with at most 100,000 "
        "characters.",
        examples=[_MESSAGES],
    )
    relevant: Annotated[list[RelevanceRequest], Field(min_length=1, max_length=MAX_RELEVANT)] = Field(
        description="Relevant documents and chunks, 1 to 100.",
        examples=[[{"document": example_values.DOCUMENT_ID}]],
    )

    @model_validator(mode="after")
    def _check_query(self) -> "GoldenItemRequest":
        if (self.query is None) == (self.messages is None):
            raise ValueError("needs either query or messages")
        if sum(len(message.content) for message in self.messages or ()) > MAX_MESSAGE_CHARACTERS:
            raise ValueError(f"messages have more than {MAX_MESSAGE_CHARACTERS:,} characters")
        return self

    def to_draft(self, loc: tuple[str | int, ...]) -> GoldenItemDraft:
        """Return the item for the service. Raises InvalidInputError if an id is malformed."""
        messages = [{"role": message.role, "content": message.content} for message in self.messages or ()]
        relevant = [_parse_relevance(entry, (*loc, "relevant", number)) for number, entry in enumerate(self.relevant)]
        return GoldenItemDraft(self.query, messages or None, relevant)


class GoldenItemsCreate(StrictRequestModel):
    """Items to add to a golden set."""

    items: Annotated[list[GoldenItemRequest], Field(min_length=1, max_length=MAX_ITEMS_PER_REQUEST)] = Field(
        description="Items, 1 to 500. If the golden set has an item with the same query, what is relevant is added to "
        "that item.",
        examples=[[{"query": "parental leave", "relevant": [{"document": example_values.DOCUMENT_ID}]}]],
    )

    def to_drafts(self) -> list[GoldenItemDraft]:
        """Return the items for the service. Raises InvalidInputError if an id is malformed."""
        return [item.to_draft(("body", "items", number)) for number, item in enumerate(self.items)]


class RelevanceOut(BaseModel):
    """Relevant document, or relevant chunk of a document."""

    document: str = Field(description="Id of the document.", examples=[example_values.DOCUMENT_ID])
    chunk: str | None = Field(
        description="Id of the chunk; null if every chunk of the document counts.", examples=[example_values.CHUNK_ID]
    )
    knowledge_base: str | None = Field(
        description="Id of the knowledge base that contains the document; null if it is missing.",
        examples=[example_values.KNOWLEDGE_BASE_ID],
    )
    missing: bool = Field(
        description="Whether the document was deleted or has expired, or no live version has the chunk. Evaluations "
        "leave it out, with a warning.",
        examples=[False],
    )


class GoldenItemMessageOut(BaseModel):
    """Message of the conversation of an item."""

    role: str = Field(description="Author of the message.", examples=["user"])
    content: str = Field(description="Text of the message.", examples=["And for twins?"])


class GoldenItemOut(BaseModel):
    """Item of a golden set."""

    id: str = Field(description="Id of the item.", examples=[example_values.GOLDEN_ITEM_ID])
    query: str | None = Field(
        description="Text to search for; null if the item has a conversation.", examples=["parental leave"]
    )
    messages: list[GoldenItemMessageOut] | None = Field(
        description="Conversation; null if the item has a query.", examples=[_MESSAGES]
    )
    relevant: list[RelevanceOut] = Field(description="Relevant documents and chunks.")
    created_at: Time = Field(description="Time of creation, in UTC.", examples=[example_values.CREATED_AT])
    updated_at: Time = Field(description="Time of the last change, in UTC.", examples=[example_values.UPDATED_AT])


class GoldenItemList(ListResponse[GoldenItemOut]):
    """Page of items of a golden set."""


class GoldenItemsOut(BaseModel):
    """Items with the requested queries, as they are stored now."""

    items: list[GoldenItemOut] = Field(description="Items, in the order of the request; each query once.")


def to_golden_set_out(golden_set: GoldenSet) -> dict[str, Any]:
    """Return the JSON object of a golden set."""
    return {
        "id": encode_id("gold", golden_set.id),
        "name": golden_set.name,
        "description": golden_set.description,
        "item_count": golden_set.item_count,
        "created_at": golden_set.created_at,
        "updated_at": golden_set.updated_at,
    }


def to_golden_item_out(located: LocatedItem) -> dict[str, Any]:
    """Return the JSON object of an item."""
    item = located.item
    return {
        "id": encode_id("item", item.id),
        "query": item.query,
        "messages": item.messages,
        "relevant": [to_relevance_out(relevance) for relevance in located.relevant],
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }


def to_relevance_out(located: LocatedRelevance) -> dict[str, Any]:
    """Return the JSON object of a relevant document or chunk."""
    relevance = located.relevance
    return {
        "document": encode_id("doc", relevance.document_id),
        "chunk": None if relevance.chunk_id is None else encode_id("chk", relevance.chunk_id),
        "knowledge_base": None if located.kb_id is None else encode_id("kb", located.kb_id),
        "missing": located.is_missing,
    }


def parse_stored_relevance(document: str, chunk: str | None) -> Relevance:
    """Return an entry of an item by its ids. Raises RelevanceNotFound if an id is malformed, which no item has."""
    document_id = decode_id("doc", document)
    chunk_id = None if chunk is None else decode_id("chk", chunk)
    if document_id is None or (chunk is not None and chunk_id is None):
        raise RelevanceNotFound
    return Relevance(document_id, chunk_id)


def _parse_relevance(entry: RelevanceRequest, loc: tuple[str | int, ...]) -> Relevance:
    document_id = decode_id("doc", entry.document)
    if document_id is None:
        raise InvalidInputError("The document does not exist.", loc=(*loc, "document"))
    chunk_id = None if entry.chunk is None else decode_id("chk", entry.chunk)
    if entry.chunk is not None and chunk_id is None:
        raise InvalidInputError("The document has no such chunk.", loc=(*loc, "chunk"))
    return Relevance(document_id, chunk_id)
