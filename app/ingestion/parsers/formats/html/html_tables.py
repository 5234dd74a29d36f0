"""Tables of a page: rows and cells of ``table`` elements, of ARIA roles and of inline styles."""

from collections.abc import Callable
from dataclasses import dataclass, field

from selectolax.lexbor import LexborNode

from app.ingestion.parsers.formats.html.elements import (
    HEADINGS,
    Attributes,
    count_words,
    get_role,
    get_tag,
    is_cell,
    is_row,
    is_table,
    list_children,
)
from app.ingestion.parsers.toolkit.span_expansion import MarkupCell

MAX_CELL_WORDS = 120
"""Maximum number of words of a cell in a table without heads. A longer cell is a part of the page's layout."""

_MAX_SPAN = 65_534
_BOLD = frozenset({"b", "strong", "th"})


@dataclass(slots=True)
class TableParts:
    """Elements of one table.

    Attributes:
        captions: ``caption`` elements.
        head: Cells of each row in ``thead``.
        bodies: Cells of each row of each section; the rows of ``tfoot`` are last.
        is_marked: Whether the table has heads, a caption or a role, which only tables of data have.
    """

    captions: list[LexborNode] = field(default_factory=list)
    head: list[list[LexborNode]] = field(default_factory=list)
    bodies: list[list[list[LexborNode]]] = field(default_factory=lambda: [[]])
    is_marked: bool = False

    @property
    def rows(self) -> list[list[LexborNode]]:
        """All rows in the order of the page."""
        return [*self.head, *(row for body in self.bodies for row in body)]


def list_table_parts(table: LexborNode) -> TableParts:
    """Return the rows and cells of a table, without those of tables in its cells.

    Args:
        table: Element of the table.
    """
    parts = TableParts(is_marked=get_role(table.attributes) in ("table", "grid", "treegrid"))
    foot: list[list[LexborNode]] = []
    waiting = [(child, parts.bodies[0]) for child in reversed(list_children(table))]
    while waiting:
        node, rows = waiting.pop()
        tag = get_tag(node)
        if tag.startswith(("-", "!")):
            continue
        attributes = node.attributes
        if is_cell(tag, attributes):
            if not rows:
                rows.append([])
            rows[-1].append(node)
            parts.is_marked = parts.is_marked or tag == "th" or "scope" in attributes or "headers" in attributes
        elif tag == "caption":
            parts.captions.append(node)
            parts.is_marked = True
        elif not is_table(tag, attributes):
            rows = _open_section(tag, attributes, rows, parts, foot)
            waiting.extend((child, rows) for child in reversed(list_children(node)))
    parts.bodies.append(foot)
    return parts


def _open_section(
    tag: str,
    attributes: Attributes,
    rows: list[list[LexborNode]],
    parts: TableParts,
    foot: list[list[LexborNode]],
) -> list[list[LexborNode]]:
    """Return the rows that the cells of an element belong to: those of its section, or of a new row."""
    if is_row(tag, attributes):
        rows.append([])
    elif tag == "thead":
        parts.is_marked = True
        return parts.head
    elif tag == "tbody":
        parts.bodies.append([])
        return parts.bodies[-1]
    elif tag == "tfoot":
        return foot
    return rows


def is_data_table(table: LexborNode, parts: TableParts) -> bool:
    """Return whether a table contains data, and does not only arrange the page.

    A table of data has at least two rows and two columns. If nothing marks it as data, no cell may contain a heading,
    a form, another table or a long text.

    Args:
        table: Element of the table.
        parts: Its rows and cells.
    """
    role = get_role(table.attributes)
    rows = [row for row in parts.rows if row]
    if role in ("presentation", "none") or not rows:
        return False
    is_native = get_tag(table) == "table"
    if max(len(row) for row in rows) == 1 and not any(_has_span(cell) for row in rows for cell in row[:1]):
        return False
    if len(rows) == 1 and (is_native and not parts.head):
        return False
    tables = (cell.css_first("table") for row in rows for cell in row)
    nested = next((inner for inner in tables if inner is not None), None)
    if parts.is_marked:
        return nested is None or not _is_frame(nested, rows)
    return nested is None and not any(_is_layout_cell(cell) for row in rows for cell in row)


