"""Hybrid retrieval with further wordings of the query, whose scores are added."""

from collections.abc import Sequence

from pydantic import Field

from app.retrieval.strategies import hybrid
from app.retrieval.strategies.strategy import Strategy
from app.retrieval.types import NamedTransformer


class MultiQueryStrategyOptions(hybrid.HybridOptions):
    """Number of further wordings, and options of the fusion."""

    num_queries: int = Field(3, ge=1, le=15, description="Number of further wordings for a query.")


def select_transformers(options: MultiQueryStrategyOptions) -> Sequence[NamedTransformer]:
    """Return the transformer ``multi_query``. Without a chat model it adds nothing, and the search equals hybrid."""
    return [("multi_query", {"num_queries": options.num_queries})]


STRATEGY = Strategy(
    "multi_query",
    "Hybrid, for the same in other words too.",
    MultiQueryStrategyOptions,
    hybrid.run,
    transformers=select_transformers,
)
