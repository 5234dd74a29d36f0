"""PowerPoint (PPTX): per slide its title, text, tables, charts, SmartArt, notes and comments, in reading order."""

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
from app.ingestion.parsers.archives import check_archive
from app.ingestion.parsers.blocks import BlockList, check_pages
from app.ingestion.parsers.cleaning import clean_line
from app.ingestion.parsers.drawings import add_chart, diagram_lines, pictures_warning
from app.ingestion.parsers.ooxml import UNREADABLE, attribute, child, children, name, parse_xml, texts
from app.ingestion.parsers.pictures import PictureList
from app.ingestion.parsers.tables import markdown_table
from app.ingestion.types import BlockKind, Corrupt, ParsedDocument

_DAMAGED = (PythonPptxError, *UNREADABLE, AttributeError, IndexError, TypeError, Corrupt)
"""What python-pptx lets through on damaged or wrong packages, as it checks nothing itself; and our own word for it."""


_GENERIC_TITLE = re.compile(r"|presentation|(powerpoint|microsoft) presentation|(slide|folie) ?\d*", re.IGNORECASE)
"""What PowerPoint writes into the title when nobody does."""


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Titles are headings of level 1; speaker notes and comments are blocks of their own kind.

    Raises Corrupt, Encrypted, TooMuchText, TooManyPages.
    """
    check_archive(path)
    try:
        presentation = Presentation(str(path))
        slides = list(presentation.slides)
        title = clean_line(presentation.core_properties.title or "")
    except _DAMAGED as exc:
        raise Corrupt from exc
    check_pages(len(slides), options)
    blocks, unread, unseen = BlockList(options), 0, 0
    pictures = PictureList(blocks, options)
    for number, slide in enumerate(slides, start=1):
        options.report(number, len(slides))
        try:
            unseen += _read_slide(slide, number, blocks, pictures)
        except _DAMAGED:
            unread += 1
    if unread and not blocks.blocks:
        raise Corrupt
    warnings = [f"{unread} of {len(slides)} slides are damaged and were read in part."] if unread else []
    warnings += pictures_warning(unseen + pictures.left_out)
    generic = _GENERIC_TITLE.fullmatch(title)
    return ParsedDocument(
        blocks.blocks,
        title=blocks.first_heading() if generic else title,
        page_count=len(slides),
        warnings=warnings,
        pictures=pictures.pictures,
    )


def _read_slide(slide: Slide, number: int, blocks: BlockList, pictures: PictureList) -> int:
    """Add the slide's blocks; the answer is how many pictures nobody takes."""
    _settle_alternatives(slide)
    title = slide.shapes.title
    if title is not None and title.has_text_frame:
        blocks.add(BlockKind.HEADING, title.text_frame.text, level=1, slide=number)
    unseen = 0
    for shape in _flattened(slide.shapes):
        if isinstance(shape, Picture) and pictures.wanted:
            unseen += _take_picture(shape, number, pictures)
        elif title is None or shape.shape_id != title.shape_id:
            unseen += _read_shape(shape, number, blocks)
    if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame) is not None:
        blocks.add(BlockKind.NOTE, notes.text, slide=number)
    for comment in _comments(slide):
        blocks.add(BlockKind.NOTE, comment, slide=number)
    return unseen


def _take_picture(shape: Picture, number: int, pictures: PictureList) -> int:
    """1 for a picture that is only linked to, or whose file is missing."""
    try:
        data = shape.image.blob
    except _DAMAGED:
        return 1
    pictures.add_file(data, slide=number)
    return 0


def _settle_alternatives(slide: Slide) -> None:
    """Put the first choice in the place of alternatives, which python-pptx does not look into."""
    for element in [found for found in slide.element.iter() if name(found) == "mc:AlternateContent"]:
        chosen = child(element, "mc:Choice")
        for shape in list(children(chosen if chosen is not None else child(element, "mc:Fallback"))):
            element.addprevious(shape)
        element.getparent().remove(element)


def _comments(slide: Slide) -> Iterator[str]:
    """The comments and the answers to them, of the older and the newer kind."""
    for relationship in slide.part.rels.values():
        if relationship.is_external or not relationship.reltype.endswith("/comments"):
            continue
        for element in parse_xml(relationship.target_part.blob).iter():
            if name(element) == "p:text":
                yield element.text or ""
            elif name(element) == "p188:txBody":
                yield "\n".join("".join(texts(paragraph, "a:t")) for paragraph in children(element, "a:p"))


def _flattened(shapes: Any) -> Iterator[BaseShape]:
    """Every shape from top to bottom, groups opened; a stack instead of recursion, as groups nest without limit."""
    stack = [iter(sorted(shapes, key=_position))]
    while stack:
        shape = next(stack[-1], None)
        if shape is None:
            stack.pop()
        elif isinstance(shape, GroupShape):
            stack.append(iter(sorted(shape.shapes, key=_position)))
        else:
            yield shape


def _position(shape: BaseShape) -> tuple[int, int]:
    """Placeholders that inherit their place say None; they come first, as in the outline."""
    top, left = shape.top, shape.left
    return (int(top) if top is not None else -1, int(left) if left is not None else -1)


def _read_shape(shape: BaseShape, number: int, blocks: BlockList) -> int:
    """Add the shape's blocks; 1 for a picture, or what can only be looked at like one."""
    # python-pptx types these by the subclass that has them, behind the has_… flags.
    content: Any = shape
    if getattr(shape, "has_table", False):
        _read_table(content.table, number, blocks)
    elif shape.has_text_frame:
        _read_text(content.text_frame, number, blocks)
    elif isinstance(shape, GraphicFrame):
        return _read_graphic(shape, number, blocks)
    return int(isinstance(shape, Picture))


def _read_text(frame: TextFrame, number: int, blocks: BlockList) -> None:
    """The paragraphs of one frame belong together: short lines stay one block, bullets become items."""
    paragraphs = [paragraph.text.strip() for paragraph in frame.paragraphs]
    paragraphs = [text for text in paragraphs if text]
    kind = BlockKind.LIST_ITEM if len(paragraphs) > 1 else BlockKind.PARAGRAPH
    for text in paragraphs:
        blocks.add(kind, text, slide=number)


def _read_table(table: Table, number: int, blocks: BlockList) -> None:
    rows = [["" if cell.is_spanned else cell.text for cell in row.cells] for row in table.rows]
    blocks.add(BlockKind.TABLE, markdown_table(rows), slide=number)


def _read_graphic(frame: GraphicFrame, number: int, blocks: BlockList) -> int:
    """Charts and SmartArt; 1 for any other graphic, such as an embedded sheet or a chart of the newer kind.

    Their parts are read as they stand: python-pptx makes as many categories as a chart claims to have.
    """
    unread = 1
    for element in frame.element.iter():
        if name(element) == "c:chart":
            chart = frame.part.related_part(attribute(element, "id"))
            add_chart(parse_xml(chart.blob), blocks, slide=number)
            unread = 0
        elif name(element) == "dgm:relIds":
            diagram = frame.part.related_part(attribute(element, "dm"))
            for line in diagram_lines(parse_xml(diagram.blob)):
                blocks.add(BlockKind.LIST_ITEM, line, slide=number)
            unread = 0
    return unread
