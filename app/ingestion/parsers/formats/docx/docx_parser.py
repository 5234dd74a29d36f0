"""Parser of Word files (DOCX): headings, paragraphs, lists, tables, text boxes, charts and notes in reading order."""

import re
import zipfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.docx.styles import Numbering, Styles
from app.ingestion.parsers.formats.docx.text_runs import DocxContent, is_left_out, iter_visible_children, read_content
from app.ingestion.parsers.formats.html import add_fragment
from app.ingestion.parsers.toolkit.archives import check_archive
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.character_decoding import decode_text
from app.ingestion.parsers.toolkit.image_list import ImageList
from app.ingestion.parsers.toolkit.image_warnings import list_image_warnings
from app.ingestion.parsers.toolkit.ooxml import (
    Element,
    Package,
    find_child,
    get_attribute,
    get_int_attribute,
    get_tag,
    iter_children,
)
from app.ingestion.parsers.toolkit.ooxml_drawings import add_chart, read_diagram_lines
from app.ingestion.parsers.toolkit.page_numbers import is_page_number
from app.ingestion.parsers.toolkit.tables import format_markdown_table
from app.ingestion.parsers.toolkit.text_cleanup import clean_line, clean_text
from app.ingestion.types import BlockKind, CorruptFile, EncodedImage, ParsedDocument, TextTooLong
from app.warnings import ServiceWarning, WarningCode

_GENERIC_TITLE = re.compile(
    r"|(microsoft )?word[ -]document|(document|dokument|untitled|unbenannt|title|titel) ?\d*|microsoft word - .*",
    re.IGNORECASE,
)
"""Titles that Word and similar programs set by default. They count as missing."""

