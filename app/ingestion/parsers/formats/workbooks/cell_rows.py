"""Rows of a sheet as text: numbers in their formats, links, error values and merged cells."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from python_calamine import CalamineSheet

from app.ingestion.parsers.formats.workbooks.sheet_scan import CellDetail
from app.ingestion.parsers.toolkit.date_formats import EPOCH
from app.ingestion.parsers.toolkit.links import format_link
from app.ingestion.parsers.toolkit.number_formats import format_number, format_text, is_date_format

MAX_MERGED_ROWS = 100_000
"""Maximum number of rows of merged cells whose value is repeated."""

CellValue = int | float | str | bool | datetime.time | datetime.date | datetime.datetime | datetime.timedelta

_MAX_EXACT_FLOAT = 1 << 53
_DAYS_BETWEEN_EPOCHS = 1462
_SECONDS_OF_DAY = 86_400


@dataclass(frozen=True, slots=True)
class CellSource:
    """Details of the cells of a sheet.

    Attributes:
        details: Rows with cells that need more than their value, in the order of the rows, with numbers from 0.
        formats: Number format of each style.
        links: Address of the link of each cell, by row and column from 0.
        rich_texts: Texts with superscripts, by the same text without them.
        starts_in_1904: Whether day 0 of the workbook is 1 January 1904.
    """

    details: Iterator[tuple[int, Mapping[int, CellDetail]]] = field(default_factory=lambda: iter(()))
    formats: Sequence[str] = ()
    links: Mapping[tuple[int, int], str] = field(default_factory=dict)
    rich_texts: Mapping[str, str] = field(default_factory=dict)
    starts_in_1904: bool = False


def iter_text_rows(sheet: CalamineSheet, source: CellSource) -> Iterator[list[str]]:
    """Yield the rows of a sheet as text, beginning with its first row.

    The value of a merged cell is repeated in all of its cells. A merged cell that is alone in its row is a title, which
    is not repeated.
    """
    first_column = sheet.start[1] if sheet.start else 0
    merged = _list_merged_cells(sheet)
    anchors: dict[tuple[int, int], str] = {}
    detail_row, details = next(source.details, (-1, {}))
    linked_rows = {row for row, _ in source.links}
    for number, values in enumerate(sheet.iter_rows()):
        while 0 <= detail_row < number:
            detail_row, details = next(source.details, (-1, {}))
        if detail_row == number:
            texts = _format_detailed_row(values, details, first_column, source)
        else:
            texts = [format_value(value) for value in values]
        if source.rich_texts:
            texts = [source.rich_texts.get(text, text) for text in texts]
        if number in linked_rows:
            _add_links(texts, number, first_column, source.links)
        for start_row, first, last in merged.get(number, ()):
            _repeat_merged_value(
                texts, (start_row, first), range(first - first_column, last - first_column + 1), anchors
            )
        yield texts


def _format_detailed_row(
    values: Sequence[CellValue], details: Mapping[int, CellDetail], first_column: int, source: CellSource
) -> list[str]:
    texts = []
    for column, value in enumerate(values, start=first_column):
        detail = details.get(column)
        if detail is None:
            texts.append(format_value(value))
            continue
        code = source.formats[detail.style] if detail.style < len(source.formats) else ""
        text = detail.error if detail.error and value == "" else _format_styled(value, code, source)
        texts.append(format_link(text, detail.link) if detail.link else text)
    return texts


def _format_styled(value: CellValue, code: str, source: CellSource) -> str:
    if isinstance(value, str):
        return format_text(value.strip(), code) if value.strip() else ""
    serial = None if isinstance(value, bool) else _to_serial(value)
    if serial is None or not code:
        return format_value(value)
    if isinstance(value, int | float) and source.starts_in_1904 and is_date_format(code):
        serial += _DAYS_BETWEEN_EPOCHS
    shown = format_number(serial, code)
    return format_value(value) if shown is None else shown


def _to_serial(value: CellValue) -> float | None:
    """Return a number, a date or a time as the number of days since 30 December 1899."""
    match value:
        case int() | float():
            return float(value)
        case datetime.datetime():
            return (value.replace(tzinfo=None) - EPOCH) / datetime.timedelta(days=1)
        case datetime.date():
            return float((value - EPOCH.date()).days)
        case datetime.time():
            seconds = 3600 * value.hour + 60 * value.minute + value.second + value.microsecond / 1_000_000
            return seconds / _SECONDS_OF_DAY
        case datetime.timedelta():
            return value / datetime.timedelta(days=1)
    return None


def format_value(value: CellValue) -> str:
    """Return a value as text: numbers without rounding errors, dates in ISO 8601."""
    match value:
        case str():
            return value.strip()
        case bool():
            return str(value).upper()
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < _MAX_EXACT_FLOAT else f"{value:.15g}"
        case datetime.datetime():
            is_midnight = value.time() == datetime.time()
            return value.date().isoformat() if is_midnight else value.isoformat(" ", "seconds")
        case datetime.date() | datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            minutes, seconds = divmod(round(value.total_seconds()), 60)
            return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
        case _:
            return str(value)


def _add_links(texts: list[str], row: int, first_column: int, links: Mapping[tuple[int, int], str]) -> None:
    for index, text in enumerate(texts):
        address = links.get((row, first_column + index))
        if address and text:
            texts[index] = format_link(text, address)


def _list_merged_cells(sheet: CalamineSheet) -> dict[int, list[tuple[int, int, int]]]:
    """Return the merged cells by row: the first row, the first column and the last column of each."""
    rows: dict[int, list[tuple[int, int, int]]] = {}
    count = 0
    for (first_row, first), (last_row, last) in sheet.merged_cell_ranges or ():
        for row in range(first_row, last_row + 1):
            count += 1
            if count > MAX_MERGED_ROWS:
                return rows
            rows.setdefault(row, []).append((first_row, first, last))
    return rows


def _repeat_merged_value(
    texts: list[str], anchor: tuple[int, int], columns: range, anchors: dict[tuple[int, int], str]
) -> None:
    inside = range(max(columns.start, 0), min(columns.stop, len(texts)))
    own = next((texts[column] for column in inside if texts[column]), "")
    if own:
        anchors[anchor] = own
    value = anchors.get(anchor, "")
    if value and any(text for column, text in enumerate(texts) if column not in inside):
        for column in inside:
            texts[column] = texts[column] or value
