"""Parse objects from the text of a model, despite reasoning, prose, code fences and trailing commas around them."""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

MAX_CHARACTERS = 200_000
MAX_DEPTH = 20
# Some servers send the reasoning of a model as text, which may contain draft answers. Some omit the opening tag.
THOUGHTS_START, THOUGHTS_END = "<think>", "</think>"
# A brace in prose is seldom followed by a quotation mark.
OPENING_BRACE = re.compile(r'\{(?=\s*["}])')
# The possessive quantifier keeps the time linear. Matching the quotation mark of an unfinished string does so too.
TOKEN_PATTERN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],"]', re.DOTALL)
CLOSING_BRACKETS = {"{": "}", "[": "]"}
TRUNCATED_MESSAGE = "it breaks off"
INSTRUCTION = "Answer with one JSON object and nothing else. It must be valid against this JSON Schema:\n"
INSTRUCTION_SEPARATOR = "\n\n"
"""Text between the system message of a prompt and the instruction about the shape of the answer."""

Shape = TypeVar("Shape", bound=BaseModel)


class UnparseableOutput(Exception):
    """The answer of a model contains no valid object. The message contains no text of the answer."""


def parse_structured_output(text: str, shape: type[Shape]) -> Shape:
    """Parse the last valid object in a text. Earlier objects are ignored, because models correct themselves.

    Args:
        text: Text of the model.
        shape: Pydantic model of the object.

    Raises:
        UnparseableOutput: The text contains no valid object.
    """
    if len(text) > MAX_CHARACTERS:
        raise UnparseableOutput("it is too long")
    result: Shape | None = None
    problem = UnparseableOutput("it contains no JSON object")
    for candidate in _iterate_objects(_strip_thoughts(text)):
        try:
            result = _parse_object(candidate, shape)
        except UnparseableOutput as exc:
            problem = exc
    if result is None:
        raise problem
    return result


@lru_cache(maxsize=100)
def build_strict_schema(shape: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema for OpenAI's strict mode: objects closed, all properties required, no defaults.

    Cached, because it takes longer than the rest of a request; callers must not change it.
    """
    schema: dict[str, Any] = _close_schema(shape.model_json_schema())
    return schema


def build_instruction(shape: type[BaseModel]) -> str:
    """Return the instruction that a request for an object adds to the system message of its prompt."""
    return INSTRUCTION + json.dumps(build_strict_schema(shape))


def _strip_thoughts(text: str) -> str:
    """Return the text after the model's thoughts. Raises UnparseableOutput."""
    _, end, answer = text.partition(THOUGHTS_END)
    if end:
        return answer
    if text.lstrip().startswith(THOUGHTS_START):
        raise UnparseableOutput(TRUNCATED_MESSAGE)
    return text


def _iterate_objects(text: str) -> Iterator[str]:
    """Yield the outermost candidates for a JSON object, from left to right. Raises UnparseableOutput."""
    position = 0
    while opening := OPENING_BRACE.search(text, position):
        candidate, position = _extract_object(text, opening.start())
        yield candidate


def _extract_object(text: str, start: int) -> tuple[str, int]:
    """Return the object that begins at a position, without trailing commas, and its end. Raises UnparseableOutput."""
    parts: list[str] = []
    expected: list[str] = []
    copied, comma = start, None
    for token in TOKEN_PATTERN.finditer(text, start):
        mark = token.group()
        if mark in CLOSING_BRACKETS:
            expected.append(CLOSING_BRACKETS[mark])
        elif mark == '"':
            break
        elif mark in "]}" and mark != expected.pop():
            raise UnparseableOutput("its object is not valid JSON")
        if mark in "]}" and comma is not None and not text[comma + 1 : token.start()].strip():
            parts.append(text[copied:comma])
            copied = comma + 1
        if not expected:
            return "".join([*parts, text[copied : token.end()]]), token.end()
        if len(expected) > MAX_DEPTH:
            raise UnparseableOutput("it is nested too deeply")
        comma = token.start() if mark == "," else None
    raise UnparseableOutput(TRUNCATED_MESSAGE)


def _parse_object(candidate: str, shape: type[Shape]) -> Shape:
    try:
        data = json.loads(candidate, strict=False, parse_constant=_reject_constant)
        json.dumps(data, ensure_ascii=False).encode()  # raises ValueError for a lone surrogate, which cannot be stored
        return shape.model_validate(data)
    except ValidationError:
        raise UnparseableOutput("its object has another shape") from None  # the original error would quote the answer
    except ValueError:
        raise UnparseableOutput("its object is not valid JSON") from None


def _reject_constant(_: str) -> Any:
    """Refuse NaN and the infinities, which are not valid JSON."""
    raise ValueError


def _close_schema(node: Any) -> Any:
    if isinstance(node, list):
        return [_close_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    if not isinstance(node.get("properties"), dict):
        return {key: _close_schema(value) for key, value in node.items() if key != "default"}
    # Names of properties are not keywords of JSON Schema: a property may be called "default".
    properties = {name: _close_schema(value) for name, value in node["properties"].items()}
    others = {key: _close_schema(value) for key, value in node.items() if key not in ("default", "properties")}
    return {**others, "properties": properties, "required": list(properties), "additionalProperties": False}
