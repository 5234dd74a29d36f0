"""Parser of PowerPoint files (PPTX): title, text, tables, charts, SmartArt, notes and comments of each slide."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pptx import Presentation
from pptx.exc import PythonPptxError
from pptx.shapes.base import BaseShape
from pptx.shapes.graphfrm import GraphicFrame
from pptx.shapes.group import GroupShape
from pptx.shapes.picture import Picture
from pptx.slide import Slide
from pptx.table import Table
from pptx.text.text import TextFrame

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.toolkit.archives import check_archive
from app.ingestion.parsers.toolkit.blocks import BlockList, check_page_count
from app.ingestion.parsers.toolkit.image_list import ImageList
from app.ingestion.parsers.toolkit.image_warnings import list_image_warnings
from app.ingestion.parsers.toolkit.ooxml import (
    UNREADABLE_ERRORS,
    find_child,
    get_attribute,
    get_tag,
    iter_children,
    iter_texts,
    parse_xml,
)
from app.ingestion.parsers.toolkit.ooxml_drawings import add_chart, read_diagram_lines
from app.ingestion.parsers.toolkit.tables import format_markdown_table
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import BlockKind, CorruptFile, ParsedDocument
from app.warnings import ServiceWarning, WarningCode

_DAMAGED_ERRORS = (PythonPptxError, *UNREADABLE_ERRORS, AttributeError, IndexError, TypeError, CorruptFile)
"""Exceptions for a damaged file. python-pptx does not validate files, so it raises many kinds of exceptions."""


_GENERIC_TITLE = re.compile(r"|presentation|(powerpoint|microsoft) presentation|(slide|folie) ?\d*", re.IGNORECASE)
"""Titles that PowerPoint sets by default. They count as missing."""


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse a PowerPoint file. Slide titles become headings of level 1; speaker notes and comments become notes.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The blocks, slide by slide. The title comes from the file's properties, else from the first slide title.

    Raises:
        CorruptFile: The file is damaged, and no slide can be read.
        EncryptedFile: The file is encrypted.
        TooManyPages: The file has more slides than the limit allows.
        TextTooLong: The file unpacks to more bytes, or has more text, than the limits allow.
    """
    check_archive(path)
    try:
        presentation = Presentation(str(path))
        slides = list(presentation.slides)
        title = clean_line(presentation.core_properties.title or "")
    except _DAMAGED_ERRORS as exc:
        raise CorruptFile from exc
    check_page_count(len(slides), options)
    blocks, damaged_count, unread_images = BlockList(options), 0, 0
    images = ImageList(blocks, options)
    for number, slide in enumerate(slides, start=1):
        options.on_progress(number, len(slides))
        try:
            unread_images += _read_slide(slide, number, blocks, images)
        except _DAMAGED_ERRORS:
            damaged_count += 1
    if damaged_count and not blocks.blocks:
        raise CorruptFile
    warnings = list_image_warnings(unread_images + images.skipped_count)
    if damaged_count:
        message = f"{damaged_count} of {len(slides)} slides are damaged and were read in part."
        warnings.insert(0, ServiceWarning(WarningCode.SLIDES_PARTLY_READ, message))
    is_generic = _GENERIC_TITLE.fullmatch(title)
    return ParsedDocument(
        blocks.blocks,
        title=blocks.find_first_heading() if is_generic else title,
        page_count=len(slides),
        warnings=warnings,
        images=images.images,
    )


def _read_slide(slide: Slide, number: int, blocks: BlockList, images: ImageList) -> int:
    """Add the blocks of a slide, and return the number of its images that were not read."""
    _resolve_alternatives(slide)
    title = slide.shapes.title
    if title is not None and title.has_text_frame:
        blocks.add(BlockKind.HEADING, title.text_frame.text, level=1, slide=number)
    unread_images = 0
    for shape in _iter_shapes(slide.shapes):
        if isinstance(shape, Picture) and images.is_enabled:
            unread_images += _add_image(shape, number, images)
        elif title is None or shape.shape_id != title.shape_id:
            unread_images += _read_shape(shape, number, blocks)
    if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame) is not None:
        blocks.add(BlockKind.NOTE, notes.text, slide=number)
    for comment in _iter_comments(slide):
        blocks.add(BlockKind.NOTE, comment, slide=number)
    return unread_images


