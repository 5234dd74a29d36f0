"""The running text of a Word paragraph, cell or note, and what hangs on it: text boxes, notes, charts, pictures."""

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
"""Deleted and moved text, the reading of a ruby, and properties."""


@dataclass(slots=True)
class DocxContent:
    """What one element says. ``note_references`` are kind and id, ``drawing_ids`` the relationship ids of charts and
    diagrams,
    ``image_ids`` those of pictures, empty where one has none.
    """

    text: str = ""
    text_boxes: list[Element] = field(default_factory=list)
    note_references: list[tuple[str, str]] = field(default_factory=list)
    drawing_ids: list[str] = field(default_factory=list)
    image_ids: list[str] = field(default_factory=list)


def read_content(element: Element) -> DocxContent:
    """Read everything below ``element`` but the text boxes; paragraphs in it begin on lines of their own."""
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
    """Whether nobody sees the element of this name: deleted or hidden text, a deleted row, properties."""
    if kind == "w:tr":
        return find_child(element, "w:trPr", "w:del") is not None
    return kind in _LEFT_OUT or (kind == "w:r" and is_switched_on(find_child(element, "w:rPr", "w:vanish")))


def iter_visible_children(element: Element, kind: str) -> Iterator[Element]:
    """The children to read of the element of this name: of alternatives one, of a content control what it holds.

    A control that shows only a hint to its reader holds nothing.
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
    """Collects a passage. A field's code is left out, its result kept; one that never says which is kept whole."""

    def __init__(self) -> None:
        self._content = DocxContent()
        self._parts: list[str] = []
        self._in_code: list[bool] = []
        self._field_parts: list[str] = []

    def visit_element(self, element: Element) -> Iterator[Element]:
        """Take the element in; the answer is which children to visit next."""
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
        """A paragraph ends its fields: what a damaged one withholds is text after all."""
        self._parts += self._field_parts
        self._field_parts.clear()
        self._in_code.clear()
