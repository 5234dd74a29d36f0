"""Parser of JSON and JSON Lines: each object of a list becomes a block of ``name: value`` lines."""

import json
import re
from pathlib import Path
from typing import Any

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.toolkit.base64_blobs import remove_base64_blobs
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.character_decoding import decode_text
from app.ingestion.parsers.toolkit.nested_data import Members, Value, add_nested_data
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import CorruptFile, ParsedDocument
from app.warnings import ServiceWarning, WarningCode

MAX_BAD_LINES = 1000
_LINE = re.compile(r"[^\n]*[^\s][^\n]*")
_ESCAPE = re.compile(r"\\.")
_TITLE_NAMES = ("title", "name")


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse a JSON or JSON Lines file. Numbers stay as they are written.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The blocks, with a warning about damaged lines.

    Raises:
        CorruptFile: The file is not JSON, and less than half of its lines are JSON; or the data is nested too deeply.
        TextTooLong: The document has more characters or nodes than the limits allow.
    """
    decoded = decode_text(path.read_bytes(), encoding=options.encoding)
    blocks, warnings = BlockList(options), list(decoded.warnings)
    without_blobs = remove_base64_blobs(_replace_slash_escapes(decoded.text.strip()))
    warnings += without_blobs.list_warnings()
    text, title = without_blobs.text, None
    if text:
        value, bad, total = _read_values(text)
        if bad:
            message = f"{bad} of {total} lines are damaged and were not read."
            warnings.append(ServiceWarning(WarningCode.LINES_NOT_READ, message))
        title = _find_title(value)
        add_nested_data(value, blocks, max_characters=options.max_characters)
    return ParsedDocument(blocks.blocks, title=title, warnings=warnings)


def _replace_slash_escapes(text: str) -> str:
    """Return JSON without the escapes of slashes, which some programs write and which cut base64 data into pieces."""
    return _ESCAPE.sub(lambda match: "/" if match[0] == "\\/" else match[0], text) if "\\/" in text else text


def _read_values(text: str) -> tuple[Value, int, int]:
    """Return the data, the number of damaged lines, and the number of all lines."""
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
            raise CorruptFile("The file is neither JSON nor JSON Lines.") from exc
        return items, bad, len(items) + bad


def _load_value(text: str) -> Value:
    """Load a JSON text. Raises ValueError if it is not JSON, CorruptFile if it is nested too deeply."""
    try:
        data: Value = json.loads(
            text, parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_create_members
        )
    except RecursionError as exc:
        raise CorruptFile("The data in this file is nested too deeply.") from exc
    return data


def _create_members(pairs: list[tuple[str, Any]]) -> Members:
    return Members(pairs)


def _find_title(value: Value) -> str | None:
    """Return the title or name of the root object; None if it has neither."""
    if not isinstance(value, Members):
        return None
    texts_by_name = {name: member for name, member in value.pairs if isinstance(member, str)}
    return next((clean_line(texts_by_name[name]) for name in _TITLE_NAMES if texts_by_name.get(name)), None)
