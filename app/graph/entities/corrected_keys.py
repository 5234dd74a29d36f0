"""Corrections of a knowledge base as reads need them: the raw keys that count as an entity."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self


class CorrectedKey(NamedTuple):
    """A key that counts as another: everywhere, or in one document (a split, whose target has a name)."""

    key: int
    target_key: int
    is_split: bool
    target_name: str | None


@dataclass(frozen=True, slots=True)
class CorrectedKeys:
    """Corrections of a knowledge base.

    Attributes:
        merged: Target of each merged key.
        sources: Keys that count as a target, at least in one document.
        target_names: Names that people gave to targets of splits.
    """

    merged: Mapping[int, int] = field(default_factory=dict)
    sources: Mapping[int, frozenset[int]] = field(default_factory=dict)
    target_names: Mapping[int, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def from_rows(cls, rows: Iterable[CorrectedKey]) -> Self:
        """Return the corrections of stored rows."""
        merged: dict[int, int] = {}
        sources: dict[int, set[int]] = defaultdict(set)
        names: dict[int, set[str]] = defaultdict(set)
        for row in rows:
            sources[row.target_key].add(row.key)
            if not row.is_split:
                merged[row.key] = row.target_key
            elif row.target_name is not None:
                names[row.target_key].add(row.target_name)
        return cls(
            merged,
            {key: frozenset(values) for key, values in sources.items()},
            {key: frozenset(values) for key, values in names.items()},
        )

    def resolve(self, key: int) -> int:
        """Return the key that counts instead of a key in documents without a split."""
        return self.merged.get(key, key)

    def list_raw_keys(self, key: int) -> list[int]:
        """Return the keys of chunks that may count as an entity, sorted."""
        return sorted({key} | self.sources.get(key, frozenset()))

    def list_changed(self) -> frozenset[int]:
        """Return all keys that a correction has as its source or its target."""
        return frozenset(self.sources).union(*self.sources.values())

    def list_targets(self) -> frozenset[int]:
        """Return all keys of ``list_changed`` that are no source of a merge."""
        return self.list_changed() - self.merged.keys()
