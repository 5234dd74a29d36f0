"""How a knowledge base wants to be routed to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RoutingSettings:
    """How searches over many knowledge bases come to this one.

    ``descriptions`` and ``examples`` say what it is about, beside what its passages say: theirs is the share
    ``description_weight`` of its likeness to a query. What it scores, and what is found in it, counts ``scale`` times.
    """

    descriptions: Sequence[str] = ()
    examples: Sequence[str] = ()
    description_weight: float = 0.3
    scale: float = 1.0
    always: bool = False

    def to_stored(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What every search reads, and the texts."""
        texts = {"descriptions": [*self.descriptions], "examples": [*self.examples]}
        numbers = {"description_weight": self.description_weight, "scale": self.scale, "always": self.always}
        return numbers, texts
