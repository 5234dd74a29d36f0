"""Locator of a text: its place in the file that it comes from."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.documents.upload.open_document import ODS

WORKBOOK_TYPES = frozenset(
    {"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "application/vnd.ms-excel", ODS}
)
"""Media types of files with sheets. The heading of level 1 above a text is the name of its sheet."""

ROW_TYPES = WORKBOOK_TYPES | {"text/csv"}
"""Media types of files with rows. Places in other files are lines."""

_WEB_SCHEMES = ("http://", "https://")


@dataclass(frozen=True, slots=True)
class Locator:
    """Place of a text in its file. None or an empty sequence if the format has no such place.

    Attributes:
        page, page_end: First and last page, from 1.
        slide: Slide, from 1.
        lines: First and last line, from 1.
        sheet: Name of the sheet.
        rows: First and last row of the sheet, from 1.
        section_path: Headings above the text, outermost first.
        url: Web address of the document.
    """

    page: int | None
    page_end: int | None
    slide: int | None
    lines: tuple[int, int] | None
    sheet: str | None
    rows: tuple[int, int] | None
    section_path: Sequence[str]
    url: str | None


def build_locator(
    *,
    media_type: str | None,
    source_uri: str | None,
    pages: tuple[int | None, int | None],
    slide: int | None,
    place: tuple[int, int] | None,
    section_titles: Sequence[str],
) -> Locator:
    """Build the locator of a text.

    Args:
        media_type: Media type of the document.
        source_uri: Address that the document comes from.
        pages: First and last page.
        slide: Slide.
        place: First and last row of a table, or line of any other file.
        section_titles: Headings above the text, outermost first.
    """
    has_rows, has_sheets = media_type in ROW_TYPES, media_type in WORKBOOK_TYPES
    return Locator(
        page=pages[0],
        page_end=pages[1],
        slide=slide,
        lines=None if has_rows else place,
        sheet=section_titles[0] if has_sheets and section_titles else None,
        rows=place if has_rows else None,
        section_path=section_titles,
        url=source_uri if source_uri is not None and source_uri.casefold().startswith(_WEB_SCHEMES) else None,
    )
