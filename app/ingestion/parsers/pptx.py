"""PowerPoint (PPTX): per slide its title, text, tables, charts and notes, in reading order."""

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lxml.etree import LxmlError  # type: ignore[import-untyped]  # lxml ships no types
from pptx import Presentation
from pptx.chart.chart import Chart
from pptx.exc import PythonPptxError
from pptx.shapes.base import BaseShape
from pptx.shapes.group import GroupShape
from pptx.slide import Slide
from pptx.table import Table
from pptx.text.text import TextFrame

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.archives import check_archive
from app.ingestion.parsers.blocks import BlockList, check_pages
from app.ingestion.parsers.cleaning import clean_line
from app.ingestion.parsers.tables import markdown_table
from app.ingestion.types import BlockKind, Corrupt, ParsedDocument

_DAMAGED = (PythonPptxError, LxmlError, zipfile.BadZipFile, KeyError, ValueError, AttributeError, IndexError, OSError)
"""What python-pptx lets through on damaged or wrong packages: it checks nothing itself."""


_GENERIC_TITLE = re.compile(r"|presentation|(powerpoint|microsoft) presentation|(slide|folie) ?\d*", re.IGNORECASE)
"""What PowerPoint writes into the title when nobody does."""


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Titles are headings of level 1; notes are blocks of their own kind.

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
    blocks, unread = BlockList(options), 0
    for number, slide in enumerate(slides, start=1):
        try:
            _read_slide(slide, number, blocks)
        except _DAMAGED:
            unread += 1
    if unread and not blocks.blocks:
        raise Corrupt
    warnings = [f"{unread} of {len(slides)} slides are damaged and were read in part."] if unread else []
    generic = _GENERIC_TITLE.fullmatch(title)
    return ParsedDocument(
        blocks.blocks, title=blocks.first_heading() if generic else title, page_count=len(slides), warnings=warnings
    )


def _read_slide(slide: Slide, number: int, blocks: BlockList) -> None:
    title = slide.shapes.title
    if title is not None and title.has_text_frame:
        blocks.add(BlockKind.HEADING, title.text_frame.text, level=1, slide=number)
    for shape in _flattened(slide.shapes):
        if title is None or shape.shape_id != title.shape_id:
            _read_shape(shape, number, blocks)
    if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame) is not None:
        blocks.add(BlockKind.NOTE, notes.text, slide=number)


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


def _read_shape(shape: BaseShape, number: int, blocks: BlockList) -> None:
    # python-pptx types these by the subclass that has them, behind the has_… flags.
    content: Any = shape
    if shape.has_chart:
        _read_chart(content.chart, number, blocks)
    elif getattr(shape, "has_table", False):
        _read_table(content.table, number, blocks)
    elif shape.has_text_frame:
        _read_text(content.text_frame, number, blocks)


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


def _read_chart(chart: Chart, number: int, blocks: BlockList) -> None:
    """Title, then one row a category and one column a series."""
    if chart.has_title and chart.chart_title.has_text_frame:
        blocks.add(BlockKind.PARAGRAPH, chart.chart_title.text_frame.text, slide=number)
    for plot in chart.plots:
        series = list(plot.series)
        categories = [str(category) for category in plot.categories]
        columns = [[_value(value) for value in one.values] for one in series]
        rows = [["", *(one.name or "" for one in series)]]
        for index in range(max([len(categories), *map(len, columns)])):
            label = categories[index] if index < len(categories) else ""
            rows.append([label, *(column[index] if index < len(column) else "" for column in columns)])
        blocks.add(BlockKind.TABLE, markdown_table(rows), slide=number)


def _value(value: float | None) -> str:
    return "" if value is None else f"{value:g}"
