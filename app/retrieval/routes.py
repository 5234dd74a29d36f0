"""Options of routing, and the decision for each knowledge base."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

RoutingReason = Literal["best", "less_similar", "always", "own_documents", "no_profile", "not_compared"]


@dataclass(frozen=True, slots=True)
class RoutingOptions:
    """Options of routing.

    Attributes:
        top_n: Number of most similar knowledge bases to search for each embedding model; None searches all.
    """

    top_n: int | None = 3


@dataclass(frozen=True, slots=True)
class RoutingDecision:
    """Decision for one knowledge base.

    Attributes:
        kb_id: Id of the knowledge base.
        name: Name of the knowledge base.
        is_chosen: Whether the knowledge base is searched.
        reason: Reason of the decision.
        score: Weighted similarity of its best search index; None if it was not compared.
        centroids: Highest cosine of a query with the centroids of its chunks, in that search index.
        texts: Highest cosine of a query with its description texts, in that search index.
        weight: Routing weight of the knowledge base.
    """

    kb_id: UUID
    name: str
    is_chosen: bool
    reason: RoutingReason
    score: float | None = None
    centroids: float | None = None
    texts: float | None = None
    weight: float = 1.0
