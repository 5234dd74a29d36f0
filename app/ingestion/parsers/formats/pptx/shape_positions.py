"""Order of the shapes of a slide: from top to bottom, with the positions that placeholders inherit."""

from app.ingestion.parsers.toolkit.ooxml import (
    Element,
    Package,
    find_child,
    get_attribute,
    get_int_attribute,
    get_tag,
    iter_children,
)

_OFFSET_PATHS = (
    ("p:spPr", "a:xfrm", "a:off"),
    ("p:xfrm", "a:off"),
    ("p:grpSpPr", "a:xfrm", "a:off"),
)
_BODY_TYPES = frozenset({"", "obj", "body", "subTitle", "tbl", "chart", "dgm", "media", "clipArt", "pic"})
_TITLE_TYPES = frozenset({"title", "ctrTitle"})
Point = tuple[int, int]


def get_placeholder(shape: Element) -> Element | None:
    """Return the element ``p:ph`` of a shape; None if the shape is no placeholder."""
    for child in shape:
        if get_tag(child).startswith("p:nv"):
            return find_child(child, "p:nvPr", "p:ph")
    return None


def get_shape_name(shape: Element) -> Element | None:
    """Return the element ``p:cNvPr`` of a shape, which has its name, its alternative text and its link."""
    for child in shape:
        if get_tag(child).startswith("p:nv"):
            return find_child(child, "p:cNvPr")
    return None


def list_shapes(tree: Element | None) -> list[Element]:
    """Return the shapes of a slide, a group or an alternative, in the order of the file."""
    return [
        child for child in (tree if tree is not None else ()) if get_tag(child) and not _is_property(get_tag(child))
    ]


def _is_property(tag: str) -> bool:
    return tag in ("p:nvGrpSpPr", "p:grpSpPr", "p:extLst")


class ShapePositions:
    """Positions of the shapes of a presentation. The layouts and masters are read only if a shape needs them.

    Args:
        package: Parts of the file.
    """

    def __init__(self, package: Package) -> None:
        self._package = package
        self._parents: dict[str, str] = {}
        self._placeholders: dict[str, dict[tuple[str, str], Point]] = {}

    def sort_shapes(self, shapes: list[Element], part: str) -> list[Element]:
        """Return the shapes from top to bottom. Shapes without a position come first.

        Args:
            shapes: Shapes of a slide or a group.
            part: Name of the slide part.
        """
        return sorted(shapes, key=lambda shape: self._find_position(shape, part))

    def _find_position(self, shape: Element, part: str) -> Point:
        position = _read_position(shape)
        placeholder = get_placeholder(shape) if position is None else None
        kind, index = get_attribute(placeholder, "type"), get_attribute(placeholder, "idx")
        for _ in range(2):
            if position is not None or placeholder is None:
                break
            part = self._find_parent(part)
            positions = self._list_placeholders(part)
            position = (
                positions.get((kind, index)) or positions.get(("#", index)) if index else positions.get((kind, ""))
            )
            position = position or positions.get((_get_family(kind), "family"))
        return position or (-1, -1)

    def _find_parent(self, part: str) -> str:
        """Return the name of the layout of a slide, or of the master of a layout; empty if there is none."""
        parent = self._parents.get(part)
        if parent is None:
            links = self._package.list_relationships(part) if part else []
            targets = (link.target for link in links if link.kind in ("slideLayout", "slideMaster"))
            parent = self._parents[part] = next(targets, "")
        return parent

    def _list_placeholders(self, part: str) -> dict[tuple[str, str], Point]:
        positions = self._placeholders.get(part)
        if positions is None:
            positions = self._placeholders[part] = {}
            root = self._package.parse_optional_part(part or None)
            for shape in iter_children(find_child(root, "p:cSld", "p:spTree"), "p:sp", "p:pic", "p:graphicFrame"):
                placeholder, position = get_placeholder(shape), _read_position(shape)
                if placeholder is not None and position is not None:
                    kind, index = get_attribute(placeholder, "type"), get_attribute(placeholder, "idx")
                    positions.setdefault((kind, index), position)
                    positions.setdefault(("#", index), position)
                    positions.setdefault((_get_family(kind), "family"), position)
        return positions


def _get_family(kind: str) -> str:
    """Return the kind of placeholder of a master that a kind of placeholder inherits from."""
    if kind in _TITLE_TYPES:
        return "title"
    return "body" if kind in _BODY_TYPES else kind


def _read_position(shape: Element) -> Point | None:
    for path in _OFFSET_PATHS:
        offset = find_child(shape, *path)
        if offset is not None:
            top, left = get_int_attribute(offset, "y"), get_int_attribute(offset, "x")
            return (top or 0, left or 0)
    return None
