"""Routing settings of a knowledge base: how searches over many knowledge bases select it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RoutingSettings:
    """Settings by which a search over many knowledge bases decides whether to select this knowledge base.

    ``descriptions`` and ``examples`` (example queries) describe the topics of the knowledge base. Their share of its
    similarity to a query is ``description_weight``; its chunks have the remaining share. ``scale`` multiplies the
    scores of the knowledge base and of
    its hits. With ``always``, every search selects the knowledge base.
    """

    descriptions: Sequence[str] = ()
    examples: Sequence[str] = ()
    description_weight: float = 0.3
    scale: float = 1.0
    always: bool = False

    def to_stored(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return two JSON objects to store: the numbers, which every search reads, and the texts."""
        texts = {"descriptions": [*self.descriptions], "examples": [*self.examples]}
        numbers = {"description_weight": self.description_weight, "scale": self.scale, "always": self.always}
        return numbers, texts
