"""Schemas that the routes of the OpenAI API share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, NoReturn, TypeVar
from uuid import UUID

from fastapi import Depends, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from app.api.http import example_values
from app.api.http.request_models import STORABLE, RequestModel, Text
from app.errors import AppError, InvalidInputError
from app.filters import check_metadata
from app.ids import decode_id
from app.times import to_utc_time

ItemT = TypeVar("ItemT")
POLL_HEADERS = {"openai-poll-after-ms": "200"}
Order = Literal["asc", "desc"]


def _check_filterable(attributes: dict[str, Any]) -> dict[str, Any]:
    """Check that attributes are valid metadata of a document."""
    try:
        return check_metadata(attributes)
    except InvalidInputError as exc:
        raise ValueError(exc.message) from None


Label = Annotated[str, StringConstraints(min_length=1, max_length=64), STORABLE]
Value = Annotated[str, StringConstraints(max_length=512), STORABLE]
Labels = Annotated[dict[Label, Value], Field(max_length=16)]
Attributes = Annotated[dict[Label, bool | int | float | Value], Field(max_length=16), AfterValidator(_check_filterable)]


class OpenAiRequestModel(RequestModel):
    """Request body. An unknown field makes the body invalid."""

    model_config = ConfigDict(extra="forbid")


class StaticChunkingSizes(OpenAiRequestModel):
    """Sizes of chunks in tokens of the embedding model."""

    max_chunk_size_tokens: int = Field(
        ge=16, le=8192, description="Maximum size of a chunk in tokens, 16 to 8,192.", examples=[800]
    )
    chunk_overlap_tokens: int = Field(
        ge=0, le=4096, description="Overlap of neighbour chunks in tokens, 0 to 4,096.", examples=[400]
    )


class ChunkingStrategyRequest(OpenAiRequestModel):
    """Chunking strategy."""

    type: Literal["auto", "static", "other"] = Field(
        description="`auto` and `other` use the chunking of the vector store, `static` that in `static`.",
        examples=["static"],
    )
    static: StaticChunkingSizes | None = Field(
        None,
        description="Sizes of chunks, for `static`. A file must have those of its vector store.",
        examples=[{"max_chunk_size_tokens": 200, "chunk_overlap_tokens": 50}],
    )


class StaticChunkingStrategyOut(BaseModel):
    """Chunking strategy of the vector store."""

    type: Literal["static"] = Field("static", description="Type of the chunking strategy.", examples=["static"])
    static: StaticChunkingSizes = Field(description="Sizes of chunks.")


class OpenAiListResponse(BaseModel, Generic[ItemT]):
    """Page of a list."""

    object: Literal["list"] = Field("list", description="Type of the object.", examples=["list"])
    data: list[ItemT] = Field(description="Items of this page.")
    first_id: str | None = Field(description="Id of the first item; null on an empty page.", examples=[None])
    last_id: str | None = Field(description="Id of the last item, for `after`; null on an empty page.", examples=[None])
    has_more: bool = Field(description="Whether more items follow.", examples=[False])


class OpenAiDeletedOut(BaseModel):
    """Deleted object."""

    id: str = Field(description="Id of the deleted object.", examples=[example_values.FILE_ID])
    object: str = Field(description="Type of the object.", examples=["file"])
    deleted: Literal[True] = Field(True, description="Whether the object was deleted.", examples=[True])


class FileCountsOut(BaseModel):
    """Counts of files by state."""

    in_progress: int = Field(description="Number of files that are being ingested.", examples=[0])
    completed: int = Field(description="Number of files that are searchable.", examples=[1])
    failed: int = Field(description="Number of files that failed.", examples=[0])
    cancelled: int = Field(description="Number of files that were cancelled.", examples=[0])
    total: int = Field(description="Number of all files.", examples=[1])


@dataclass(frozen=True, slots=True)
class ListParams:
    """Pagination parameters of a list.

    Attributes:
        limit: Maximum number of items.
        order: Order of the list by time of creation.
        after: Id of the item before the page; the page has the next items.
        before: Id of the item after the page; the page has the items just before it.
    """

    limit: int
    order: Order
    after: str | None
    before: str | None

    @property
    def cursor(self) -> str | None:
        """Id in ``before`` or ``after``; None for the first page."""
        return self.after if self.before is None else self.before

    @property
    def newest_first(self) -> bool:
        """Whether the database query sorts by newest first. With ``before``, the query runs in the reverse order."""
        return (self.order == "desc") != (self.before is not None)

    def parse_cursor_id(self, *prefixes: str) -> UUID | None:
        """Decode the cursor.

        Args:
            prefixes: Allowed prefixes of the id.

        Returns:
            The id; None for the first page.

        Raises:
            InvalidInputError: The cursor is not an id with one of the prefixes.
        """
        if self.cursor is None:
            return None
        cursor_id = next((decoded for prefix in prefixes if (decoded := decode_id(prefix, self.cursor))), None)
        if cursor_id is None:
            self.raise_invalid_cursor()
        return cursor_id

    def raise_invalid_cursor(self) -> NoReturn:
        """Raise the InvalidInputError for a cursor that is not the id of an item in the list."""
        name = "after" if self.before is None else "before"
        raise InvalidInputError(f"`{name}` is not the id of an item in this list.", loc=("query", name))

    def to_list_response(self, rows: Sequence[ItemT], get_id: Callable[[ItemT], str]) -> dict[str, Any]:
        """Build the page of a list.

        Args:
            rows: Items from the database query, at most ``limit`` + 1; the extra one shows that more items follow.
            get_id: Function that returns the id of an item.

        Returns:
            Fields of an ``OpenAiListResponse``.
        """
        items = list(rows[: self.limit])
        if self.before is not None:
            items.reverse()
        return {
            "data": items,
            "first_id": get_id(items[0]) if items else None,
            "last_id": get_id(items[-1]) if items else None,
            "has_more": len(rows) > self.limit,
        }


async def get_list_params(
    limit: Annotated[int, Query(ge=1, le=100, description="Maximum number of items, 1 to 100.", examples=[20])] = 20,
    order: Annotated[
        Order, Query(description="Order by time of creation: `desc` for newest first.", examples=["desc"])
    ] = "desc",
    after: Annotated[
        Text | None,
        Query(
            max_length=100,
            description="Id of the item before the page; at most 100 characters. Not together with `before`.",
            examples=[None],
        ),
    ] = None,
    before: Annotated[
        Text | None,
        Query(
            max_length=100,
            description="Id of the item after the page; at most 100 characters. Not together with `after`.",
            examples=[None],
        ),
    ] = None,
) -> ListParams:
    """Return the pagination parameters of every list except the list of files. Raises InvalidInputError."""
    if after is not None and before is not None:
        raise InvalidInputError("Send either `after` or `before`, not both.", loc=("query", "before"))
    return ListParams(limit, order, after, before)


CurrentListParams = Annotated[ListParams, Depends(get_list_params)]


def to_unix_seconds(at: datetime) -> int:
    """Return a time as seconds since 1970."""
    return int(to_utc_time(at).timestamp())


def decode_path_id(prefix: str, text: str, not_found: type[AppError]) -> UUID:
    """Decode an id in a path. An invalid id raises ``not_found``, like the id of an object that does not exist."""
    decoded = decode_id(prefix, text)
    if decoded is None:
        raise not_found
    return decoded
