"""Compact storage of many lexical entries: 16 bytes for each term, where lists of numbers take about 100."""

from array import array
from collections.abc import Iterable, Sequence
from typing import overload

from app.lexical.weights import LexicalEntry


class PackedEntries(Sequence[LexicalEntry]):
    """Sequence of lexical entries that are created on access."""

    def __init__(self, entries: Iterable[LexicalEntry]) -> None:
        self._lengths, self._ends = array("q"), array("q", [0])
        self._term_ids, self._keys, self._weights = array("i"), array("i"), array("d")
        for entry in entries:
            self._lengths.append(entry.length)
            self._term_ids.extend(entry.term_ids)
            self._keys.extend(entry.keys)
            self._weights.extend(entry.weights)
            self._ends.append(len(self._keys))

    def __len__(self) -> int:
        return len(self._lengths)

    @overload
    def __getitem__(self, place: int) -> LexicalEntry: ...
    @overload
    def __getitem__(self, place: slice) -> list[LexicalEntry]: ...
    def __getitem__(self, place: int | slice) -> LexicalEntry | list[LexicalEntry]:
        if isinstance(place, slice):
            return [self._build_entry(at) for at in range(*place.indices(len(self)))]
        return self._build_entry(range(len(self))[place])

    def _build_entry(self, index: int) -> LexicalEntry:
        terms = slice(self._ends[index], self._ends[index + 1])
        lists = (self._term_ids[terms].tolist(), self._weights[terms].tolist(), self._keys[terms].tolist())
        return LexicalEntry(self._lengths[index], *lists)
