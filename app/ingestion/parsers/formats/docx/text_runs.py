"""Text of a paragraph, cell or note of a Word document, with its text boxes, notes, charts and images."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from types import MappingProxyType

from app.ingestion.parsers.formats.docx.fields import CHECKED, UNCHECKED, join_fragment, read_link_address
from app.ingestion.parsers.formats.docx.run_formats import RunFormats
from app.ingestion.parsers.formats.docx.run_writer import RunWriter
from app.ingestion.parsers.formats.docx.visible_parts import (
    is_left_out,
    is_prompt,
    iter_table_parts,
    iter_visible_children,
)
from app.ingestion.parsers.toolkit.alt_text import clean_alt_text
from app.ingestion.parsers.toolkit.omml import format_equation
from app.ingestion.parsers.toolkit.ooxml import (
    Element,
    find_child,
    get_attribute,
    get_tag,
    is_switched_on,
    iter_texts,
)
from app.ingestion.parsers.toolkit.symbol_fonts import find_symbol
from app.ingestion.parsers.toolkit.unread_content import UnreadContent
from app.warnings import WarningCode

_TEXT = frozenset({"w:t", "m:t", "a:t"})
_MARKS = {"w:tab": "\t", "w:ptab": "\t", "w:br": "\n", "w:cr": "\n", "a:br": "\n", "w:noBreakHyphen": "-"}
_REFERENCES = {
    "w:footnoteReference": "footnotes",
    "w:endnoteReference": "endnotes",
    "w:commentReference": "comments",
}
_IMAGES = frozenset({"pic:pic", "v:imagedata"})
_UNREAD_KINDS = MappingProxyType(
    {
        "w:subDoc": (WarningCode.EMBEDDED_DOCUMENTS_NOT_READ, ""),
        "w:contentPart": (WarningCode.SHAPES_NOT_READ, "ink"),
        "contentPart": (WarningCode.SHAPES_NOT_READ, "ink"),
        "webVideoPr": (WarningCode.MEDIA_NOT_READ, ""),
    }
)
_HEXADECIMAL = re.compile(r"[0-9A-Fa-f]{1,6}")
_NOTE_ANCHORS = ("_ftn", "_edn")
_PRIVATE_START = 0xE000
_MIN_NESTED_ROWS = 3
"""Minimum number of rows of a nested table that becomes a table by itself."""

Visit = tuple[Iterator[Element], Callable[[], None] | None]
"""Children of an element to visit, and a call for their end."""

_NOTHING: Visit = (iter(()), None)
"""Visit of an element without children and without an end."""


@dataclass(slots=True)
class DocxContent:
    """Content of an element.

    Attributes:
        text: Text outside of text boxes.
        text_boxes: Elements of the text boxes.
        nested_tables: Tables inside a cell that are too large to be a part of its text.
        note_references: Kind and id of each footnote, endnote and comment.
        drawing_ids: Relationship ids of charts and diagrams.
        image_ids: Relationship ids of images; an empty string for an image without an id.
        alt_texts: Alternative texts that are not in the text.
        is_bold: Whether the element has text, and all of it is bold.
        size: Size of the largest text in half points; 0 if it is unknown.
    """

    text: str = ""
    text_boxes: list[Element] = field(default_factory=list)
    nested_tables: list[Element] = field(default_factory=list)
    note_references: list[tuple[str, str]] = field(default_factory=list)
    drawing_ids: list[str] = field(default_factory=list)
    image_ids: list[str] = field(default_factory=list)
    alt_texts: list[str] = field(default_factory=list)
    is_bold: bool = False
    size: int = 0


@dataclass(frozen=True, slots=True)
class ReadingContext:
    """Parts of the document that the text of an element depends on.

    Attributes:
        formats: Formats of runs.
        links: Addresses of links by relationship id.
        unread: Counter of the content that is not read.
        count_label: Function that counts a paragraph of a list, and returns its label.
    """

    formats: RunFormats
    links: Mapping[str, str]
    unread: UnreadContent
    count_label: Callable[[Element | None], str | None]


def read_content(element: Element, context: ReadingContext, *, has_inline_alt_texts: bool = True) -> DocxContent:
    """Read the content of an element and its descendants.

    Args:
        element: A paragraph, a cell or a note.
        context: Parts of the document that the text depends on.
        has_inline_alt_texts: Whether alternative texts of images are a part of the text.

    Returns:
        The content. Each paragraph inside the element begins on a new line, and items of a list in a cell are divided
        by semicolons. Text boxes and large nested tables are listed, not read.
    """
    reader = _DocxContentReader(element, context, has_inline_alt_texts=has_inline_alt_texts)
    stack: list[Visit] = [(iter((element,)), None)]
    while stack:
        children, leave = stack[-1]
        item = next(children, None)
        if item is not None:
            visit = reader.visit_element(item)
            if visit is not _NOTHING:
                stack.append(visit)
            continue
        stack.pop()
        if leave is not None:
            leave()
    return reader.finish()


class _DocxContentReader:
    """Visitor of the elements of a paragraph, cell or note."""

    def __init__(self, root: Element, context: ReadingContext, *, has_inline_alt_texts: bool) -> None:
        self._root = root
        self._is_cell = get_tag(root) == "w:tc"
        self._context = context
        self._has_inline_alt_texts = has_inline_alt_texts
        self._content = DocxContent()
        self._writer = RunWriter(context.unread)
        self._last_is_item = False
        self._paragraph_style = ""

    def visit_element(self, element: Element) -> Visit:
        """Add the content of an element, and return the children to visit next, and a call for their end."""
        kind = get_tag(element)
        if kind in _TEXT:
            self._writer.add_run_text(element.text or "")
            return _NOTHING
        if kind in _MARKS:
            self._writer.add_text(_MARKS[kind])
            return _NOTHING
        if is_left_out(element, kind):
            return _NOTHING
        if kind in _VISITORS:
            return _VISITORS[kind](self, element)
        self._add_reference(element, kind)
        if len(element) == 0:
            return _NOTHING
        return iter_visible_children(element, kind), None

    def finish(self) -> DocxContent:
        self._content.text = self._writer.finish()
        self._content.is_bold = self._writer.is_bold
        self._content.size = self._writer.size
        return self._content

    def visit_paragraph(self, element: Element) -> Visit:
        self._writer.end_paragraph()
        properties = find_child(element, "w:pPr")
        self._paragraph_style = get_attribute(find_child(properties, "w:pStyle"), "val")
        self._writer.format = self._context.formats.read_format(None, self._paragraph_style)
        if element is not self._root:
            label = self._context.count_label(properties)
            self._writer.set_break("; " if self._is_cell and label is not None and self._last_is_item else "\n")
            self._last_is_item = label is not None
            if label not in (None, "", "-"):
                self._writer.add_text(f"{label} ")
        return iter(element), None

    def visit_run(self, element: Element) -> Visit:
        """Visit a run. The texts at its start are added at once, because most runs have nothing else."""
        writer = self._writer
        before = (writer.format, writer.muted_by)
        first = element[0] if len(element) else None
        properties = first if first is not None and get_tag(first) == "w:rPr" else find_child(element, "w:rPr")
        writer.start_run(self._context.formats.read_format(properties, self._paragraph_style))

        def leave() -> None:
            writer.format, writer.muted_by = before
            writer.is_note_mark = False

        children = iter(element)
        for child in children:
            kind = get_tag(child)
            if kind in _TEXT:
                writer.add_run_text(child.text or "")
            elif kind in _MARKS:
                writer.add_text(_MARKS[kind])
            elif kind != "w:rPr":
                return chain((child,), children), leave
        leave()
        return _NOTHING

    def visit_row(self, element: Element) -> Visit:
        self._last_is_item = False
        divider = "; " if self._is_cell else "\n"
        self._writer.set_break(divider)
        return iter(element), lambda: self._writer.set_break(divider)

    def visit_table(self, element: Element) -> Visit:
        rows = list(iter_table_parts(element, "w:tr"))
        has_columns = any(next(islice(iter_table_parts(row, "w:tc"), 1, None), None) is not None for row in rows)
        if element is not self._root and len(rows) >= _MIN_NESTED_ROWS and has_columns:
            self._content.nested_tables.append(element)
            return _NOTHING
        return iter(element), None

    def visit_symbol(self, element: Element) -> Visit:
        code = get_attribute(element, "char")
        number = int(code, 16) if _HEXADECIMAL.fullmatch(code) else 0
        symbol = find_symbol(get_attribute(element, "font"), number)
        if not symbol and 0x20 < number < _PRIVATE_START:
            symbol = chr(number)
        if symbol:
            self._writer.add_symbol(symbol)
        elif not self._writer.is_silent:
            self._context.unread.add(WarningCode.SYMBOLS_NOT_READ)
        return _NOTHING

    def visit_equation(self, element: Element) -> Visit:
        is_display = get_tag(element) == "m:oMathPara"
        if is_display:
            self._writer.set_break("\n")
        self._writer.add_apart(format_equation(element))
        if is_display:
            self._writer.set_break("\n")
        return _NOTHING

    def visit_link(self, element: Element) -> Visit:
        address, anchor = self._context.links.get(get_attribute(element, "id"), ""), get_attribute(element, "anchor")
        if anchor.startswith(_NOTE_ANCHORS):
            self._writer.is_note_link = True
            return iter(element), self._end_note_link
        return self._visit_linked(element, join_fragment(address, anchor))

    def _end_note_link(self) -> None:
        self._writer.is_note_link = False

    def visit_simple_field(self, element: Element) -> Visit:
        return self._visit_linked(element, read_link_address(get_attribute(element, "instr")))

    def _visit_linked(self, element: Element, address: str) -> Visit:
        return iter(element), self._writer.close_link if self._writer.open_link(address) else None

    def visit_field_mark(self, element: Element) -> Visit:
        mark = get_attribute(element, "fldCharType")
        if mark == "begin":
            self._writer.begin_field(find_child(element, "w:ffData"))
        elif mark == "separate":
            self._writer.start_result()
        elif mark == "end":
            self._writer.end_field()
        return _NOTHING

    def visit_field_code(self, element: Element) -> Visit:
        self._writer.add_field_code(element.text or "")
        return _NOTHING

    def visit_control(self, element: Element) -> Visit:
        """Visit a content control. A check box without a sign gets one from its state, and a prompt is counted."""
        if is_prompt(element) and not self._writer.is_silent:
            self._context.unread.add(WarningCode.PROMPTS_NOT_READ)
        box = find_child(element, "w:sdtPr", "w14:checkbox")
        if box is not None:
            content = find_child(element, "w:sdtContent")
            has_sign = content is not None and next(content.iter("{*}t", "{*}sym"), None) is not None
            if not has_sign:
                self._writer.add_text(CHECKED if is_switched_on(find_child(box, "w14:checked")) else UNCHECKED)
        return iter_visible_children(element, "w:sdt"), None

    def visit_ruby(self, element: Element) -> Visit:
        base, annotation = find_child(element, "w:rubyBase"), find_child(element, "w:rt")
        self._writer.add_ruby("".join(iter_texts(base, "w:t")), "".join(iter_texts(annotation, "w:t")))
        return _NOTHING

    def visit_object(self, element: Element) -> Visit:
        """Count an embedded object or a form control. Its image is not counted."""
        if next(element.iter("{*}control"), None) is not None:
            self._context.unread.add(WarningCode.CONTROLS_NOT_READ)
            return _NOTHING
        embedded = find_child(element, "o:OLEObject")
        if embedded is None:
            return iter(element), None
        is_equation = get_attribute(embedded, "ProgID").lower().startswith(("equation", "mathtype"))
        code = WarningCode.EQUATIONS_NOT_READ if is_equation else WarningCode.EMBEDDED_DOCUMENTS_NOT_READ
        self._context.unread.add(code)
        return _NOTHING

    def visit_note_reference(self, element: Element) -> Visit:
        if self._writer.muted_by is None:
            self._content.note_references.append((_REFERENCES[get_tag(element)], get_attribute(element, "id")))
        self._writer.end_number()
        if get_attribute(element, "customMarkFollows") in ("1", "true", "on"):
            self._writer.is_note_mark = True
        return _NOTHING

    def visit_text_box(self, element: Element) -> Visit:
        self._content.text_boxes.append(element)
        return _NOTHING

    def visit_drawing_name(self, element: Element) -> Visit:
        if get_attribute(element, "hidden") not in ("1", "true"):
            self._add_alt_text(get_attribute(element, "descr"))
        return _NOTHING

    def _add_alt_text(self, alt_text: str) -> None:
        text = clean_alt_text(alt_text)
        if text and self._has_inline_alt_texts:
            self._writer.add_apart(f" {text} ")
        elif text and not self._writer.is_silent:
            self._content.alt_texts.append(text)

    def _add_reference(self, element: Element, kind: str) -> None:
        if kind in _IMAGES:
            blip = find_child(element, "pic:blipFill", "a:blip")
            self._content.image_ids.append(get_attribute(blip, "embed") or get_attribute(element, "id"))
            if kind == "v:imagedata":
                self._add_alt_text(get_attribute(element.getparent(), "alt"))
        elif kind in ("c:chart", "cx:chart"):
            self._content.drawing_ids.append(get_attribute(element, "id"))
        elif kind == "dgm:relIds":
            self._content.drawing_ids.append(get_attribute(element, "dm"))
        elif kind == "v:textpath":
            self._writer.set_break("\n")
            self._writer.add_text(get_attribute(element, "string"))
            self._writer.set_break("\n")
        elif kind == "a:p":
            self._writer.set_break("\n")
        elif kind in _UNREAD_KINDS:
            code, name = _UNREAD_KINDS[kind]
            self._context.unread.add(code, kind=name)


_VISITORS: Mapping[str, Callable[[_DocxContentReader, Element], Visit]] = MappingProxyType(
    {
        "w:p": _DocxContentReader.visit_paragraph,
        "w:r": _DocxContentReader.visit_run,
        "w:tr": _DocxContentReader.visit_row,
        "w:tbl": _DocxContentReader.visit_table,
        "w:sym": _DocxContentReader.visit_symbol,
        "m:oMath": _DocxContentReader.visit_equation,
        "m:oMathPara": _DocxContentReader.visit_equation,
        "w:hyperlink": _DocxContentReader.visit_link,
        "w:fldSimple": _DocxContentReader.visit_simple_field,
        "w:fldChar": _DocxContentReader.visit_field_mark,
        "w:instrText": _DocxContentReader.visit_field_code,
        "w:sdt": _DocxContentReader.visit_control,
        "w:ruby": _DocxContentReader.visit_ruby,
        "w:object": _DocxContentReader.visit_object,
        "w:control": _DocxContentReader.visit_object,
        "w:footnoteReference": _DocxContentReader.visit_note_reference,
        "w:endnoteReference": _DocxContentReader.visit_note_reference,
        "w:commentReference": _DocxContentReader.visit_note_reference,
        "w:txbxContent": _DocxContentReader.visit_text_box,
        "wp:docPr": _DocxContentReader.visit_drawing_name,
    }
)
