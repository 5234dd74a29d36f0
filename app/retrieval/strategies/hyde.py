"""Hybrid retrieval with invented answers to the query (hypothetical document embeddings; Gao et al., 2022)."""

from collections.abc import Sequence

from pydantic import Field

from app.retrieval.strategies import hybrid
from app.retrieval.strategies.strategy import Strategy
from app.retrieval.types import NamedTransformer


class HydeStrategyOptions(hybrid.HybridOptions):
    """Number of invented answers, whether they replace the query, and options of the fusion."""

    n_hypothetical: int = Field(1, ge=1, le=8, description="Number of invented answers for a query.")
    replace: bool = Field(False, description="Whether the answers replace the query.")


def select_transformers(options: HydeStrategyOptions) -> Sequence[NamedTransformer]:
    """Return the transformer ``hyde``. Without a chat model it adds nothing, and the search equals hybrid."""
    return [("hyde", {"n_hypothetical": options.n_hypothetical, "replace": options.replace})]


STRATEGY = Strategy(
    "hyde", "Hybrid, for invented answers too.", HydeStrategyOptions, hybrid.run, transformers=select_transformers
)
