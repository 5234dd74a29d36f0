"""Routing settings of a knowledge base: how searches over many knowledge bases select it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RoutingSettings:
    """Settings by which searches over many knowledge bases select this one.

    ``descriptions`` and ``examples`` describe its topics in addition to its chunks. They have the share
    ``description_weight`` in its similarity to a query. ``scale`` multiplies the scores of the knowledge base and of
    its hits. With ``always``, every search selects the knowledge base.
    """

    descriptions: Sequence[str] = ()
    examples: Sequence[str] = ()
    description_weight: float = 0.3
    scale: float = 1.0
    always: bool = False

    def to_stored(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the stored form: the numbers, which every search reads, and the texts."""
        texts = {"descriptions": [*self.descriptions], "examples": [*self.examples]}
        numbers = {"description_weight": self.description_weight, "scale": self.scale, "always": self.always}
        return numbers, texts
