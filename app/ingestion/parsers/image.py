"""Pictures (PNG, JPEG, GIF, BMP, WebP, TIFF): the text that OCR finds in them, page by page where TIFF has several."""

import struct
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from PIL import ExifTags, Image

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.blocks import BlockList, check_pages
from app.ingestion.parsers.ocr import MAX_PIXELS, MAX_SIDE, Recogniser, advice, missing_languages, page_list
from app.ingestion.parsers.pdf_layout import hyphenated_words, read_page
from app.ingestion.parsers.tables import markdown_table
from app.ingestion.types import BlockKind, Corrupt, NoText, ParsedDocument, TooMuchText

MEGAPIXELS = 100
"""The largest picture that is decoded: 400 MB in memory."""

ENLARGED_BELOW = MAX_PIXELS // 4
"""Pictures of so few pixels, as of screens, have letters that are read badly unless they are enlarged twice."""

_FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF")
_SMOOTH = Image.Resampling.BICUBIC
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""By EXIF's number of the orientation."""

_DAMAGED = (
    OSError, SyntaxError, ValueError, EOFError, struct.error, LookupError, TypeError, AttributeError, ArithmeticError,
    RuntimeError,
)  # fmt: skip
"""What Pillow lets through on damaged files."""


@dataclass(slots=True)
class _Reading:
    """How the pages fared; ``obstacle`` is why the ``unread`` were not read."""

    damaged: list[int] = field(default_factory=list)
    wordless: list[int] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    obstacle: str = ""


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Raises Corrupt, NoText, TooManyPages, TooMuchText."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of large pictures, which have a limit here, and of odd metadata
        try:
            with Image.open(path, formats=_FORMATS) as image:
                return _parse(image, options)
        except Image.DecompressionBombError as exc:
            raise _too_large() from exc
        except _DAMAGED as exc:
            raise Corrupt from exc


def _too_large() -> TooMuchText:
    return TooMuchText(f"The picture has more than {MEGAPIXELS} million pixels.")


def _parse(image: Image.Image, options: ParseOptions) -> ParsedDocument:
    recogniser, blocks, reading = Recogniser(options), BlockList(options), _Reading()
    pages = _page_count(image, options)
    for number in range(1, pages + 1):
        options.report(number, pages)
        reading.obstacle = recogniser.obstacle
        if reading.obstacle:
            reading.unread = list(range(number, pages + 1))
            break
        try:
            found = _add_page(image, number, recogniser, blocks, page=number if pages > 1 else None)
        except (Corrupt, *_DAMAGED):
            reading.damaged.append(number)
        else:
            if not found:
                reading.wordless.append(number)
    if not blocks.blocks:
        raise _no_text(reading, options)
    count = pages if pages > 1 else None
    return ParsedDocument(blocks.blocks, page_count=count, warnings=list(_warnings(image, reading, options)))


def _page_count(image: Image.Image, options: ParseOptions) -> int:
    """Only TIFF has pages; the other frames of other formats are an animation. Raises TooMuchText, TooManyPages."""
    if image.width * image.height > MEGAPIXELS * 1_000_000:
        raise _too_large()
    if image.format != "TIFF":
        return 1
    pages = 1
    try:
        while pages <= options.max_pages:  # step by step: Pillow counts wrongly after a jump beyond the last page
            image.seek(pages)
            pages += 1
    except EOFError:
        image.seek(0)
    check_pages(pages, options)
    return pages


def _add_page(image: Image.Image, number: int, recogniser: Recogniser, blocks: BlockList, *, page: int | None) -> bool:
    """Whether there was any text."""
    if page is not None:
        image.seek(number - 1)
    if image.width * image.height > MEGAPIXELS * 1_000_000:
        raise _too_large()
    grey = _prepared(image)
    lines = recogniser.read_picture(grey.tobytes(), grey.width, grey.height)
    for group in read_page(lines, hyphenated_words(lines)):
        if group.rows:
            blocks.add(BlockKind.TABLE, markdown_table(group.rows), page=page)
        else:
            blocks.add(BlockKind.PARAGRAPH, group.text, page=page)
    return bool(lines)


def _prepared(image: Image.Image) -> Image.Image:
    """Grey on white, upright, of a size that OCR reads well."""
    grey = _grey(image)
    pixels = grey.width * grey.height
    factor = 2.0 if pixels <= ENLARGED_BELOW else min(1.0, (MAX_PIXELS / pixels) ** 0.5)
    factor = min(factor, MAX_SIDE / max(grey.size))
    if factor != 1.0:
        grey = grey.resize((max(1, round(grey.width * factor)), max(1, round(grey.height * factor))), _SMOOTH)
    if grey.mode == "LA":
        paper = Image.new("L", grey.size, 255)
        paper.paste(grey.getchannel("L"), mask=grey.getchannel("A"))
        grey = paper
    turn = None if image.format == "TIFF" else _TURNS.get(_orientation(image))  # Pillow turns TIFF by itself
    return grey if turn is None else grey.transpose(turn)


def _grey(image: Image.Image) -> Image.Image:
    image.load()
    if not image.mode.startswith(("I", "F")):
        return image.convert("LA" if image.has_transparency_data else "L")
    deep = image.convert("F")  # more than 8 bits a pixel: spread over the range of 8, where Pillow would cut them off
    low, high = cast("tuple[float, float]", deep.getextrema())  # a pair of pairs where there are several bands
    step = 255 / (high - low) if high > low else 1.0
    return deep.point(lambda value: value * step - low * step).convert("L")


def _orientation(image: Image.Image) -> int:
    """What the camera noted in EXIF; 1 is upright."""
    try:
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    except _DAMAGED:
        return 1


def _no_text(reading: _Reading, options: ParseOptions) -> Corrupt | NoText:
    if reading.damaged and not reading.wordless and not reading.unread:
        return Corrupt()
    why = f": {reading.obstacle}" if reading.obstacle else ""
    remedy = "" if options.ocr.languages else f"; {advice(options.ocr)}"
    return NoText(f"The picture has no text that could be read{why}{remedy}.")


def _warnings(image: Image.Image, reading: _Reading, options: ParseOptions) -> Iterator[str]:
    if reading.damaged:
        yield f"{page_list(reading.damaged)} could not be read: the file is damaged."
    if reading.wordless:
        has = "has" if len(reading.wordless) == 1 else "have"
        yield f"{page_list(reading.wordless)} {has} no text that could be read."
    if reading.unread:
        yield f"{page_list(reading.unread)} could not be read: {reading.obstacle}."
    if image.format in ("GIF", "WEBP", "PNG") and getattr(image, "is_animated", False):
        yield "Only the first picture of the animation was read."
    if missing := missing_languages(options.ocr):
        yield missing