def _has_span(cell: LexborNode) -> bool:
    return "colspan" in cell.attributes


def _is_frame(nested: LexborNode, rows: list[list[LexborNode]]) -> bool:
    """Return whether a table with heads only frames another table: it has one or two cells, or less text than that."""
    return sum(len(row) for row in rows) <= 2 or count_words(nested) > 0.5 * sum(
        count_words(cell) for row in rows for cell in row
    )


def _is_layout_cell(cell: LexborNode) -> bool:
    if cell.child is None or (cell.child.next is None and cell.child.tag == "-text"):
        return False
    if cell.css_first("h1, h2, h3, h4, form, pre, article, section, nav") is not None:
        return True
    return count_words(cell) > MAX_CELL_WORDS


def read_cells(
    parts: TableParts, read_cell: Callable[[LexborNode], str]
) -> tuple[list[list[MarkupCell]], list[list[MarkupCell]]]:
    """Return the rows of the head and the other rows with their texts and spans.

    Args:
        parts: Rows and cells of the table.
        read_cell: Function that returns the text of a cell.
    """
    head = _read_section(parts.head, read_cell)
    return head, [row for rows in parts.bodies for row in _read_section(rows, read_cell)]


def _read_section(rows: list[list[LexborNode]], read_cell: Callable[[LexborNode], str]) -> list[list[MarkupCell]]:
    return [[_read_span_cell(cell, read_cell, len(rows) - at) for cell in row] for at, row in enumerate(rows)]


def _read_span_cell(cell: LexborNode, read_cell: Callable[[LexborNode], str], rows_left: int) -> MarkupCell:
    attributes = cell.attributes
    row_span = _read_span(attributes.get("rowspan") or attributes.get("aria-rowspan"))
    is_head = get_tag(cell) == "th" or get_role(attributes) in ("columnheader", "rowheader")
    return MarkupCell(
        read_cell(cell),
        max(1, _read_span(attributes.get("colspan") or attributes.get("aria-colspan"))),
        min(row_span, rows_left) if row_span else rows_left,
        is_head=is_head,
        is_bold=_is_bold(cell),
    )


def _read_span(value: str | None) -> int:
    """Return the number of a span: 0 means all the rows that are left."""
    number = (value or "1").strip()
    return min(int(number[:6]), _MAX_SPAN) if number.isascii() and number.isdecimal() else 1


def _is_bold(cell: LexborNode) -> bool:
    """Return whether all the text of a cell is in one bold element."""
    node: LexborNode | None = cell
    for _ in range(4):
        if node is None:
            return False
        children = [
            child for child in list_children(node)[:3] if child.tag != "-text" or (child.text_content or "").strip()
        ]
        if len(children) != 1:
            return False
        node = children[0]
        if node.tag in _BOLD or node.tag in HEADINGS or "font-weight" in (node.attributes.get("style") or ""):
            return True
        if node.tag == "-text":
            return False
    return False


def find_figure_caption(table: LexborNode) -> LexborNode | None:
    """Return the caption of the figure that contains a table, up to three elements above it."""
    node = table.parent
    for _ in range(3):
        if node is None:
            return None
        if get_tag(node) == "figure":
            return next((child for child in list_children(node) if get_tag(child) == "figcaption"), None)
        node = node.parent
    return None


def _find_figure_table(caption: LexborNode) -> LexborNode | None:
    figure = caption.parent
    if figure is None or get_tag(figure) != "figure" or figure.css_first("figcaption") != caption:
        return None
    return figure.css_first("table")


def is_table_caption(caption: LexborNode) -> bool:
    """Return whether the table of the same figure shows a caption, so that the caption is not read on its own."""
    table = _find_figure_table(caption)
    return table is not None and is_data_table(table, list_table_parts(table))
