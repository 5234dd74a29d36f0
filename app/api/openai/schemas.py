"""Schema pieces that several routes of this door share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, NoReturn, TypeVar
from uuid import UUID

from fastapi import Depends, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

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
    """What callers send: what is not known is refused, not ignored."""

    model_config = ConfigDict(extra="forbid")


class StaticChunkingSizes(OpenAiRequestModel):
    """Sizes in tokens."""

    max_chunk_size_tokens: int = Field(ge=16, le=8192)
    chunk_overlap_tokens: int = Field(ge=0, le=4096)


class ChunkingStrategyRequest(OpenAiRequestModel):
    """``auto`` is as the vector store cuts; ``static`` says how, and ``other`` that it is not known."""

    type: Literal["auto", "static", "other"]
    static: StaticChunkingSizes | None = None


class StaticChunkingStrategyOut(BaseModel):
    """How the vector store cuts."""

    type: Literal["static"] = "static"
    static: StaticChunkingSizes


class OpenAiListResponse(BaseModel, Generic[ItemT]):
    """A page of a list."""

    object: Literal["list"] = "list"
    data: list[ItemT]
    first_id: str | None
    last_id: str | None
    has_more: bool


class OpenAiDeletedOut(BaseModel):
    """What was deleted."""

    id: str
    object: str
    deleted: Literal[True] = True


class FileCountsOut(BaseModel):
    """How many files are how far."""

    in_progress: int
    completed: int
    failed: int
    cancelled: int
    total: int


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
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Order = "desc",
    after: Annotated[Text | None, Query(max_length=100)] = None,
    before: Annotated[Text | None, Query(max_length=100)] = None,
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
