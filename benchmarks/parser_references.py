"""Reference word counts of DOCX and HTML files by kind of content, read without the project's parsers."""

import re
import unicodedata
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types
from selectolax.lexbor import LexborHTMLParser, LexborNode

from app.ingestion.parsers.toolkit.character_decoding import decode_text

Words = Counter[str]

_WORD = re.compile(r"\w+")
_PART_KINDS = {
    "document.main": "paragraphs",
    "template.main": "paragraphs",
    "header": "headers and footers",
    "footer": "headers and footers",
    "footnotes": "notes",
    "endnotes": "notes",
    "comments": "comments",
    "chart": "charts and diagrams",
    "diagramData": "charts and diagrams",
}
_DOCX_CONTAINERS = {"txbxContent": "text boxes", "tbl": "tables", "oMath": "equations"}
_TEXT_ENDS = {"p", "txbxContent", "v", "oMath", "sdt"}
_DELETED = {"del", "moveFrom", "Fallback", "instrText", "delText"}
_HTML_CONTAINERS = {
    "table": "tables", "ul": "lists", "ol": "lists", "dl": "lists", "pre": "code", "h1": "headings", "h2": "headings",
    "h3": "headings", "h4": "headings", "h5": "headings", "h6": "headings", "button": "form controls",
    "select": "form controls", "textarea": "form controls", "math": "equations", "svg": "drawings",
}  # fmt: skip
_NO_TEXT = {"script", "style", "template", "noscript", "head", "iframe", "object", "embed", "canvas"}
_FRAME, _CONTENT = {"nav", "aside", "header", "footer"}, {"main", "article"}
_INLINE = {
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins", "kbd",
    "label", "mark", "q", "s", "samp", "small", "span", "strike", "strong", "time", "tt", "u", "var", "wbr",
}  # fmt: skip
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)


def count_words(text: str) -> Words:
    """Count the words of a text, regardless of case and compatibility forms."""
    return Counter(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def read_docx_words(path: Path) -> Mapping[str, Words]:
    """Count the words of all parts of a DOCX by kind of content, without deleted text."""
    words: defaultdict[str, Words] = defaultdict(Counter)
    with zipfile.ZipFile(path) as archive:
        members = {name.lower().replace("\\", "/"): name for name in archive.namelist()}
        for part in etree.fromstring(archive.read(members["[content_types].xml"])):
            kind = _PART_KINDS.get(part.get("ContentType", "").rpartition("ml.")[2].removesuffix("+xml"))
            member = members.get(part.get("PartName", "").lower().lstrip("/"))
            if kind and member:
                root = etree.fromstring(archive.read(member), etree.XMLParser(resolve_entities=False, recover=True))
                for kind_of_text, text in _iter_docx_texts(root, kind):
                    words[kind_of_text] += count_words(text)
        for member in members.values():
            if member.lower().endswith((".htm", ".html", ".xhtml")):
                tree = LexborHTMLParser(archive.read(member).decode("utf-8", "replace"))
                texts = (text for _, text in _iter_html_texts(tree.root)) if tree.root is not None else ()
                words["embedded HTML"] += count_words(" ".join(texts))
    return words


def _iter_docx_texts(root: Any, kind: str) -> Iterator[tuple[str, str]]:
    """Yield each paragraph's kind and text. ``kind`` applies to text outside of tables, text boxes and equations."""
    pieces: list[str] = []
    stack = [(root, kind, False)]
    while stack:
        element, kind, is_leaving = stack.pop()
        tag = element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
        if is_leaving or tag in _TEXT_ENDS:
            yield kind, "".join(pieces)
            pieces.clear()
        if is_leaving or not tag or tag in _DELETED:
            continue
        if tag == "sdt" and element.find("{*}sdtPr/{*}showingPlcHdr") is not None:
            kind = "placeholders"
        elif kind == "paragraphs" or (tag == "txbxContent" and kind != "placeholders"):
            kind = _DOCX_CONTAINERS.get(tag, kind)
        if tag in ("t", "v") and element.text:
            pieces.append(element.text)
        elif tag in ("tab", "br", "cr"):
            pieces.append(" ")
        elif tag == "docPr" and element.get("descr"):
            yield "alternative texts", element.get("descr")
        if tag in _TEXT_ENDS:
            stack.append((element, kind, True))
        stack.extend((child, kind, False) for child in reversed(element))


def read_html_words(path: Path) -> Mapping[str, Words]:
    """Count the words of the body of an HTML page by kind of content. Page frames and hidden parts are kinds."""
    words: defaultdict[str, Words] = defaultdict(Counter)
    data = path.read_bytes()
    charset = re.search(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", data[:4096], re.IGNORECASE)
    declared = charset[1].decode("ascii", "replace") if charset else None
    tree = LexborHTMLParser(decode_text(data, encoding=None, declared_encoding=declared).text)
    if tree.body is not None:
        for kind, text in _iter_html_texts(tree.body):
            words[kind] += count_words(text)
    return words


def _iter_html_texts(root: LexborNode) -> Iterator[tuple[str, str]]:
    """Yield the kind and text of each run. Inline elements do not end a run."""
    pieces: list[str] = []
    stack: list[tuple[LexborNode | None, str, bool]] = [(root, "paragraphs", False)]
    while stack:
        node, kind, is_in_content = stack.pop()
        tag = "" if node is None else node.tag or ""
        if tag == "-text" and node is not None:
            pieces.append(node.text_content or "")
            continue
        if tag not in _INLINE:
            yield kind, "".join(pieces)
            pieces.clear()
        if node is None or tag.startswith(("-", "!")) or tag in _NO_TEXT:
            continue
        if tag == "img" and node.attributes.get("alt"):
            yield kind if kind in ("page frame", "hidden") else "alternative texts", node.attributes["alt"] or ""
        inner = _find_html_kind(node, tag, kind, is_in_content)
        is_in_content = is_in_content or tag in _CONTENT
        if tag not in _INLINE:
            stack.append((None, inner, is_in_content))
        children = []
        child = node.child
        while child is not None:
            children.append((child, inner, is_in_content))
            child = child.next
        stack.extend(reversed(children))


def _find_html_kind(node: LexborNode, tag: str, kind: str, is_in_content: bool) -> str:
    if kind in ("page frame", "hidden"):
        return kind
    attributes = node.attributes
    if "hidden" in attributes or _HIDDEN_STYLE.search(attributes.get("style") or ""):
        return "hidden"
    if tag in _FRAME and not is_in_content:
        return "page frame"
    return _HTML_CONTAINERS.get(tag, kind) if kind in ("paragraphs", "lists", "tables") else kind
