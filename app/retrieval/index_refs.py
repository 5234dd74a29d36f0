"""References to the search indexes of a search."""

from typing import NamedTuple
from uuid import UUID


class IndexRef(NamedTuple):
    """Knowledge base of a search index, with its owner and the factor for the scores of its hits."""

    tenant_id: UUID
    name: str
    weight: float = 1.0
