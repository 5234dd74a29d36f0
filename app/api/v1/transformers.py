"""Transformers as callers name them."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from app.api.v1.schemas import Input, Text
from app.retrieval.types import NamedTransformer


class TransformerIn(Input):
    """A transformer with options."""

    name: Text
    options: dict[str, Any] = Field(default_factory=dict)


TransformersIn = Annotated[list[Text | TransformerIn], Field(max_length=8)]


def named(given: Sequence[str | TransformerIn]) -> list[NamedTransformer]:
    """The room's form of them."""
    return [one if isinstance(one, str) else (one.name, one.options) for one in given]
