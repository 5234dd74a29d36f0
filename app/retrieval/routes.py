"""Routing of a search to the most similar knowledge bases: options, and the decision for each knowledge base."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

RoutingReason = Literal[
    "best", "less_similar", "always", "own_documents", "no_profile", "not_compared", "named", "all_searched"
]


@dataclass(frozen=True, slots=True)
class RoutingOptions:
    """Options of the routing of a search to the most similar knowledge bases.

    Attributes:
        top_n: Number of most similar knowledge bases to search for each embedding model; None searches all.
    """

    top_n: int | None = 3


@dataclass(frozen=True, slots=True)
class RoutingDecision:
    """Routing decision for one knowledge base: search it or not.

    Attributes:
        kb_id: Id of the knowledge base.
        name: Name of the knowledge base.
        is_chosen: Whether the knowledge base is searched.
        reason: Why the knowledge base was chosen or not.
        score: Weighted similarity of the most similar search index; None if the knowledge base was not compared.
        centroids: Highest cosine of a query with the centroids of the chunks of that search index.
        texts: Highest cosine of a query with the description texts of that search index.
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
