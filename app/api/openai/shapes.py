"""Schema pieces that several routes of this door share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, NoReturn, TypeVar
from uuid import UUID

from fastapi import Depends, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from app.api.bodies import STORABLE, Body, Text
from app.errors import AppError, InvalidInput
from app.filters import check_metadata
from app.ids import decode_id
from app.times import readable_time

ItemT = TypeVar("ItemT")
POLL_AFTER_MS = {"openai-poll-after-ms": "200"}
Order = Literal["asc", "desc"]


def _filterable(attributes: dict[str, Any]) -> dict[str, Any]:
    """As any document's metadata has to be."""
    try:
        return check_metadata(attributes)
    except InvalidInput as exc:
        raise ValueError(exc.message) from None


Label = Annotated[str, StringConstraints(min_length=1, max_length=64), STORABLE]
Value = Annotated[str, StringConstraints(max_length=512), STORABLE]
Labels = Annotated[dict[Label, Value], Field(max_length=16)]
Attributes = Annotated[dict[Label, bool | int | float | Value], Field(max_length=16), AfterValidator(_filterable)]


class Asked(Body):
    """What callers send: what is not known is refused, not ignored."""

    model_config = ConfigDict(extra="forbid")


class StaticSizes(Asked):
    """Sizes in tokens."""

    max_chunk_size_tokens: int = Field(ge=16, le=8192)
    chunk_overlap_tokens: int = Field(ge=0, le=4096)


class ChunkingStrategy(Asked):
    """``auto`` is as the vector store cuts; ``static`` says how, and ``other`` that it is not known."""

    type: Literal["auto", "static", "other"]
    static: StaticSizes | None = None


class StaticStrategy(BaseModel):
    """How the vector store cuts."""

    type: Literal["static"] = "static"
    static: StaticSizes


class Page(BaseModel, Generic[ItemT]):
    """A page of a list."""

    object: Literal["list"] = "list"
    data: list[ItemT]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Deleted(BaseModel):
    """What was deleted."""

    id: str
    object: str
    deleted: Literal[True] = True


class FileCounts(BaseModel):
    """How many files are how far."""

    in_progress: int
    completed: int
    failed: int
    cancelled: int
    total: int


@dataclass(frozen=True, slots=True)
class Walk:
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

    def beyond(self, *prefixes: str) -> UUID | None:
        """The cursor, an id with one of these prefixes. Raises InvalidInput."""
        if self.cursor is None:
            return None
        found = next((one for prefix in prefixes if (one := decode_id(prefix, self.cursor))), None)
        if found is None:
            self.refuse()
        return found

    def refuse(self) -> NoReturn:
        """Raises InvalidInput, for a cursor that leads nowhere."""
        name = "after" if self.before is None else "before"
        raise InvalidInput(f"`{name}` is the id of nothing in this list.", loc=("query", name))

    def page(self, found: Sequence[ItemT], name: Callable[[ItemT], str]) -> dict[str, Any]:
        """One more than the limit was asked for."""
        items = list(found[: self.limit])
        if self.before is not None:
            items.reverse()
        return {
            "data": items,
            "first_id": name(items[0]) if items else None,
            "last_id": name(items[-1]) if items else None,
            "has_more": len(found) > self.limit,
        }


async def walk(
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Order = "desc",
    after: Annotated[Text | None, Query(max_length=100)] = None,
    before: Annotated[Text | None, Query(max_length=100)] = None,
) -> Walk:
    """The parameters of every list but that of files. Raises InvalidInput."""
    if after is not None and before is not None:
        raise InvalidInput("One of `after` and `before`, not both.", loc=("query", "before"))
    return Walk(limit, order, after, before)


CurrentWalk = Annotated[Walk, Depends(walk)]


def seconds(at: datetime) -> int:
    """A time as this door tells it."""
    return int(readable_time(at).timestamp())


def path_id(prefix: str, text: str, missing: type[AppError]) -> UUID:
    """The id in a path. Raises ``missing`` for what is none, as for one that is not there."""
    found = decode_id(prefix, text)
    if found is None:
        raise missing
    return found
