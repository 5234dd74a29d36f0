"""Reader of the elements that are read as a whole: images, formulas, form fields and media."""

from collections.abc import Callable

from selectolax.lexbor import LexborNode

from app.ingestion.parsers.formats.html.elements import INLINE, Attributes, get_role, get_tag, join_spaces
from app.ingestion.parsers.formats.html.inline_text import InlineText
from app.ingestion.parsers.formats.html.leaf_elements import (
    CHECKED,
    UNCHECKED,
    count_other_options,
    is_decoration,
    read_drawing,
    read_fallback,
    read_field,
    read_formula,
    read_icon,
    read_image_text,
    read_mark,
)
from app.ingestion.parsers.formats.html.page_state import PageState

_MEDIA_TAGS = frozenset({"iframe", "object", "embed", "video", "audio", "canvas", "applet"})


class LeafReader:
    """Reader of elements that are read as a whole. It adds their texts to the text of a block."""

    def __init__(self, page: PageState, text: InlineText, flush: Callable[[], None], *, is_cell: bool) -> None:
        self._page = page
        self._text = text
        self._flush = flush
        self._is_cell = is_cell

    def read(self, node: LexborNode, tag: str, attributes: Attributes) -> bool:
        """Read an element; return false if it is none of these elements."""
        reader = _READERS.get(tag)
        if reader is not None:
            reader(self, node, attributes)
        elif get_role(attributes) == "img":
            self._read_image(node, attributes)
        elif node.child is None:
            self._read_empty(tag, attributes)
        else:
            return False
        return True

    def _read_break(self, *_: object) -> None:
        self._text.add("\n")

    def _read_drawing(self, node: LexborNode, *_: object) -> None:
        self._text.add_apart(read_drawing(node))

    def _read_empty(self, tag: str, attributes: Attributes) -> None:
        """Read an element without content: its label, or the tick or cross of an icon in a cell."""
        label = read_icon(attributes) if tag in INLINE and tag != "a" else ""
        if not label and self._is_cell and tag in INLINE:
            label = read_mark(attributes)
        if tag == "a":
            self._text.open(0, "a", attributes.get("href") or "", label=read_icon(attributes))
            self._text.close(0)
        elif label:
            self._text.add_apart(label)
        elif tag not in INLINE:
            self._flush()

    def _read_image(self, node: LexborNode, attributes: Attributes) -> None:
        text = read_image_text(attributes)
        if text:
            self._text.add_apart(text)
        elif get_tag(node) == "img":
            self._page.images += not is_decoration(attributes)
        else:
            drawing = node.css_first("svg, img")
            self._page.images += drawing is not None

    def _read_math(self, node: LexborNode, attributes: Attributes) -> None:
        formula = read_formula(node)
        if attributes.get("display") == "block" and not self._is_cell and not self._text.is_plain:
            self._flush()
            self._text.add(formula)
            self._flush()
        else:
            self._text.add_gap()
            self._text.add(formula)
            self._text.add_gap()

    def read_script(self, node: LexborNode, attributes: Attributes) -> None:
        """Read a formula in TeX that a script of the page would show, unless it is shown already."""
        kind = (attributes.get("type") or "").lower()
        if not kind.startswith("math/tex"):
            return
        before = node.prev
        is_shown = (
            before is not None and before.tag == "span" and "mathjax" in (before.attributes.get("class") or "").lower()
        )
        if not is_shown or before is None or not before.text().strip():
            self._text.add(f"${join_spaces(node.text()).strip()}$")

    def _read_field(self, node: LexborNode, attributes: Attributes) -> None:
        tag = get_tag(node)
        value = read_field(node, tag, attributes)
        if tag == "select":
            self._page.words_left_out += count_other_options(node, value)
        if value in (CHECKED, UNCHECKED) and self._text.is_empty:
            self._text.add(f"{value} ")
        else:
            self._text.add_apart(value)
        if tag == "input" and not value and (attributes.get("type") or "") in ("submit", "button", "reset"):
            self._page.words_left_out += len((attributes.get("value") or "").split())

    def _read_media(self, node: LexborNode, attributes: Attributes) -> None:
        self._page.media += not is_decoration(attributes)
        text = read_fallback(node)
        if text:
            self._flush()
            self._text.add(text)
            self._flush()

    def _read_area(self, _: LexborNode, attributes: Attributes) -> None:
        text = read_image_text(attributes)
        if text:
            self._flush()
            self._text.open(0, "a", attributes.get("href") or "")
            self._text.add(text)
            self._text.close(0)
            self._flush()


_READERS: dict[str, Callable[[LeafReader, LexborNode, Attributes], None]] = {
    "br": LeafReader._read_break,
    "img": LeafReader._read_image,
    "svg": LeafReader._read_drawing,
    "math": LeafReader._read_math,
    "area": LeafReader._read_area,
    **dict.fromkeys(("input", "select", "textarea"), LeafReader._read_field),
    **dict.fromkeys(_MEDIA_TAGS, LeafReader._read_media),
}
