"""Metadata of hits that is decoded from JSON on access."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self


@dataclass(frozen=True)
class LazyMetadata:
    """Metadata of a hit, decoded at the first access, because most rows that a search reads do not become results.

    Attributes:
        raw_json: JSON object of the metadata.
    """

    raw_json: str

    @classmethod
    def from_entries(cls, entries: Mapping[str, Any]) -> Self:
        """Create the metadata of a hit that is not stored in the database."""
        return cls(json.dumps(entries))

    @cached_property
    def entries(self) -> dict[str, Any]:
        """Metadata that a caller has set, and reserved fields, whose names start with ``$``."""
        decoded: dict[str, Any] = json.loads(self.raw_json)
        return decoded

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """Metadata that a caller has set, without reserved fields."""
        return {key: value for key, value in self.entries.items() if not key.startswith("$")}
