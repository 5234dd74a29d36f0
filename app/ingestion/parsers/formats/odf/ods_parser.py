"""Parser of OpenDocument spreadsheets (ODS): rows of the sheets with the values that the cells show."""

import lzma
import zipfile
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO

from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.odf.content import ContentReader, OdfItem
from app.ingestion.parsers.formats.odf.names import expand_name, get_attribute, get_count, get_name
from app.ingestion.parsers.formats.odf.odt_parser import add_items
from app.ingestion.parsers.formats.odf.package import OdfPackage
from app.ingestion.parsers.formats.odf.paragraphs import SHAPES
from app.ingestion.parsers.formats.odf.styles import OdfStyles
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.image_list import ImageList
from app.ingestion.parsers.toolkit.places import NumberedRow
from app.ingestion.parsers.toolkit.rows import add_rows
from app.ingestion.parsers.toolkit.safe_xml import Element
from app.ingestion.parsers.toolkit.tables import MAX_CELLS
from app.ingestion.parsers.toolkit.titles import is_real_title
from app.ingestion.types import BlockKind, CorruptFile, ParsedDocument, TextTooLong
from app.warnings import ServiceWarning, WarningCode

_MAX_COLUMNS, _MAX_ROWS = 16_384, 1 << 20
_DAMAGED_ERRORS = (etree.XMLSyntaxError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError)
_EVENT_NAMES = ("table:table", "table:table-row", "table:shapes", "office:automatic-styles", "office:styles",
                "office:font-face-decls", "style:style", "office:spreadsheet")  # fmt: skip
