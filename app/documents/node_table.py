"""The nodes of a document in little memory: some 60 bytes each, where a row of the database takes a thousand."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import Any
from uuid import UUID

NONE = -1


@dataclass(frozen=True, slots=True)
class TableNode:
    """One node of a table, with the names that a stored node has."""

    id: UUID
    parent_id: UUID | None
    kind: str
    level: int
    title: str | None
    start_offset: int
    end_offset: int
    page: int | None
    page_end: int | None
    slide: int | None
    block: str | None


def _numbers() -> "array[int]":
    return array("i")


@dataclass(slots=True)
class NodeTable:
    """The nodes of one document, by their number; the root has number 0."""

    _ids: bytearray = field(default_factory=bytearray)
    _by_id: dict[bytes, int] = field(default_factory=dict)
    _parents: "array[int]" = field(default_factory=_numbers)
    _firsts: "array[int]" = field(default_factory=_numbers)
    _lasts: "array[int]" = field(default_factory=_numbers)
    _nexts: "array[int]" = field(default_factory=_numbers)
    _places: "array[int]" = field(default_factory=_numbers)
    _kinds: list[str] = field(default_factory=list)
    _blocks: list[str | None] = field(default_factory=list)
    _titles: list[str | None] = field(default_factory=list)

    def __iter__(self) -> Iterator[TableNode]:
        return map(self.__getitem__, range(len(self)))

    def __len__(self) -> int:
        return len(self._kinds)

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows of the table ``node``. A node whose parent is not there is left out.

        Args:
            rows: In the order of their ordinals: parents before children, siblings in reading order.
        """
        for row in rows:
            parent = NONE if row["parent_id"] is None else self._by_id.get(row["parent_id"].bytes)
            if parent is None or (parent == NONE and self._kinds):
                continue
            self._append(row, parent)

    def children(self, number: int) -> Iterator[int]:
        """Yield the numbers of a node's children in reading order."""
        child = self._firsts[number]
        while child != NONE:
            yield child
            child = self._nexts[child]

    def is_leaf(self, number: int) -> bool:
        """Whether the node has no children."""
        return self._firsts[number] == NONE

    def __getitem__(self, number: int) -> TableNode:
        parent = self._parents[number]
        level, start, end, *pages = self._places[6 * number : 6 * number + 6]
        page, page_end, slide = (None if place == NONE else place for place in pages)
        return TableNode(
            id=self._id(number),
            parent_id=None if parent == NONE else self._id(parent),
            kind=self._kinds[number],
            level=level,
            title=self._titles[number],
            start_offset=start,
            end_offset=end,
            page=page,
            page_end=page_end,
            slide=slide,
            block=self._blocks[number],
        )

    def _append(self, row: Mapping[str, Any], parent: int) -> None:
        number, key = len(self._kinds), row["id"].bytes
        self._ids += key
        self._by_id[key] = number
        self._parents.append(parent)
        for links in (self._firsts, self._lasts, self._nexts):
            links.append(NONE)
        if parent != NONE:
            before = self._lasts[parent]
            (self._firsts if before == NONE else self._nexts)[parent if before == NONE else before] = number
            self._lasts[parent] = number
        pages = (NONE if row[name] is None else row[name] for name in ("page", "page_end", "slide"))
        self._places.extend((row["level"], row["start_offset"], row["end_offset"], *pages))
        self._kinds.append(intern(row["kind"]))
        self._blocks.append(None if row["block"] is None else intern(row["block"]))
        self._titles.append(row["title"])

    def _id(self, number: int) -> UUID:
        return UUID(bytes=bytes(self._ids[16 * number : 16 * number + 16]))
