"""Rules of the Markdown parser inside of a block: marks of notes, formulas, check boxes and embedded HTML."""

import re

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from app.ingestion.parsers.formats.html.elements import HEADINGS, INLINE
from app.ingestion.parsers.formats.html.leaf_elements import CHECKED, UNCHECKED

_NOTE_MARK = re.compile(r"\[\^([^\]\[\s]{1,100})\](?!:)")
_TASK = re.compile(r"\[([ xX])\][^\S\n]+(?=\S)")
_CALLOUT = re.compile(r"\[!([A-Za-z]{2,20})\][+-]?[^\S\n]*")
_HEADING_ATTRIBUTES = re.compile(r"[^\S\n]*\{[#.:][^{}\n]{0,200}\}$")
_DEFINITION = re.compile(r"\n:[^\S\n]+")
_TAG = re.compile(r"<(/?)([A-Za-z][\w:-]*)(\s[^>]*)?/?>")
# An HTML parser takes everything after one of these tags as its text, so that a tag without its end hides the rest.
_RAW_TEXT_TAGS = ("title", "textarea", "style", "script", "iframe", "xmp", "noembed", "noframes", "plaintext", "select",
                  "template", "noscript")  # fmt: skip
_RAW_TEXT = re.compile(rf"<({'|'.join(_RAW_TEXT_TAGS)})(?=[\s>/])", re.IGNORECASE)
_HTML_TAGS = INLINE | frozenset(HEADINGS) | frozenset(
    {
        "address", "area", "article", "aside", "audio", "blockquote", "body", "br", "canvas", "caption", "center",
        "col", "colgroup", "dd", "details", "dialog", "dir", "div", "dl", "dt", "embed", "fieldset", "figcaption",
        "figure", "footer", "form", "header", "hgroup", "hr", "html", "legend", "li", "main", "map", "math", "menu",
        "nav", "object", "ol", "optgroup", "option", "p", "pre", "search", "section", "strike", "summary", "svg",
        "table", "tbody", "td", "tfoot", "th", "thead", "tr", "track", "ul", "video", "rp",
    }
)  # fmt: skip


def add_inline_rules(parser: MarkdownIt) -> None:
    """Add the rules to a parser.

    Args:
        parser: Parser of Markdown.
    """
    parser.inline.ruler.before("escape", "formula", _read_formula)
    parser.inline.ruler.before("link", "note_mark", _read_note_mark)
    parser.core.ruler.before("inline", "markers", _replace_markers)
    parser.core.ruler.after("inline", "embedded_markup", _check_markup)


def _read_formula(state: StateInline, silent: bool) -> bool:
    """Read a formula between dollar signs as it is written. A sign before a number is a price, not a formula."""
    if state.src[state.pos] != "$":
        return False
    sign = "$$" if state.src.startswith("$$", state.pos) else "$"
    start = state.pos + len(sign)
    end = state.src.find(sign, start)
    if end <= start or end > state.posMax:
        return False
    content, after = state.src[start:end], state.src[end + len(sign) : end + len(sign) + 1]
    if sign == "$" and (content[0].isspace() or content[-1].isspace() or content[-1] == "\\" or after.isdigit()):
        return False
    if not silent:
        state.push("text", "", 0).content = f"{sign}{content}{sign}"
    state.pos = end + len(sign)
    return True


def _read_note_mark(state: StateInline, silent: bool) -> bool:
    """Read the mark of a note, such as ``[^1]``."""
    match = _NOTE_MARK.match(state.src, state.pos) if state.src.startswith("[^", state.pos) else None
    if match is None:
        return False
    if not silent:
        label = match[1] if match[1].isdecimal() else f"[{match[1]}]"
        state.push("html_inline", "", 0).content = f'<sup class="footnote-ref">{_escape(label)}</sup>'
    state.pos = match.end()
    return True


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _replace_markers(state: StateCore) -> None:
    """Replace the markers at the start of items and quotes, definitions, and the attributes of headings."""
    openings = ["", ""]
    for token in state.tokens:
        if token.type != "inline":
            openings = [openings[1], token.type]
            continue
        if openings[1] == "heading_open":
            token.content = _HEADING_ATTRIBUTES.sub("", token.content)
        elif openings == ["list_item_open", "paragraph_open"]:
            token.content = (
                _TASK.sub(lambda match: f"{CHECKED if match[1] in 'xX' else UNCHECKED} ", token.content, count=1)
                if _TASK.match(token.content)
                else token.content
            )
        elif openings == ["blockquote_open", "paragraph_open"] and (match := _CALLOUT.match(token.content)):
            token.content = f"{match[1].capitalize()}: {token.content[match.end() :].lstrip()}"
        if openings[1] == "paragraph_open" and "\n:" in token.content:
            first, *others = _DEFINITION.split(token.content)
            token.content = f"{first}: {'; '.join(others)}" if others else first


def _check_markup(state: StateCore) -> None:
    """Replace embedded tags by their text if they are no HTML, such as ``<user>``, or would hide the rest."""
    for token in state.tokens:
        if token.type == "html_block":
            token.content = _escape_open_tags(token.content)
        elif token.children:
            _check_inline_markup(token.children)


def _escape_open_tags(markup: str) -> str:
    for tag in {match[1].lower() for match in _RAW_TEXT.finditer(markup)}:
        lower = markup.lower()
        if lower.rfind(f"</{tag}") < lower.rfind(f"<{tag}"):
            markup = _RAW_TEXT.sub(lambda match: f"&lt;{match[1]}", markup)
    return markup


def _check_inline_markup(children: list[Token]) -> None:
    tags = [_TAG.match(child.content) if child.type == "html_inline" else None for child in children]
    closed = {match[2].lower() for match in tags if match is not None and match[1]}
    opened = {match[2].lower() for match in tags if match is not None and not match[1]}
    for child, match in zip(children, tags, strict=True):
        if child.type == "image" and not child.content:
            # An empty label means no alternative text, not a decoration as in HTML.
            child.type, child.content = "html_inline", "<img>"
        if match is None:
            continue
        name = match[2].lower()
        is_pair = name in opened and name in closed
        is_markup = name in _HTML_TAGS or is_pair or (match[3] or "").strip()
        if name in _RAW_TEXT_TAGS and not is_pair:
            is_markup = False
        if not is_markup:
            child.type = "text"
