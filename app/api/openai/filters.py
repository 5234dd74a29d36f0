"""Filters of the OpenAI API, translated to metadata filters."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from app.api.http.request_models import Text
from app.api.openai.schemas import OpenAiRequestModel
from app.errors import InvalidInputError
from app.filters.values import exceeds_size

MAX_FILTERS = 100
# All values of a filter, wherever they stand: more than our language takes.
MAX_FILTER_VALUES = 10_000
Scalar = bool | int | float | Text
# Words that mean something at the beginning of our filters.
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
    """Before it is read: of a large one each wrong value would be an error of its own."""
    if exceeds_size(value, MAX_FILTER_VALUES):
        raise ValueError(f"a filter has at most {MAX_FILTER_VALUES} values")
    return value


VectorStoreFilter = Annotated[ComparisonFilter | CompoundFilter, BeforeValidator(_check_size)]


def translate_filter(source: ComparisonFilter | CompoundFilter) -> Mapping[str, Any]:
    """The same in our language. Raises InvalidInputError."""
    if isinstance(source, CompoundFilter):
        return {source.type: [translate_filter(part) for part in source.filters]}
    if isinstance(source.value, list) != (source.type in ("in", "nin")):
        raise InvalidInputError(
            "`in` and `nin` take a list, the others a single value.", loc=("body", "filters", "value")
        )
    key = _escape_key(source.key)
    if source.type in ("eq", "in"):
        return {key: source.value}
    if source.type in ("ne", "nin"):
        return {"not": {key: source.value}}
    return {key: {source.type: source.value}}


def _escape_key(key: str) -> str:
    """Attributes are flat, so that a dot is part of the name; a name may be one of our own words."""
    escaped = key.replace("\\", "\\\\").replace(".", "\\.")
    return f"\\{escaped}" if escaped in _RESERVED_WORDS else escaped
