"""Texts of elements that are read as a whole: images, drawings, form fields, code and formulas."""

import re

from selectolax.lexbor import LexborNode

from app.ingestion.parsers.formats.html.elements import (
    INLINE,
    Attributes,
    get_classes,
    get_tag,
    join_spaces,
    list_children,
)
from app.ingestion.parsers.toolkit.mathml import MAX_ELEMENTS, MathElement, format_mathml

CHECKED, UNCHECKED = "☒", "☐"
_FILE_NAME = re.compile(r"[\w()%+.,~ -]{0,200}\.(?:png|jpe?g|gif|webp|svg|bmp|tiff?|avif|heic|ico)", re.IGNORECASE)
_CAMERA_NAME = re.compile(r"(?:img|dsc[nf]?|image|picture|photo|screenshot|pic|p)[ _-]?[\d _-]{0,40}", re.IGNORECASE)
_EMPTY_WORDS = frozenset(
    {
        "image", "img", "photo", "picture", "icon", "logo", "spacer", "bullet", "blank", "placeholder", "pixel",
        "thumbnail", "cover", "cover image", "banner", "graphic", "loading", "undefined", "null",
    }
)  # fmt: skip
_TICK_CLASS = re.compile(r"(?:^|[\s_-])(?:check|tick|ok|yes|checkmark|check-circle)(?:$|[\s_-])")
_CROSS_CLASS = re.compile(r"(?:^|[\s_-])(?:times|cross|xmark|close|no|remove|x-circle)(?:$|[\s_-])")
_CODE_GAP_CLASS = re.compile(r"\b(?:linenos?|lineno|line-?numbers?(?:-rows)?|gutter|ln-num|blob-num)\b")
_MAX_TRACKING_PIXELS = 2
_NO_SUPPORT = re.compile(r"\b(?:not|n't|without) support|upgrade your browser|flash player", re.IGNORECASE)


def read_image_text(attributes: Attributes) -> str:
    """Return the alternative text of an image, else its title; empty if it says nothing."""
    for name in ("alt", "aria-label", "title"):
        text = " ".join((attributes.get(name) or "").split())
        if text and not _is_empty_label(text):
            return text
    return ""


def _is_empty_label(text: str) -> bool:
    core = text.casefold().strip(".:[]() ")
    return (
        not any(map(str.isalnum, core))
        or core in _EMPTY_WORDS
        or _CAMERA_NAME.fullmatch(core) is not None
        or _FILE_NAME.fullmatch(core) is not None
    )


def is_decoration(attributes: Attributes) -> bool:
    """Return whether an image has no content: an empty alternative text, or the size of a tracking pixel."""
    if attributes.get("role") in ("presentation", "none") or attributes.get("aria-hidden") == "true":
        return True
    if "alt" in attributes and not (attributes["alt"] or "").strip():
        return True
    return any(_is_tiny(attributes.get(name)) for name in ("width", "height"))


def _is_tiny(size: str | None) -> bool:
    number = (size or "").strip().removesuffix("px")
    return number.isdecimal() and len(number) < 5 and int(number) <= _MAX_TRACKING_PIXELS


def read_drawing(node: LexborNode) -> str:
    """Return the texts of an SVG drawing: its label, title, description and the words in it; empty for an icon."""
    attributes = node.attributes
    if attributes.get("aria-hidden") == "true" and node.css_first("text") is None:
        return ""
    label = " ".join((attributes.get("aria-label") or "").split())
    texts = [label] if label else []
    for part in node.css("title, desc, text, foreignObject"):
        text = " ".join(part.text(separator=" ").split())
        if text and text not in texts[-1:] and not _is_empty_label(text):
            texts.append(text)
    return "; ".join(texts)


def read_icon(attributes: Attributes) -> str:
    """Return the label of an element without content, or the tick or cross that its class shows."""
    for name in ("aria-label", "title", "data-label"):
        text = " ".join((attributes.get(name) or "").split())
        if text:
            return text
    return ""


def read_mark(attributes: Attributes) -> str:
    """Return the tick or cross that the class of an icon shows; an empty string if it shows neither."""
    classes = get_classes(attributes)
    if _TICK_CLASS.search(classes):
        return "✓"
    return "✗" if _CROSS_CLASS.search(classes) else ""


def read_field(node: LexborNode, tag: str, attributes: Attributes) -> str:
    """Return the value that a form field shows: the text, the selected option, or ☒ or ☐."""
    if tag == "textarea":
        return node.text().strip()
    if tag == "select":
        return _read_selection(node, attributes)
    kind = (attributes.get("type") or "text").strip().lower()
    if kind in ("checkbox", "radio"):
        return CHECKED if "checked" in attributes else UNCHECKED
    if kind in ("hidden", "password", "file", "submit", "button", "reset", "image", "color"):
        return ""
    return " ".join((attributes.get("value") or "").split())


def _read_selection(node: LexborNode, attributes: Attributes) -> str:
    options = node.css("option")
    selected = [option for option in options if "selected" in option.attributes]
    if not selected and options and "multiple" not in attributes:
        selected = options[:1]
    texts = (" ".join((option.text() or option.attributes.get("label") or "").split()) for option in selected)
    return "; ".join(text for text in texts if text)


def count_other_options(node: LexborNode, shown: str) -> int:
    """Return the number of words in the options of a list that are not selected."""
    words = sum(len(option.text().split()) for option in node.css("option"))
    return max(words - len(shown.replace("; ", " ").split()), 0)


def read_code(node: LexborNode) -> str:
    """Return preformatted text. ``br`` and block elements end lines, and columns of line numbers are left out."""
    parts: list[str] = []
    stack = [(child, False) for child in reversed(list_children(node))]
    while stack:
        child, is_leaving = stack.pop()
        tag = get_tag(child)
        if tag == "-text":
            parts.append(child.text_content or "")
        elif tag == "br":
            parts.append("\n")
        elif is_leaving:
            if parts and not parts[-1].endswith("\n"):
                parts.append("\n")
        elif not tag.startswith(("-", "!")) and not _CODE_GAP_CLASS.search(get_classes(child.attributes)):
            if tag not in INLINE:
                if parts and not parts[-1].endswith("\n"):
                    parts.append("\n")
                stack.append((child, True))
            stack.extend((inner, False) for inner in reversed(list_children(child)))
    return "".join(parts)


def read_formula(node: LexborNode) -> str:
    """Return a ``math`` element as linear text. Without content, its alternative text is the result."""
    root = MathElement("math")
    waiting = [(node, root)]
    count = 0
    while waiting and count < MAX_ELEMENTS:
        source, target = waiting.pop()
        for child in list_children(source):
            count += 1
            tag = get_tag(child)
            if tag == "-text":
                target.children.append(child.text_content or "")
            elif not tag.startswith(("-", "!")):
                inner = MathElement(tag.lower(), child.attributes)
                target.children.append(inner)
                waiting.append((child, inner))
    return format_mathml(root) or " ".join((node.attributes.get("alttext") or "").split())


def read_fallback(node: LexborNode) -> str:
    """Return the text that an embedded object shows if it cannot be played, unless it only says so."""
    attributes = node.attributes
    label = " ".join((attributes.get("title") or attributes.get("aria-label") or "").split())
    text = "" if get_tag(node) == "iframe" else join_spaces(node.text(separator=" ")).strip()
    if _NO_SUPPORT.search(text[:300]) and len(text) < 300:
        text = ""
    return " ".join(part for part in (label, text) if part)
