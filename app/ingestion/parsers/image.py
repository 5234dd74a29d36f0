"""Pictures (PNG, JPEG, GIF, BMP, WebP, TIFF): each itself, where asked for, and the text that OCR finds in it."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from PIL import Image

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.blocks import BlockList, check_pages
from app.ingestion.parsers.drawings import pictures_warning
from app.ingestion.parsers.ocr import MAX_PIXELS, MAX_SIDE, Recogniser, advice, missing_languages, page_list
from app.ingestion.parsers.pdf_layout import hyphenated_words, read_page
from app.ingestion.parsers.pictures import DAMAGED, FORMATS, PictureList, eight_bits, turn_of
from app.ingestion.parsers.tables import markdown_table
from app.ingestion.types import BlockKind, Corrupt, NoText, ParsedDocument, TooMuchText

MEGAPIXELS = 100
"""The largest picture that is decoded: 400 MB in memory."""

ENLARGED_BELOW = MAX_PIXELS // 4
"""Pictures of so few pixels, as of screens, have letters that are read badly unless they are enlarged twice."""

_SMOOTH = Image.Resampling.BICUBIC


@dataclass(slots=True)
class _Reading:
    """How the pages fared; ``obstacle`` is why the ``unread`` were not read, ``unshown`` no model will look at."""

    damaged: list[int] = field(default_factory=list)
    wordless: list[int] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    obstacle: str = ""
    unshown: int = 0


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Raises Corrupt, NoText, TooManyPages, TooMuchText."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of large pictures, which have a limit here, and of odd metadata
        try:
            with Image.open(path, formats=FORMATS) as image:
                return _parse(path, image, options)
        except Image.DecompressionBombError as exc:
            raise _too_large() from exc
        except DAMAGED as exc:
            raise Corrupt from exc


def _too_large() -> TooMuchText:
    return TooMuchText(f"The picture has more than {MEGAPIXELS} million pixels.")


def _parse(path: Path, image: Image.Image, options: ParseOptions) -> ParsedDocument:
    recogniser, blocks, reading = Recogniser(options), BlockList(options), _Reading()
    pictures = PictureList(blocks, options)
    pages = _page_count(image, options)
    for number in range(1, pages + 1):
        options.report(number, pages)
        page = number if pages > 1 else None
        shown = pictures.take(partial(_frame, path, number)) if options.pictures else None
        pictures.place(shown, page=page)
        reading.obstacle = reading.obstacle or recogniser.obstacle
        if reading.obstacle:
            reading.unread.append(number)
            continue
        try:
            found = _add_page(image, number, recogniser, blocks, page=page)
        except (Corrupt, *DAMAGED):
            reading.damaged.append(number)
        else:
            if not found and shown is None:
                reading.wordless.append(number)
    reading.unshown = pictures.left_out
    if not blocks.blocks:
        raise _no_text(reading, options)
    count = pages if pages > 1 else None
    told = list(_warnings(image, reading, options))
    return ParsedDocument(blocks.blocks, page_count=count, warnings=told, pictures=pictures.pictures)


def _frame(path: Path, number: int) -> Image.Image:
    """A page, not decoded yet."""
    image = Image.open(path, formats=FORMATS)
    image.seek(number - 1)
    return image


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
    turn = turn_of(image)
    return grey if turn is None else grey.transpose(turn)


def _grey(image: Image.Image) -> Image.Image:
    image.load()
    if not image.mode.startswith(("I", "F")):
        return image.convert("LA" if image.has_transparency_data else "L")
    return eight_bits(image)


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
    if reading.unshown:
        yield from pictures_warning(reading.unshown)
