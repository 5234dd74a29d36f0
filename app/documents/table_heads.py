"""Heads of tables: the lines of a table above its rows, which each later part of the table repeats."""

import re
from dataclasses import dataclass

MAX_HEAD_CHARACTERS = 8_000
"""Maximum length of a head; a longer one is not repeated."""

MAX_LABEL_ROWS = 3
"""Maximum number of adjacent label rows that a later part of the table repeats."""

MAX_NAME_CHARACTERS = 24
"""Maximum length of a column name in a shortened head."""

MAX_UNITS = 2
MAX_UNIT_CHARACTERS = 60
"""Maximum number of units that a shortened caption has, and maximum length of a line or a bracket that names one."""

BLOCK_SEPARATOR = "\n\n"
"""Characters between two blocks of the stored text. The text of a table never contains them."""

_RULE = re.compile(r"^\|(?: ?:?-{3,}:? ?\|)++$", re.MULTILINE)
_BRACKETS = re.compile(r"\([^()\n]{1,100}\)")
_UNIT = re.compile(
    r"\b(?:millions?|thousands?|billions?|percent|mio|mrd|tsd|milliers|millionen|millones|eur|usd|gbp|chf)\b|[$€£¥%‰]",
    re.IGNORECASE,
)
_CELL_END = re.compile(r"(?<!\\)\|")
_DIGITS = re.compile(r"\d+")
_LETTERS = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class TableHead:
    """Range of a table's head in the stored text, in code points.

    Attributes:
        start: First character of the caption, or of the row of column names.
        names_start: First character of the row of column names.
        end: Offset behind the line of dashes.
    """

    start: int
    names_start: int
    end: int


def find_table_head(text: str, start: int, end: int) -> TableHead | None:
    """Find the head of a table: the caption, the row of column names and the line of dashes.

    Args:
        text: Stored text of a document.
        start: First character of the table.
        end: Offset behind the table.

    Returns:
        The range of the head. None if the table has no line of dashes, or the head is too long.
    """
    limit = min(end, start + MAX_HEAD_CHARACTERS)
    rule = _RULE.search(text, start, limit)
    if rule is None or rule.start() == start or (rule.end() == limit and limit < end):
        return None
    names_start = max(start, text.rfind("\n", start, rule.start() - 1) + 1)
    return TableHead(start, names_start, rule.end()) if text[names_start] == "|" else None


def list_head_variants(text: str, head: TableHead) -> list[str]:
    """Return the forms in which a head can be repeated, the longest first.

    The forms are the whole head, the head with only the units of its caption, and the head without its caption. The
    last form has shortened column names.

    Args:
        text: Stored text of a document.
        head: Range of the head.
    """
    variants = [text[head.start : head.end]]
    names = text[head.names_start : head.end]
    if head.names_start > head.start:
        if units := _find_units(text[head.start : head.names_start]):
            variants.append(f"{units}\n{names}")
        variants.append(names)
    shortened = _shorten_names(names)
    return variants if shortened == names else [*variants, shortened]


def _find_units(caption: str) -> str:
    """Return the short lines and the brackets of a caption that name a unit, joined by spaces. Empty if none does."""
    units = []
    for line in caption.split("\n"):
        if len(line) <= MAX_UNIT_CHARACTERS:
            parts = [line]
        else:
            parts = [part for part in _BRACKETS.findall(line) if len(part) <= MAX_UNIT_CHARACTERS]
        units += [part for part in parts if _UNIT.search(part)]
    result = " ".join(units[:MAX_UNITS])
    return "" if result == caption.rstrip("\n") else result


def find_head_at(text: str, position: int) -> str | None:
    """Return the head of the table that a range of the stored text begins in, behind the table's head.

    Only the text is read. A table is a block with a line of dashes below its column names.

    Args:
        text: Stored text of a document.
        position: First character of the range.

    Returns:
        The whole head. None if the range begins outside a table, or in its head.
    """
    start = max(0, text.rfind(BLOCK_SEPARATOR, 0, position))
    start += len(BLOCK_SEPARATOR) if text.startswith(BLOCK_SEPARATOR, start) else 0
    end = text.find(BLOCK_SEPARATOR, position)
    head = find_table_head(text, start, len(text) if end < 0 else end)
    return text[head.start : head.end] if head is not None and position > head.end else None


def find_row_start(text: str, position: int, limit: int) -> int:
    """Return the start of the first row at or behind a position, at most ``limit``; else the position.

    Args:
        text: Stored text of a document.
        position: Position inside a table.
        limit: Greatest result.
    """
    if text.startswith("\n", position - 1):
        return position
    start = text.find("\n", position, limit) + 1
    return start or position


def is_label_row(row: str, next_row: str) -> bool:
    """Return whether a row is a label for the rows below it: its first cell has text, and its other cells are empty.

    A row with an identifier like the one of the next row, such as ``P-0007`` above ``P-0008``, is a row without values.

    Args:
        row: Line of the row.
        next_row: Line of the next row.
    """
    cells = split_cells(row)
    if len(cells) < 2 or not cells[0] or any(cells[1:]):
        return False
    next_cells = split_cells(next_row)
    if not next_cells or not any(next_cells):
        return False
    has_digits = _DIGITS.search(cells[0]) is not None
    return not (has_digits and _get_shape(cells[0]) == _get_shape(next_cells[0]))


def split_cells(row: str) -> list[str]:
    """Return the cells of a line of a Markdown table; an empty list if the line is no row."""
    if not row.startswith("|") or not row.endswith("|"):
        return []
    return [cell.strip() for cell in _CELL_END.split(row)[1:-1]]


def is_rule(line: str) -> bool:
    """Return whether a line is the line of dashes below the column names."""
    return _RULE.fullmatch(line) is not None


def _get_shape(cell: str) -> str:
    return _LETTERS.sub("a", _DIGITS.sub("0", cell))


def _shorten_names(names: str) -> str:
    row, _, rule = names.partition("\n")
    cells = [_shorten_name(cell) for cell in split_cells(row)]
    return "| " + " | ".join(cells) + " |\n" + rule if cells else names


def _shorten_name(name: str) -> str:
    if len(name) <= MAX_NAME_CHARACTERS:
        return name
    end = name.rfind(" ", MAX_NAME_CHARACTERS // 2, MAX_NAME_CHARACTERS)
    return name[: end if end > 0 else MAX_NAME_CHARACTERS - 1].rstrip(" \\") + "…"
