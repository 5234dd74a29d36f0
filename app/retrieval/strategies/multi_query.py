"""Hybrid retrieval of a query and of the same in other words, their scores added."""

from collections.abc import Sequence

from pydantic import Field

from app.retrieval.strategies import hybrid
from app.retrieval.strategies.strategy import Strategy
from app.retrieval.types import NamedTransformer


class MultiQueryStrategyOptions(hybrid.HybridOptions):
    """How many, and how the lanes of all of them are put together."""

    num_queries: int = Field(3, ge=1, le=15, description="How many others are searched for beside a query.")


def select_transformers(options: MultiQueryStrategyOptions) -> Sequence[NamedTransformer]:
    """Where no chat model answers there are none, and what is left is hybrid."""
    return [("multi_query", {"num_queries": options.num_queries})]


STRATEGY = Strategy(
    "multi_query",
    "Hybrid, for the same in other words too.",
    MultiQueryStrategyOptions,
    hybrid.run,
    transformers=select_transformers,
)
