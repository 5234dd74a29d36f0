"""Rules for the parts of a page that are read, and the parts that are left out and counted."""

import re
from enum import Enum

from selectolax.lexbor import LexborNode

from app.ingestion.parsers.formats.html.elements import (
    HEADINGS,
    INLINE,
    Attributes,
    count_link_words,
    count_words,
    get_classes,
    get_epub_types,
    get_role,
    get_tag,
    is_cell,
    is_row,
    is_struck,
)
from app.ingestion.parsers.formats.html.page_state import PageState

MIN_PANEL_WORDS = 4
"""Minimum number of words of a hidden element that is read although nothing on the page opens it."""

TEMPLATE_TAG = "x-template"
"""Name that the parser gives to ``template`` elements, whose content the library does not show."""

_IGNORED = frozenset(
    {
        "script", "style", "head", "link", "meta", "base", "title", "rp", "param", "source", "track", "colgroup", "col",
        "noembed", "frame",
    }
)  # fmt: skip
# A header or a footer inside one of these elements belongs to that element, not to the page.
_CONTENT_TAGS = frozenset({"article", "main", "section", "blockquote", "details", "fieldset", "figure"})
_CONTENT_ROLES = frozenset({"main", "article"})
_NAVIGATION_ROLES = frozenset({"navigation", "menu", "menubar", "toolbar", "search"})
_DIALOG_ROLES = frozenset({"dialog", "alertdialog"})
_STATUS_ROLES = frozenset({"alert", "status", "progressbar", "log", "timer"})
_PAGE_BREAKS = frozenset({"pagebreak", "backlink"})
_BOOK_NAVIGATION = frozenset({"toc", "landmarks", "page-list", "pagelist"})
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)", re.IGNORECASE)
# A style that hides the preview text of a mail by more than one property. No reader can open such an element.
_PREVIEW_STYLE = re.compile(
    r"mso-hide\s*:\s*all|font-size\s*:\s*[01](?:px|pt)?\s*(?:;|!|$)|opacity\s*:\s*0\s*(?:;|!|$)|color\s*:\s*transparent",
    re.IGNORECASE,
)
_CONSENT = re.compile(
    r"\b(?:cookies?|consent|gdpr)[-_]*(?:banner|bar|notice|popup|consent|modal|overlay|law|message|wall|dialog|policy-bar)"
    r"|\bonetrust|\bcybot|\bcc-window|\bcookieconsent|\btruste[-_]"
)
_PANEL_CLASS = re.compile(
    r"\b(?:tab-?pane|tab-?panel|tab-?content|panel|accordion|collaps\w*|expand\w*|answer|faq|details|toggle-?content"
    r"|spoiler|more)\b|panel|accordion|answer|faq"
)
_ICON_CLASS = re.compile(r"\b(?:icon|icons|material-\w+|fa|fas|far|fab|glyphicon|octicon|mdi|bi)\b|[-_]icon\b")
_LINE_NUMBER_CLASS = re.compile(r"\b(?:linenos?|lineno|line-?numbers?(?:-rows)?|gutter|blob-num|ln-num)\b")
_FORMULA_COPY_CLASS = re.compile(r"\bkatex-html\b|\bmathjax_preview\b|\bmwe-math-fallback-image|\bmjx-math\b")
_NO_SCRIPT_NOTICE = re.compile(r"java\s?script|enable|browser|tag ?manager", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\{\{|\$\{|\{%|<%|\[\[")


_RULE_ATTRIBUTES = frozenset(
    {"style", "hidden", "role", "aria-hidden", "aria-modal", "popover", "epub:type", "shadowrootmode", "aria-live"}
)
"""Attributes that a rule depends on, in addition to the class."""

_CLASS_HINT = re.compile(
    r"katex|mathjax|mwe-math|mjx|line|gutter|blob|ln-num|cookie|consent|gdpr|onetrust|cybot|cc-window|truste"
)


class Decision(Enum):
    """Treatment of an element: read it, ignore it, count its words, or read it unless it is a copy."""

    READ = "read"
    IGNORE = "ignore"
    LEAVE_OUT = "leave out"
    READ_PANEL = "read panel"


class Visibility:
    """Rules for one page, with the elements around the present one.

    A rule that measures an element is not applied to elements inside of it, so that the time stays linear.
    """

    def __init__(self, page: PageState) -> None:
        self._page = page
        self._content_depth = 0
        self._measured: list[tuple[int, str]] = []

    def enter(self, tag: str, attributes: Attributes) -> None:
        """Record the start of an element that is read."""
        if tag in _CONTENT_TAGS or ("role" in attributes and get_role(attributes) in _CONTENT_ROLES):
            self._content_depth += 1

    def leave(self, node: LexborNode, tag: str, attributes: Attributes) -> None:
        """Record the end of an element that is read."""
        if tag in _CONTENT_TAGS or ("role" in attributes and get_role(attributes) in _CONTENT_ROLES):
            self._content_depth -= 1
        if self._measured and self._measured[-1][0] == node.mem_id:
            self._measured.pop()

    def decide(self, node: LexborNode, tag: str, attributes: Attributes) -> Decision:
        """Decide what to do with an element.

        Args:
            node: The element.
            tag: Its name.
            attributes: Its attributes.
        """
        if tag in _IGNORED or (tag == "default" and _is_formula_copy(node)):
            return Decision.IGNORE
        if tag not in _SPECIAL_TAGS and attributes.keys().isdisjoint(_RULE_ATTRIBUTES):
            # Most elements end here: only their class may matter.
            classes = get_classes(attributes)
            if classes == " " or not _CLASS_HINT.search(classes):
                return Decision.READ
        return self._apply_rules(node, tag, attributes)

    def _apply_rules(self, node: LexborNode, tag: str, attributes: Attributes) -> Decision:
        if is_struck(tag, attributes):
            return Decision.LEAVE_OUT
        classes = get_classes(attributes)
        if classes != " " and self._is_copy(node, classes):
            return Decision.IGNORE
        if tag == "button" or (tag not in INLINE and get_role(attributes) == "button"):
            return Decision.READ if tag != "button" or _is_content_button(node, attributes) else Decision.LEAVE_OUT
        if _is_dialog(tag, attributes, classes) and (tag == "dialog" or not self._page.reads_boilerplate):
            return Decision.LEAVE_OUT
        if get_epub_types(attributes) & _PAGE_BREAKS:
            return Decision.IGNORE
        decision = self._decide_hidden(node, tag, attributes, classes)
        if decision is Decision.READ and not self._page.reads_boilerplate:
            return self._decide_frame(node, tag, attributes, classes)
        if tag == "nav" and get_epub_types(attributes) & _BOOK_NAVIGATION:
            return Decision.LEAVE_OUT
        return decision

    def _is_copy(self, node: LexborNode, classes: str) -> bool:
        """Return whether an element repeats a formula or numbers the lines of code."""
        if _FORMULA_COPY_CLASS.search(classes):
            return not node.text().strip() or any(_contains_formula(sibling) for sibling in (node.prev, node.next))
        return _LINE_NUMBER_CLASS.search(classes) is not None and not any(map(str.isalpha, node.text()))

    def _add_measured(self, node: LexborNode, kind: str, decision: Decision = Decision.READ) -> Decision:
        self._measured.append((node.mem_id, kind))
        return decision

    def _is_inside(self, kind: str) -> bool:
        return any(kind == measured for _, measured in self._measured)

    def _decide_hidden(self, node: LexborNode, tag: str, attributes: Attributes, classes: str) -> Decision:
        hidden = attributes.get("hidden", "-") or ""
        style = attributes.get("style") or ""
        is_inert = tag in (TEMPLATE_TAG, "noscript") and "shadowrootmode" not in attributes
        is_hidden = (hidden != "-" and hidden.lower() != "until-found") or bool(_HIDDEN_STYLE.search(style)) or is_inert
        is_hidden = is_hidden or "popover" in attributes
        if not is_hidden:
            return self._decide_aria_hidden(node, tag, attributes, classes)
        if self._is_inside("hidden") or node.css_first("math") is not None:
            return Decision.READ
        if not self._is_panel(node, tag, attributes, classes):
            return Decision.LEAVE_OUT
        return self._add_measured(node, "hidden", Decision.READ if tag in INLINE else Decision.READ_PANEL)

    def _is_panel(self, node: LexborNode, tag: str, attributes: Attributes, classes: str) -> bool:
        """Return whether a reader can open a hidden element, or it is a text: not a menu, a status or a template."""
        role, words = get_role(attributes), count_words(node)
        if role in _STATUS_ROLES or "aria-live" in attributes or _CONSENT.search(classes):
            return False
        if _PREVIEW_STYLE.search(attributes.get("style") or ""):
            return False
        if tag == "noscript":
            is_notice = words < 40 and _NO_SCRIPT_NOTICE.search(node.text()) is not None
            return not is_notice and (words >= MIN_PANEL_WORDS or node.css_first("img[alt]") is not None)
        if tag == TEMPLATE_TAG:
            return words >= MIN_PANEL_WORDS and _PLACEHOLDER.search(node.text()) is None
        if not self._content_depth and self._is_link_list(node, words):
            return False
        if tag in INLINE:
            return words >= MIN_PANEL_WORDS
        if is_cell(tag, attributes) or is_row(tag, attributes) or role in ("tabpanel", "tooltip"):
            return True
        if words >= MIN_PANEL_WORDS or not words or (attributes.get("id") or "") in self._page.opened_ids:
            return True
        return _PANEL_CLASS.search(classes) is not None or _has_label_before(node)

    def _is_link_list(self, node: LexborNode, words: int) -> bool:
        return words > 0 and len(node.css("a")) > 2 and count_link_words(node) > 0.6 * words

    def _decide_aria_hidden(self, node: LexborNode, tag: str, attributes: Attributes, classes: str) -> Decision:
        """Decide about an element that screen readers skip. Most readers see it, unless it is an icon or a copy."""
        if attributes.get("aria-hidden") != "true" or tag in ("img", "svg") or self._is_inside("aria-hidden"):
            return Decision.READ
        if tag != "math" and any(_has_formula(sibling) for sibling in (node.prev, node.next)):
            return Decision.IGNORE
        text = node.text()
        is_empty = not any(map(str.isalnum, text)) and node.css_first("img, svg, math, table") is None
        if is_empty or (_ICON_CLASS.search(classes) and len(text.split()) < MIN_PANEL_WORDS):
            return Decision.IGNORE
        if tag in INLINE or self._page.reads_boilerplate:
            return self._add_measured(node, "aria-hidden")
        if not self._content_depth and self._is_link_list(node, count_words(node)):
            return Decision.LEAVE_OUT
        return self._add_measured(node, "aria-hidden", Decision.READ_PANEL)

    def _decide_frame(self, node: LexborNode, tag: str, attributes: Attributes, classes: str) -> Decision:
        """Decide about navigation, page header, page footer and asides."""
        role = get_role(attributes)
        if not self._content_depth and tag not in INLINE and classes != " " and _CONSENT.search(classes):
            return Decision.LEAVE_OUT
        if tag == "nav" or role in _NAVIGATION_ROLES or tag == "search":
            return self._decide_navigation(node)
        if tag == "aside" or role == "complementary":
            return self._decide_aside(node)
        if self._content_depth:
            return Decision.READ
        if tag == "header" or role == "banner":
            return self._decide_header(node)
        if tag == "footer" or role == "contentinfo":
            has_notes = node.css_first("[role=doc-endnotes], [role=doc-footnote], .footnotes, .footnote") is not None
            return Decision.READ if has_notes else Decision.LEAVE_OUT
        return Decision.READ

    def _decide_navigation(self, node: LexborNode) -> Decision:
        if self._is_inside("navigation"):
            return Decision.READ
        words = count_words(node)
        if words >= 2 * MIN_PANEL_WORDS and count_link_words(node) < 0.5 * words and node.css_first("form") is None:
            return self._add_measured(node, "navigation")
        return Decision.LEAVE_OUT

    def _decide_aside(self, node: LexborNode) -> Decision:
        if self._content_depth or self._is_inside("aside"):
            return Decision.READ
        if self._page.has_main:
            return Decision.LEAVE_OUT
        words = count_words(node)
        is_prose = words >= MIN_PANEL_WORDS and count_link_words(node) < 0.5 * words
        return self._add_measured(node, "aside") if is_prose else Decision.LEAVE_OUT

    def _decide_header(self, node: LexborNode) -> Decision:
        """Decide about a page header. It is content if it has the main heading and at least three other words."""
        headline = node.css_first("h1")
        if headline is None or self._is_inside("header"):
            return Decision.READ if headline is not None else Decision.LEAVE_OUT
        plain_words = count_words(node) - count_link_words(node) - count_words(headline)
        plain_words -= sum(count_words(part) for part in node.css("nav, form, button") if part.css_first("a") is None)
        return self._add_measured(node, "header") if plain_words > 2 else Decision.LEAVE_OUT


_SPECIAL_TAGS = frozenset(
    {"del", "s", "strike", "button", "dialog", "nav", "aside", "header", "footer", "search", TEMPLATE_TAG, "noscript"}
)


def _is_dialog(tag: str, attributes: Attributes, classes: str) -> bool:
    """Return whether an element is a dialog that is not a part of the page, such as a question about cookies."""
    if tag == "dialog" and "open" in attributes and not _CONSENT.search(classes):
        return False
    return tag == "dialog" or get_role(attributes) in _DIALOG_ROLES or attributes.get("aria-modal") == "true"


def _is_content_button(node: LexborNode, attributes: Attributes) -> bool:
    """Return whether a button names something that it opens, or is a heading. Other buttons are controls."""
    text = node.text(separator=" ").strip()
    if not any(map(str.isalnum, text)):
        return False
    if any(name in attributes for name in ("aria-expanded", "aria-controls", "data-target", "data-bs-target")):
        return node.parent is not None and get_tag(node.parent) != "nav"
    if get_role(attributes) == "tab" or _PANEL_CLASS.search(get_classes(attributes)):
        return True
    parent = node.parent
    for _ in range(3):
        if parent is None:
            break
        if get_tag(parent) in HEADINGS or get_tag(parent) in ("summary", "dt", "th", "td", "legend"):
            return True
        parent = parent.parent
    return text.endswith(("?", "？", "؟")) or len(text.split()) > MIN_PANEL_WORDS


def _is_formula_copy(node: LexborNode) -> bool:
    """Return whether an e-book shows an element only if its reader cannot show the formula before it."""
    case = node.prev
    for _ in range(3):
        if case is None:
            return False
        if get_tag(case) == "case":
            return "Math/MathML" in (case.attributes.get("required-namespace") or "")
        case = case.prev
    return False


def _contains_formula(node: LexborNode | None) -> bool:
    """Return whether an element is or contains a formula, or a script that shows one."""
    if node is None or not node.tag or node.tag.startswith(("-", "!")):
        return False
    return node.tag in ("math", "script") or node.css_first("math, script") is not None


def _has_formula(node: LexborNode | None) -> bool:
    """Return whether an element is a formula for screen readers, next to its drawing."""
    if node is None or not node.tag or node.tag.startswith(("-", "!")):
        return False
    classes = get_classes(node.attributes)
    return node.tag in ("math", "mjx-assistive-mml") or "mathml" in classes or "assistive" in classes


def _has_label_before(node: LexborNode) -> bool:
    """Return whether the element before is a heading, a button, a term or a summary."""
    before = node.prev
    for _ in range(3):
        if before is None:
            return False
        tag = get_tag(before)
        if not tag.startswith(("-", "!")):
            role = get_role(before.attributes)
            return (
                tag in HEADINGS or tag in ("button", "summary", "dt", "label") or role in ("button", "heading", "tab")
            )
        before = before.prev
    return False
