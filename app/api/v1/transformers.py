"""Transformers as callers name them."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from app.api.bodies import Text
from app.api.v1.schemas import Input, Options
from app.retrieval.transformers import find_steps
from app.retrieval.types import NamedTransformer


class TransformerIn(Input):
    """A transformer with options."""

    name: Text
    options: Options = Field(default_factory=dict)


TransformersIn = Annotated[list[Text | TransformerIn], Field(max_length=8)]


def named(given: Sequence[str | TransformerIn]) -> list[NamedTransformer]:
    """The room's form of them."""
    return [one if isinstance(one, str) else (one.name, one.options) for one in given]


def kept(given: Sequence[str | TransformerIn] | None, *, loc: tuple[str, ...]) -> list[dict[str, Any]] | None:
    """As they are stored: in their order, with all options said, so that a later version's defaults change nothing.

    Raises InvalidInput.
    """
    if given is None:
        return None
    steps = find_steps(named(given), loc=loc)
    return [{"name": step.transformer.name, "options": step.options.model_dump()} for step in steps]
