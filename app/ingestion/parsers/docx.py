"""Word (DOCX): headings, paragraphs, lists, tables, text boxes, charts and notes in reading order."""

import re
import zipfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.archives import check_archive
from app.ingestion.parsers.blocks import BlockList
from app.ingestion.parsers.cleaning import clean_line, clean_text
from app.ingestion.parsers.decoding import decode
from app.ingestion.parsers.docx_styles import Numbering, Styles
from app.ingestion.parsers.docx_text import Passage, is_left_out, opened, read_passage
from app.ingestion.parsers.drawings import add_chart, diagram_lines, pictures_warning
from app.ingestion.parsers.html import add_fragment
from app.ingestion.parsers.ooxml import Element, Package, attribute, child, children, integer, name
from app.ingestion.parsers.pictures import PictureList
from app.ingestion.parsers.tables import markdown_table
from app.ingestion.types import BlockKind, Corrupt, ParsedDocument, Picture, TooMuchText

_GENERIC_TITLE = re.compile(
    r"|(microsoft )?word[ -]document|(document|dokument|untitled|unbenannt|title|titel) ?\d*|microsoft word - .*",
    re.IGNORECASE,
)
"""What Word and its like write into the title when nobody does."""

_NOTES = {"footnotes": "w:footnote", "endnotes": "w:endnote", "comments": "w:comment"}
_PAGE_WORDS = frozenset(
    {
        "page", "pages", "p", "pg", "of", "seite", "seiten", "s", "von", "sur", "página", "pagina", "pág", "pag", "de",
        "di", "strona", "z", "страница", "стр", "из", "第", "页", "页共", "共", "頁", "頁共", "ページ", "i", "ii",
        "iii", "iv", "v", "vi", "vii", "viii", "ix", "x",
    }
)  # fmt: skip
_WORD, _NUMBER, _MAX_DIGITS = re.compile(r"[^\W\d_]+"), re.compile(r"\d+"), 4
_MAX_COLUMNS = 63
"""Word allows no more; a file may claim any number."""


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Footnotes, endnotes and comments are blocks of their own kind after the paragraph that refers to them.

    What all headers say comes first and what all footers say last, each once. Deleted text is left out, inserted text
    kept. Raises Corrupt, Encrypted, TooMuchText.
    """
    check_archive(path)
    with zipfile.ZipFile(path) as archive:
        package = Package(archive)
        links = {relationship.kind: relationship.target for relationship in package.relationships()}
        if "officeDocument" not in links:
            raise Corrupt
        story = _Story(package, links["officeDocument"], options)
        story.read()
        title = clean_line(_child_text(package.optional_xml(links.get("core-properties")), "dc:title"))
    blocks = story.blocks
    if _GENERIC_TITLE.fullmatch(title):
        title = blocks.first_heading(level=1) or ""
    return ParsedDocument(blocks.blocks, title=title or None, warnings=story.warnings(), pictures=story.pictures)


def _child_text(element: Element | None, word: str) -> str:
    """The text of the child of that name, empty where there is none."""
    found = child(element, word)
    return "" if found is None else found.text or ""


class _Story:
    """Walks the document with a stack of its own: tables and text boxes may nest deeper than Python recurses."""

    def __init__(self, package: Package, main: str, options: ParseOptions) -> None:
        self.blocks = BlockList(options)
        # Short rows are filled up, and every cell of a Markdown table takes two characters.
        self._max_cells = options.max_characters // 2
        self._package = package
        self._root = package.xml(main)
        links = package.relationships(main)
        self._links = {link.id: link for link in links}
        self._sole = {link.kind: link.target for link in reversed(links)}
        self._styles = Styles(self._optional("styles"))
        self._numbering = Numbering(self._optional("numbering"))
        self._notes = {
            (kind, attribute(note, "id")): note
            for kind, word in _NOTES.items()
            for note in children(self._optional(kind), word)
        }
        self._said: set[str] = set()
        self._carried = ""
        self._pictures = PictureList(self.blocks, options)
        self._unseen = 0
        self._foreign = 0
        self._stack: list[Iterator[Element]] = []

    def read(self) -> None:
        """Headers, body, footers. Raises TooMuchText."""
        body = child(self._root, "w:body")
        if body is None:
            raise Corrupt
        self._margin("header")
        self._stack = [iter(body)]
        while self._stack:
            element = next(self._stack[-1], None)
            if element is None:
                self._stack.pop()
            else:
                self._element(element)
        self.blocks.add(BlockKind.PARAGRAPH, self._carried)
        self._margin("footer")

    @property
    def pictures(self) -> list[Picture]:
        """Those that were asked for."""
        return self._pictures.pictures

    def warnings(self) -> list[str]:
        """Sentences on what was not read."""
        found = pictures_warning(self._unseen + self._pictures.left_out)
        if self._foreign:
            found.append(_counted(self._foreign, "embedded document was", "embedded documents were") + " not read.")
        if damaged := self._package.damaged:
            found.append(_counted(damaged, "damaged part was", "damaged parts were") + " not read.")
        return found

    def _optional(self, kind: str) -> Element | None:
        return self._package.optional_xml(self._sole.get(kind))

    def _element(self, element: Element) -> None:
        kind = name(element)
        if kind == "w:p":
            self._paragraph(element)
        elif kind == "w:tbl" and not self._is_layout(element):
            self._table(element)
        elif kind == "w:altChunk":
            self._embedded(attribute(element, "id"))
        elif not is_left_out(element, kind):
            self._stack.append(opened(element, kind))

    def _paragraph(self, element: Element) -> None:
        passage = read_passage(element)
        properties = child(element, "w:pPr")
        if next(children(child(properties, "w:rPr"), "w:del", "w:moveFrom"), None) is not None:
            # The mark is deleted: Word shows this text at the start of the next paragraph.
            self._carried += passage.text
        else:
            self._add_paragraph(self._carried + passage.text, properties)
            self._carried = ""
        self._attached(passage)

    def _add_paragraph(self, text: str, properties: Element | None) -> None:
        label = self._numbering.label(*self._styles.numbering(properties))
        level = self._styles.heading_level(properties)
        if not text.strip():
            return
        if level:
            label = None if label == "-" else label
            self.blocks.add(BlockKind.HEADING, f"{label or ''} {text}", level=level)
        elif label is None:
            self.blocks.add(BlockKind.PARAGRAPH, text)
        else:
            self.blocks.add(BlockKind.LIST_ITEM, f"{label} {text}")

    def _attached(self, passage: Passage) -> None:
        """What hangs on a passage follows it: notes, charts and diagrams now, text boxes next."""
        for identifier in passage.pictures:
            self._picture(identifier)
        for reference in passage.notes:
            note = self._notes.pop(reference, None)
            if note is not None:
                self.blocks.add(BlockKind.NOTE, self._whole(note))
        for identifier in passage.linked:
            self._drawing(identifier)
        if passage.boxes:
            self._stack.append(iter(passage.boxes))

    def _whole(self, element: Element) -> str:
        """All text of a note or a margin, its text boxes at the end."""
        waiting, lines = deque([element]), []
        while waiting:
            passage = read_passage(waiting.popleft())
            self._unseen += len(passage.pictures)
            lines.append(passage.text)
            waiting += [paragraph for box in passage.boxes for paragraph in box]
        return "\n".join(lines)

    def _picture(self, identifier: str) -> None:
        link = self._links.get(identifier)
        if link is None or link.kind != "image" or not self._pictures.wanted:
            self._unseen += 1
            return
        try:
            data = self._package.read(link.target)
        except Corrupt:
            self._unseen += 1
        else:
            self._pictures.add_file(data)

    def _drawing(self, identifier: str) -> None:
        link = self._links.get(identifier)
        root = self._package.optional_xml(link.target) if link is not None else None
        if link is None or root is None:
            self._unseen += 1
        elif link.target not in self._said:
            self._said.add(link.target)
            self._add_drawing(root, link.kind)

    def _add_drawing(self, root: Element, kind: str) -> None:
        if kind == "chart":
            try:
                add_chart(root, self.blocks)
            except Corrupt:
                self._unseen += 1
        for line in diagram_lines(root):
            self.blocks.add(BlockKind.LIST_ITEM, line)

    def _embedded(self, identifier: str) -> None:
        """A document of another format inside this one, which some generators write: HTML is read, others counted."""
        link = self._links.get(identifier)
        if link is None or not link.target.endswith((".html", ".htm", ".xhtml")):
            self._foreign += 1
            return
        try:
            data = self._package.read(link.target)
        except Corrupt:
            self._foreign += 1
        else:
            add_fragment(decode(data, encoding=None).text, self.blocks)

    def _is_layout(self, table: Element) -> bool:
        """A single row or column, or headings with text below them in a cell: it places text, it is no data."""
        rows = [list(_parts(row, "w:tc")) for row in _parts(table, "w:tr")]
        if len(rows) <= 1 or all(len(row) <= 1 for row in rows):
            return True
        cells = (cell for row in rows for cell in row)
        return any(self._holds_section(list(children(cell, "w:p"))) for cell in cells)

    def _holds_section(self, paragraphs: list[Element]) -> bool:
        return len(paragraphs) > 1 and any(self._styles.heading_level(child(one, "w:pPr")) for one in paragraphs)

    def _table(self, table: Element) -> None:
        rows, passages, width = [], [], 0
        for row in _parts(table, "w:tr"):
            texts = [""] * min(integer(child(row, "w:trPr", "w:gridBefore"), "val") or 0, _MAX_COLUMNS)
            for cell in _parts(row, "w:tc"):
                passage = read_passage(cell)
                passages.append(passage)
                merged = child(cell, "w:tcPr", "w:vMerge")
                hidden = merged is not None and attribute(merged, "val") != "restart"
                span = integer(child(cell, "w:tcPr", "w:gridSpan"), "val") or 1
                texts += ["" if hidden else passage.text, *[""] * (min(span, _MAX_COLUMNS) - 1)]
            rows.append(texts)
            width = max(width, len(texts))
            if width * len(rows) > self._max_cells:
                raise TooMuchText(f"A table has more than {self._max_cells} cells.", limit=self._max_cells)
        self.blocks.add(BlockKind.TABLE, markdown_table(rows))
        for passage in passages:
            self._attached(passage)

    def _margin(self, kind: str) -> None:
        """What the headers or the footers say, each line once; page numbers are left out."""
        lines = []
        references = self._root.iter("{*}" + kind + "Reference")
        links = (self._links.get(attribute(reference, "id")) for reference in references)
        for target in dict.fromkeys(link.target for link in links if link is not None):
            root = self._package.optional_xml(target)
            text = clean_text(self._whole(root)) if root is not None else ""
            lines += [line for line in text.split("\n") if not _is_page_number(line)]
        self.blocks.add(BlockKind.PARAGRAPH, "\n".join(dict.fromkeys(lines)))


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _is_page_number(line: str) -> bool:
    numbers = _NUMBER.findall(line)
    is_place = len(numbers) <= 2 and all(len(number) <= _MAX_DIGITS for number in numbers)
    return is_place and all(word in _PAGE_WORDS for word in _WORD.findall(line.lower()))


def _parts(element: Element, wanted: str) -> Iterator[Element]:
    """The rows of a table or the cells of a row, out of content controls and revision marks; tables inside excluded."""
    stack = [opened(element, name(element))]
    while stack:
        found = next(stack[-1], None)
        if found is None:
            stack.pop()
        elif is_left_out(found, kind := name(found)):
            continue
        elif kind == wanted:
            yield found
        else:
            stack.append(opened(found, kind))
