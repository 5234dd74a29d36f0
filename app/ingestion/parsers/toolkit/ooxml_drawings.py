"""Text of drawings in Office Open XML files: charts become tables, SmartArt becomes lines."""

import re
from datetime import date, timedelta

from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.ooxml import (
    Element,
    find_child,
    get_attribute,
    get_int_attribute,
    get_tag,
    is_switched_on,
    iter_children,
    iter_texts,
)
from app.ingestion.parsers.toolkit.tables import format_markdown_table
from app.ingestion.types import BlockKind, CorruptFile

# Types of SmartArt points that place, connect or style other points, and repeat the text of those points.
_LAYOUT_POINTS = frozenset({"pres", "parTrans", "sibTrans"})
# Elements whose values are numbers. Digits in any other element are a label: 007 stays 007.
_NUMBER_TAGS = frozenset({"c:numCache", "c:numLit"})

_EPOCH, _EPOCH_1904 = date(1899, 12, 30), date(1904, 1, 1)
_MAX_DAYS = 2_900_000
_PERCENT_CODE = re.compile(r"0(?:\.0+)?%")
_DATE_CODE = re.compile(r"(?:\[\$-[0-9A-Fa-f]+\])?(?:[dy]+|m+)(?:[-/. ,\\]+(?:[dy]+|m+)){1,2}(?:;@)?", re.IGNORECASE)


def add_chart(root: Element, blocks: BlockList, *, slide: int | None = None) -> None:
    """Add the titles of a chart and its axes, and a table for each plot: one row per category, one column per series.

    Only the values that the file contains count. The number of values that it declares is ignored, because a hostile
    file may declare any number.

    Args:
        root: Root element of a chart part.
        blocks: Blocks of the document.
        slide: Slide number from 1; None if the format has no slides.

    Raises:
        CorruptFile: The part has no plot area.
        TextTooLong: The document has more characters or nodes than the limits allow.
    """
    area = find_child(root, "c:chart", "c:plotArea")
    if area is None:
        raise CorruptFile
    title = "".join(iter_texts(find_child(root, "c:chart", "c:title"), "a:t", "c:v"))
    blocks.add(BlockKind.PARAGRAPH, title, slide=slide)
    axes = ("".join(iter_texts(find_child(axis, "c:title"), "a:t", "c:v")).strip() for axis in iter_children(area))
    blocks.add(BlockKind.PARAGRAPH, "; ".join(axis for axis in axes if axis), slide=slide)
    start = _EPOCH_1904 if is_switched_on(find_child(root, "c:date1904")) else _EPOCH
    for plot in iter_children(area):
        for rows in _list_plot_tables(plot, start):
            blocks.add(BlockKind.TABLE, format_markdown_table(rows), slide=slide)


def _list_plot_tables(plot: Element, start: date) -> list[list[list[str]]]:
    """Return a table for the series of a plot that have the same categories, and a table for each other series."""
    groups: list[tuple[dict[int, str], list[str], list[dict[int, str]]]] = []
    for series in iter_children(plot, "c:ser"):
        labels = _read_points(find_child(series, "c:cat"), start) or _read_points(find_child(series, "c:xVal"), start)
        if not groups or (labels and labels != groups[-1][0]):
            groups.append((labels, [""], []))
        _, headers, columns = groups[-1]
        name = "".join(iter_texts(find_child(series, "c:tx"), "c:v"))
        headers.append(name)
        columns.append(
            _read_points(find_child(series, "c:val"), start) or _read_points(find_child(series, "c:yVal"), start)
        )
        if sizes := _read_points(find_child(series, "c:bubbleSize"), start):
            headers.append(f"{name} size".strip())
            columns.append(sizes)
    return [_build_rows(labels, headers, columns) for labels, headers, columns in groups]


def _build_rows(labels: dict[int, str], headers: list[str], columns: list[dict[int, str]]) -> list[list[str]]:
    """Return the rows of a table. A series without a name gets the name that Office shows for it."""
    headers = [headers[0], *(name or f"Series {number}" for number, name in enumerate(headers[1:], start=1))]
    indexes = sorted({index for column in (labels, *columns) for index in column})
    return [
        headers,
        *([labels.get(position, ""), *(column.get(position, "") for column in columns)] for position in indexes),
    ]


