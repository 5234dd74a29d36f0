"""Equations of RTF: their groups have the names of the elements of Office equations, so they become such elements."""

from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types

from app.ingestion.parsers.toolkit.ooxml import Element

_NAMESPACE = "http://schemas.openxmlformats.org/officeDocument/2006/math"
_TEXT, _RUN, _VALUE = f"{{{_NAMESPACE}}}t", f"{{{_NAMESPACE}}}r", f"{{{_NAMESPACE}}}val"
_PROPERTIES = "Pr"


def create_equation() -> Element:
    """Return an empty equation."""
    return etree.Element(f"{{{_NAMESPACE}}}oMath", nsmap={"m": _NAMESPACE})


def open_equation_part(parent: Element, word: str) -> Element:
    """Return a new part of an equation, or the parent if the control word is no part, such as a format.

    Args:
        parent: The part around it.
        word: First control word of the group, such as "mf" for a fraction.
    """
    if not word.startswith("m") or len(word) == 1 or not word.isascii():
        return parent
    return etree.SubElement(parent, f"{{{_NAMESPACE}}}{word[1:]}")


def add_equation_text(part: Element, text: str) -> None:
    """Add text to a part of an equation: characters of a run, or the value of a property."""
    parent = part.getparent()
    if parent is not None and str(parent.tag).endswith(_PROPERTIES):
        part.set(_VALUE, part.get(_VALUE, "") + text.strip())
        return
    text = "".join(character for character in text if character.isprintable())
    if part.tag == _RUN and len(part) and part[-1].tag == _TEXT:
        part[-1].text += text
    else:
        holder = part if part.tag == _RUN else etree.SubElement(part, _RUN)
        etree.SubElement(holder, _TEXT).text = text
