"""OpenAI's filters as ours."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from app.api.bodies import Text
from app.api.openai.shapes import Asked
from app.errors import InvalidInput
from app.filters.values import holds_more

MOST_PARTS = 100
# All values of a filter, wherever they stand: more than our language takes.
MOST_VALUES = 10_000
Scalar = bool | int | float | Text
# Words that mean something at the beginning of our filters.
_WORDS = ("and", "or", "not")


class Comparison(Asked):
    """One attribute compared with a value; ``in`` and ``nin`` take a list."""

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
    key: Text = Field(min_length=1)
    value: Scalar | Annotated[list[Scalar], Field(fail_fast=True)]


class Compound(Asked):
    """Filters put together."""

    type: Literal["and", "or"]
    filters: list["Comparison | Compound"] = Field(min_length=1, max_length=MOST_PARTS, fail_fast=True)


def _bounded(value: Any) -> Any:
    """Before it is read: of a large one each wrong value would be an error of its own."""
    if holds_more(value, MOST_VALUES):
        raise ValueError(f"a filter has at most {MOST_VALUES} values")
    return value


GivenFilter = Annotated[Comparison | Compound, BeforeValidator(_bounded)]


def filter_of(given: Comparison | Compound) -> Mapping[str, Any]:
    """The same in our language. Raises InvalidInput."""
    if isinstance(given, Compound):
        return {given.type: [filter_of(one) for one in given.filters]}
    if isinstance(given.value, list) != (given.type in ("in", "nin")):
        raise InvalidInput("`in` and `nin` take a list, the others a single value.", loc=("body", "filters", "value"))
    key = _escaped(given.key)
    if given.type in ("eq", "in"):
        return {key: given.value}
    if given.type in ("ne", "nin"):
        return {"not": {key: given.value}}
    return {key: {given.type: given.value}}


def _escaped(key: str) -> str:
    """Attributes are flat, so that a dot is part of the name; a name may be one of our own words."""
    plain = key.replace("\\", "\\\\").replace(".", "\\.")
    return f"\\{plain}" if plain in _WORDS else plain
