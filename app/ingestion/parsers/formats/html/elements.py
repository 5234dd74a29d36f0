"""Names of elements and properties of single elements, as all modules of the HTML parser need them."""

import re

from selectolax.lexbor import LexborNode

Attributes = dict[str, str | None]

HEADINGS = {f"h{level}": level for level in range(1, 7)}
INLINE = frozenset(
    {
        "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "button", "cite", "code", "data", "del", "dfn", "em", "font",
        "i", "img", "input", "ins", "kbd", "label", "mark", "meter", "nobr", "output", "picture", "progress", "q", "rb",
        "rt", "rtc", "ruby", "s", "samp", "select", "slot", "small", "source", "span", "strike", "strong", "sub", "sup",
        "time", "tt", "u", "var", "wbr",
    }
)  # fmt: skip
CELL_ROLES = frozenset({"cell", "gridcell", "columnheader", "rowheader"})
_BLOCK_ROLES = CELL_ROLES | {"row", "listitem", "heading", "paragraph", "option", "treeitem", "menuitem"}
_BLOCK_STYLE = re.compile(
    r"(?:^|;)\s*(?:display\s*:\s*(?:block|flex|grid|list-item|flow-root|table(?!-cell)[\w-]*)|position\s*:\s*absolute)",
    re.IGNORECASE,
)
_GAP_STYLE = re.compile(r"display\s*:\s*(?:inline-(?:block|flex|grid|table)|table-cell)|float\s*:", re.IGNORECASE)
_FLEXIBLE_STYLE = re.compile(r"display\s*:\s*(?:inline-)?(?:flex|grid)", re.IGNORECASE)
_CELL_STYLE = re.compile(r"display\s*:\s*table-cell", re.IGNORECASE)
_ROW_STYLE = re.compile(r"display\s*:\s*table-row(?!-)", re.IGNORECASE)
_TABLE_STYLE = re.compile(r"display\s*:\s*(?:inline-)?table\s*(?:;|!|$)", re.IGNORECASE)
_STRUCK_STYLE = re.compile(r"text-decoration(?:-line)?\s*:[^;]{0,200}line-through", re.IGNORECASE)
_RAISED_STYLE = re.compile(r"vertical-align\s*:\s*(super|sub)\b", re.IGNORECASE)
_SPACE = re.compile(r"\s+")
_PREFIX = re.compile(r"[a-z][\w.-]{0,40}:(?=[a-z])", re.IGNORECASE)


def get_tag(node: LexborNode) -> str:
    """Return the name of an element without a namespace prefix; text and comments have names that begin with ``-``."""
    tag = node.tag or ""
    return _PREFIX.sub("", tag, count=1) if ":" in tag else tag


def list_children(node: LexborNode) -> list[LexborNode]:
    """Return the child nodes of a node."""
    children = []
    child = node.child
    while child is not None:
        children.append(child)
        child = child.next
    return children


def get_role(attributes: Attributes) -> str:
    """Return the ARIA role in lower case; an empty string if there is none."""
    role = attributes.get("role") if attributes else None
    return role.strip().lower() if role else ""


def get_epub_types(attributes: Attributes) -> frozenset[str]:
    """Return the types that an e-book gives to an element, such as ``noteref``, and the DPUB roles without prefix."""
    if not attributes:
        return frozenset()
    types = attributes.get("epub:type")
    role = get_role(attributes)
    if not types and not role.startswith("doc-"):
        return frozenset()
    return frozenset([*(types or "").lower().split(), role.removeprefix("doc-")])


def get_classes(attributes: Attributes) -> str:
    """Return the classes and the id of an element in lower case, separated by spaces."""
    return f"{attributes.get('class') or ''} {attributes.get('id') or ''}".lower()


def join_spaces(text: str) -> str:
    """Return a text with a single space for each run of white space. Line breaks in the source are spaces."""
    return _SPACE.sub(" ", text)


def count_words(node: LexborNode) -> int:
    """Count the words that a reader sees in an element, without scripts and style sheets."""
    words = len(node.text(separator=" ").split())
    if words:
        words -= sum(len(hidden.text().split()) for hidden in node.css("script, style"))
    return max(words, 0)


def count_link_words(node: LexborNode) -> int:
    """Count the words in the links and buttons of an element."""
    return sum(len(link.text(separator=" ").split()) for link in node.css("a, button"))


def is_block(attributes: Attributes) -> bool:
    """Return whether the role or the inline style of an inline element makes it a block, such as ``display: flex``."""
    style = attributes.get("style")
    role = attributes.get("role")
    return bool((role and role.strip().lower() in _BLOCK_ROLES) or (style and _BLOCK_STYLE.search(style)))


def needs_gap(attributes: Attributes) -> bool:
    """Return whether an inline style separates an inline element from its neighbours."""
    style = attributes.get("style")
    return bool(style and _GAP_STYLE.search(style))


def is_flexible(attributes: Attributes) -> bool:
    """Return whether the inline style of an element sets its children apart, such as ``display: flex``."""
    style = attributes.get("style")
    return bool(style and _FLEXIBLE_STYLE.search(style))


def is_struck(tag: str, attributes: Attributes) -> bool:
    """Return whether the text of an element is deleted: an element or a style that strikes it through."""
    style = attributes.get("style")
    return tag in ("del", "s", "strike") or bool(style and _STRUCK_STYLE.search(style))


def get_raised_tag(tag: str, attributes: Attributes) -> str:
    """Return ``sup`` or ``sub`` for an element that an inline style raises or lowers, else its name."""
    style = attributes.get("style")
    if not style or "vertical-align" not in style or tag in ("td", "th", "img", "tr"):
        return tag
    match = _RAISED_STYLE.search(style)
    return tag if match is None else {"super": "sup", "sub": "sub"}[match[1].lower()]


def is_table(tag: str, attributes: Attributes) -> bool:
    """Return whether an element is a table by its name, its ARIA role or its inline style."""
    if tag == "table":
        return True
    style = attributes.get("style")
    return get_role(attributes) in ("table", "grid", "treegrid") or bool(style and _TABLE_STYLE.search(style))


def is_row(tag: str, attributes: Attributes) -> bool:
    """Return whether an element is a row of a table."""
    style = attributes.get("style")
    return tag == "tr" or get_role(attributes) == "row" or bool(style and _ROW_STYLE.search(style))


def is_cell(tag: str, attributes: Attributes) -> bool:
    """Return whether an element is a cell of a table."""
    style = attributes.get("style")
    return tag in ("td", "th") or get_role(attributes) in CELL_ROLES or bool(style and _CELL_STYLE.search(style))
