"""Drawings of Office Open XML that hold text: charts as tables, SmartArt as lines; and the word on pictures unread."""

from app.ingestion.parsers.blocks import BlockList
from app.ingestion.parsers.ooxml import Element, attribute, child, children, integer, name, texts
from app.ingestion.parsers.tables import markdown_table
from app.ingestion.types import BlockKind, Corrupt

# Points that only place, connect or style the others; what they say is said already.
_LAYOUT_POINTS = frozenset({"pres", "parTrans", "sibTrans"})
# Elsewhere digits are a label: 007 stays 007.
_NUMBERS = frozenset({"c:numCache", "c:numLit"})


def pictures_warning(count: int) -> list[str]:
    """The sentence on pictures that nobody read; none without pictures."""
    if not count:
        return []
    return [f"{count} pictures were not read." if count > 1 else "1 picture was not read."]


def add_chart(root: Element, blocks: BlockList, *, slide: int | None = None) -> None:
    """The title of a chart part, then for each of its plots one row a category and one column a series.

    The values are those that the file shows, no more: it may claim to have any number. Raises Corrupt, TooMuchText.
    """
    area = child(root, "c:chart", "c:plotArea")
    if area is None:
        raise Corrupt
    blocks.add(BlockKind.PARAGRAPH, "".join(texts(child(root, "c:chart", "c:title"), "a:t")), slide=slide)
    for plot in children(area):
        blocks.add(BlockKind.TABLE, markdown_table(_plot_rows(plot)), slide=slide)


def _plot_rows(plot: Element) -> list[list[str]]:
    labels: dict[int, str] = {}
    columns: list[dict[int, str]] = []
    heads = [""]
    for series in children(plot, "c:ser"):
        labels = labels or _points(child(series, "c:cat")) or _points(child(series, "c:xVal"))
        columns.append(_points(child(series, "c:val")) or _points(child(series, "c:yVal")))
        heads.append("".join(texts(child(series, "c:tx"), "c:v")))
    indexes = sorted({index for column in (labels, *columns) for index in column})
    return [heads, *([labels.get(at, ""), *(column.get(at, "") for column in columns)] for at in indexes)]


def _points(data: Element | None) -> dict[int, str]:
    """The cached values by index; a category of several levels is one text, the outermost first."""
    points: dict[int, str] = {}
    for point in data.iter() if data is not None else ():
        if name(point) == "c:pt" and (index := integer(point, "idx")) is not None:
            text = "".join(texts(point, "c:v"))
            text = _plain(text) if name(point.getparent()) in _NUMBERS else text
            points[index] = f"{text} {points[index]}" if index in points else text
    return points


def _plain(text: str) -> str:
    """A number as people write it: without the noise of binary fractions, and large ones in full."""
    try:
        return f"{float(text):.15g}"
    except ValueError:
        return text


def diagram_lines(root: Element) -> list[str]:
    """The text of a SmartArt's data part, one line a shape."""
    lines = []
    for point in children(child(root, "dgm:ptLst"), "dgm:pt"):
        if attribute(point, "type") not in _LAYOUT_POINTS:
            paragraphs = ("".join(texts(paragraph, "a:t")) for paragraph in children(child(point, "dgm:t"), "a:p"))
            lines += [text for text in paragraphs if text.strip()]
    return lines
