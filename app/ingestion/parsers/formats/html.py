"""Parser of HTML: headings, paragraphs, list items, tables and code of a page, without its boilerplate."""

import re
from collections.abc import Iterator
from pathlib import Path

from selectolax.lexbor import LexborHTMLParser, LexborNode

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.character_decoding import decode_text
from app.ingestion.parsers.toolkit.tables import format_markdown_table
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import BlockKind, ParsedDocument

_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_MAX_META_OFFSET = 4096
# A page that declares one of these encodings uses its superset (WHATWG Encoding Standard, "names and labels").
_SUPERSETS = {
    "iso-8859-1": "cp1252", "latin1": "cp1252", "ascii": "cp1252", "us-ascii": "cp1252", "iso-8859-9": "cp1254",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "x-sjis": "cp932", "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949", "utf-16": "utf-8", "utf-16le": "utf-8", "utf-16be": "utf-8", "x-user-defined": "cp1252",
}  # fmt: skip

_SKIPPED_TAGS = frozenset(
    {
        "script", "style", "template", "noscript", "svg", "math", "iframe", "object", "embed", "canvas", "audio",
        "video", "head", "select", "button", "textarea", "input", "datalist", "dialog", "map", "area",
    }
)  # fmt: skip
_EMPTY_ELEMENT = re.compile(
    r"<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr)\b)([a-z][\w:-]*+)([^<>]*?)/>",
    re.IGNORECASE,
)
_BOILERPLATE = frozenset({"nav", "aside"})
_PAGE_FRAME = frozenset({"header", "footer"})
_BOILERPLATE_ROLES = frozenset({"navigation", "banner", "contentinfo", "complementary", "search", "menu", "dialog"})
_CONTENT = frozenset({"article", "main", "section"})
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_INLINE = frozenset(
    {
        "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i",
        "ins", "kbd", "label", "mark", "q", "ruby", "rb", "rt", "rp", "s", "samp", "small", "span", "strike", "strong",
        "sub", "sup", "time", "tt", "u", "var", "wbr", "img", "picture", "source",
    }
)  # fmt: skip
_CELLS = ("td", "th")
# A table that contains one of these elements arranges the page: its cells are read as ordinary content.
_LAYOUT_CONTENT = "table, h1, h2, h3, h4, ul, ol, pre, p + p, form"
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)


