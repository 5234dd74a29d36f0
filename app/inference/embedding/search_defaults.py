"""Defaults of searches and of new knowledge bases that depend on the embedding model."""

from dataclasses import dataclass
from typing import Literal

RequestedThreshold = float | Literal["auto"]
"""Score threshold of a request: a cosine, or ``auto`` for the calibrated threshold of each knowledge base's model."""


@dataclass(frozen=True, slots=True)
class SearchDefaults:
    """Defaults for the knowledge bases of one embedding model. ADR 0034 has the measurements.

    Attributes:
        dense_weight: Weight of the dense retriever in the fusion of the strategy ``hybrid``, from 0 to 1.
        score_threshold: Calibrated minimum similarity of a hit; None if the model has no useful threshold.
        max_tokens: Maximum size of a chunk of a new knowledge base, in tokens.
        cosine_span: Difference of cosines that counts fully in the fusion. A chunk whose cosine is so much lower than
            the best one gets nothing for it. None if the span is not known. ADR 0035 has the measurements.
    """

    dense_weight: float = 0.6
    score_threshold: float | None = None
    max_tokens: int = 170
    cosine_span: float | None = None

    def resolve_threshold(self, requested: RequestedThreshold | None) -> float | None:
        """Return the minimum similarity for a request; None if there is no limit, or no calibrated threshold."""
        return self.score_threshold if requested == "auto" else requested


UNKNOWN_MODEL = SearchDefaults()
SEARCH_DEFAULTS = {
    "all-MiniLM-L6-v2": SearchDefaults(score_threshold=0.31, cosine_span=0.4),
    "bge-small-en-v1.5": SearchDefaults(score_threshold=0.6, cosine_span=0.2),
    "multilingual-e5-small": SearchDefaults(),
}


def get_search_defaults(model: str) -> SearchDefaults:
    """Return the defaults of an embedding model by its name, or general defaults if the model is unknown."""
    return SEARCH_DEFAULTS.get(model, UNKNOWN_MODEL)
