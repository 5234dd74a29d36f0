"""Schema of a transformer in requests and settings, and its conversion."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from app.api.http.request_models import Text
from app.api.v1.schemas import Options, StrictRequestModel
from app.retrieval.transformers import resolve_steps
from app.retrieval.types import NamedTransformer


class TransformerConfig(StrictRequestModel):
    """Transformer with options."""

    name: Text = Field(
        description="Name of the transformer; `GET /v1/capabilities` lists them.", examples=["multi_query"]
    )
    options: Options = Field(
        default_factory=dict,
        description="Options of the transformer. Each one left out has its default.",
        examples=[{"num_queries": 3}],
    )


TransformerConfigs = Annotated[list[Text | TransformerConfig], Field(max_length=8)]


def to_named_transformers(configs: Sequence[str | TransformerConfig]) -> list[NamedTransformer]:
    """Convert transformers of a request to those of a search."""
    return [config if isinstance(config, str) else (config.name, config.options) for config in configs]


def to_stored_transformers(
    configs: Sequence[str | TransformerConfig] | None, *, loc: tuple[str, ...]
) -> list[dict[str, Any]] | None:
    """Convert transformers of a request to their stored form, with the values of all options. A later change of a
    default therefore has no effect on stored transformers.

    Args:
        configs: Transformers of the request; None if it has none.
        loc: Location of the transformers in the request, for errors.

    Raises:
        InvalidInputError: A transformer or an option is unknown or invalid.
    """
    if configs is None:
        return None
    steps = resolve_steps(to_named_transformers(configs), loc=loc)
    return [{"name": step.transformer.name, "options": step.options.model_dump()} for step in steps]
