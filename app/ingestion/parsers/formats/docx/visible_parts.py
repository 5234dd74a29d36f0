"""Parts of a Word document that Word shows: no deleted text, no properties, and one of several alternatives."""

from collections.abc import Iterator

from app.ingestion.parsers.toolkit.ooxml import (
    Element,
    find_child,
    get_tag,
    is_switched_on,
    iter_children,
)

_LEFT_OUT = frozenset(
    {
        "w:del", "w:moveFrom", "w:pPr", "w:rPr", "w:tblPr", "w:tblGrid", "w:trPr", "w:tcPr", "w:sectPr", "w:sdtPr",
        "w:rt",
    }
)  # fmt: skip
"""Elements without visible text: deleted and moved text, ruby annotations, and properties."""


def is_left_out(element: Element, kind: str) -> bool:
    """Return whether an element is invisible: deleted or moved text, a deleted or hidden table row, or properties.

    ``kind`` is the tag of the element.
    """
    if kind == "w:tr":
        properties = find_child(element, "w:trPr")
        return find_child(properties, "w:del") is not None or is_switched_on(find_child(properties, "w:hidden"))
    if kind == "w:tc":
        return find_child(element, "w:tcPr", "w:cellDel") is not None
    return kind in _LEFT_OUT


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
        return iter(() if is_prompt(element) else iter_children(find_child(element, "w:sdtContent")))
    return iter(element)


def is_prompt(element: Element) -> bool:
    """Return whether a content control is empty, and shows only what to write there."""
    return is_switched_on(find_child(element, "w:sdtPr", "w:showingPlcHdr"))


def iter_table_parts(element: Element, tag: str) -> Iterator[Element]:
    """Yield the rows of a table or the cells of a row, including parts inside content controls and revision marks.

    The parts of nested tables are left out.

    Args:
        element: A table or a row.
        tag: Tag of the parts.
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
