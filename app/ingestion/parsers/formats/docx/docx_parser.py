"""Parser of Word files (DOCX): headings, paragraphs, lists, tables, text boxes, charts and notes in reading order."""

import re
import zipfile
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.docx.attachments import Attachments
from app.ingestion.parsers.formats.docx.block_roles import BlockRoles
from app.ingestion.parsers.formats.docx.run_formats import RunFormats
from app.ingestion.parsers.formats.docx.styles import Numbering, Styles
from app.ingestion.parsers.formats.docx.text_runs import DocxContent, ReadingContext, read_content
from app.ingestion.parsers.formats.docx.visible_parts import (
    is_left_out,
    is_prompt,
    iter_table_parts,
    iter_visible_children,
)
from app.ingestion.parsers.toolkit.archives import check_archive
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.links import strip_addresses
from app.ingestion.parsers.toolkit.ooxml import (
    Element,
    Package,
    find_child,
    get_attribute,
    get_int_attribute,
    get_tag,
    is_switched_on,
    iter_children,
)
from app.ingestion.parsers.toolkit.page_numbers import is_page_number
from app.ingestion.parsers.toolkit.table_grid import TableGrid
from app.ingestion.parsers.toolkit.text_cleanup import clean_text
from app.ingestion.parsers.toolkit.titles import choose_title
from app.ingestion.parsers.toolkit.unread_content import UnreadContent
from app.ingestion.types import Block, BlockKind, CorruptFile, EncodedImage, ParsedDocument
from app.warnings import ServiceWarning, WarningCode