def close_empty_elements(markup: str) -> str:
    """Replace the empty elements of XHTML by a start tag and an end tag.

    An HTML parser takes ``<title/>`` as a start tag, and the rest of the page as the title.
    """
    return _EMPTY_ELEMENT.sub(r"<\1\2></\1>", markup)


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse an HTML or XHTML page.

    Navigation, page header, page footer and asides are left out, unless the page has no other text. Hidden elements are
    always left out.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The blocks of the page. The title comes from the page's ``<title>``, else from the first heading of level 1.

    Raises:
        TextTooLong: The page has more characters or nodes than the limits allow.
    """
    data = path.read_bytes()
    decoded = decode_text(data, encoding=options.encoding, declared_encoding=_find_declared_encoding(data))
    is_xml = decoded.text.lstrip().startswith("<?xml")
    tree = LexborHTMLParser(close_empty_elements(decoded.text) if is_xml else decoded.text)
    title_node = tree.css_first("head title")
    title = clean_line(title_node.text()) if title_node is not None else ""
    blocks = BlockList(options)
    for boilerplate in (_BOILERPLATE, frozenset[str]()):
        if tree.body is not None and not blocks.blocks:
            _HtmlReader(blocks, boilerplate).read_tree(tree.body)
    return ParsedDocument(blocks.blocks, title=title or blocks.find_first_heading(level=1), warnings=decoded.warnings)


def add_fragment(markup: str, blocks: BlockList) -> None:
    """Add the blocks of HTML that is embedded in a file of another format. Raises TextTooLong."""
    body = LexborHTMLParser(markup).body
    if body is not None:
        _HtmlReader(blocks, frozenset()).read_tree(body)


def _find_declared_encoding(data: bytes) -> str | None:
    match = _META_CHARSET.search(data[:_MAX_META_OFFSET])
    if match is None:
        return None
    name = match[1].decode("ascii", "replace").lower()
    return _SUPERSETS.get(name, name)


def _list_children(node: LexborNode) -> list[LexborNode]:
    children = []
    child = node.child
    while child is not None:
        children.append(child)
        child = child.next
    return children


class _HtmlReader:
    """Reader of an HTML tree.

    It uses a stack instead of recursion, because elements may be nested deeper than Python can recurse.
    """

    def __init__(self, blocks: BlockList, boilerplate: frozenset[str]) -> None:
        self._blocks = blocks
        self._boilerplate = boilerplate
        self._text: list[str] = []
        self._kind, self._level = BlockKind.PARAGRAPH, 0
        self._marker = ""
        self._lists: list[int | None] = []
        self._content_depth = 0

    def read_tree(self, root: LexborNode) -> None:
        stack = [(root, False)]
        while stack:
            node, is_leaving = stack.pop()
            tag = node.tag or ""
            if is_leaving:
                self._leave(tag)
            elif tag == "-text":
                # Line breaks in the source are spaces. Only <br> adds line breaks, which this replacement does not see.
                self._text.append(re.sub(r"\s+", " ", node.text_content or ""))
            elif tag.startswith(("-", "!")) or self._is_skipped(node, tag):
                continue
            elif not self._enter_leaf(node, tag):
                self._enter(node, tag)
                stack.append((node, True))
                stack.extend((child, False) for child in reversed(_list_children(node)))
        self._flush()

    def _is_skipped(self, node: LexborNode, tag: str) -> bool:
        if tag in _SKIPPED_TAGS:
            return True
        attributes = node.attributes
        style = attributes.get("style")
        if "hidden" in attributes or (style and _HIDDEN_STYLE.search(style)):
            return True
        if not self._boilerplate:
            return False
        if attributes.get("aria-hidden") == "true" or attributes.get("role") in _BOILERPLATE_ROLES:
            return True
        if tag in _PAGE_FRAME and not self._content_depth:
            self._add_headline(node)
            return True
        return tag in self._boilerplate

    def _add_headline(self, node: LexborNode) -> None:
        headline = node.css_first("h1")
        if headline is not None:
            self._flush()
            self._blocks.add(BlockKind.HEADING, headline.text(), level=1)

    def _enter_leaf(self, node: LexborNode, tag: str) -> bool:
        """Read an element that is read as a whole; return false if its children must be read one by one."""
        if tag == "br":
            self._text.append("\n")
        elif tag == "pre":
            self._flush()
            self._blocks.add(BlockKind.CODE, node.text())
        elif tag == "table" and node.css_first(_LAYOUT_SELECTOR) is None:
            self._flush()
            self._add_table(node)
        else:
            return False
        return True

    def _add_table(self, node: LexborNode) -> None:
        for caption in node.css("caption"):
            self._blocks.add(BlockKind.PARAGRAPH, clean_line(caption.text(separator=" ")))
        rows = ([_read_cell(cell) for cell in _list_children(row) if cell.tag in _CELLS] for row in node.css("tr"))
        self._blocks.add(BlockKind.TABLE, format_markdown_table(list(rows)))

    def _enter(self, node: LexborNode, tag: str) -> None:
        if tag in _INLINE:
            return
        self._flush()
        if tag in _HEADINGS:
            self._kind, self._level = BlockKind.HEADING, _HEADINGS[tag]
        elif tag in ("ul", "menu"):
            self._lists.append(None)
        elif tag == "ol":
            self._lists.append(_read_list_start(node))
        elif tag == "li":
            self._kind, self._marker = BlockKind.LIST_ITEM, self._advance_marker()
        elif tag in _CONTENT:
            self._content_depth += 1

    def _leave(self, tag: str) -> None:
        if tag in _INLINE:
            return
        self._flush()
        if tag in _HEADINGS or tag == "li":
            self._kind, self._level, self._marker = BlockKind.PARAGRAPH, 0, ""
        elif tag in ("ul", "ol", "menu") and self._lists:
            self._lists.pop()
        elif tag in _CONTENT:
            self._content_depth -= 1

    def _advance_marker(self) -> str:
        if not self._lists or self._lists[-1] is None:
            return "- "
        number = self._lists[-1]
        self._lists[-1] = number + 1
        return f"{number}. "

    def _flush(self) -> None:
        text = "".join(self._text)
        self._text.clear()
        if text.strip():
            self._blocks.add(self._kind, self._marker + text.strip(), level=self._level)
            self._marker = ""


_LAYOUT_SELECTOR = ", ".join(f"{cell} {part.strip()}" for cell in _CELLS for part in _LAYOUT_CONTENT.split(","))


def _read_list_start(node: LexborNode) -> int:
    value = node.attributes.get("start") or "1"
    return int(value) if value.isdecimal() and len(value) < 10 else 1


def _iter_texts(node: LexborNode) -> Iterator[str]:
    for child in node.traverse(include_text=True):
        if child.tag == "-text":
            yield child.text_content or ""
        elif child.tag == "br" or child.tag not in _INLINE:
            yield " "


def _read_cell(node: LexborNode) -> str:
    return "".join(_iter_texts(node))
