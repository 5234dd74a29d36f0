"""Transformers as callers name them."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from app.api.http.request_models import Text
from app.api.v1.schemas import Options, StrictRequestModel
from app.retrieval.transformers import resolve_steps
from app.retrieval.types import NamedTransformer


class TransformerConfig(StrictRequestModel):
    """A transformer with options."""

    name: Text
    options: Options = Field(default_factory=dict)


TransformerConfigs = Annotated[list[Text | TransformerConfig], Field(max_length=8)]


def to_named_transformers(configs: Sequence[str | TransformerConfig]) -> list[NamedTransformer]:
    """The room's form of them."""
    return [config if isinstance(config, str) else (config.name, config.options) for config in configs]


def to_stored_transformers(
    configs: Sequence[str | TransformerConfig] | None, *, loc: tuple[str, ...]
) -> list[dict[str, Any]] | None:
    """As they are stored: in their order, with all options said, so that a later version's defaults change nothing.

    Raises InvalidInputError.
    """
    if configs is None:
        return None
    steps = resolve_steps(to_named_transformers(configs), loc=loc)
    return [{"name": step.transformer.name, "options": step.options.model_dump()} for step in steps]