def _add_image(shape: Picture, number: int, images: ImageList) -> int:
    """Add an image, and return the number of unread images: 1 if the image is only linked or its file is missing."""
    try:
        data = shape.image.blob
    except _DAMAGED_ERRORS:
        return 1
    images.add_file(data, slide=number)
    return 0


def _resolve_alternatives(slide: Slide) -> None:
    """Replace each group of alternatives by its first choice, because python-pptx ignores alternatives."""
    for element in [descendant for descendant in slide.element.iter() if get_tag(descendant) == "mc:AlternateContent"]:
        choice = find_child(element, "mc:Choice")
        for shape in list(iter_children(choice if choice is not None else find_child(element, "mc:Fallback"))):
            element.addprevious(shape)
        element.getparent().remove(element)


def _iter_comments(slide: Slide) -> Iterator[str]:
    """Yield the comments on a slide and the replies to them, in the older and the newer comment format."""
    for relationship in slide.part.rels.values():
        if relationship.is_external or not relationship.reltype.endswith("/comments"):
            continue
        for element in parse_xml(relationship.target_part.blob).iter():
            if get_tag(element) == "p:text":
                yield element.text or ""
            elif get_tag(element) == "p188:txBody":
                yield "\n".join("".join(iter_texts(paragraph, "a:t")) for paragraph in iter_children(element, "a:p"))


def _iter_shapes(shapes: Any) -> Iterator[BaseShape]:
    """Yield the shapes from top to bottom, with groups replaced by their shapes.

    A stack replaces recursion, because groups may be nested without limit.
    """
    stack = [iter(sorted(shapes, key=_get_position))]
    while stack:
        shape = next(stack[-1], None)
        if shape is None:
            stack.pop()
        elif isinstance(shape, GroupShape):
            stack.append(iter(sorted(shape.shapes, key=_get_position)))
        else:
            yield shape


def _get_position(shape: BaseShape) -> tuple[int, int]:
    """Return the sort key of a shape. Placeholders that inherit their position come first, as in the outline."""
    top, left = shape.top, shape.left
    return (int(top) if top is not None else -1, int(left) if left is not None else -1)


def _read_shape(shape: BaseShape, number: int, blocks: BlockList) -> int:
    """Add the blocks of a shape, and return the number of unread images: 1 for an image or a graphic without text."""
    # The has_… flags decide which attributes the shape has; the types of python-pptx do not express this.
    content: Any = shape
    if getattr(shape, "has_table", False):
        _read_table(content.table, number, blocks)
    elif shape.has_text_frame:
        _read_text(content.text_frame, number, blocks)
    elif isinstance(shape, GraphicFrame):
        return _read_graphic(shape, number, blocks)
    return int(isinstance(shape, Picture))


def _read_text(frame: TextFrame, number: int, blocks: BlockList) -> None:
    """Add the paragraphs of a text frame: a single one as a paragraph, several as list items."""
    paragraphs = [paragraph.text.strip() for paragraph in frame.paragraphs]
    paragraphs = [text for text in paragraphs if text]
    kind = BlockKind.LIST_ITEM if len(paragraphs) > 1 else BlockKind.PARAGRAPH
    for text in paragraphs:
        blocks.add(kind, text, slide=number)


def _read_table(table: Table, number: int, blocks: BlockList) -> None:
    rows = [["" if cell.is_spanned else cell.text for cell in row.cells] for row in table.rows]
    blocks.add(BlockKind.TABLE, format_markdown_table(rows), slide=number)


def _read_graphic(frame: GraphicFrame, number: int, blocks: BlockList) -> int:
    """Add the text of a chart or SmartArt, and return 1 for any other graphic, such as an embedded sheet.

    The parts are read without python-pptx, because it creates as many categories as a chart declares.
    """
    unread = 1
    for element in frame.element.iter():
        if get_tag(element) == "c:chart":
            chart = frame.part.related_part(get_attribute(element, "id"))
            add_chart(parse_xml(chart.blob), blocks, slide=number)
            unread = 0
        elif get_tag(element) == "dgm:relIds":
            diagram = frame.part.related_part(get_attribute(element, "dm"))
            for line in read_diagram_lines(parse_xml(diagram.blob)):
                blocks.add(BlockKind.LIST_ITEM, line, slide=number)
            unread = 0
    return unread
