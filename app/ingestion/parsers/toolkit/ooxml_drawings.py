"""Text of drawings in Office Open XML files: charts become tables, SmartArt becomes lines."""

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

# Types of SmartArt points that place, connect or style other points, and repeat the text of those points.
_LAYOUT_POINTS = frozenset({"pres", "parTrans", "sibTrans"})
# Elements whose values are numbers. Digits in any other element are a label: 007 stays 007.
_NUMBER_TAGS = frozenset({"c:numCache", "c:numLit"})


def add_chart(root: Element, blocks: BlockList, *, slide: int | None = None) -> None:
    """Add the title of a chart, and a table for each of its plots: one row per category, one column per series.

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
    """Return the stored values by index. A category with several levels becomes one text, the outermost level first."""
    points: dict[int, str] = {}
    for point in data.iter() if data is not None else ():
        if get_tag(point) == "c:pt" and (index := get_int_attribute(point, "idx")) is not None:
            text = "".join(iter_texts(point, "c:v"))
            text = _format_number(text) if get_tag(point.getparent()) in _NUMBER_TAGS else text
            points[index] = f"{text} {points[index]}" if index in points else text
    return points


def _format_number(text: str) -> str:
    """Format a number with 15 digits, without the rounding errors of binary fractions; return other text unchanged."""
    try:
        return f"{float(text):.15g}"
    except ValueError:
        return text


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
