"""Markdown text of a table: its caption, its head, and its rows."""

import re
from collections.abc import Sequence

from app.ingestion.parsers.toolkit.span_expansion import ExpandedRow, MarkupCell, expand_spans
from app.ingestion.parsers.toolkit.tables import format_headed_table

MAX_HEAD_ROWS = 5
_CURRENCY = frozenset({"$", "€", "£", "¥", "US$", "USD", "EUR", "CHF", "-$", "($", "(", "$(", "₹", "R$"})
_TRAILING = frozenset({")", "%", ")%", "%)", "pts", "x", "bps"})
_NUMBER = re.compile(r"[-+(−]?\s?[$€£¥]?\s?\d")
_YEAR = re.compile(r"(?:\w{0,10}[ /-]?)?(?:19|20)\d\d(?:[/-]\d\d)?")


def format_table(
    caption: Sequence[str], head: Sequence[Sequence[MarkupCell]], body: Sequence[Sequence[MarkupCell]]
) -> str:
    """Format a table as Markdown. The rows of the head are joined column by column, and spans are repeated.

    Args:
        caption: Lines above the table.
        head: Rows that the file marks as the head.
        body: All other rows.

    Returns:
        The caption, the head, a line of dashes and the rows; an empty string if no cell has text.
    """
    rows = expand_spans([*head, *body])
    rows = [row for row in rows if any(row.cells)]
    titles, rows = _take_titles(rows)
    count = _count_head_rows(rows, {id(cell) for cells in head for cell in cells})
    head_rows, body_rows = rows[:count], rows[count:]
    _join_signs(head_rows, body_rows)
    columns = [index for index in range(len(rows[0].cells)) if _is_needed(index, head_rows, body_rows)] if rows else []
    names = [_join_names([row.cells[index] for row in head_rows]) for index in columns]
    lines = [[row.cells[index] for index in columns] for row in map(_shorten_label, body_rows)]
    return format_headed_table(names, lines, caption=[*caption, *titles])


def _take_titles(rows: list[ExpandedRow]) -> tuple[list[str], list[ExpandedRow]]:
    """Return the rows in front that one cell fills, which are titles of the table, and the other rows."""
    count = 0
    while count < min(len(rows) - 1, MAX_HEAD_ROWS) and rows[count].is_full_width:
        count += 1
    return [row.cells[0] for row in rows[:count]], rows[count:]


def _count_head_rows(rows: Sequence[ExpandedRow], marked: set[int]) -> int:
    """Return the number of rows that name the columns; 0 if the table only has data."""
    count = 0
    while count < min(len(rows) - 1, MAX_HEAD_ROWS) and _is_marked_head(rows[count], marked):
        count += 1
    while 0 < count < min(len(rows) - 1, MAX_HEAD_ROWS) and _is_lower_head(rows[count - 1], rows[count]):
        count += 1
    if count or not rows:
        return count
    if marked and _is_marked_head(rows[0], marked):
        return 1
    has_row_heads = any(source is not None and source.is_head for row in rows for source in row.sources)
    return int(len(rows) > 1 and not has_row_heads and _is_probable_head(rows))


def _is_marked_head(row: ExpandedRow, marked: set[int]) -> bool:
    sources = [source for source, text in zip(row.sources, row.cells, strict=True) if source is not None and text]
    if any(id(source) in marked for source in sources):
        return True
    own = [source for source, is_repeat in zip(row.sources, row.is_repeat, strict=True) if source and not is_repeat]
    filled = [source for source in own if source.text]
    return bool(filled) and all(source.is_head for source in filled) and len(sources) > 1


def _is_lower_head(above: ExpandedRow, row: ExpandedRow) -> bool:
    """Return whether a row names the parts of the spans in the head above it: it only has text below them."""
    width = len(row.cells)
    spanned = [_has_no_name(above, index) and bool(above.cells[index]) for index in range(width)]
    filled = [index for index in range(width) if row.cells[index] and not row.is_repeat[index]]
    if len(filled) < 2 or not all(spanned[index] for index in filled):
        return False
    return not any(_NUMBER.match(row.cells[index]) and not _YEAR.fullmatch(row.cells[index]) for index in filled)


def _is_probable_head(rows: Sequence[ExpandedRow]) -> bool:
    """Return whether the first row of a table without marked heads names the columns."""
    first, others = rows[0], rows[1:]
    filled = [source for source in first.sources if source is not None and source.text]
    if filled and all(source.is_bold for source in filled) and len(filled) > 1:
        return not all(source is None or source.is_bold for row in others for source in row.sources)
    numbers = [text for text in first.cells if _NUMBER.match(text)]
    if numbers:
        return all(_YEAR.fullmatch(text) for text in numbers) and not _NUMBER.match(first.cells[0])
    return not (len(first.cells) == 2 and all(row.cells[0].endswith(":") for row in rows if row.cells[0]))


def _join_signs(head: Sequence[ExpandedRow], body: Sequence[ExpandedRow]) -> None:
    """Join currency signs, closing brackets and percent signs in separate columns to their numbers."""
    width = len(body[0].cells) if body else 0
    for index in range(width):
        texts = {row.cells[index] for row in body} - {""}
        if not texts or not all(_has_no_name(row, index) for row in head):
            continue
        if texts <= _CURRENCY and index + 1 < width:
            for row in body:
                if row.cells[index] and _NUMBER.match(row.cells[index + 1]):
                    gap = " " if row.cells[index].isalpha() else ""
                    row.cells[index + 1] = row.cells[index] + gap + row.cells[index + 1]
                    row.cells[index] = ""
        elif texts <= _TRAILING and index:
            for row in body:
                target = next((at for at in (index - 1, index - 2) if at >= 0 and row.cells[at]), None)
                if row.cells[index] and target is not None and row.cells[target][-1].isdigit():
                    row.cells[target] += row.cells[index]
                    row.cells[index] = ""


def _has_no_name(row: ExpandedRow, index: int) -> bool:
    """Return whether a cell of the head is empty, or a part of a span, so that its column has no separate name."""
    source = row.sources[index]
    neighbours = row.sources[max(0, index - 1) : index] + row.sources[index + 1 : index + 2]
    return source is None or not row.cells[index] or any(source is neighbour for neighbour in neighbours)


def _is_needed(index: int, head: Sequence[ExpandedRow], body: Sequence[ExpandedRow]) -> bool:
    if any(row.cells[index] for row in body):
        return True
    return not body or not all(_has_no_name(row, index) for row in head)


def _join_names(names: Sequence[str]) -> str:
    joined: list[str] = []
    for name in names:
        if name and name not in joined[-1:]:
            joined.append(name)
    return " ".join(joined)


def _shorten_label(row: ExpandedRow) -> ExpandedRow:
    """Write the text of a cell that spans all the columns once: it is a label of the rows below, or a remark."""
    if row.is_full_width and row.cells[0]:
        return ExpandedRow([row.cells[0], *[""] * (len(row.cells) - 1)], row.sources, row.is_repeat)
    return row
