"""Filters of the OpenAI API, translated to metadata filters."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from app.api.http.request_models import Text
from app.api.openai.schemas import OpenAiRequestModel
from app.errors import InvalidInputError
from app.filters.values import exceeds_size

MAX_FILTERS = 100
# Maximum number of values in a whole filter. It is above the limit of metadata filters, which is checked later.
MAX_FILTER_VALUES = 10_000
Scalar = bool | int | float | Text
# Operators of metadata filters. A key with such a name needs a backslash.
_RESERVED_WORDS = ("and", "or", "not")


class ComparisonFilter(OpenAiRequestModel):
    """Comparison of an attribute with a value."""

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"] = Field(
        description="Comparison. `in` and `nin` take a list of values.", examples=["eq"]
    )
    key: Text = Field(min_length=1, description="Name of the attribute.", examples=["department"])
    value: Scalar | Annotated[list[Scalar], Field(fail_fast=True)] = Field(
        description="Value to compare with.", examples=["hr"]
    )


class CompoundFilter(OpenAiRequestModel):
    """Combination of filters."""

    type: Literal["and", "or"] = Field(
        description="`and`: all filters match. `or`: at least one does.", examples=["and"]
    )
    filters: list["ComparisonFilter | CompoundFilter"] = Field(
        min_length=1,
        max_length=MAX_FILTERS,
        fail_fast=True,
        description="Filters, 1 to 100.",
        examples=[[{"type": "eq", "key": "department", "value": "hr"}]],
    )


def _check_size(value: Any) -> Any:
    """Refuse a large filter before validation, because pydantic would create an error for each wrong value."""
    if exceeds_size(value, MAX_FILTER_VALUES):
        raise ValueError(f"a filter may have at most {MAX_FILTER_VALUES} values")
    return value


VectorStoreFilter = Annotated[ComparisonFilter | CompoundFilter, BeforeValidator(_check_size)]


def translate_filter(source: ComparisonFilter | CompoundFilter) -> Mapping[str, Any]:
    """Translate a filter of the OpenAI API.

    Args:
        source: The filter.

    Returns:
        A metadata filter.

    Raises:
        InvalidInputError: The value is a list where the operator takes a single value, or the reverse.
    """
    if isinstance(source, CompoundFilter):
        return {source.type: [translate_filter(part) for part in source.filters]}
    if isinstance(source.value, list) != (source.type in ("in", "nin")):
        raise InvalidInputError(
            "`in` and `nin` take a list; all other types take a single value.", loc=("body", "filters", "value")
        )
    key = _escape_key(source.key)
    if source.type in ("eq", "in"):
        return {key: source.value}
    if source.type in ("ne", "nin"):
        return {"not": {key: source.value}}
    return {key: {source.type: source.value}}


def _escape_key(key: str) -> str:
    """Escape dots, because attributes are flat and a dot is part of the name; escape reserved words too."""
    escaped = key.replace("\\", "\\\\").replace(".", "\\.")
    return f"\\{escaped}" if escaped in _RESERVED_WORDS else escaped
