"""Reader of the blocks of OpenDocument content: paragraphs, headings, lists, tables, shapes and notes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from app.ingestion.parsers.formats.odf.charts import read_chart
from app.ingestion.parsers.formats.odf.names import get_attribute, get_count, get_name
from app.ingestion.parsers.formats.odf.package import OdfPackage
from app.ingestion.parsers.formats.odf.paragraphs import LEFT_OUT, SHAPES, ParagraphReader
from app.ingestion.parsers.formats.odf.styles import MAX_LEVELS, ListCounters, OdfStyles
from app.ingestion.parsers.toolkit.alt_text import clean_alt_text
from app.ingestion.parsers.toolkit.mathml import format_mathml, read_math_element
from app.ingestion.parsers.toolkit.safe_xml import Element, iter_texts
from app.ingestion.parsers.toolkit.spanned_tables import MAX_COLUMNS, SpannedCell, format_spanned_table
from app.ingestion.parsers.toolkit.unread_content import UnreadContent
from app.ingestion.types import BlockKind
from app.warnings import WarningCode

_MAX_DEPTH = 12
"""Depth of tables, notes and text boxes inside of each other from which only their plain text is read."""

_MAX_REPEATED_ROWS = 100
_INDEXES = frozenset(
    {
        "text:table-of-content", "text:illustration-index", "text:table-index", "text:object-index", "text:user-index",
        "text:alphabetical-index",
    }
)  # fmt: skip
_PARAGRAPHS = ("text:p", "text:h")


@dataclass(frozen=True, slots=True)
class OdfItem:
    """Block before it is added to the document. The text of an image is its address in the archive."""

    kind: BlockKind
    text: str
    level: int = 0


@dataclass(frozen=True, slots=True)
class _ListContext:
    """List around an element.

    Attributes:
        style: Name of the list style.
        level: Level from 1; 0 outside of lists.
        counters: Numbers of the list.
        label: Holder of the label for the first paragraph of the open item; empty after this paragraph.
    """

    style: str = ""
    level: int = 0
    counters: ListCounters = field(default_factory=ListCounters)
    label: list[str] = field(default_factory=list)


_NO_LIST = _ListContext()


class ContentReader:
    """Reader of content. It uses stacks; only tables, notes and boxes inside of each other need another call.

    Args:
        package: The file.
        styles: Its styles.
        controls: Texts of its form controls by id.

    Attributes:
        unread: Counter of the content that is not read.
        paragraphs: Reader of paragraphs.
    """

    def __init__(self, package: OdfPackage, styles: OdfStyles, controls: Mapping[str, str]) -> None:
        self.unread = UnreadContent()
        self._package = package
        self._styles = styles
        self.paragraphs = ParagraphReader(styles, self.unread, controls, self._read_equation)
        self._last_counters: dict[str, ListCounters] = {}
        self._depth = 0

    def read_blocks(self, elements: Iterable[Element]) -> list[OdfItem]:
        """Return the blocks of elements in reading order. Raises TextTooLong if a table is too large."""
        items: list[OdfItem] = []
        if self._depth >= _MAX_DEPTH:
            texts = ("".join(iter_texts(element)) for element in elements)
            return [OdfItem(BlockKind.PARAGRAPH, text) for text in texts if text.strip()]
        self._depth += 1
        stack: list[tuple[Iterator[Element], _ListContext]] = [(iter(list(elements)), _NO_LIST)]
        captions: list[str] = []
        while stack:
            children, context = stack[-1]
            element = next(children, None)
            if element is None:
                stack.pop()
                continue
            name = get_name(element)
            if name in _PARAGRAPHS:
                stack += self._read_paragraph(element, name, context, items, captions)
            elif name == "table:table":
                items += self._read_table(element, captions)
                captions = []
            elif name in ("text:list", "text:list-item", "text:list-header"):
                stack.append((iter(element), self._open_list(element, name, context)))
            elif name in SHAPES:
                stack += [(children, _NO_LIST) for children in self._open_shape(element, name, items)]
            elif name == "office:annotation":
                items += self._read_note(element)
            elif not self._is_left_out(element, name):
                stack.append((iter(element), context))
        self._depth -= 1
        return items

    def read_lines(self, element: Iterable[Element]) -> str:
        """Return the text of elements with their lists and tables, one line for each paragraph."""
        return "\n".join(_format_line(item) for item in self.read_blocks(element) if item.kind is not BlockKind.IMAGE)

    def _is_left_out(self, element: Element, name: str) -> bool:
        if not name or name in LEFT_OUT or name == "office:forms":
            return True
        if name in _INDEXES:
            count = sum(get_name(entry) == "text:p" for entry in element.iter())
            self.unread.add(WarningCode.CONTENTS_ENTRIES_REMOVED, count)
            return True
        if name == "text:section" and get_attribute(element, "text:display") == "none":
            self.unread.add(WarningCode.HIDDEN_TEXT_NOT_READ, len("".join(iter_texts(element)).split()))
            return True
        return False

    # Paragraphs and lists.

    def _read_paragraph(
        self, element: Element, name: str, context: _ListContext, items: list[OdfItem], captions: list[str]
    ) -> list[tuple[Iterator[Element], _ListContext]]:
        """Add a paragraph with its notes, and return its shapes, which are read next."""
        content = self.paragraphs.read_paragraph(element)
        label, context.label[:] = " ".join(context.label), []
        text = content.text
        if content.has_sequence and _is_before_table(element):
            captions.append(text)
            text = ""
        if text.strip():
            items.append(self._build_item(element, name, text, label, context.level))
        for note in content.notes:
            items += self._read_note(note)
        return [(iter(content.shapes), _NO_LIST)] if content.shapes else []

    def _build_item(self, element: Element, name: str, text: str, label: str, list_level: int) -> OdfItem:
        style = get_attribute(element, "text:style-name")
        level = self._find_heading_level(element, name, style)
        if level:
            is_numbered = name == "text:h" and get_attribute(element, "text:is-list-header") != "true"
            number = label if label else self._styles.count_heading(level) if is_numbered else ""
            return OdfItem(BlockKind.HEADING, f"{'' if number == '-' else number} {text}", level)
        if list_level:
            return OdfItem(BlockKind.LIST_ITEM, f"{label} {text}")
        return OdfItem(BlockKind.PARAGRAPH, text)

    def _find_heading_level(self, element: Element, name: str, style: str) -> int:
        if name == "text:h":
            return get_count(element, "text:outline-level", MAX_LEVELS)
        if self._styles.is_title(style):
            return 1
        return min(self._styles.find_outline_level(style), MAX_LEVELS)

    def _open_list(self, element: Element, name: str, context: _ListContext) -> _ListContext:
        """Return the list around the children of a list or of one of its items."""
        if name == "text:list":
            style = get_attribute(element, "text:style-name") or context.style
            is_continued = get_attribute(element, "text:continue-numbering") == "true" or (
                get_attribute(element, "text:continue-list") != ""
            )
            counters = context.counters if context.level else ListCounters()
            if is_continued and not context.level:
                counters = self._last_counters.get(style, counters)
            if not context.level:
                self._last_counters[style] = counters
            return _ListContext(style, min(context.level + 1, MAX_LEVELS), counters, [])
        if name == "text:list-header":
            return replace(context, label=[])
        start = get_attribute(element, "text:start-value")
        number = int(start) if start.isascii() and start.isdigit() and len(start) < 10 else None
        label = self._styles.count_item(context.style, context.level, context.counters, number)
        return replace(context, label=[label] if _has_paragraph(element) else [])

    def _read_note(self, note: Element) -> list[OdfItem]:
        """Return the block of a note or comment: its mark and its text, without the name of its author."""
        mark = "".join("".join(iter_texts(part)) for part in note if get_name(part) == "text:note-citation")
        bodies = [part for part in note if get_name(part) == "text:note-body"] or [note]
        text = "\n".join(self.read_lines(body) for body in bodies)
        return [OdfItem(BlockKind.NOTE, f"{mark} {text}")] if text.strip() else []

    # Tables.

    def _read_table(self, table: Element, captions: list[str]) -> list[OdfItem]:
        """Return the block of a table, and the images and notes in its cells."""
        rows: list[list[SpannedCell]] = []
        following: list[OdfItem] = []
        header_count = 0
        for row, is_header in _iter_rows(table):
            cells = [cell for element in row for cell in self._read_cell(element, following)]
            repeated = get_count(row, "table:number-rows-repeated", _MAX_REPEATED_ROWS)
            if any(cell.text.strip() for cell in cells):
                header_count += is_header
                rows += [cells] * repeated
            elif len(rows) and any(cell.rows > 1 for cells in rows for cell in cells):
                rows.append(cells)
        titles = [part.text or "" for part in table if get_name(part) in ("table:title", "table:desc")]
        text = format_spanned_table(rows, header_count=header_count or None, head_lines=[*titles, *captions])
        return [OdfItem(BlockKind.TABLE, text), *following]

    def _read_cell(self, cell: Element, following: list[OdfItem]) -> list[SpannedCell]:
        if get_name(cell) != "table:table-cell":  # a span covers it
            return []
        columns = get_count(cell, "table:number-columns-spanned", MAX_COLUMNS)
        rows = get_count(cell, "table:number-rows-spanned", 1 << 20)
        repeated = get_count(cell, "table:number-columns-repeated", MAX_COLUMNS)
        items = self.read_blocks(cell)
        following += [item for item in items if item.kind in (BlockKind.IMAGE, BlockKind.NOTE)]
        lines = [_format_line(item) for item in items if item.kind not in (BlockKind.IMAGE, BlockKind.NOTE)]
        is_list = any(item.kind is BlockKind.LIST_ITEM for item in items)
        return [SpannedCell(("; " if is_list else " ").join(lines), columns, rows)] * repeated

    # Shapes.

    def _open_shape(self, shape: Element, name: str, items: list[OdfItem]) -> list[Iterator[Element]]:
        """Add what a shape itself says, and return its children that must be read."""
        alt_text = clean_alt_text(" ".join(_list_descriptions(shape)))
        if alt_text:
            items.append(OdfItem(BlockKind.PARAGRAPH, alt_text))
        if name != "draw:frame":
            return [iter(shape)]
        for child in shape:
            kind = get_name(child)
            if kind in ("draw:text-box", "table:table"):
                return [iter((child,))]
            if kind == "draw:object":
                items += self._read_object(child)
                return []
            if kind == "draw:object-ole":
                self.unread.add(WarningCode.EMBEDDED_DOCUMENTS_NOT_READ)
                return []
            if kind in ("draw:plugin", "draw:applet", "draw:floating-frame"):
                self.unread.add(WarningCode.MEDIA_NOT_READ)
                return []
            if kind == "draw:image":
                items.append(OdfItem(BlockKind.IMAGE, get_attribute(child, "xlink:href")))
                return []
        return []

    def _find_object(self, element: Element) -> Element | None:
        """Return the root element of an embedded object."""
        root = next((child for child in element if get_name(child) in ("math:math", "office:document")), None)
        return self._package.read_object(get_attribute(element, "xlink:href")) if root is None else root

    def _read_object(self, element: Element) -> list[OdfItem]:
        root = self._find_object(element)
        if root is not None and get_name(root) == "math:math":
            return [OdfItem(BlockKind.PARAGRAPH, format_mathml(read_math_element(root)))]
        text = read_chart(root) if root is not None else ""
        if not text:
            self.unread.add(WarningCode.EMBEDDED_DOCUMENTS_NOT_READ)
            return []
        return [OdfItem(BlockKind.TABLE, text)]

    def _read_equation(self, frame: Element) -> str:
        """Return the text of a frame that is an equation; empty for any other frame."""
        for child in frame:
            if get_name(child) == "draw:object":
                root = self._find_object(child)
                if root is not None and get_name(root) == "math:math":
                    return format_mathml(read_math_element(root))
        return ""


def _list_descriptions(shape: Element) -> list[str]:
    texts = ("".join(iter_texts(child)) for child in shape if get_name(child) in ("svg:title", "svg:desc"))
    return list(dict.fromkeys(text for text in texts if text.strip()))


def _has_paragraph(item: Element) -> bool:
    """Return whether a list item begins with text, and not with an inner list."""
    return next((get_name(child) for child in item if get_name(child) not in LEFT_OUT), "") in _PARAGRAPHS


def _is_before_table(element: Element) -> bool:
    following = element.getnext()
    return following is not None and get_name(following) == "table:table"


def _iter_rows(table: Element) -> Iterator[tuple[Element, bool]]:
    """Yield the rows of a table, and whether each is a header row. Rows may be in groups."""
    stack = [(iter(table), False)]
    while stack:
        children, is_header = stack[-1]
        element = next(children, None)
        if element is None:
            stack.pop()
            continue
        name = get_name(element)
        if name == "table:table-row":
            yield element, is_header
        elif name in ("table:table-header-rows", "table:table-rows", "table:table-row-group"):
            stack.append((iter(element), is_header or name == "table:table-header-rows"))


def _format_line(item: OdfItem) -> str:
    """Return a block as a part of a line. A table in a cell or note becomes its rows without their bars."""
    if item.kind is not BlockKind.TABLE:
        return item.text
    rows = (line.strip("| ").replace(" | ", " ") for line in item.text.split("\n") if not line.startswith("| ---"))
    return "; ".join(row for row in rows if row)
