"""Conversion of nested data (JSON, XML) into blocks of ``name: value`` lines.

Each object of a list becomes a block. A large object becomes a section with a heading.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.types import BlockKind

MAX_BLOCK_CHARACTERS = 2000
"""Maximum length of an object in one block.

The large members of a longer object become sections, which follow the block of its other members.
"""

MIN_RECORD_CHARACTERS = 100
"""Length from which an object of a list is a record, which gets a separate chunk.

A shorter object is a record only if one of its values has several words.
"""

MAX_LEVEL = 6
MAX_NAME_CHARACTERS = 200
_MAX_INLINE_CHARACTERS = 60
_WORDS = re.compile(r"\S\s+\S|[\u2e80-\ud7ff]{2}")


@dataclass(frozen=True, slots=True)
class Members:
    """Members of an object in their order. A name may occur twice; both members are kept."""

    pairs: "Sequence[tuple[str, Value]]"


Value = str | bool | None | Members | list["Value"]
"""A nested value. Numbers are strings, as they are written in the file."""


def add_nested_data(value: Value, blocks: BlockList, *, max_characters: int) -> None:
    """Add the blocks of nested data. Empty values are left out, with their names.

    Args:
        value: The root value.
        blocks: Blocks of the document.
        max_characters: Maximum number of characters of the document.

    Raises:
        TextTooLong: The document has more characters or nodes than the limits allow.
    """
    waiting: list[tuple[str, Value, int]] = [("", value, 0)]
    while waiting:
        name, value, level = waiting.pop()
        if name:
            blocks.add(BlockKind.HEADING, name, level=min(level, MAX_LEVEL))
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, list) and any(map(_is_nested, value)):
            for item in value:
                _add_item(item, blocks, max_characters)
        elif isinstance(value, Members) and _is_large(value):
            large = [pair for pair in value.pairs if _is_nested(pair[1]) and _is_large(pair[1])]
            small = [pair for pair in value.pairs if not (_is_nested(pair[1]) and _is_large(pair[1]))]
            blocks.add(BlockKind.PARAGRAPH, _format_text(Members(small), blocks, max_characters))
            waiting.extend((name or "-", member, level + 1) for name, member in reversed(large))
        else:
            blocks.add(BlockKind.PARAGRAPH, _format_text(value, blocks, max_characters))


def _add_item(item: "Value", blocks: BlockList, max_characters: int) -> None:
    text = _format_text(item, blocks, max_characters)
    blocks.add(BlockKind.RECORD if _is_record(item, text) else BlockKind.PARAGRAPH, text)


def _is_record(item: "Value", text: str) -> bool:
    """Return whether an object of a list is a record, such as a question with its answer, and not a row of numbers."""
    if not isinstance(item, Members):
        return False
    return len(text) >= MIN_RECORD_CHARACTERS or any(
        isinstance(value, str) and _WORDS.search(value) for _, value in item.pairs
    )


def _is_nested(value: "Value") -> bool:
    return isinstance(value, Members | list)


def _is_large(value: "Value") -> bool:
    """Return whether a value needs a section: it contains a list of objects, or is nested and too long for a block."""
    if isinstance(value, list):
        return sum(isinstance(item, Members) for item in value) > 1 or _is_long(value)
    return isinstance(value, Members) and (
        any(isinstance(member, list) and _is_large(member) for _, member in value.pairs)
        or (any(_is_nested(member) for _, member in value.pairs) and _is_long(value))
    )


def _is_long(value: "Value") -> bool:
    remaining = MAX_BLOCK_CHARACTERS
    for line in _iter_lines(value):
        remaining -= len(line) + 1
        if remaining < 0:
            return True
    return False


def _format_text(value: "Value", blocks: BlockList, max_characters: int) -> str:
    lines, size = [], 0
    for line in _iter_lines(value):
        size += len(line)
        if size > max_characters:
            blocks.count_characters(size)
        if line:
            lines.append(line)
    return "\n".join(lines)


def _iter_lines(value: "Value") -> Iterator[str]:
    """Yield a line for each scalar in a value, with the path of its names; an empty line for an empty scalar."""
    waiting = [("", value)]
    while waiting:
        path, value = waiting.pop()
        if len(path) > MAX_NAME_CHARACTERS:
            path = "…" + path[-MAX_NAME_CHARACTERS:]
        if isinstance(value, Members):
            waiting.extend(
                (f"{path}.{name}" if path and name else path or name, member) for name, member in reversed(value.pairs)
            )
        elif isinstance(value, list) and any(map(_is_nested, value)):
            waiting.extend((f"{path}[{index}]", value[index]) for index in reversed(range(len(value))))
        else:
            yield from _iter_simple_lines(path, value)


def _iter_simple_lines(path: str, value: "Value") -> Iterator[str]:
    texts = [_format_scalar(item) for item in value] if isinstance(value, list) else [_format_scalar(value)]
    texts = [text for text in texts if text.strip()]
    if path and texts and max(map(len, texts)) <= _MAX_INLINE_CHARACTERS:
        texts = [", ".join(texts)]
    for text in texts or [""]:
        yield f"{path}: {text}" if path and text else text


def _format_scalar(value: "Value") -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else ""
