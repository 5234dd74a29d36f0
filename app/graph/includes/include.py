"""Type of an include, and of the entities that the include ``entities`` adds."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.db.driver import DriverReader
from app.section_notes.types import SectionedChunk

IncludeLoader = Callable[[DriverReader, Sequence[SectionedChunk]], Awaitable[Mapping[SectionedChunk, Sequence[Any]]]]
"""Function that loads the items of chunks that the caller may read. Chunks without items may be missing."""


@dataclass(frozen=True, slots=True)
class Include:
    """Addition to hits and chunks.

    Attributes:
        name: Name by which callers request it, and field of the reply.
        load: Function that loads the items of chunks.
    """

    name: str
    load: IncludeLoader


@dataclass(frozen=True, slots=True)
class IncludedEntity:
    """Entity that a chunk names.

    Attributes:
        id: Public id of the entity, after corrections.
        name: Name as the chunk writes it, or as a correction gives it.
        kind: Kind of the entity; ``typed`` for the entities of an extractor.
        type: Type by an extractor or the uploader; None if it is unknown.
        count: Number of times that the chunk names the entity.
    """

    id: str
    name: str
    kind: str
    type: str | None
    count: int