_VALUES = ("office:string-value", "office:date-value", "office:time-value", "office:boolean-value", "office:value")


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse an OpenDocument spreadsheet. The name of each sheet becomes a heading of level 1.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The blocks, sheet by sheet. Sheet numbers include hidden sheets.

    Raises:
        CorruptFile: The file is damaged, or has no sheets.
        EncryptedFile: The file has a password.
        TextTooLong: A sheet covers too many cells, or the file has more bytes or text than the limits allow.
    """
    package = OdfPackage(path)
    blocks = BlockList(options)
    images = ImageList(blocks, options)
    try:
        with package.open_content() as file:
            reader = _SheetReader(package, file)
            try:
                reader.read_sheets(blocks, images)
            except _DAMAGED_ERRORS as exc:
                raise CorruptFile from exc
        title = package.read_title()
    finally:
        package.close()
    unread = reader.content.unread
    unread.image_count += images.skipped_count
    warnings = unread.list_warnings()
    if count := reader.hidden_count:
        message = "1 hidden sheet was not read." if count == 1 else f"{count} hidden sheets were not read."
        warnings.insert(0, ServiceWarning(WarningCode.HIDDEN_SHEETS_NOT_READ, message, count))
    return ParsedDocument(
        blocks.blocks, title=title if is_real_title(title) else None, warnings=warnings, images=images.images
    )


class _SheetReader:
    """Reader of the sheets. It reads the rows one by one, so that a long sheet needs little memory.

    Attributes:
        content: Reader of the text of cells, of charts and of comments.
        hidden_count: Number of hidden sheets.
    """

    def __init__(self, package: OdfPackage, file: IO[bytes]) -> None:
        self.hidden_count = 0
        self._styles = OdfStyles()
        self._package = package
        self.content = ContentReader(package, self._styles, {})
        self._hidden_styles: set[str] = set()
        self._following: list[OdfItem] = []
        self._events: Iterator[tuple[str, Element]] = iter(
            etree.iterparse(
                file,
                events=("start", "end"),
                tag=[expand_name(name) for name in _EVENT_NAMES],
                resolve_entities=False,
                load_dtd=False,
                no_network=True,
                huge_tree=False,
                remove_comments=True,
                remove_pis=True,
            )
        )

    def read_sheets(self, blocks: BlockList, images: ImageList) -> None:
        """Add the blocks of all visible sheets."""
        number, has_sheets = 0, False
        for event, element in self._events:
            name = get_name(element)
            if name == "office:spreadsheet":
                has_sheets = True
            elif name == "table:table" and event == "start":
                number += 1
                self._read_sheet(element, number, blocks, images)
            elif event == "end":
                self._read_style(element, name)
        if not has_sheets:
            raise CorruptFile("The file has no sheets; upload an intact copy.")

    def _read_style(self, element: Element, name: str) -> None:
        if name == "style:style" and get_attribute(element, "style:family") == "table":
            properties = element.find(expand_name("style:table-properties"))
            if properties is not None and get_attribute(properties, "table:display") == "false":
                self._hidden_styles.add(get_attribute(element, "style:name"))
        elif name.startswith("office:"):
            self._styles.add_styles(element)

    def _read_sheet(self, sheet: Element, number: int, blocks: BlockList, images: ImageList) -> None:
        is_hidden = get_attribute(sheet, "table:style-name") in self._hidden_styles
        rows = self._iter_rows()
        if is_hidden:
            self.hidden_count += 1
            for _ in rows:
                pass
            self._following = []
            return
        first = next(filter(any, rows), None)
        if first is not None or self._following:
            blocks.add(BlockKind.HEADING, get_attribute(sheet, "table:name"), level=1, sheet=number)
        if first is not None:
            add_rows(chain([first], rows), blocks, sheet=number)
        following, self._following = self._following, []
        add_items(following, blocks, images, self._package, self.content.unread)

    def _iter_rows(self) -> Iterator[NumberedRow]:
        """Yield the texts of the rows of a sheet until its end. Repeated rows without text are one row."""
        depth, cell_count = 1, 0
        grid = _MergedCells()
        for event, element in self._events:
            name = get_name(element)
            if name == "table:table":
                depth += 1 if event == "start" else -1
                if depth == 0:
                    element.clear()
                    return
            elif event == "end" and depth == 1 and name == "table:shapes":
                self._following += self.content.read_blocks(element)
            elif event == "end" and depth == 1 and name == "table:table-row":
                row = self._read_row(element, grid)
                repeated = get_count(element, "table:number-rows-repeated", _MAX_ROWS)
                first = grid.row + 1
                grid.row += repeated
                cell_count += (len(row) + 1) * (repeated if row else 1)
                if cell_count > MAX_CELLS:
                    raise TextTooLong(f"A sheet has more than {MAX_CELLS:,} cells; split it.", limit=MAX_CELLS)
                yield from (NumberedRow(row, first + offset) for offset in range(repeated if row else 1))
                _remove_element(element)

    def _read_row(self, row: Element, grid: "_MergedCells") -> list[str]:
        """Return the texts of a row without the empty cells at its end.

        A merged cell is repeated in each of its rows. In a row with other cells it is repeated in each of its columns.
        """
        texts: dict[int, str] = {}
        wide: list[tuple[int, int, str]] = []
        column = 0
        for cell in row:
            name = get_name(cell)
            repeated = get_count(cell, "table:number-columns-repeated", _MAX_COLUMNS)
            if column >= _MAX_COLUMNS:
                break
            if name == "table:covered-table-cell":
                grid.add_covered(texts, column, column + repeated)
            elif name != "table:table-cell":
                continue
            elif text := self._read_cell(cell):
                texts.update(dict.fromkeys(range(column, column + repeated), text))
                columns = get_count(cell, "table:number-columns-spanned", _MAX_COLUMNS)
                wide.append((column, columns, text))
                grid.open_cell(column, get_count(cell, "table:number-rows-spanned", _MAX_ROWS), text)
            column += repeated
        if len(texts) > 1:
            for first, columns, text in wide:
                for other in range(first + 1, min(first + columns, _MAX_COLUMNS)):
                    texts.setdefault(other, text)
        return [texts.get(index, "") for index in range(max(texts, default=-1) + 1)]

    def _read_cell(self, cell: Element) -> str:
        """Return the text that a cell shows, and keep its comment and its shapes for the end of the sheet."""
        lines = []
        for child in cell:
            name = get_name(child)
            if name == "text:p":
                content = self.content.paragraphs.read_paragraph(child)
                lines.append(content.text.strip())
                self._following += self.content.read_blocks(content.shapes) if content.shapes else []
            elif name == "office:annotation" or name in SHAPES:
                self._following += self.content.read_blocks([child])
        text = "\n".join(line for line in lines if line)
        return text or ("" if lines else next(filter(None, (get_attribute(cell, name) for name in _VALUES)), ""))


class _MergedCells:
    """Cells that cover cells of later rows.

    Attributes:
        row: Number of the row that is read.
    """

    def __init__(self) -> None:
        self.row = 0
        self._cells: dict[int, tuple[int, str]] = {}

    def open_cell(self, column: int, rows: int, text: str) -> None:
        """Record that a cell covers the cells below it."""
        if rows > 1:
            self._cells[column] = self.row + rows, text

    def add_covered(self, texts: dict[int, str], start: int, end: int) -> None:
        """Add the texts of the cells that cover columns of this row; forget cells that ended above."""
        width = min(end, _MAX_COLUMNS) - start
        candidates = range(start, start + width) if width < len(self._cells) else list(self._cells)
        columns = [column for column in candidates if start <= column < end and column in self._cells]
        for column in columns:
            last, text = self._cells[column]
            if last > self.row:
                texts[column] = text
            else:
                del self._cells[column]


def _remove_element(element: Element) -> None:
    """Remove the content of an element and of the elements before it."""
    element.clear()
    parent = element.getparent()
    while parent is not None and element.getprevious() is not None:
        del parent[0]
