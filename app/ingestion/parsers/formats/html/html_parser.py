"""Parser of HTML: headings, paragraphs, list items, tables and code of a page, without its boilerplate."""

import re
from functools import partial
from pathlib import Path
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.html.copies import drop_copies
from app.ingestion.parsers.formats.html.html_reader import HtmlReader
from app.ingestion.parsers.formats.html.markup_scanner import scan_markup
from app.ingestion.parsers.formats.html.page_positions import PagePositions
from app.ingestion.parsers.formats.html.page_state import MarkupReport, PageState, list_markup_warnings
from app.ingestion.parsers.formats.html.visibility import TEMPLATE_TAG
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.character_decoding import decode_text
from app.ingestion.parsers.toolkit.links import resolve_address
from app.ingestion.parsers.toolkit.source_alignment import SourceText
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.parsers.toolkit.titles import choose_title
from app.ingestion.types import ParsedDocument

_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_MAX_META_OFFSET = 4096
# A page that declares one of these encodings uses its superset (WHATWG Encoding Standard, "names and labels").
_SUPERSETS = {
    "iso-8859-1": "cp1252", "latin1": "cp1252", "ascii": "cp1252", "us-ascii": "cp1252", "iso-8859-9": "cp1254",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "x-sjis": "cp932", "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949", "utf-16": "utf-8", "utf-16le": "utf-8", "utf-16be": "utf-8", "x-user-defined": "cp1252",
}  # fmt: skip
_EMPTY_ELEMENT = re.compile(
    r"<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr)\b)([a-z][\w:-]*+)([^<>]*?)/>",
    re.IGNORECASE,
)
_TEMPLATE = re.compile(r"<(/?)template(?=[\s>/])", re.IGNORECASE)
_PAGE_KINDS = frozenset(
    {
        "accueil", "default", "document", "home", "home page", "homepage", "index", "inicio", "main page", "new page",
        "page", "start", "startseite", "title", "untitled", "untitled document", "untitled page", "webpage", "welcome",
    }
)  # fmt: skip
_SAVED_FROM = re.compile(r"<!--\s{0,20}saved from url=\(\d{1,6}\)(https?://[^\s>]{1,500})")
_SAVED_OFFSET = 2000
_PAGE_ADDRESSES = (
    ("link[rel=canonical]", "href"),
    ('meta[property="og:url"]', "content"),
)


def close_empty_elements(markup: str) -> str:
    """Replace the empty elements of XHTML by a start tag and an end tag.

    An HTML parser takes ``<title/>`` as a start tag, and the rest of the page as the title.
    """
    return _EMPTY_ELEMENT.sub(r"<\1\2></\1>", markup)


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse an HTML or XHTML page.

    Navigation, page header, page footer and asides outside of the main content are left out and counted, unless the
    page has no other text. Hidden elements are read if a reader can open them.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The blocks of the page. The title comes from the page's ``<title>``, if it names the page, else from a heading.

    Raises:
        TextTooLong: The page has more characters or nodes than the limits allow.
    """
    data = path.read_bytes()
    decoded = decode_text(data, encoding=options.encoding, declared_encoding=_find_declared_encoding(data))
    is_xml = decoded.text.lstrip().startswith("<?xml")
    markup = close_empty_elements(decoded.text) if is_xml else decoded.text
    tree = _parse_markup(markup)
    title = _read_title(tree)
    positions = PagePositions(tree, scan_markup(decoded.text, is_xml=is_xml))
    blocks, report = BlockList(options), MarkupReport()
    for reads_boilerplate in (False, True):
        if not blocks.blocks:
            base = _find_base(tree, markup)
            report = _read_page(tree, base, blocks, reads_boilerplate=reads_boilerplate, positions=positions)
    return ParsedDocument(
        blocks.blocks,
        title=choose_title(title, blocks.blocks),
        warnings=[*decoded.warnings, *list_markup_warnings(report)],
        words_left_out=report.words_left_out,
    )


def add_fragment(markup: str, blocks: BlockList, *, base: str = "", source: SourceText | None = None) -> MarkupReport:
    """Add the blocks of HTML that is embedded in a file of another format.

    Args:
        markup: The HTML.
        blocks: Blocks of the document.
        base: Address that relative addresses are resolved against; empty if it is unknown.
        source: Texts of the HTML with their positions in the file; None if they are not known.

    Returns:
        The number of words, images and media that were not read.

    Raises:
        TextTooLong: The document has more characters or nodes than the limits allow.
    """
    tree = _parse_markup(markup)
    positions = None if source is None else PagePositions(tree, source)
    return _read_page(tree, base or _find_base(tree, ""), blocks, reads_boilerplate=True, positions=positions)


def _parse_markup(markup: str) -> LexborHTMLParser:
    if "<template" in markup or "<TEMPLATE" in markup:
        # The library does not show the content of templates.
        markup = _TEMPLATE.sub(rf"<\1{TEMPLATE_TAG}", markup)
    return LexborHTMLParser(markup)


def _read_page(
    tree: LexborHTMLParser,
    base: str,
    blocks: BlockList,
    *,
    reads_boilerplate: bool,
    positions: PagePositions | None,
) -> MarkupReport:
    frames = len(tree.css("frame"))
    if frames:
        # The parser takes the page for readers without frames as text.
        tree, positions = LexborHTMLParser(" ".join(node.text() for node in tree.css("noframes"))), None
    body = tree.body
    if body is None:
        return MarkupReport()
    page = PageState(body, base=base, reads_boilerplate=reads_boilerplate, media=frames, positions=positions)
    reader = HtmlReader(page)
    reader.read_tree(body)
    for kind, text, level, places in drop_copies(reader.blocks, reader.panels):
        locate = None if positions is None else partial(positions.locate, block=places)
        blocks.add(kind, text, level=level, locate=locate)
    return page.get_report()


def _read_title(tree: LexborHTMLParser) -> str | None:
    """Return the title of a page; None if it only names the site, or the kind of page, such as "Home"."""
    node = tree.css_first("head title")
    title = clean_line(node.text()) if node is not None else ""
    site = tree.css_first('meta[property="og:site_name"], meta[name="application-name"]')
    is_site = site is not None and clean_line(site.attributes.get("content") or "").casefold() == title.casefold()
    return None if not title or is_site or title.casefold().strip(" .!-|") in _PAGE_KINDS else title


def _find_base(tree: LexborHTMLParser, markup: str) -> str:
    """Return the address of a page as it states it: its canonical address, and ``base`` relative to that."""
    address = ""
    for selector, name in _PAGE_ADDRESSES:
        node = tree.css_first(selector)
        if node is not None and not address:
            address = resolve_address(node.attributes.get(name) or "")
    saved = _SAVED_FROM.search(markup[:_SAVED_OFFSET])
    if saved is not None and not address:
        address = resolve_address(saved[1])
    node = tree.css_first("base[href]")
    if node is None:
        return address
    base = (node.attributes.get("href") or "").strip()
    try:
        return resolve_address(urljoin(address, base))
    except ValueError:
        return address


def _find_declared_encoding(data: bytes) -> str | None:
    match = _META_CHARSET.search(data[:_MAX_META_OFFSET])
    if match is None:
        return None
    name = match[1].decode("ascii", "replace").lower()
    return _SUPERSETS.get(name, name)
