"""Gaps between adjacent inline elements that only a style sheet separates, such as a label and its value."""

from selectolax.lexbor import LexborNode

from app.ingestion.parsers.formats.html.elements import INLINE, get_tag, is_flexible, list_children

SIBLING_TAGS = frozenset({"span", "a", "strong", "b", "em", "i", "small", "label", "time", "data", "button"})

MIN_WORD_LETTERS = 3
"""Minimum length of a word that is separated from a number next to it, so that formulas such as H2O stay whole."""


class SiblingGaps:
    """Rule for adjacent elements. It remembers the last parent, so that the time stays linear."""

    def __init__(self) -> None:
        self._last_parent = (0, False)

    def is_glued(self, node: LexborNode, tag: str, last: str) -> bool:
        """Return whether an element follows another one without a space, in a block that has no other text.

        Such elements are label and value, or buttons in a row: a style sheet separates them.

        Args:
            node: The element.
            tag: Its name.
            last: Last character of the text before it.
        """
        before, parent = node.prev, node.parent
        if before is None or parent is None or get_tag(before) not in SIBLING_TAGS:
            return False
        text = node.text()[:3].lstrip()
        if not last.isalnum() or not text[:1].isalnum():
            return False
        if is_flexible(parent.attributes) or "label" in (tag, before.tag) or (tag == "a" and before.tag == "a"):
            return True
        if self._last_parent[0] != parent.mem_id:
            is_block = parent.tag not in INLINE and all(
                child.tag != "-text" or not (child.text_content or "").strip() for child in list_children(parent)
            )
            self._last_parent = (parent.mem_id, is_block)
        if not self._last_parent[1]:
            return False
        before_text, after_text = before.text().strip(), node.text().strip()
        if text[0].isdigit() != last.isdigit():
            return len(before_text if text[0].isdigit() else after_text) >= MIN_WORD_LETTERS
        return text[0].isupper() and min(len(before_text), len(after_text)) > 1
