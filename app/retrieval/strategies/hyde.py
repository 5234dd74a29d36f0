"""Hybrid retrieval of a query and of invented answers to it (hypothetical document embeddings; Gao et al., 2022)."""

from collections.abc import Sequence

from pydantic import Field

from app.retrieval.strategies import hybrid
from app.retrieval.strategies.strategy import Strategy
from app.retrieval.types import NamedTransformer


class HydeStrategyOptions(hybrid.HybridOptions):
    """How many, in whose place, and how the lanes of all of them are put together."""

    n_hypothetical: int = Field(1, ge=1, le=8, description="How many answers are invented for a query.")
    replace: bool = Field(False, description="Search for them in the place of the query, not beside it.")


def select_transformers(options: HydeStrategyOptions) -> Sequence[NamedTransformer]:
    """Where no chat model answers there are none, and what is left is hybrid."""
    return [("hyde", {"n_hypothetical": options.n_hypothetical, "replace": options.replace})]


STRATEGY = Strategy(
    "hyde", "Hybrid, for invented answers too.", HydeStrategyOptions, hybrid.run, transformers=select_transformers
)
