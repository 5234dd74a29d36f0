"""Parser of OpenDocument presentations (ODP): title, text, tables, charts, notes and comments of each slide."""

import re
from collections.abc import Iterator
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.odf.content import ContentReader
from app.ingestion.parsers.formats.odf.forms import read_controls
from app.ingestion.parsers.formats.odf.names import get_attribute, get_name
from app.ingestion.parsers.formats.odf.odt_parser import add_items
from app.ingestion.parsers.formats.odf.package import OdfPackage
from app.ingestion.parsers.formats.odf.styles import OdfStyles
from app.ingestion.parsers.toolkit.blocks import BlockList, check_page_count
from app.ingestion.parsers.toolkit.image_list import ImageList
from app.ingestion.parsers.toolkit.safe_xml import Element
from app.ingestion.parsers.toolkit.titles import choose_title
from app.ingestion.types import BlockKind, ParsedDocument

_LENGTH = re.compile(r"(-?\d{1,9}(?:\.\d{1,9})?)(cm|mm|in|pt|px|pc)?")
_POINTS = {"cm": 28.35, "mm": 2.835, "in": 72.0, "pt": 1.0, "px": 0.75, "pc": 12.0, "": 1.0}
_NOT_ON_SLIDE = frozenset({"presentation:notes", "office:forms", "anim:par", "anim:seq", "draw:layer-set"})


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse an OpenDocument presentation. Slide titles become headings of level 1; notes and comments become notes.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The blocks, slide by slide. The title comes from the file's properties, else from the first slide title.

    Raises:
        CorruptFile: The file is damaged, or has no slides.
        EncryptedFile: The file has a password.
        TooManyPages: The file has more slides than the limit allows.
        TextTooLong: The file has more bytes or text than the limits allow.
    """
    package = OdfPackage(path)
    try:
        content, styles = package.read_part("content.xml"), package.read_part("styles.xml")
        body = package.find_body(content, "office:presentation")
        slides = [element for element in body if get_name(element) == "draw:page"]
        check_page_count(len(slides), options)
        reader = ContentReader(package, OdfStyles(styles, content), read_controls(content))
        blocks = BlockList(options)
        images = ImageList(blocks, options)
        for number, slide in enumerate(slides, start=1):
            options.on_progress(number, len(slides))
            _read_slide(slide, number, package, reader, blocks, images)
        title = package.read_title()
    finally:
        package.close()
    reader.unread.image_count += images.skipped_count
    return ParsedDocument(
        blocks.blocks,
        title=choose_title(title, blocks.blocks),
        page_count=len(slides),
        warnings=reader.unread.list_warnings(),
        images=images.images,
    )


def _read_slide(
    slide: Element, number: int, package: OdfPackage, reader: ContentReader, blocks: BlockList, images: ImageList
) -> None:
    shapes = [shape for shape in slide if get_name(shape) not in _NOT_ON_SLIDE and not _is_placeholder(shape)]
    titles = [shape for shape in shapes if get_attribute(shape, "presentation:class") == "title"]
    for title in titles:
        blocks.add(BlockKind.HEADING, reader.read_lines([title]), level=1, slide=number)
    others = sorted((shape for shape in shapes if shape not in titles), key=_get_position)
    add_items(reader.read_blocks(others), blocks, images, package, reader.unread, slide=number)
    for notes in _iter_notes(slide):
        blocks.add(BlockKind.NOTE, reader.read_lines(notes), slide=number)


def _iter_notes(slide: Element) -> Iterator[list[Element]]:
    """Yield the shapes with the speaker notes, without the image of the slide and the date."""
    for notes in slide:
        if get_name(notes) == "presentation:notes":
            yield [
                shape
                for shape in notes
                if get_attribute(shape, "presentation:class") in ("notes", "") and not _is_placeholder(shape)
                if get_name(shape) not in ("draw:page-thumbnail", "office:forms")
            ]


def _is_placeholder(shape: Element) -> bool:
    return get_attribute(shape, "presentation:placeholder") == "true"


def _get_position(shape: Element) -> tuple[float, float]:
    """Return the sort key of a shape: from top to bottom, then from left to right."""
    return _read_length(get_attribute(shape, "svg:y")), _read_length(get_attribute(shape, "svg:x"))


def _read_length(value: str) -> float:
    match = _LENGTH.fullmatch(value)
    return round(float(match[1]) * _POINTS[match[2] or ""], 1) if match else -1.0
