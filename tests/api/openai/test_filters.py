"""Translation of OpenAI's filters into Carrel's filters."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from app.api.openai.filters import ComparisonFilter, CompoundFilter, translate_filter
from app.errors import InvalidInputError
from app.filters import compile_filter

READ: TypeAdapter[ComparisonFilter | CompoundFilter] = TypeAdapter(ComparisonFilter | CompoundFilter)


@pytest.mark.capability("openai-filter")
@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"type": "eq", "key": "a", "value": 1}, {"a": 1}),
        ({"type": "eq", "key": "a", "value": True}, {"a": True}),
        ({"type": "ne", "key": "a", "value": "x"}, {"not": {"a": "x"}}),
        ({"type": "gte", "key": "a", "value": 1.5}, {"a": {"gte": 1.5}}),
        ({"type": "lt", "key": "a", "value": "2024-01-01"}, {"a": {"lt": "2024-01-01"}}),
        ({"type": "in", "key": "a", "value": ["x", 2]}, {"a": ["x", 2]}),
        ({"type": "nin", "key": "a", "value": ["x"]}, {"not": {"a": ["x"]}}),
        ({"type": "eq", "key": "a.b\\c", "value": 1}, {"a\\.b\\\\c": 1}),
        ({"type": "eq", "key": "or", "value": 1}, {"\\or": 1}),
        ({"type": "gt", "key": "$page", "value": 1}, {"$page": {"gt": 1}}),
        (
            {"type": "or", "filters": [{"type": "eq", "key": "a", "value": 1}] * 2},
            {"or": [{"a": 1}, {"a": 1}]},
        ),
    ],
)
def test_translate_filter_returns_equal_carrel_filter(given: Any, made: Any) -> None:
    found = translate_filter(READ.validate_python(given))
    assert found == made
    assert type(next(iter(found.values()))) is type(next(iter(made.values())))
    compile_filter(found)


@pytest.mark.parametrize(("kind", "value"), [("eq", [1]), ("in", 1), ("gt", [1]), ("nin", "x")])
def test_translate_filter_list_with_other_operator_is_refused(kind: str, value: Any) -> None:
    with pytest.raises(InvalidInputError):
        translate_filter(READ.validate_python({"type": kind, "key": "a", "value": value}))