def _read_points(data: Element | None, start: date) -> dict[int, str]:
    """Return the stored values by index. A category with several levels becomes one text, the outermost level first."""
    points: dict[int, str] = {}
    for point in data.iter() if data is not None else ():
        if get_tag(point) == "c:pt" and (index := get_int_attribute(point, "idx")) is not None:
            text = "".join(iter_texts(point, "c:v"))
            parent = point.getparent()
            if get_tag(parent) in _NUMBER_TAGS:
                code = get_attribute(point, "formatCode") or "".join(
                    iter_texts(find_child(parent, "c:formatCode"), "c:formatCode")
                )
                text = _format_number(text, code, start)
            points[index] = f"{text} {points[index]}" if index in points else text
    return points


def _format_number(text: str, code: str, start: date) -> str:
    """Format a number with 15 digits, without the rounding errors of binary fractions; return other text unchanged.

    A percentage and a date are written as the format code says, a date as year, month and day.
    """
    try:
        number = float(text)
        if _DATE_CODE.fullmatch(code) and 0 < number < _MAX_DAYS:
            return (start + timedelta(days=int(number))).isoformat()
        return f"{number * 100:.15g}%" if _PERCENT_CODE.fullmatch(code) else f"{number:.15g}"
    except (ValueError, OverflowError):
        return text


def add_extended_chart(root: Element, blocks: BlockList, *, slide: int | None = None) -> None:
    """Add the title and the values of a chart of Office 2016, such as a waterfall or a treemap.

    Args:
        root: Root element of an extended chart part.
        blocks: Blocks of the document.
        slide: Slide number from 1; None if the format has no slides.

    Raises:
        CorruptFile: The part has no chart.
        TextTooLong: The document has more characters or nodes than the limits allow.
    """
    chart = find_child(root, "cx:chart")
    if chart is None:
        raise CorruptFile
    title = "".join(iter_texts(find_child(chart, "cx:title"), "a:t", "cx:v"))
    blocks.add(BlockKind.PARAGRAPH, title, slide=slide)
    regions = iter_children(find_child(chart, "cx:plotArea", "cx:plotAreaRegion"), "cx:series")
    names = {
        get_attribute(find_child(series, "cx:dataId"), "val"): "".join(iter_texts(find_child(series, "cx:tx"), "cx:v"))
        for series in regions
    }
    for data in iter_children(find_child(root, "cx:chartData"), "cx:data"):
        labels: dict[int, str] = {}
        columns = []
        for dimension in iter_children(data, "cx:strDim", "cx:numDim"):
            points = _read_extended_points(dimension)
            if get_tag(dimension) == "cx:strDim":
                labels = labels or points
            else:
                columns.append(points)
        headers = ["", names.get(get_attribute(data, "id"), ""), *[""] * (len(columns) - 1)]
        blocks.add(BlockKind.TABLE, format_markdown_table(_build_rows(labels, headers, columns)), slide=slide)


def _read_extended_points(dimension: Element) -> dict[int, str]:
    """Return the values of a dimension by index. The levels of a category follow each other, the outermost first."""
    points: dict[int, str] = {}
    for level in iter_children(dimension, "cx:lvl"):
        code = get_attribute(level, "formatCode")
        for point in iter_children(level, "cx:pt"):
            index = get_int_attribute(point, "idx")
            if index is not None:
                text = point.text or ""
                text = _format_number(text, code, _EPOCH) if get_tag(dimension) == "cx:numDim" else text
                points[index] = f"{text} {points[index]}" if index in points else text
    return points


def read_diagram_lines(root: Element) -> list[str]:
    """Return the paragraphs of a SmartArt drawing.

    Args:
        root: Root element of a diagram data part.

    Returns:
        The text of each paragraph that is not empty, in the order of the file.
    """
    lines = []
    for point in iter_children(find_child(root, "dgm:ptLst"), "dgm:pt"):
        if get_attribute(point, "type") not in _LAYOUT_POINTS:
            paragraphs = (
                "".join(iter_texts(paragraph, "a:t")) for paragraph in iter_children(find_child(point, "dgm:t"), "a:p")
            )
            lines += [text for text in paragraphs if text.strip()]
    return lines
