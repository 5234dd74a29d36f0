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
    """As any document's metadata has to be."""
    try:
        return check_metadata(attributes)
    except InvalidInputError as exc:
        raise ValueError(exc.message) from None


Label = Annotated[str, StringConstraints(min_length=1, max_length=64), STORABLE]
Value = Annotated[str, StringConstraints(max_length=512), STORABLE]
Labels = Annotated[dict[Label, Value], Field(max_length=16)]
Attributes = Annotated[dict[Label, bool | int | float | Value], Field(max_length=16), AfterValidator(_check_filterable)]


class OpenAiRequestModel(RequestModel):
    """Body of a request. A field that is not known makes it invalid."""

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
    """A caller's way through a list: behind ``after``, or the last ones in front of ``before``."""

    limit: int
    order: Order
    after: str | None
    before: str | None

    @property
    def cursor(self) -> str | None:
        """The id that it begins beside."""
        return self.after if self.before is None else self.before

    @property
    def newest_first(self) -> bool:
        """How the database is asked; what is in front of something is asked for backwards."""
        return (self.order == "desc") != (self.before is not None)

    def parse_cursor_id(self, *prefixes: str) -> UUID | None:
        """The cursor, an id with one of these prefixes. Raises InvalidInputError."""
        if self.cursor is None:
            return None
        cursor_id = next((decoded for prefix in prefixes if (decoded := decode_id(prefix, self.cursor))), None)
        if cursor_id is None:
            self.raise_invalid_cursor()
        return cursor_id

    def raise_invalid_cursor(self) -> NoReturn:
        """Raises InvalidInputError, for a cursor that leads nowhere."""
        name = "after" if self.before is None else "before"
        raise InvalidInputError(f"`{name}` is the id of nothing in this list.", loc=("query", name))

    def to_list_response(self, rows: Sequence[ItemT], get_id: Callable[[ItemT], str]) -> dict[str, Any]:
        """One more than the limit was asked for."""
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
    """The parameters of every list but that of files. Raises InvalidInputError."""
    if after is not None and before is not None:
        raise InvalidInputError("One of `after` and `before`, not both.", loc=("query", "before"))
    return ListParams(limit, order, after, before)


CurrentListParams = Annotated[ListParams, Depends(get_list_params)]


def to_unix_seconds(at: datetime) -> int:
    """A time as this door tells it."""
    return int(to_utc_time(at).timestamp())


def decode_path_id(prefix: str, text: str, not_found: type[AppError]) -> UUID:
    """The id in a path. Raises ``not_found`` for what is none, as for one that is not there."""
    decoded = decode_id(prefix, text)
    if decoded is None:
        raise not_found
    return decoded
