"""Characters of HTML that a reader can see, with their positions, in the order of the file.

The scanner follows the tokenizer of the HTML standard (section 13.2.5) as far as it decides what is text. It does not
build a tree. ``PagePositions`` compares its result with the tree of the parser.
"""

import re
from html import unescape

from app.ingestion.parsers.toolkit.source_alignment import SourceText

UNREAD_TAGS = frozenset({"script", "style"})
"""Elements whose text is no text of the page."""

_REFERENCE = re.compile(r"&(?:#[0-9]{1,20};?|#[xX][0-9a-fA-F]{1,20};?|[A-Za-z][A-Za-z0-9]{1,40};?)")
# Possessive quantifiers keep the time linear. A quote that does not end fails at most once for each kind of quote.
_TAG = re.compile(
    r"<(/?)([A-Za-z][^\s/>]*+)(?:[^>=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s>\"'][^\s>]*+)?+)*+>",
)
_COMMENT_END = re.compile(r"--!?>")
_RAW_TAGS = frozenset({"script", "style", "xmp", "iframe", "noembed", "noframes"})
_ESCAPABLE_TAGS = frozenset({"title", "textarea"})
_RAW_ENDS = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in sorted(_RAW_TAGS | _ESCAPABLE_TAGS)}


def scan_markup(markup: str, *, is_xml: bool = False) -> SourceText:
    """Return the text of HTML with its positions. The time is linear.

    Args:
        markup: The HTML.
        is_xml: Whether empty elements end themselves, as in XHTML.
    """
    return _MarkupScanner(markup, is_xml=is_xml).scan()


class _MarkupScanner:
    def __init__(self, markup: str, *, is_xml: bool) -> None:
        self._markup = markup
        self._is_xml = is_xml
        self._source = SourceText(markup, "")
        self._parts: list[str] = []
        self._length = 0

    def scan(self) -> SourceText:
        """Scan the markup."""
        position, end = 0, len(self._markup)
        while position < end:
            opening = self._markup.find("<", position)
            opening = end if opening < 0 else opening
            self._add_text(position, opening)
            position = end if opening == end else self._skip_markup(opening)
        self._source.text = "".join(self._parts)
        return self._source

    def _add_text(self, start: int, end: int) -> None:
        """Add a text with its character references."""
        for reference in _REFERENCE.finditer(self._markup, start, end):
            character = unescape(reference[0])
            if character != reference[0]:
                self._add_run(self._markup[start : reference.start()], start, reference.start())
                self._add_run(character, *reference.span(), is_linear=False)
                start = reference.end()
        self._add_run(self._markup[start:end], start, end)

    def _add_run(self, text: str, start: int, end: int, *, is_linear: bool = True) -> None:
        if text:
            self._source.add_run(self._length, start, end, is_linear=is_linear)
            self._parts.append(text)
            self._length += len(text)

    def _skip_markup(self, opening: int) -> int:
        """Skip a tag or a comment, and return the offset behind it."""
        markup, second = self._markup, self._markup[opening + 1 : opening + 2]
        if markup.startswith("<!--", opening):
            return self._skip_comment(opening)
        if (second and second in "!?") or (second == "/" and not markup[opening + 2 : opening + 3].isalpha()):
            end = markup.find(">", opening)
            return len(markup) if end < 0 else end + 1
        if second != "/" and not (second.isascii() and second.isalpha()):
            self._add_run("<", opening, opening + 1)
            return opening + 1
        tag = _TAG.match(markup, opening)
        if tag is None:
            return len(markup)
        name = tag[2].lower()
        if tag[1] or (self._is_xml and tag[0].endswith("/>")):
            return tag.end()
        return self._read_raw(name, tag.end()) if name in _RAW_ENDS or name == "plaintext" else tag.end()

    def _skip_comment(self, opening: int) -> int:
        for empty in ("<!-->", "<!--->"):
            if self._markup.startswith(empty, opening):
                return opening + len(empty)
        end = _COMMENT_END.search(self._markup, opening + len("<!--"))
        return len(self._markup) if end is None else end.end()

    def _read_raw(self, name: str, start: int) -> int:
        """Read the text of an element in which tags are no markup, and return its end."""
        ending = None if name == "plaintext" else _RAW_ENDS[name].search(self._markup, start)
        end = len(self._markup) if ending is None else ending.start()
        if name in _ESCAPABLE_TAGS:
            self._add_text(start, end)
        elif name not in UNREAD_TAGS:
            self._add_run(self._markup[start:end], start, end)
        return end
