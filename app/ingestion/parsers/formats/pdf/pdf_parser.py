"""Parser of PDF files: headings, paragraphs, tables and images with page numbers, in reading order."""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from itertools import chain
from pathlib import Path
from typing import Any

import pymupdf
from pymupdf import mupdf

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.pdf.annotations import list_new_comments
from app.ingestion.parsers.formats.pdf.headings import HeadingDetector, read_outline
from app.ingestion.parsers.formats.pdf.layout import find_hyphenated_words, group_page_lines
from app.ingestion.parsers.formats.pdf.line_boxes import LineBoxBuilder
from app.ingestion.parsers.formats.pdf.pages import PdfPage, iter_warnings, read_pages
from app.ingestion.parsers.formats.pdf.pdf_images import (
    PdfImageExtractor,
    PdfImagePlacement,
    find_content_images,
    interleave_images,
)
from app.ingestion.parsers.formats.pdf.ruled_tables import needs_rulings, replace_ruled_tables
from app.ingestion.parsers.formats.pdf.rulings import Rulings, read_rulings
from app.ingestion.parsers.formats.pdf.running_lines import HEADING_RATIO, remove_running_lines
from app.ingestion.parsers.formats.pdf.table_text import PageTable, find_last_table
from app.ingestion.parsers.formats.pdf.text_line import LayoutGroup
from app.ingestion.parsers.formats.pdf.unread_parts import list_part_warnings
from app.ingestion.parsers.toolkit.blocks import BlockList, check_page_count
from app.ingestion.parsers.toolkit.image_list import ImageList
from app.ingestion.parsers.toolkit.titles import choose_title
from app.ingestion.types import Block, BlockKind, CorruptFile, EncryptedFile, ParsedDocument, ParserOutOfMemory


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse a PDF file. Repetitions of running headers and footers are left out, and so are page numbers.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The blocks in reading order. The title comes from the file's metadata, else from the first heading.

    Raises:
        EncryptedFile: The file needs a password.
        CorruptFile: The file is damaged.
        NoTextFound: The file has neither readable text nor an extracted image.
        TooManyPages: The file has more pages than the limit allows.
        TextTooLong: The document has more characters or nodes than the limits allow.
        ParserOutOfMemory: The process has reached its memory limit.
    """
    fitz: Any = pymupdf  # a library without type annotations
    fitz.TOOLS.mupdf_display_errors(False)
    fitz.TOOLS.mupdf_display_warnings(False)
    try:
        with fitz.open(path, filetype="pdf") as document:
            return _parse_document(document, options)
    except mupdf.FzErrorSystem as exc:
        raise ParserOutOfMemory from exc
    except (pymupdf.FileDataError, pymupdf.EmptyFileError, mupdf.FzErrorBase) as exc:
        raise CorruptFile from exc
    finally:
        fitz.TOOLS.store_shrink(100)


def _parse_document(document: Any, options: ParseOptions) -> ParsedDocument:
    if document.needs_pass and not document.authenticate(""):
        raise EncryptedFile
    if not document.is_pdf or document.page_count == 0:
        raise CorruptFile
    check_page_count(document.page_count, options)
    blocks = BlockList(options)
    images = ImageList(blocks, options)
    document_pages = read_pages(document, options, PdfImageExtractor(images))
    pages = document_pages.pages
    body = _estimate_body_size(pages)
    running_line_warnings = remove_running_lines(pages, body)
    hyphenated = find_hyphenated_words(chain.from_iterable(page.lines for page in pages))
    groups = list(_iter_groups(document, pages, hyphenated, HEADING_RATIO * body))
    headings = HeadingDetector(read_outline(document), body, groups)
    line_boxes = LineBoxBuilder(pages)
    for number, item in _iter_in_reading_order(pages, groups):
        if isinstance(item, str):
            blocks.add(BlockKind.NOTE, item, page=number)
        elif isinstance(item, LayoutGroup):
            _add_group(item, number, headings, line_boxes, blocks)
        else:
            images.append_block(item.image_index, page=number)
    return ParsedDocument(
        blocks.blocks,
        title=choose_title((document.metadata or {}).get("title"), blocks.blocks),
        page_count=document.page_count,
        warnings=[
            *iter_warnings(document, document_pages, options),
            *list_part_warnings(document, (page.annotations for page in pages if page.annotations)),
            *running_line_warnings,
        ],
        images=images.images,
    )


def _iter_in_reading_order(
    pages: Sequence[PdfPage], groups: Sequence[tuple[int, LayoutGroup]]
) -> Iterator[tuple[int, LayoutGroup | PdfImagePlacement | str]]:
    """Yield groups, images and comments with their page numbers, in reading order.

    Repetitions of an image are left out. Comments follow the text of their page.
    """
    by_page: dict[int, list[LayoutGroup]] = {}
    for number, group in groups:
        by_page.setdefault(number, []).append(group)
    pending_keys = find_content_images([page.images for page in pages])
    for page in pages:
        new_images = {
            image.key: image for image in page.images if image.image_index is not None and image.key in pending_keys
        }
        pending_keys -= new_images.keys()
        for item in interleave_images(by_page.get(page.number, ()), new_images.values()):
            yield page.number, item
        if page.annotations:
            for comment in list_new_comments(page.annotations.comments, page.lines):
                yield page.number, comment


def _iter_groups(
    document: Any, pages: Sequence[PdfPage], hyphenated: Set[str], heading_size: float
) -> Iterator[tuple[int, LayoutGroup]]:
    """Yield the groups of all pages with their page numbers. A table at the end of a page may continue on the next."""
    last_table: PageTable | None = None
    for page in pages:
        size = heading_size / page.size_scale
        groups = list(group_page_lines(page.lines, hyphenated, size, last_table))
        if not page.is_ocr and needs_rulings(page.lines, groups):
            lines, tables = replace_ruled_tables(page.lines, _read_rulings(document, page), hyphenated)
            if tables:
                groups = list(group_page_lines(lines, hyphenated, size, last_table, tables))
        last_table = find_last_table(groups)
        for group in groups:
            yield page.number, group._replace(size=group.size * page.size_scale) if page.is_ocr else group


def _read_rulings(document: Any, page: PdfPage) -> Rulings:
    """Return the ruling lines of a page; none if its drawings are damaged."""
    try:
        return read_rulings(document.load_page(page.number - 1))
    except mupdf.FzErrorSystem:
        raise
    except (mupdf.FzErrorBase, RuntimeError, ValueError):
        return Rulings()


def _estimate_body_size(pages: Sequence[PdfPage]) -> float:
    """Return the font size of most characters in points, and set ``size_scale`` of the OCR pages.

    The font sizes of OCR are estimates, so they are scaled to the size of the other pages.
    """
    printed_pages = [page for page in pages if page.lines and not page.is_ocr]
    body = _find_most_common_size(printed_pages or pages)
    for page in pages:
        if page.is_ocr:
            page.size_scale = body / (_find_most_common_size([page]) or body)
    return body


def _find_most_common_size(pages: Sequence[PdfPage]) -> float:
    exact: dict[float, int] = {}
    for line in chain.from_iterable(page.lines for page in pages):
        exact[line.size] = exact.get(line.size, 0) + len(line.text)
    sizes: Counter[float] = Counter()
    for size, characters in exact.items():
        sizes[round(size, 1)] += characters
    return sizes.most_common(1)[0][0] if sizes else 0.0


def _add_group(
    group: LayoutGroup, page: int, headings: HeadingDetector, line_boxes: LineBoxBuilder, blocks: BlockList
) -> None:
    level = headings.get_level(group, page)
    kind = BlockKind.TABLE if group.rows else BlockKind.HEADING if level else BlockKind.PARAGRAPH
    if group.text:
        line_layout = line_boxes.build_layout(page, group.lines, group.ranges)
        blocks.append(Block(kind, group.text, level=level, page=page, line_layout=line_layout))
