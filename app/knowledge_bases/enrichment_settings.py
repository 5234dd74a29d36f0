"""Settings of the enrichment of a knowledge base's documents by a chat model."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from app.errors import InvalidInputError

PARTS = ("summaries", "keywords", "entities", "relations", "context_lines")
"""Names of the parts that a chat model may write about a section."""


@dataclass(frozen=True, slots=True)
class EnrichmentSettings:
    """Enrichment of the documents of a knowledge base by a chat model.

    Attributes:
        enabled: Whether documents are enriched.
        summaries: Whether sections get summaries.
        keywords: Whether sections get keywords.
        entities: Whether chunks get entities.
        relations: Whether chunks get relations between entities.
        context_lines: Whether chunks get a line that is embedded and indexed before their text.
        max_tokens_per_document: Maximum number of tokens that one version of a document may cost.
        max_tokens_per_day: Maximum number of tokens that the knowledge base may cost in one day (UTC).
        model: Name of the chat model; None for the chat model of the service.
    """

    enabled: bool = False
    summaries: bool = True
    keywords: bool = True
    entities: bool = True
    relations: bool = True
    context_lines: bool = False
    max_tokens_per_document: int = 200_000
    max_tokens_per_day: int = 1_000_000
    model: str | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts that the chat model writes."""
        return tuple(part for part in PARTS if getattr(self, part))

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any] | None) -> Self:
        """Return the settings of a knowledge base's row. Unknown fields of a newer release are ignored."""
        field_names = cls.__dataclass_fields__
        return cls(**{name: value for name, value in (stored or {}).items() if name in field_names})

    def to_stored(self) -> dict[str, Any]:
        """Return the JSON form of a knowledge base's row."""
        return asdict(self)

    def check(self, chat_models: Collection[str]) -> None:
        """Check that the settings are usable.

        Args:
            chat_models: Names of the configured chat models.

        Raises:
            InvalidInputError: No chat model is configured, the named one is unknown, or no part is wanted.
        """
        if self.enabled and not chat_models:
            message = "Enrichment needs a chat model. Set CARREL_CHAT_BASE_URL and CARREL_CHAT_MODEL."
            raise InvalidInputError(message, loc=("body", "enrichment", "enabled"))
        if self.model is not None and self.model not in chat_models:
            available = " or ".join(sorted(chat_models)) or "none"
            message = f"{self.model!r} is no configured chat model. Use one of: {available}."
            raise InvalidInputError(message, loc=("body", "enrichment", "model"))
        if self.enabled and not self.parts:
            message = f"Enrichment needs at least one part. Set one of: {', '.join(PARTS)}."
            raise InvalidInputError(message, loc=("body", "enrichment"))
