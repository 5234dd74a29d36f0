"""Parser of image files (PNG, JPEG, GIF, BMP, WebP, TIFF): the image, if requested, and its text from OCR."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from PIL import Image

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.pdf.layout import find_hyphenated_words, group_page_lines
from app.ingestion.parsers.formats.pdf.ocr import (
    MAX_PIXELS,
    MAX_SIDE_PIXELS,
    OcrEngine,
    format_install_hint,
    format_page_ranges,
    list_language_warnings,
)
from app.ingestion.parsers.toolkit.blocks import BlockList, check_page_count
from app.ingestion.parsers.toolkit.image_list import DAMAGED_ERRORS, FORMATS, ImageList, get_exif_rotation, to_8bit
from app.ingestion.parsers.toolkit.image_warnings import list_image_warnings
from app.ingestion.types import BlockKind, CorruptFile, NoTextFound, ParsedDocument, TextTooLong
from app.warnings import ServiceWarning, WarningCode

MAX_MEGAPIXELS = 100
"""Maximum size of an image, in millions of pixels. An image of this size needs 400 MB of memory."""

MAX_ENLARGED_PIXELS = MAX_PIXELS // 4
"""Number of pixels up to which an image is enlarged to twice its width and height before OCR.

OCR reads the small letters of such images, for example screenshots, badly.
"""

ONLY_FIRST_FRAME = ServiceWarning(
    WarningCode.ANIMATION_FRAMES_NOT_READ, "Only the first frame of the animation was read."
)
_RESAMPLING = Image.Resampling.BICUBIC


@dataclass(slots=True)
class _PageOutcomes:
    """Pages and images that were not read.

    Attributes:
        damaged_pages: Numbers of the pages that cannot be decoded.
        pages_without_text: Numbers of the pages in which OCR found no text, and whose image was left out.
        unread_pages: Numbers of the pages without OCR.
        unavailable_reason: Reason why OCR was not available for the unread pages.
        skipped_images: Number of pages whose image was left out of the result.
    """

    damaged_pages: list[int] = field(default_factory=list)
    pages_without_text: list[int] = field(default_factory=list)
    unread_pages: list[int] = field(default_factory=list)
    unavailable_reason: str = ""
    skipped_images: int = 0


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse an image file. The text that OCR finds becomes paragraphs and tables.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The blocks, page by page. Only TIFF files have pages.

    Raises:
        CorruptFile: The file cannot be decoded.
        NoTextFound: OCR found no text or is not available, and no image was added.
        TooManyPages: A TIFF file has more pages than the limit allows.
        TextTooLong: The image has more than 100 million pixels, or its text is longer than the limit allows.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about metadata, and about images over Pillow's limit
        try:
            with Image.open(path, formats=FORMATS) as image:
                return _parse_image(path, image, options)
        except Image.DecompressionBombError as exc:
            raise _create_too_large_error() from exc
        except DAMAGED_ERRORS as exc:
            raise CorruptFile from exc


def _create_too_large_error() -> TextTooLong:
    return TextTooLong(f"The image has more than {MAX_MEGAPIXELS} million pixels; scale it down.")


def _parse_image(path: Path, image: Image.Image, options: ParseOptions) -> ParsedDocument:
    ocr_engine, blocks, outcomes = OcrEngine(options), BlockList(options), _PageOutcomes()
    images = ImageList(blocks, options)
    pages = _count_pages(image, options)
    for number in range(1, pages + 1):
        options.on_progress(number, pages)
        page = number if pages > 1 else None
        image_index = images.add_image(partial(_open_frame, path, number)) if options.needs_images else None
        images.append_block(image_index, page=page)
        outcomes.unavailable_reason = outcomes.unavailable_reason or ocr_engine.unavailable_reason
        if outcomes.unavailable_reason:
            outcomes.unread_pages.append(number)
            continue
        try:
            has_text = _add_page(image, number, ocr_engine, blocks, page=page)
        except (CorruptFile, *DAMAGED_ERRORS):
            outcomes.damaged_pages.append(number)
        else:
            if not has_text and image_index is None:
                outcomes.pages_without_text.append(number)
    outcomes.skipped_images = images.skipped_count
    if not blocks.blocks:
        raise _create_no_text_error(outcomes, options)
    count = pages if pages > 1 else None
    warnings = list(_iter_warnings(image, outcomes, options))
    return ParsedDocument(blocks.blocks, page_count=count, warnings=warnings, images=images.images)


def _open_frame(path: Path, number: int) -> Image.Image:
    """Open a page of an image file without decoding it."""
    image = Image.open(path, formats=FORMATS)
    image.seek(number - 1)
    return image


def _count_pages(image: Image.Image, options: ParseOptions) -> int:
    """Return the number of pages: 1 for every format except TIFF, whose frames are pages and not an animation.

    Raises TextTooLong if the first page has too many pixels, and TooManyPages if the file has too many pages.
    """
    if image.width * image.height > MAX_MEGAPIXELS * 1_000_000:
        raise _create_too_large_error()
    if image.format != "TIFF":
        return 1
    pages = 1
    try:
        while pages <= options.max_pages:  # one by one: after a seek beyond the last page, Pillow counts wrongly
            image.seek(pages)
            pages += 1
    except EOFError:
        image.seek(0)
    check_page_count(pages, options)
    return pages


def _add_page(image: Image.Image, number: int, ocr_engine: OcrEngine, blocks: BlockList, *, page: int | None) -> bool:
    """Add the text that OCR finds on a page, and return whether there is any."""
    if page is not None:
        image.seek(number - 1)
    if image.width * image.height > MAX_MEGAPIXELS * 1_000_000:
        raise _create_too_large_error()
    grey = _prepare_for_ocr(image)
    lines = ocr_engine.read_image(grey.tobytes(), grey.width, grey.height)
    for group in group_page_lines(lines, find_hyphenated_words(lines)):
        if group.rows:
            blocks.add(BlockKind.TABLE, group.text, page=page)
        else:
            blocks.add(BlockKind.PARAGRAPH, group.text, page=page)
    return bool(lines)


def _prepare_for_ocr(image: Image.Image) -> Image.Image:
    """Return the image in grayscale on white, upright, and in a size that OCR reads well."""
    grey = _to_grey(image)
    pixels = grey.width * grey.height
    factor = 2.0 if pixels <= MAX_ENLARGED_PIXELS else min(1.0, (MAX_PIXELS / pixels) ** 0.5)
    factor = min(factor, MAX_SIDE_PIXELS / max(grey.size))
    if factor != 1.0:
        grey = grey.resize((max(1, round(grey.width * factor)), max(1, round(grey.height * factor))), _RESAMPLING)
    if grey.mode == "LA":
        background = Image.new("L", grey.size, 255)
        background.paste(grey.getchannel("L"), mask=grey.getchannel("A"))
        grey = background
    rotation = get_exif_rotation(image)
    return grey if rotation is None else grey.transpose(rotation)


def _to_grey(image: Image.Image) -> Image.Image:
    image.load()
    if not image.mode.startswith(("I", "F")):
        return image.convert("LA" if image.has_transparency_data else "L")
    return to_8bit(image)


def _create_no_text_error(outcomes: _PageOutcomes, options: ParseOptions) -> CorruptFile | NoTextFound:
    if outcomes.damaged_pages and not outcomes.pages_without_text and not outcomes.unread_pages:
        return CorruptFile()
    reason = f": {outcomes.unavailable_reason}" if outcomes.unavailable_reason else ""
    remedy = "" if options.ocr.languages else f"; {format_install_hint(options.ocr)}"
    return NoTextFound(f"The image has no readable text{reason}{remedy}.")


def _iter_warnings(image: Image.Image, outcomes: _PageOutcomes, options: ParseOptions) -> Iterator[ServiceWarning]:
    if outcomes.damaged_pages:
        message = f"{format_page_ranges(outcomes.damaged_pages)} could not be read: the file is damaged."
        yield ServiceWarning(WarningCode.DAMAGED_PAGES_NOT_READ, message)
    if outcomes.pages_without_text:
        verb = "has" if len(outcomes.pages_without_text) == 1 else "have"
        message = f"{format_page_ranges(outcomes.pages_without_text)} {verb} no readable text."
        yield ServiceWarning(WarningCode.PAGES_WITHOUT_TEXT, message)
    if outcomes.unread_pages:
        message = f"{format_page_ranges(outcomes.unread_pages)} could not be read: {outcomes.unavailable_reason}."
        yield ServiceWarning(WarningCode.OCR_PAGES_NOT_READ, message)
    if image.format in ("GIF", "WEBP", "PNG") and getattr(image, "is_animated", False):
        yield ONLY_FIRST_FRAME
    yield from list_language_warnings(options.ocr)
    yield from list_image_warnings(outcomes.skipped_images)
