"""Web links of a PDF page: the areas that a reader can click, and their addresses."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from app.ingestion.parsers.formats.pdf.line_spans import PdfCharacter
from app.ingestion.parsers.toolkit.links import format_link, resolve_address

MAX_LINKS = 500
"""Maximum number of links of a page whose addresses are read."""


class LinkArea(NamedTuple):
    """Area of a link.

    Attributes:
        x0: Left edge in points.
        y0: Top edge.
        x1: Right edge.
        y1: Bottom edge.
        address: Absolute address.
    """

    x0: float
    y0: float
    x1: float
    y1: float
    address: str

    def format_label(self, label: str) -> str:
        """Return a text of the link as Markdown; only the text if it is a part of the address."""
        core = label.strip()
        is_part = ("/" in core or core.startswith("www.")) and core in self.address
        return label if is_part else format_link(label, self.address)


def read_link_areas(page: Any) -> list[LinkArea]:
    """Read the areas of the web links of a page. Nothing is fetched.

    Args:
        page: Page of PyMuPDF, before its rotation.

    Returns:
        The areas. If a link continues on the next line, only its last area is returned, so that its address is once in
        the text.
    """
    areas = list[LinkArea]()
    link = page.first_link
    while link and len(areas) < MAX_LINKS:
        if link.uri and (address := resolve_address(link.uri)):
            rect = link.rect
            areas.append(LinkArea(rect.x0, rect.y0, rect.x1, rect.y1, address))
        link = link.next
    return [area for area, following in pairwise([*areas, None]) if area and not _is_continued(area, following)]


def _is_continued(area: LinkArea, following: LinkArea | None) -> bool:
    if following is None or area.address != following.address:
        return False
    height = area.y1 - area.y0
    is_next_line = -0.5 * height <= following.y0 - area.y1 <= height and following.x0 < area.x0
    is_same_line = abs(following.y0 - area.y0) <= 0.3 * height and -1 <= following.x0 - area.x1 <= height
    return is_next_line or is_same_line


def find_link(character: PdfCharacter, links: Sequence[LinkArea]) -> int:
    """Return the index of the link of a character; -1 if it has none."""
    middle, height = (character.x0 + character.x1) / 2, character.base - 0.3 * character.size
    for index, link in enumerate(links):
        if link.x0 <= middle <= link.x1 and link.y0 <= height <= link.y1:
            return index
    return -1
