"""What routing is asked for, and what it says of each knowledge base."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

RoutingReason = Literal["best", "less_similar", "always", "own_documents", "no_profile", "not_compared"]


@dataclass(frozen=True, slots=True)
class RoutingOptions:
    """So many knowledge bases are searched of each embedding model, the most promising; None for all."""

    top_n: int | None = 3


@dataclass(frozen=True, slots=True)
class RoutingDecision:
    """Whether a knowledge base was chosen, and why.

    ``score`` is None where nothing was compared; ``centroids`` and ``texts`` are the best cosines with what its
    passages and what people say of it, in the search index that scored best.
    """

    kb_id: UUID
    name: str
    is_chosen: bool
    reason: RoutingReason
    score: float | None = None
    centroids: float | None = None
    texts: float | None = None
    weight: float = 1.0