_NOTE_TAGS = {"footnotes": "w:footnote", "endnotes": "w:endnote", "comments": "w:comment"}
_MAX_COLUMNS = 63
"""Maximum number of columns of a table in Word. A hostile file may declare any number."""


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse a Word file. Deleted, hidden and struck text is left out, and inserted text is read.

    Footnotes, endnotes and comments become notes after the paragraph that refers to them. The text of all headers
    comes first, and the text of all footers last, without repetitions.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The blocks in reading order. The title comes from the file's properties, else from the first heading.

    Raises:
        CorruptFile: The file is damaged, or has no document part.
        EncryptedFile: The file is encrypted.
        TextTooLong: A table is too large, or the file has more bytes or text than the limits allow.
    """
    check_archive(path)
    with zipfile.ZipFile(path) as archive:
        package = Package(archive)
        reader = _DocxReader(package, package.find_main_part(), options)
        blocks = reader.read_document()
        title = package.read_title()
    return ParsedDocument(
        blocks, title=choose_title(title, blocks), warnings=reader.list_warnings(), images=reader.images
    )


_BULLET_SIGN = re.compile(r"[•▪●■◦‣⁃➢❖◆]\s+")
_CONTENTS_STYLE = re.compile(r"(?:toc|table of figures|contents)\b.*", re.IGNORECASE)


class _DocxReader:
    """Reader of the body of a DOCX file.

    The reader uses a stack instead of recursion, because tables and text boxes may be nested deeper than Python can
    recurse.
    """

    def __init__(self, package: Package, main: str, options: ParseOptions) -> None:
        self._blocks = BlockList(options)
        # Short rows are padded, and each cell of a Markdown table takes at least two characters.
        self._max_cells = options.max_characters // 2
        self._package = package
        self._root = package.parse_part(main)
        links = package.list_relationships(main)
        self._relationships = {link.id: link for link in links}
        self._target_by_kind = {link.kind: link.target for link in reversed(links)}
        styles = self._load_optional_part("styles")
        self._styles = Styles(styles)
        self._formats = RunFormats(styles)
        numbering = Numbering(self._load_optional_part("numbering"))
        # A function without the reader: the reader and its contexts must not refer to each other in a circle.
        self._count_label = partial(_count_label, self._styles, numbering)
        self._unread = UnreadContent()
        self._context = self._create_context(main)
        self._contexts: dict[str, ReadingContext] = {}
        self._notes = {
            (kind, get_attribute(note, "id")): note
            for kind, tag in _NOTE_TAGS.items()
            for note in iter_children(self._load_optional_part(kind), tag)
        }
        self._attachments = Attachments(package, self._relationships, self._blocks, options, self._unread)
        self._roles = BlockRoles()
        self._carried_text = ""
        self._stack: list[Iterator[Element]] = []
        self._contents_depth = 0

    def read_document(self) -> list[Block]:
        """Read the headers, the body and the footers.

        Returns:
            The blocks in reading order.

        Raises:
            CorruptFile: The document has no body.
            TextTooLong: The text or a table is too large.
        """
        bodies = list(iter_children(self._root, "w:body"))
        if not bodies:
            raise CorruptFile
        self._read_margin("header")
        self._stack = [iter(bodies)]
        while self._stack:
            element = next(self._stack[-1], None)
            if element is None:
                self._stack.pop()
                if len(self._stack) < self._contents_depth:
                    self._contents_depth = 0
            else:
                self._read_element(element)
        self._blocks.add(BlockKind.PARAGRAPH, self._carried_text)
        self._read_margin("footer")
        blocks, entry_count = self._roles.apply(self._blocks.blocks)
        self._unread.add(WarningCode.CONTENTS_ENTRIES_REMOVED, entry_count)
        return blocks

    @property
    def images(self) -> list[EncodedImage]:
        """Images of the document, if the caller requested images."""
        return self._attachments.images

    def list_warnings(self) -> list[ServiceWarning]:
        """Return the warnings about all content that was not read. Call the method once, after the document is read."""
        self._unread.image_count += self._attachments.skipped_image_count
        self._unread.add(WarningCode.DAMAGED_PARTS_NOT_READ, self._package.damaged_count)
        return self._unread.list_warnings()

    def _create_context(self, part: str) -> ReadingContext:
        return ReadingContext(self._formats, self._package.list_external_targets(part), self._unread, self._count_label)

    def _load_optional_part(self, kind: str) -> Element | None:
        return self._package.parse_optional_part(self._target_by_kind.get(kind))

    def _read_element(self, element: Element) -> None:
        kind = get_tag(element)
        if kind == "w:p":
            self._read_paragraph(element)
        elif kind == "w:tbl" and not self._is_layout_table(element):
            self._read_table(element)
        elif kind == "w:altChunk":
            self._attachments.read_embedded_document(get_attribute(element, "id"))
        elif not is_left_out(element, kind):
            if kind == "w:sdt" and is_prompt(element):
                self._unread.add(WarningCode.PROMPTS_NOT_READ)
            if kind == "w:sdt" and not self._contents_depth and _is_contents_control(element):
                self._contents_depth = len(self._stack) + 1
            self._stack.append(iter_visible_children(element, kind))

    def _read_paragraph(self, element: Element) -> None:
        properties = find_child(element, "w:pPr")
        level = self._styles.get_heading_level(properties)
        content = read_content(element, self._context, has_inline_alt_texts=not level)
        if next(iter_children(find_child(properties, "w:rPr"), "w:del", "w:moveFrom"), None) is not None:
            # The paragraph mark is deleted: Word shows this text at the start of the next paragraph.
            self._carried_text += content.text
        else:
            self._add_paragraph(self._carried_text + content.text, properties, content, level)
            self._carried_text = ""
        self._read_attachments(content)

    def _add_paragraph(self, text: str, properties: Element | None, content: DocxContent, level: int) -> None:
        label = self._count_label(properties)
        if not text.strip():
            return
        index = len(self._blocks.blocks)
        if level:
            label = None if label == "-" else label
            self._blocks.add(BlockKind.HEADING, f"{label or ''} {strip_addresses(text)}", level=level)
        elif label is not None:
            self._blocks.add(BlockKind.LIST_ITEM, f"{label} {text}")
        elif sign := _BULLET_SIGN.match(text):
            self._blocks.add(BlockKind.LIST_ITEM, f"- {text[sign.end() :]}")
        else:
            self._blocks.add(BlockKind.PARAGRAPH, text)
            self._roles.paragraphs[index] = (content.size, content.is_bold)
        if len(self._blocks.blocks) > index and not level:
            self._record_role(index, self._styles.get_name(properties))

    def _record_role(self, index: int, style: str) -> None:
        if self._contents_depth or _CONTENTS_STYLE.fullmatch(style):
            self._roles.contents.add(index)
        elif style.lower() == "caption":
            self._roles.captions.add(index)

    def _read_attachments(self, content: DocxContent) -> None:
        """Read the images, notes, charts and diagrams of a paragraph, and let its text boxes be read next."""
        for text in content.alt_texts:
            self._blocks.add(BlockKind.PARAGRAPH, text)
        for identifier in content.image_ids:
            self._attachments.read_image(identifier)
        self._read_notes(content.note_references)
        for identifier in content.drawing_ids:
            self._attachments.read_drawing(identifier)
        if content.text_boxes:
            self._stack.append(iter(content.text_boxes))

    def _read_notes(self, references: list[tuple[str, str]]) -> None:
        """Add each note that has not been read, and the notes that it refers to."""
        waiting = deque(references)
        while waiting:
            reference = waiting.popleft()
            note = self._notes.pop(reference, None)
            if note is not None:
                part = self._target_by_kind.get(reference[0], "")
                text, inner = self._read_all_text(note, part)
                self._blocks.add(BlockKind.NOTE, text)
                waiting += inner

    def _read_all_text(self, element: Element, part: str) -> tuple[str, list[tuple[str, str]]]:
        """Return the text of a note, a header or a footer with its text boxes at the end, and its note references."""
        context = self._contexts.get(part)
        if context is None:
            context = self._contexts[part] = self._create_context(part)
        waiting, lines, references = deque([element]), [], []
        while waiting:
            content = read_content(waiting.popleft(), context)
            self._unread.image_count += len(content.image_ids) + len(content.drawing_ids)
            lines.append(content.text)
            references += content.note_references
            waiting += [paragraph for box in content.text_boxes for paragraph in box]
            waiting += content.nested_tables
        return "\n".join(lines), references

    def _is_layout_table(self, table: Element) -> bool:
        """Return whether a table only arranges text and does not contain data.

        Such a table has a single row or column, or a cell that contains a heading with text.
        """
        rows = [list(iter_table_parts(row, "w:tc")) for row in iter_table_parts(table, "w:tr")]
        if len(rows) <= 1 or all(len(row) <= 1 for row in rows):
            return True
        cells = (cell for row in rows for cell in row)
        return any(self._has_section(list(iter_children(cell, "w:p"))) for cell in cells)

    def _has_section(self, paragraphs: list[Element]) -> bool:
        return len(paragraphs) > 1 and any(
            self._styles.get_heading_level(find_child(paragraph, "w:pPr")) for paragraph in paragraphs
        )

    def _read_table(self, table: Element) -> None:
        grid, contents, header_count, is_head = TableGrid(self._max_cells), [], 0, True
        for row in iter_table_parts(table, "w:tr"):
            grid.start_row()
            properties = find_child(row, "w:trPr")
            is_head = is_head and is_switched_on(find_child(properties, "w:tblHeader"))
            header_count += is_head
            before = get_int_attribute(find_child(properties, "w:gridBefore"), "val") or 0
            grid.skip_columns(max(0, min(before, _MAX_COLUMNS)))
            for cell in iter_table_parts(row, "w:tc"):
                contents.append(self._read_cell(cell, grid))
        self._blocks.add(BlockKind.TABLE, grid.format_table(header_count or None))
        for content in contents:
            first = len(self._blocks.blocks)
            self._read_notes([reference for reference in content.note_references if reference[0] != "comments"])
            self._roles.table_notes.update(range(first, len(self._blocks.blocks)))
        for content in contents:
            self._read_attachments(content)
        nested = [inner for content in contents for inner in content.nested_tables]
        if nested:
            self._stack.append(iter(nested))

    def _read_cell(self, cell: Element, grid: TableGrid) -> DocxContent:
        content = read_content(cell, self._context)
        merged = find_child(cell, "w:tcPr", "w:vMerge")
        declared = get_int_attribute(find_child(cell, "w:tcPr", "w:gridSpan"), "val") or 1
        span = max(1, min(declared, _MAX_COLUMNS))
        if merged is not None and get_attribute(merged, "val") != "restart":
            grid.repeat_cell_above(span)
        else:
            grid.add_cell(content.text, span, is_bold=content.is_bold)
        return content

    def _read_margin(self, kind: str) -> None:
        """Add a paragraph with the lines of all headers or footers, without repeated lines and page numbers."""
        lines: list[str] = []
        notes: list[tuple[str, str]] = []
        references = self._root.iter("{*}" + kind + "Reference")
        links = (self._relationships.get(get_attribute(reference, "id")) for reference in references)
        for target in dict.fromkeys(link.target for link in links if link is not None):
            root = self._package.parse_optional_part(target)
            text, references = self._read_all_text(root, target) if root is not None else ("", [])
            notes += references
            lines += [line for line in clean_text(text).split("\n") if not is_page_number(line)]
        self._blocks.add(BlockKind.PARAGRAPH, "\n".join(dict.fromkeys(lines)))
        self._read_notes(notes)


def _count_label(styles: Styles, numbering: Numbering, properties: Element | None) -> str | None:
    """Count a paragraph, and return its label; None if it is in no list."""
    return numbering.count_paragraph(*styles.find_numbering(properties))


def _is_contents_control(element: Element) -> bool:
    """Return whether a content control holds a table of contents. Its gallery has an English name in each language."""
    gallery = get_attribute(find_child(element, "w:sdtPr", "w:docPartObj", "w:docPartGallery"), "val")
    return gallery.lower() == "table of contents"
