"""Drawings of Office Open XML that hold text: charts as tables, SmartArt as lines; and the word on pictures unread."""

from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.ooxml import (
    Element,
    find_child,
    get_attribute,
    get_int_attribute,
    get_tag,
    iter_children,
    iter_texts,
)
from app.ingestion.parsers.toolkit.tables import format_markdown_table
from app.ingestion.types import BlockKind, CorruptFile

# Points that only place, connect or style the others; what they say is said already.
_LAYOUT_POINTS = frozenset({"pres", "parTrans", "sibTrans"})
# Elsewhere digits are a label: 007 stays 007.
_NUMBER_TAGS = frozenset({"c:numCache", "c:numLit"})


def add_chart(root: Element, blocks: BlockList, *, slide: int | None = None) -> None:
    """The title of a chart part, then for each of its plots one row a category and one column a series.

    The values are those that the file shows, no more: it may claim to have any number. Raises CorruptFile, TextTooLong.
    """
    area = find_child(root, "c:chart", "c:plotArea")
    if area is None:
        raise CorruptFile
    blocks.add(BlockKind.PARAGRAPH, "".join(iter_texts(find_child(root, "c:chart", "c:title"), "a:t")), slide=slide)
    for plot in iter_children(area):
        blocks.add(BlockKind.TABLE, format_markdown_table(_read_plot_rows(plot)), slide=slide)


def _read_plot_rows(plot: Element) -> list[list[str]]:
    labels: dict[int, str] = {}
    columns: list[dict[int, str]] = []
    headers = [""]
    for series in iter_children(plot, "c:ser"):
        labels = labels or _read_points(find_child(series, "c:cat")) or _read_points(find_child(series, "c:xVal"))
        columns.append(_read_points(find_child(series, "c:val")) or _read_points(find_child(series, "c:yVal")))
        headers.append("".join(iter_texts(find_child(series, "c:tx"), "c:v")))
    indexes = sorted({index for column in (labels, *columns) for index in column})
    return [
        headers,
        *([labels.get(position, ""), *(column.get(position, "") for column in columns)] for position in indexes),
    ]


def _read_points(data: Element | None) -> dict[int, str]:
    """The cached values by index; a category of several levels is one text, the outermost first."""
    points: dict[int, str] = {}
    for point in data.iter() if data is not None else ():
        if get_tag(point) == "c:pt" and (index := get_int_attribute(point, "idx")) is not None:
            text = "".join(iter_texts(point, "c:v"))
            text = _format_number(text) if get_tag(point.getparent()) in _NUMBER_TAGS else text
            points[index] = f"{text} {points[index]}" if index in points else text
    return points


def _format_number(text: str) -> str:
    """A number as people write it: without the noise of binary fractions, and large ones in full."""
    try:
        return f"{float(text):.15g}"
    except ValueError:
        return text


def read_diagram_lines(root: Element) -> list[str]:
    """The text of a SmartArt's data part, one line a shape."""
    lines = []
    for point in iter_children(find_child(root, "dgm:ptLst"), "dgm:pt"):
        if get_attribute(point, "type") not in _LAYOUT_POINTS:
            paragraphs = (
                "".join(iter_texts(paragraph, "a:t")) for paragraph in iter_children(find_child(point, "dgm:t"), "a:p")
            )
            lines += [text for text in paragraphs if text.strip()]
    return lines
