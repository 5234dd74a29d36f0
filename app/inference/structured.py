"""Typed objects out of what a model says: with reasoning before it, prose around it, code fences or trailing commas."""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

MAX_CHARACTERS = 200_000
MAX_DEPTH = 20
# Reasoning models at plain servers think aloud first, and may try out answers there; some servers swallow the opening.
THOUGHTS, END_OF_THOUGHTS = "<think>", "</think>"
# A brace in prose is seldom followed by a quotation mark.
OPENING = re.compile(r'\{(?=\s*["}])')
# Possessive, and a mark that opens a string without an end is a token too: the time stays linear.
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],"]', re.DOTALL)
CLOSING = {"{": "}", "[": "]"}
CUT_SHORT = "it breaks off"

Shape = TypeVar("Shape", bound=BaseModel)


class UnusableAnswer(Exception):
    """A model's answer that holds no such object; the message holds no content."""


def read_answer(text: str, shape: type[Shape]) -> Shape:
    """The last object in it that has this shape: models correct themselves. Raises UnusableAnswer."""
    if len(text) > MAX_CHARACTERS:
        raise UnusableAnswer("it is too long")
    found: Shape | None = None
    problem = UnusableAnswer("it holds no JSON object")
    for candidate in _objects(_said(text)):
        try:
            found = _read(candidate, shape)
        except UnusableAnswer as exc:
            problem = exc
    if found is None:
        raise problem
    return found


@lru_cache(maxsize=100)
def strict_schema(shape: type[BaseModel]) -> dict[str, Any]:
    """Its JSON Schema as OpenAI's strict mode wants it: every object closed, every property required, no defaults.

    Made once, for it takes longer than the rest of a request; nobody changes it.
    """
    schema: dict[str, Any] = _closed(shape.model_json_schema())
    return schema


def _said(text: str) -> str:
    """What comes after the thoughts. Raises UnusableAnswer."""
    _, end, answer = text.partition(END_OF_THOUGHTS)
    if end:
        return answer
    if text.lstrip().startswith(THOUGHTS):
        raise UnusableAnswer(CUT_SHORT)
    return text


def _objects(text: str) -> Iterator[str]:
    """What looks like an object, outermost, from left to right. Raises UnusableAnswer."""
    at = 0
    while opening := OPENING.search(text, at):
        candidate, at = _balanced(text, opening.start())
        yield candidate


def _balanced(text: str, start: int) -> tuple[str, int]:
    """The object that begins there, without trailing commas, and where it ends. Raises UnusableAnswer."""
    parts: list[str] = []
    expected: list[str] = []
    copied, comma = start, None
    for token in TOKEN.finditer(text, start):
        mark = token.group()
        if mark in CLOSING:
            expected.append(CLOSING[mark])
        elif mark == '"':
            break
        elif mark in "]}" and mark != expected.pop():
            raise UnusableAnswer("its object is no JSON")
        if mark in "]}" and comma is not None and not text[comma + 1 : token.start()].strip():
            parts.append(text[copied:comma])
            copied = comma + 1
        if not expected:
            return "".join([*parts, text[copied : token.end()]]), token.end()
        if len(expected) > MAX_DEPTH:
            raise UnusableAnswer("it is nested too deeply")
        comma = token.start() if mark == "," else None
    raise UnusableAnswer(CUT_SHORT)


def _read(candidate: str, shape: type[Shape]) -> Shape:
    try:
        data = json.loads(candidate, strict=False, parse_constant=_no_number)
        json.dumps(data, ensure_ascii=False).encode()  # an escape may be half a character, which nobody can store
        return shape.model_validate(data)
    except ValidationError:
        raise UnusableAnswer("its object has another shape") from None  # the cause would quote it
    except ValueError:
        raise UnusableAnswer("its object is no JSON") from None


def _no_number(_: str) -> Any:
    """NaN and the infinities are no JSON."""
    raise ValueError


def _closed(node: Any) -> Any:
    if isinstance(node, list):
        return [_closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    if not isinstance(node.get("properties"), dict):
        return {key: _closed(value) for key, value in node.items() if key != "default"}
    # The names of properties are no keywords: one may be called "default".
    properties = {name: _closed(value) for name, value in node["properties"].items()}
    rest = {key: _closed(value) for key, value in node.items() if key not in ("default", "properties")}
    return {**rest, "properties": properties, "required": list(properties), "additionalProperties": False}
