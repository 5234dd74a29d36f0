"""JSON and JSON lines: an object of a list is a passage of its own, with the names as they are written."""

import json
import re
from pathlib import Path
from typing import Any

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.character_decoding import decode_text
from app.ingestion.parsers.toolkit.nested_data import Members, Value, add_nested_data
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import CorruptFile, ParsedDocument
from app.warnings import ServiceWarning, WarningCode

MAX_BAD_LINES = 1000
_LINE = re.compile(r"[^\n]*[^\s][^\n]*")
_TITLE_NAMES = ("title", "name")


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Numbers stay as they are written.

    Raises CorruptFile for what is neither JSON nor, for the most part, JSON lines.
    """
    decoded = decode_text(path.read_bytes(), encoding=options.encoding)
    blocks, warnings = BlockList(options), list(decoded.warnings)
    text, title = decoded.text.strip(), None
    if text:
        value, bad, total = _read_values(text)
        if bad:
            message = f"{bad} of {total} lines are damaged and were not read."
            warnings.append(ServiceWarning(WarningCode.LINES_NOT_READ, message))
        title = _find_title(value)
        add_nested_data(value, blocks, max_characters=options.max_characters)
    return ParsedDocument(blocks.blocks, title=title, warnings=warnings)


def _read_values(text: str) -> tuple[Value, int, int]:
    """The data, and how many of how many lines could not be read."""
    try:
        return _load_value(text), 0, 1
    except ValueError as exc:
        items, bad = [], 0
        for line in _LINE.finditer(text):
            try:
                items.append(_load_value(line[0]))
            except ValueError:
                bad += 1
            if bad > MAX_BAD_LINES and bad > len(items):
                break
        if bad >= len(items):
            raise CorruptFile("The file is not JSON.") from exc
        return items, bad, len(items) + bad


def _load_value(text: str) -> Value:
    """Raises ValueError, CorruptFile for data nested without measure."""
    try:
        data: Value = json.loads(
            text, parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_create_members
        )
    except RecursionError as exc:
        raise CorruptFile("The data in this file are nested too deeply.") from exc
    return data


def _create_members(pairs: list[tuple[str, Any]]) -> Members:
    return Members(pairs)


def _find_title(value: Value) -> str | None:
    """What the object as a whole calls itself."""
    if not isinstance(value, Members):
        return None
    texts_by_name = {name: member for name, member in value.pairs if isinstance(member, str)}
    return next((clean_line(texts_by_name[name]) for name in _TITLE_NAMES if texts_by_name.get(name)), None)