_NOTE_TAGS = {"footnotes": "w:footnote", "endnotes": "w:endnote", "comments": "w:comment"}
_MAX_COLUMNS = 63
"""Maximum number of columns of a table in Word. A hostile file may declare any number."""


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse a Word file. Deleted text is left out, and inserted text is read.

    Footnotes, endnotes and comments become notes after the paragraph that refers to them. The text of all headers
    comes first, and the text of all footers last, without repetitions.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The blocks in reading order. The title comes from the file's properties, else from the first heading of level 1.

    Raises:
        CorruptFile: The file is damaged, or has no document part.
        EncryptedFile: The file is encrypted.
        TextTooLong: A table is too large, or the file has more bytes or text than the limits allow.
    """
    check_archive(path)
    with zipfile.ZipFile(path) as archive:
        package = Package(archive)
        links = {relationship.kind: relationship.target for relationship in package.list_relationships()}
        if "officeDocument" not in links:
            raise CorruptFile
        reader = _DocxReader(package, links["officeDocument"], options)
        reader.read_document()
        title = clean_line(_read_child_text(package.parse_optional_part(links.get("core-properties")), "dc:title"))
    blocks = reader.blocks
    if _GENERIC_TITLE.fullmatch(title):
        title = blocks.find_first_heading(level=1) or ""
    return ParsedDocument(blocks.blocks, title=title or None, warnings=reader.list_warnings(), images=reader.images)


def _read_child_text(element: Element | None, tag: str) -> str:
    """Return the text of the child with a tag; empty if there is none."""
    match = find_child(element, tag)
    return "" if match is None else match.text or ""


class _DocxReader:
    """Reader of the body of a DOCX file.

    The reader uses a stack instead of recursion, because tables and text boxes may be nested deeper than Python can
    recurse.
    """

    def __init__(self, package: Package, main: str, options: ParseOptions) -> None:
        self.blocks = BlockList(options)
        # Short rows are padded, and each cell of a Markdown table takes at least two characters.
        self._max_cells = options.max_characters // 2
        self._package = package
        self._root = package.parse_part(main)
        links = package.list_relationships(main)
        self._relationships = {link.id: link for link in links}
        self._target_by_kind = {link.kind: link.target for link in reversed(links)}
        self._styles = Styles(self._load_optional_part("styles"))
        self._numbering = Numbering(self._load_optional_part("numbering"))
        self._notes = {
            (kind, get_attribute(note, "id")): note
            for kind, tag in _NOTE_TAGS.items()
            for note in iter_children(self._load_optional_part(kind), tag)
        }
        self._read_targets: set[str] = set()
        self._carried_text = ""
        self._images = ImageList(self.blocks, options)
        self._unread_images = 0
        self._unread_documents = 0
        self._stack: list[Iterator[Element]] = []

    def read_document(self) -> None:
        """Read the headers, the body and the footers.

        Raises CorruptFile if the document has no body, and TextTooLong if the text or a table is too large.
        """
        body = find_child(self._root, "w:body")
        if body is None:
            raise CorruptFile
        self._read_margin("header")
        self._stack = [iter(body)]
        while self._stack:
            element = next(self._stack[-1], None)
            if element is None:
                self._stack.pop()
            else:
                self._read_element(element)
        self.blocks.add(BlockKind.PARAGRAPH, self._carried_text)
        self._read_margin("footer")

    @property
    def images(self) -> list[EncodedImage]:
        """Images of the document, if the caller requested images."""
        return self._images.images

    def list_warnings(self) -> list[ServiceWarning]:
        """Return the warnings about images, embedded documents and parts that were not read."""
        warnings = list_image_warnings(self._unread_images + self._images.skipped_count)
        if self._unread_documents:
            subject = _format_count(self._unread_documents, "embedded document was", "embedded documents were")
            warnings.append(ServiceWarning(WarningCode.EMBEDDED_DOCUMENTS_NOT_READ, f"{subject} not read."))
        if damaged := self._package.damaged_count:
            subject = _format_count(damaged, "damaged part was", "damaged parts were")
            warnings.append(ServiceWarning(WarningCode.DAMAGED_PARTS_NOT_READ, f"{subject} not read."))
        return warnings

    def _load_optional_part(self, kind: str) -> Element | None:
        return self._package.parse_optional_part(self._target_by_kind.get(kind))

    def _read_element(self, element: Element) -> None:
        kind = get_tag(element)
        if kind == "w:p":
            self._read_paragraph(element)
        elif kind == "w:tbl" and not self._is_layout_table(element):
            self._read_table(element)
        elif kind == "w:altChunk":
            self._read_embedded_document(get_attribute(element, "id"))
        elif not is_left_out(element, kind):
            self._stack.append(iter_visible_children(element, kind))

    def _read_paragraph(self, element: Element) -> None:
        content = read_content(element)
        properties = find_child(element, "w:pPr")
        if next(iter_children(find_child(properties, "w:rPr"), "w:del", "w:moveFrom"), None) is not None:
            # The paragraph mark is deleted: Word shows this text at the start of the next paragraph.
            self._carried_text += content.text
        else:
            self._add_paragraph(self._carried_text + content.text, properties)
            self._carried_text = ""
        self._read_attachments(content)

    def _add_paragraph(self, text: str, properties: Element | None) -> None:
        label = self._numbering.count_paragraph(*self._styles.find_numbering(properties))
        level = self._styles.get_heading_level(properties)
        if not text.strip():
            return
        if level:
            label = None if label == "-" else label
            self.blocks.add(BlockKind.HEADING, f"{label or ''} {text}", level=level)
        elif label is None:
            self.blocks.add(BlockKind.PARAGRAPH, text)
        else:
            self.blocks.add(BlockKind.LIST_ITEM, f"{label} {text}")

    def _read_attachments(self, content: DocxContent) -> None:
        """Read the images, notes, charts and diagrams of a paragraph, and let its text boxes be read next."""
        for identifier in content.image_ids:
            self._read_image(identifier)
        for reference in content.note_references:
            note = self._notes.pop(reference, None)
            if note is not None:
                self.blocks.add(BlockKind.NOTE, self._read_all_text(note))
        for identifier in content.drawing_ids:
            self._read_drawing(identifier)
        if content.text_boxes:
            self._stack.append(iter(content.text_boxes))

    def _read_all_text(self, element: Element) -> str:
        """Return the text of a note, a header or a footer, with its text boxes at the end."""
        waiting, lines = deque([element]), []
        while waiting:
            content = read_content(waiting.popleft())
            self._unread_images += len(content.image_ids)
            lines.append(content.text)
            waiting += [paragraph for box in content.text_boxes for paragraph in box]
        return "\n".join(lines)

    def _read_image(self, identifier: str) -> None:
        link = self._relationships.get(identifier)
        if link is None or link.kind != "image" or not self._images.is_enabled:
            self._unread_images += 1
            return
        try:
            data = self._package.read_part(link.target)
        except CorruptFile:
            self._unread_images += 1
        else:
            self._images.add_file(data)

    def _read_drawing(self, identifier: str) -> None:
        link = self._relationships.get(identifier)
        root = self._package.parse_optional_part(link.target) if link is not None else None
        if link is None or root is None:
            self._unread_images += 1
        elif link.target not in self._read_targets:
            self._read_targets.add(link.target)
            self._add_drawing(root, link.kind)

    def _add_drawing(self, root: Element, kind: str) -> None:
        if kind == "chart":
            try:
                add_chart(root, self.blocks)
            except CorruptFile:
                self._unread_images += 1
        for line in read_diagram_lines(root):
            self.blocks.add(BlockKind.LIST_ITEM, line)

    def _read_embedded_document(self, identifier: str) -> None:
        """Read an embedded document of another format, which some programs write.

        Only HTML is read. Other documents are counted for a warning.
        """
        link = self._relationships.get(identifier)
        if link is None or not link.target.endswith((".html", ".htm", ".xhtml")):
            self._unread_documents += 1
            return
        try:
            data = self._package.read_part(link.target)
        except CorruptFile:
            self._unread_documents += 1
        else:
            add_fragment(decode_text(data, encoding=None).text, self.blocks)

    def _is_layout_table(self, table: Element) -> bool:
        """Return whether a table only arranges text and does not contain data.

        Such a table has a single row or column, or a cell that contains a heading with text.
        """
        rows = [list(_iter_table_parts(row, "w:tc")) for row in _iter_table_parts(table, "w:tr")]
        if len(rows) <= 1 or all(len(row) <= 1 for row in rows):
            return True
        cells = (cell for row in rows for cell in row)
        return any(self._has_section(list(iter_children(cell, "w:p"))) for cell in cells)

    def _has_section(self, paragraphs: list[Element]) -> bool:
        return len(paragraphs) > 1 and any(
            self._styles.get_heading_level(find_child(paragraph, "w:pPr")) for paragraph in paragraphs
        )

    def _read_table(self, table: Element) -> None:
        rows, contents, width = [], [], 0
        for row in _iter_table_parts(table, "w:tr"):
            texts = [""] * min(get_int_attribute(find_child(row, "w:trPr", "w:gridBefore"), "val") or 0, _MAX_COLUMNS)
            for cell in _iter_table_parts(row, "w:tc"):
                content = read_content(cell)
                contents.append(content)
                merged = find_child(cell, "w:tcPr", "w:vMerge")
                is_hidden = merged is not None and get_attribute(merged, "val") != "restart"
                span = get_int_attribute(find_child(cell, "w:tcPr", "w:gridSpan"), "val") or 1
                texts += ["" if is_hidden else content.text, *[""] * (min(span, _MAX_COLUMNS) - 1)]
            rows.append(texts)
            width = max(width, len(texts))
            if width * len(rows) > self._max_cells:
                raise TextTooLong(f"A table has more than {self._max_cells} cells; split it.", limit=self._max_cells)
        self.blocks.add(BlockKind.TABLE, format_markdown_table(rows))
        for content in contents:
            self._read_attachments(content)

    def _read_margin(self, kind: str) -> None:
        """Add a paragraph with the lines of all headers or footers, without repeated lines and page numbers."""
        lines = []
        references = self._root.iter("{*}" + kind + "Reference")
        links = (self._relationships.get(get_attribute(reference, "id")) for reference in references)
        for target in dict.fromkeys(link.target for link in links if link is not None):
            root = self._package.parse_optional_part(target)
            text = clean_text(self._read_all_text(root)) if root is not None else ""
            lines += [line for line in text.split("\n") if not is_page_number(line)]
        self.blocks.add(BlockKind.PARAGRAPH, "\n".join(dict.fromkeys(lines)))


def _format_count(count: int, singular: str, plural: str) -> str:
    return f"{count} {singular if count == 1 else plural}"


def _iter_table_parts(element: Element, tag: str) -> Iterator[Element]:
    """Yield the rows of a table or the cells of a row, including parts inside content controls and revision marks.

    The parts of nested tables are left out.
    """
    stack = [iter_visible_children(element, get_tag(element))]
    while stack:
        part = next(stack[-1], None)
        if part is None:
            stack.pop()
        elif is_left_out(part, kind := get_tag(part)):
            continue
        elif kind == tag:
            yield part
        else:
            stack.append(iter_visible_children(part, kind))
