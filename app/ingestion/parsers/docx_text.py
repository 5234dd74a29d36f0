"""The running text of a Word paragraph, cell or note, and what hangs on it: text boxes, notes, charts, pictures."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from app.ingestion.parsers.ooxml import Element, attribute, child, children, is_on, name

_TEXT = frozenset({"w:t", "m:t", "a:t"})
_MARKS = {"w:tab": "\t", "w:ptab": "\t", "w:br": "\n", "w:cr": "\n", "a:br": "\n", "w:noBreakHyphen": "-"}
_REFERENCES = {
    "w:footnoteReference": "footnotes",
    "w:endnoteReference": "endnotes",
    "w:commentReference": "comments",
}
_PICTURES = frozenset({"pic:pic", "v:imagedata", "cx:chart"})
_LEFT_OUT = frozenset(
    {
        "w:del", "w:moveFrom", "w:pPr", "w:rPr", "w:tblPr", "w:tblGrid", "w:trPr", "w:tcPr", "w:sectPr", "w:sdtPr",
        "w:rt",
    }
)  # fmt: skip
"""Deleted and moved text, the reading of a ruby, and properties."""


@dataclass(slots=True)
class Passage:
    """What one element says. ``notes`` are kind and id, ``linked`` the relationship ids of charts and diagrams,
    ``pictures`` those of pictures, empty where one has none.
    """

    text: str = ""
    boxes: list[Element] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    linked: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)


def read_passage(element: Element) -> Passage:
    """Read everything below ``element`` but the text boxes; paragraphs in it begin on lines of their own."""
    reader = _Reader()
    stack = [iter((element,))]
    while stack:
        found = next(stack[-1], None)
        if found is None:
            stack.pop()
        else:
            stack.append(reader.visit(found))
    return reader.finish()


def is_left_out(element: Element, kind: str) -> bool:
    """Whether nobody sees the element of this name: deleted or hidden text, a deleted row, properties."""
    if kind == "w:tr":
        return child(element, "w:trPr", "w:del") is not None
    return kind in _LEFT_OUT or (kind == "w:r" and is_on(child(element, "w:rPr", "w:vanish")))


def opened(element: Element, kind: str) -> Iterator[Element]:
    """The children to read of the element of this name: of alternatives one, of a content control what it holds.

    A control that shows only a hint to its reader holds nothing.
    """
    if kind == "mc:AlternateContent":
        chosen = child(element, "mc:Choice")
        return iter(() if (one := chosen if chosen is not None else child(element, "mc:Fallback")) is None else one)
    if kind == "w:sdt":
        hint = is_on(child(element, "w:sdtPr", "w:showingPlcHdr"))
        return iter(() if hint else children(child(element, "w:sdtContent")))
    return iter(element)


class _Reader:
    """Collects a passage. A field's code is left out, its result kept; one that never says which is kept whole."""

    def __init__(self) -> None:
        self._passage = Passage()
        self._parts: list[str] = []
        self._in_code: list[bool] = []
        self._withheld: list[str] = []

    def visit(self, element: Element) -> Iterator[Element]:
        """Take the element in; the answer is which children to visit next."""
        kind = name(element)
        if is_left_out(element, kind):
            return iter(())
        if kind in _TEXT:
            self._add(element.text or "")
        elif kind in _MARKS:
            self._add(_MARKS[kind])
        elif kind == "w:p":
            self._end_fields()
            self._add("\n")
        elif kind == "w:fldChar":
            self._field(attribute(element, "fldCharType"))
        elif kind == "w:txbxContent":
            self._passage.boxes.append(element)
            return iter(())
        else:
            self._attach(element, kind)
        return opened(element, kind)

    def finish(self) -> Passage:
        self._end_fields()
        self._passage.text = "".join(self._parts).strip("\n")
        return self._passage

    def _attach(self, element: Element, kind: str) -> None:
        if kind in _REFERENCES:
            self._passage.notes.append((_REFERENCES[kind], attribute(element, "id")))
        elif kind in _PICTURES:
            shown = child(element, "pic:blipFill", "a:blip")
            self._passage.pictures.append(attribute(shown, "embed") or attribute(element, "id"))
        elif kind == "c:chart":
            self._passage.linked.append(attribute(element, "id"))
        elif kind == "dgm:relIds":
            self._passage.linked.append(attribute(element, "dm"))
        elif kind == "v:textpath":
            self._add("\n" + attribute(element, "string") + "\n")

    def _add(self, text: str) -> None:
        (self._withheld if any(self._in_code) else self._parts).append(text)

    def _field(self, word: str) -> None:
        if word == "begin":
            self._in_code.append(True)
        elif word == "separate" and self._in_code:
            self._in_code[-1] = False
        elif word == "end" and self._in_code:
            self._in_code.pop()
            if not any(self._in_code):
                self._withheld.clear()

    def _end_fields(self) -> None:
        """A paragraph ends its fields: what a damaged one withholds is text after all."""
        self._parts += self._withheld
        self._withheld.clear()
        self._in_code.clear()
