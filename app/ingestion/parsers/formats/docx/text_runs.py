"""Text of a paragraph, cell or note of a Word document, with its text boxes, notes, charts and images."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from app.ingestion.parsers.toolkit.ooxml import (
    Element,
    find_child,
    get_attribute,
    get_tag,
    is_switched_on,
    iter_children,
)

_TEXT = frozenset({"w:t", "m:t", "a:t"})
_MARKS = {"w:tab": "\t", "w:ptab": "\t", "w:br": "\n", "w:cr": "\n", "a:br": "\n", "w:noBreakHyphen": "-"}
_REFERENCES = {
    "w:footnoteReference": "footnotes",
    "w:endnoteReference": "endnotes",
    "w:commentReference": "comments",
}
_IMAGES = frozenset({"pic:pic", "v:imagedata", "cx:chart"})
_LEFT_OUT = frozenset(
    {
        "w:del", "w:moveFrom", "w:pPr", "w:rPr", "w:tblPr", "w:tblGrid", "w:trPr", "w:tcPr", "w:sectPr", "w:sdtPr",
        "w:rt",
    }
)  # fmt: skip
"""Elements without visible text: deleted and moved text, ruby annotations, and properties."""


@dataclass(slots=True)
class DocxContent:
    """Content of an element.

    Attributes:
        text: Text outside of text boxes.
        text_boxes: Elements of the text boxes.
        note_references: Kind and id of each footnote, endnote and comment.
        drawing_ids: Relationship ids of charts and diagrams.
        image_ids: Relationship ids of images; an empty string for an image without an id.
    """

    text: str = ""
    text_boxes: list[Element] = field(default_factory=list)
    note_references: list[tuple[str, str]] = field(default_factory=list)
    drawing_ids: list[str] = field(default_factory=list)
    image_ids: list[str] = field(default_factory=list)


def read_content(element: Element) -> DocxContent:
    """Read the content of an element and its descendants.

    Args:
        element: A paragraph, a cell or a note.

    Returns:
        The content. Each paragraph inside the element begins on a new line. Text boxes are listed, not read.
    """
    reader = _DocxContentReader()
    stack = [iter((element,))]
    while stack:
        item = next(stack[-1], None)
        if item is None:
            stack.pop()
        else:
            stack.append(reader.visit_element(item))
    return reader.finish()


def is_left_out(element: Element, kind: str) -> bool:
    """Return whether an element is invisible: deleted or hidden text, a deleted table row, or properties.

    ``kind`` is the tag of the element.
    """
    if kind == "w:tr":
        return find_child(element, "w:trPr", "w:del") is not None
    return kind in _LEFT_OUT or (kind == "w:r" and is_switched_on(find_child(element, "w:rPr", "w:vanish")))


def iter_visible_children(element: Element, kind: str) -> Iterator[Element]:
    """Return the children of an element that Word shows.

    Args:
        element: The element.
        kind: Tag of the element.

    Returns:
        The children of the first alternative, or of the content of a content control, or else of the element. A
        content control that shows only its placeholder has no children.
    """
    if kind == "mc:AlternateContent":
        chosen = find_child(element, "mc:Choice")
        return iter(
            ()
            if (alternative := chosen if chosen is not None else find_child(element, "mc:Fallback")) is None
            else alternative
        )
    if kind == "w:sdt":
        is_hint = is_switched_on(find_child(element, "w:sdtPr", "w:showingPlcHdr"))
        return iter(() if is_hint else iter_children(find_child(element, "w:sdtContent")))
    return iter(element)


class _DocxContentReader:
    """Collector of the content of an element.

    The result of a field is text, its code is not. The code of a field that is not closed in its paragraph is text too.
    """

    def __init__(self) -> None:
        self._content = DocxContent()
        self._parts: list[str] = []
        self._in_code: list[bool] = []
        self._field_parts: list[str] = []

    def visit_element(self, element: Element) -> Iterator[Element]:
        """Add the content of an element, and return the children to visit next."""
        kind = get_tag(element)
        if is_left_out(element, kind):
            return iter(())
        if kind in _TEXT:
            self._add_text(element.text or "")
        elif kind in _MARKS:
            self._add_text(_MARKS[kind])
        elif kind == "w:p":
            self._end_fields()
            self._add_text("\n")
        elif kind == "w:fldChar":
            self._read_field_mark(get_attribute(element, "fldCharType"))
        elif kind == "w:txbxContent":
            self._content.text_boxes.append(element)
            return iter(())
        else:
            self._add_reference(element, kind)
        return iter_visible_children(element, kind)

    def finish(self) -> DocxContent:
        self._end_fields()
        self._content.text = "".join(self._parts).strip("\n")
        return self._content

    def _add_reference(self, element: Element, kind: str) -> None:
        if kind in _REFERENCES:
            self._content.note_references.append((_REFERENCES[kind], get_attribute(element, "id")))
        elif kind in _IMAGES:
            blip = find_child(element, "pic:blipFill", "a:blip")
            self._content.image_ids.append(get_attribute(blip, "embed") or get_attribute(element, "id"))
        elif kind == "c:chart":
            self._content.drawing_ids.append(get_attribute(element, "id"))
        elif kind == "dgm:relIds":
            self._content.drawing_ids.append(get_attribute(element, "dm"))
        elif kind == "v:textpath":
            self._add_text("\n" + get_attribute(element, "string") + "\n")

    def _add_text(self, text: str) -> None:
        (self._field_parts if any(self._in_code) else self._parts).append(text)

    def _read_field_mark(self, mark: str) -> None:
        if mark == "begin":
            self._in_code.append(True)
        elif mark == "separate" and self._in_code:
            self._in_code[-1] = False
        elif mark == "end" and self._in_code:
            self._in_code.pop()
            if not any(self._in_code):
                self._field_parts.clear()

    def _end_fields(self) -> None:
        """Close all fields at the end of a paragraph, and keep the code of fields that are still open as text."""
        self._parts += self._field_parts
        self._field_parts.clear()
        self._in_code.clear()
