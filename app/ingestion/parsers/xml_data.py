"""XML: documents (DocBook, JATS, TEI, SVG …) as headings and paragraphs, anything else as nested data."""

from itertools import groupby
from pathlib import Path

from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.blocks import BlockList
from app.ingestion.parsers.cleaning import clean_line
from app.ingestion.parsers.nested_data import Members, Value, add_data
from app.ingestion.parsers.tables import markdown_table
from app.ingestion.parsers.xml_reading import Element, decode_xml, local_name, own_text, read_xml, texts_of
from app.ingestion.types import BlockKind, ParsedDocument

_PROSE = frozenset({"p", "para", "simpara", "paragraph", "ab", "verse-line", "l"})
_TITLES = frozenset({"title", "head", "heading", "article-title"})
_CODE = frozenset({"programlisting", "screen", "literallayout", "codeblock", "preformat", "pre", "code-block"})
_ITEMS = frozenset({"listitem", "list-item", "item", "li"})
_TABLES = frozenset({"table", "informaltable", "simpletable", "tgroup"})
_ROWS = frozenset({"tr", "row", "strow", "sthead"})
_CELLS = frozenset({"td", "th", "entry", "stentry", "cell"})
_NEVER = frozenset({"style", "script", "metadata"})

_PROSE_SHARE = 0.25
"""Of the characters; titles, code and tables of a document are the rest."""


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Nothing that the file refers to is read. Raises Corrupt, TooMuchText."""
    decoded = decode_xml(path.read_bytes(), encoding=options.encoding)
    blocks = BlockList(options)
    if not decoded.text.strip():
        return ParsedDocument([], warnings=decoded.warnings)
    root = read_xml(decoded.text)
    title = None
    if _is_prose(root):
        _read_prose(root, blocks)
        title = blocks.first_heading()
    else:
        add_data(_data(root), blocks, max_characters=options.max_characters)
        title = _title(root)
    return ParsedDocument(blocks.blocks, title=title or None, warnings=decoded.warnings)


def _is_prose(root: Element) -> bool:
    """Whether much of it stands in paragraphs or beside other elements, as the values of records never do."""
    prose = total = 0
    for element in root.iter(etree.Element):
        own = len(own_text(element).strip())
        total += own
        if local_name(element) in _PROSE or any(map(local_name, element)):
            prose += own
    return local_name(root) == "svg" or prose > _PROSE_SHARE * total


def _title(root: Element) -> str | None:
    """The title of the whole: a child of the root, or of the one element in it."""
    tops = [*root, *(root[0] if len(root) == 1 else ())]
    return next((clean_line(_text(top)) for top in tops if local_name(top) in _TITLES), None)


def _text(element: Element) -> str:
    return "".join(texts_of(element))


def _read_prose(root: Element, blocks: BlockList) -> None:
    """A title's level is how many elements with a title hold it."""
    waiting: list[tuple[Element, int]] = [(root, 0)]
    while waiting:
        element, level = waiting.pop()
        name = local_name(element)
        if name in _NEVER:
            continue
        if name in _TITLES:
            blocks.add(BlockKind.HEADING, _text(element), level=min(max(level, 1), 6))
        elif name in _CODE:
            blocks.add(BlockKind.CODE, _text(element))
        elif name in _TABLES:
            blocks.add(BlockKind.TABLE, markdown_table(_rows(element)))
        elif name in _ITEMS and not any(local_name(inner) in _ITEMS for inner in element.iterdescendants()):
            item = clean_line(_text(element))
            blocks.add(BlockKind.LIST_ITEM, f"- {item}" if item else "")
        elif own_text(element).strip():
            blocks.add(BlockKind.PARAGRAPH, clean_line(_text(element)))
        else:
            inner_level = level + any(local_name(child) in _TITLES for child in element)
            waiting.extend((child, inner_level) for child in reversed(element))


def _rows(table: Element) -> list[list[str]]:
    rows = (row for row in table.iter() if local_name(row) in _ROWS)
    return [[_text(cell) for cell in row if local_name(cell) in _CELLS] for row in rows]


def _data(root: Element) -> Value:
    """Attributes, then children; neighbours of one name are a list. Bottom up, without recursion."""
    done: dict[Element, Value] = {}
    for _, element in etree.iterwalk(root, events=("end",)):
        pairs: list[tuple[str, Value]] = [
            (name, value) for name, value in element.attrib.items() if not name.startswith("{")
        ]
        for name, run in groupby((child for child in element if local_name(child)), key=local_name):
            values = [done.pop(child) for child in run]
            pairs.append((name, values if len(values) > 1 else values[0]))
        own = clean_line(own_text(element))
        if own:
            pairs.append(("", own))
        done[element] = own if not pairs or pairs == [("", own)] else Members(pairs)
    return done[root]
