"""Parser of XML files.

A document (DocBook, JATS, TEI, SVG and others) becomes headings and paragraphs. Any other XML becomes nested data.
"""

from itertools import groupby
from pathlib import Path

from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.toolkit.base64_blobs import remove_base64_blobs
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.nested_data import Members, Value, add_nested_data
from app.ingestion.parsers.toolkit.safe_xml import (
    Element,
    decode_xml,
    get_local_name,
    get_own_text,
    iter_texts,
    read_xml,
)
from app.ingestion.parsers.toolkit.tables import format_markdown_table
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import BlockKind, ParsedDocument

_PROSE_TAGS = frozenset({"p", "para", "simpara", "paragraph", "ab", "verse-line", "l"})
_TITLE_TAGS = frozenset({"title", "head", "heading", "article-title"})
_CODE_TAGS = frozenset({"programlisting", "screen", "literallayout", "codeblock", "preformat", "pre", "code-block"})
_ITEM_TAGS = frozenset({"listitem", "list-item", "item", "li"})
_TABLE_TAGS = frozenset({"table", "informaltable", "simpletable", "tgroup"})
_ROW_TAGS = frozenset({"tr", "row", "strow", "sthead"})
_CELL_TAGS = frozenset({"td", "th", "entry", "stentry", "cell"})
_SKIPPED_TAGS = frozenset({"style", "script", "metadata"})

_SCHEMA_INSTANCE = "{http://www.w3.org/2001/XMLSchema-instance}"
_MIN_PROSE_SHARE = 0.25
"""Minimum share of characters in paragraphs of a document. Titles, code and tables have the other characters."""


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse an XML file. Files that it refers to are not read.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The blocks in document order.

    Raises:
        CorruptFile: The XML is not well-formed, or too large.
        TextTooLong: The document has more characters or nodes than the limits allow.
    """
    decoded = decode_xml(path.read_bytes(), encoding=options.encoding)
    blocks = BlockList(options)
    if not decoded.text.strip():
        return ParsedDocument([], warnings=decoded.warnings)
    without_blobs = remove_base64_blobs(decoded.text)
    root = read_xml(without_blobs.text)
    title = None
    if _is_prose(root):
        _read_prose(root, blocks)
        title = blocks.find_first_heading()
    else:
        add_nested_data(_build_data(root), blocks, max_characters=options.max_characters)
        title = _find_title(root)
    return ParsedDocument(
        blocks.blocks, title=title or None, warnings=[*decoded.warnings, *without_blobs.list_warnings()]
    )


def _is_prose(root: Element) -> bool:
    """Return whether the XML is a document and not data.

    Much of the text of a document is in paragraphs, or in elements that also have children. Data has no such text, or
    neither paragraphs nor titles.
    """
    prose = total = 0
    has_parts = False
    for element in root.iter(etree.Element):
        own = len(get_own_text(element).strip())
        total += own
        name = get_local_name(element)
        has_parts = has_parts or name in _PROSE_TAGS or name in _TITLE_TAGS or name in _ITEM_TAGS
        if name in _PROSE_TAGS or any(map(get_local_name, element)):
            prose += own
    return get_local_name(root) == "svg" or (has_parts and prose > _MIN_PROSE_SHARE * total)


def _find_title(root: Element) -> str | None:
    """Return the title of the file from a child of the root, or of the only element in the root; else None."""
    tops = [*root, *(root[0] if len(root) == 1 else ())]
    return next((clean_line(_join_texts(top)) for top in tops if get_local_name(top) in _TITLE_TAGS), None)


def _join_texts(element: Element) -> str:
    return "".join(iter_texts(element))


def _read_prose(root: Element, blocks: BlockList) -> None:
    """Add the blocks of a document. The level of a heading is the number of elements with a title around it."""
    waiting: list[tuple[Element, int]] = [(root, 0)]
    while waiting:
        element, level = waiting.pop()
        name = get_local_name(element)
        if name in _SKIPPED_TAGS:
            continue
        if name in _TITLE_TAGS:
            blocks.add(BlockKind.HEADING, _join_texts(element), level=min(max(level, 1), 6))
        elif name in _CODE_TAGS:
            blocks.add(BlockKind.CODE, _join_texts(element))
        elif name in _TABLE_TAGS:
            blocks.add(BlockKind.TABLE, format_markdown_table(_read_rows(element)))
        elif name in _ITEM_TAGS and not any(get_local_name(inner) in _ITEM_TAGS for inner in element.iterdescendants()):
            item = clean_line(_join_texts(element))
            blocks.add(BlockKind.LIST_ITEM, f"- {item}" if item else "")
        elif get_own_text(element).strip():
            blocks.add(BlockKind.PARAGRAPH, clean_line(_join_texts(element)))
        else:
            inner_level = level + any(get_local_name(child) in _TITLE_TAGS for child in element)
            waiting.extend((child, inner_level) for child in reversed(element))


def _read_rows(table: Element) -> list[list[str]]:
    rows = (row for row in table.iter() if get_local_name(row) in _ROW_TAGS)
    return [[_join_texts(cell) for cell in row if get_local_name(cell) in _CELL_TAGS] for row in rows]


def _build_data(root: Element) -> Value:
    """Return an element as nested data: its attributes, then its children, then its text.

    Consecutive children with the same name become a list. An element with text between its children becomes one text in
    reading order, and the attributes of its descendants follow. The tree is read bottom up, without recursion.
    """
    values_by_element: dict[Element, Value] = {}
    mixed: Element | None = None
    inner_attributes: list[tuple[str, Value]] = []
    for event, element in etree.iterwalk(root, events=("start", "end")):
        if event == "start":
            if mixed is None and _is_mixed(element):
                mixed, inner_attributes = element, []
            elif mixed is not None:
                inner_attributes += _list_attributes(element, f"{get_local_name(element)}.")
            continue
        if mixed is not None and element is not mixed:
            continue
        pairs = _list_attributes(element)
        if element is mixed:
            pairs = [("", clean_line(_join_texts(element))), *pairs, *inner_attributes]
            mixed = None
        else:
            for name, run in groupby((child for child in element if get_local_name(child)), key=get_local_name):
                values = [values_by_element.pop(child) for child in run]
                pairs.append((name, values if len(values) > 1 else values[0]))
            own_text = clean_line(get_own_text(element))
            pairs += [("", own_text)] if own_text else []
        is_text = not pairs or (len(pairs) == 1 and pairs[0][0] == "")
        values_by_element[element] = (pairs[0][1] if pairs else "") if is_text else Members(pairs)
    return values_by_element[root]


def _list_attributes(element: Element, prefix: str = "") -> list[tuple[str, Value]]:
    """Return the attributes of an element by their local names; the location of a schema is left out."""
    return [
        (prefix + name.rpartition("}")[2], value)
        for name, value in element.attrib.items()
        if not name.startswith(_SCHEMA_INSTANCE)
    ]


def _is_mixed(element: Element) -> bool:
    """Return whether an element has text between its child elements."""
    return any(map(get_local_name, element)) and bool(get_own_text(element).strip())
