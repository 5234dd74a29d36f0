"""Structured output of a model: parsed where possible, and an error otherwise."""

import json

import pytest
from pydantic import BaseModel, Field

from app.inference.chat.structured_output import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    UnparseableOutput,
    build_strict_schema,
    parse_structured_output,
)


class Inner(BaseModel):
    """Nested part of an object."""

    name: str
    default: int = 3


class NestedAnswer(BaseModel):
    """The requested object."""

    query: str
    indices: list[int] = []
    inner: Inner | None = None


PLAIN = '{"query": "one-way rentals", "indices": [0, 2]}'
READ = NestedAnswer(query="one-way rentals", indices=[0, 2])


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        "\ufeff " + PLAIN + "\n",
        f"```json\n{PLAIN}\n```",
        f"~~~\n{PLAIN}\n~~~",
        f"Sure! Here is the object:\n\n{PLAIN}\n\nI hope {{this}} helps.",
        f"[{PLAIN}]",
        f"<think>Perhaps {{\"query\": \"draft\"}}? No.</think>\n{PLAIN}",
        f"or {{\"query\": \"draft\"}}\n</think>{PLAIN}",
        f'First {{"query": "draft"}}, or better: {PLAIN}',
        f'{PLAIN} in the form {{"answer": "…"}}.',
        '{"query": "one-way rentals", "indices": [0, 2,],}',
        '{"query": "one-way rentals", "indices": [0, 2 , ] ,\n}',
        '{"query": "first", "query": "one-way rentals", "indices": [0, 2]}',
        '{"query": "one-way rentals", "indices": ["0", 2.0], "confidence": 0.9}',
        'f(x) { return x } and then ' + PLAIN,
    ],
    ids=[
        "plain", "mark", "fence", "tildes", "prose", "list", "thoughts", "thoughts without a beginning", "corrected",
        "followed by another", "trailing commas", "spaced commas", "duplicate keys", "other numbers", "braces in prose",
    ],
)  # fmt: skip
def test_parse_structured_output_reads_objects_in_text(text: str) -> None:
    assert parse_structured_output(text, NestedAnswer) == READ


@pytest.mark.parametrize(
    "query",
    ["a, ]b ,}", 'quoted "word"', "back\\slash", "line\nbreak", "```", "{[", "café 🚗", "", "</thin k>"],
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_parse_structured_output_leaves_strings_unchanged(query: str, ascii_only: bool) -> None:
    text = json.dumps({"query": query, "inner": {"name": query}}, ensure_ascii=ascii_only)
    assert parse_structured_output(text[:-2] + ",}," + "}", NestedAnswer) == NestedAnswer(
        query=query, inner=Inner(name=query)
    )


def test_parse_structured_output_accepts_line_break_in_string() -> None:
    assert parse_structured_output('{"query": "two\nlines\tand a tab"}', NestedAnswer).query == "two\nlines\tand a tab"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no JSON object"),
        ("I cannot help with that.", "no JSON object"),
        ("null", "no JSON object"),
        ("[0, 2]", "no JSON object"),
        ("{'query': 'x'}", "no JSON object"),
        ("{query: 'x'}", "no JSON object"),
        ('{"query": \'x\'}', "not valid JSON"),
        ('{"query": "x",, "indices": []}', "not valid JSON"),
        ('{"query": "x", "indices": [0 2]}', "not valid JSON"),
        ('{"query": "x", "indices": [0}]', "not valid JSON"),
        ('{"query": "x", "indices": [NaN]}', "not valid JSON"),
        ('{"query": "x", "indices": [' + "9" * 5000 + "]}", "not valid JSON"),
        ('{"query": "x\\q"}', "not valid JSON"),
        ('{"query": "\\ud800"}', "not valid JSON"),
        ("{}", "another shape"),
        ('{"query": 3}', "another shape"),
        ('{"answer": {"query": "x"}}', "another shape"),
        (PLAIN[:-1], "breaks off"),
        (PLAIN[:-9], "breaks off"),
        (PLAIN[:20], "breaks off"),
        ("<think>" + PLAIN, "breaks off"),
        ('{"query": "x", "inner": {"name": "y"}', "breaks off"),
        ('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), "too deeply"),
        ('{"query": ' + "[" * 100_000, "too deeply"),
        (PLAIN + " " * MAX_CHARACTERS, "too long"),
    ],
    ids=lambda value: value[:30],
)  # fmt: skip
def test_parse_structured_output_other_text_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UnparseableOutput, match=problem):
        parse_structured_output(text, NestedAnswer)


def test_parse_structured_output_error_has_no_content() -> None:
    with pytest.raises(UnparseableOutput) as raised:
        parse_structured_output('{"query": ["secret"]}', NestedAnswer)
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


@pytest.mark.parametrize("unit", ['{"', '\\"', "{", '{"a":1}', ",", '{"a', "<think>", '["', '{"a":[],'])
def test_parse_structured_output_hostile_repetition_takes_linear_time(unit: str) -> None:
    """Each of these takes hours if the time is quadratic in the length."""
    with pytest.raises(UnparseableOutput):
        parse_structured_output(unit * (MAX_CHARACTERS // len(unit)), NestedAnswer)


def test_build_strict_schema_forbids_additional_properties() -> None:
    class Deep(BaseModel):
        parts: list[Inner] = Field(default_factory=list, max_length=3)
        rewrite: NestedAnswer | None = None

    schema = build_strict_schema(Deep)
    assert (schema["required"], schema["additionalProperties"]) == (["parts", "rewrite"], False)
    inner = schema["$defs"]["Inner"]
    assert (inner["required"], inner["additionalProperties"]) == (["name", "default"], False)
    assert "default" not in inner["properties"]["default"]
    assert "default" not in schema["properties"]["rewrite"]
