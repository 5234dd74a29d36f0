"""Charts of OpenDocument files: title, names of the axes, and the table with the values."""

from app.ingestion.parsers.formats.odf.names import expand_name, get_count, get_name
from app.ingestion.parsers.toolkit.safe_xml import Element, iter_texts
from app.ingestion.parsers.toolkit.spanned_tables import SpannedCell, format_spanned_table

_MAX_COLUMNS = 100
_MAX_TITLES = 20


def read_chart(root: Element) -> str:
    """Return the titles and the values of a chart as a table; empty if the element is no chart.

    Args:
        root: Root element of the embedded object.

    Raises:
        TextTooLong: The table is too large.
    """
    chart = next(root.iter(expand_name("chart:chart")), None)
    if chart is None:
        return ""
    titles = [
        "".join(iter_texts(element))
        for element in chart.iter()
        if get_name(element) in ("chart:title", "chart:subtitle", "chart:footer")
    ]
    rows = [
        [
            SpannedCell(_read_cell(cell))
            for cell in row
            for _ in range(get_count(cell, "table:number-columns-repeated", _MAX_COLUMNS))
        ]
        for row in chart.iter(expand_name("table:table-row"))
    ]
    lines = titles[:_MAX_TITLES]
    return format_spanned_table(rows, header_count=1, head_lines=lines) or "\n".join(lines)


def _read_cell(cell: Element) -> str:
    return " ".join("".join(iter_texts(part)) for part in cell if get_name(part) == "text:p")
