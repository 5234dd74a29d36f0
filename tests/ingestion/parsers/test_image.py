"""Images: their text by OCR, pages and animations, limits and damage."""

import io
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image, PngImagePlugin

from app.ingestion.parsers import PARSERS, LanguageData, ParseOptions
from app.ingestion.parsers.formats import image
from app.ingestion.types import Block, BlockKind, CorruptFile, IngestionError, NoTextFound, TextTooLong, TooManyPages
from app.warnings import ServiceWarning
from tests.ingestion.parsers.conftest import LIMITS
from tests.ingestion.parsers.images import NOWHERE, SENTENCE, png, reading, saved, text_image

FORMATS = ["png", "jpg", "gif", "bmp", "webp", "tiff"]


def text_of(path: Path, options: ParseOptions) -> str:
    return " ".join(block.text for block in image.parse(path, reading(options)).blocks)


@pytest.mark.parametrize("extension", FORMATS)
def test_image_without_language_data_has_no_text(extension: str, options: ParseOptions, tmp_path: Path) -> None:
    path = saved(text_image(), tmp_path / f"x.{extension}")
    with pytest.raises(NoTextFound, match=r"^The image has no readable text: no OCR .*tesseract-ocr-eng\)\.$"):
        image.parse(path, replace(options, ocr=LanguageData(missing=("eng",))))


@pytest.mark.capability("format-image")
@pytest.mark.parametrize("extension", FORMATS)
def test_image_of_every_format_is_read(extension: str, options: ParseOptions, tmp_path: Path) -> None:
    document = image.parse(
        saved(text_image(), tmp_path / "picture.file", format=format_of(extension)), reading(options)
    )
    assert document.blocks == [Block(BlockKind.PARAGRAPH, SENTENCE)]
    assert (document.page_count, document.title, document.warnings) == (None, None, [])


def format_of(extension: str) -> str:
    return {"jpg": "JPEG"}.get(extension, extension.upper())


@pytest.mark.parametrize("extension", FORMATS)
@pytest.mark.parametrize("share", [0.02, 0.5])
def test_image_truncated_file_is_corrupt(extension: str, share: float, options: ParseOptions, tmp_path: Path) -> None:
    path = saved(text_image(), tmp_path / f"x.{extension}")
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(CorruptFile):
        image.parse(path, replace(options, ocr=NOWHERE))


@pytest.mark.parametrize("content", [b"", b"no picture", b"\x89PNG\r\n\x1a\n" + bytes(100), b"%PDF-1.7\n"])
def test_image_other_content_is_corrupt(content: bytes, options: ParseOptions, tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    path.write_bytes(content)
    with pytest.raises(CorruptFile):
        image.parse(path, options)


def claiming(width: int, height: int) -> bytes:
    """Return a small PNG whose header declares these dimensions."""
    data = bytearray(png(Image.new("L", (1, 1))))
    data[16:24] = struct.pack(">II", width, height)
    data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    return bytes(data)


@pytest.mark.parametrize(
    ("width", "height", "error"),
    [(10_001, 10_000, TextTooLong), (60_000, 60_000, TextTooLong), (10_000, 10_000, NoTextFound)],
)
def test_image_pixels_are_counted_before_decoding(
    width: int, height: int, error: type[IngestionError], options: ParseOptions, tmp_path: Path
) -> None:
    path = tmp_path / "large.png"
    path.write_bytes(claiming(width, height))
    with pytest.raises(error):
        image.parse(path, options)


def test_image_pages_are_counted_before_reading(options: ParseOptions, tmp_path: Path) -> None:
    path = saved(Image.new("1", (9, 9)), tmp_path / "x.tif", save_all=True, append_images=[Image.new("1", (9, 9))] * 3)
    with pytest.raises(TooManyPages):
        image.parse(path, replace(options, max_pages=3))
    with pytest.raises(NoTextFound):
        image.parse(path, replace(options, max_pages=4))


def test_tiff_pages_have_numbers(options: ParseOptions, tmp_path: Path) -> None:
    pages = [Image.new("RGB", (200, 200), "white"), text_image("The second page of three is this.")]
    path = saved(text_image(), tmp_path / "x.tif", save_all=True, append_images=pages, compression="tiff_lzw")
    document = image.parse(path, reading(options))
    assert [(block.page, block.text) for block in document.blocks] == [
        (1, SENTENCE),
        (3, "The second page of three is this."),
    ]
    assert document.page_count == 3
    assert document.warnings == [ServiceWarning("pages_without_text", "Page 2 has no readable text.")]


def test_tiff_damaged_page_leaves_others(options: ParseOptions, tmp_path: Path) -> None:
    path = saved(text_image(), tmp_path / "x.tif", save_all=True, append_images=[text_image()], compression="tiff_lzw")
    data = bytearray(path.read_bytes())
    with Image.open(path) as opened:
        opened.seek(1)
        (start,) = opened.tag_v2[273][:1]  # type: ignore[attr-defined]  # of TIFF alone
    data[start : start + 400] = b"\xff" * 400
    path.write_bytes(data)
    document = image.parse(path, reading(options))
    assert [block.page for block in document.blocks] == [1]
    assert document.warnings == [
        ServiceWarning("damaged_pages_not_read", "Page 2 could not be read: the file is damaged.")
    ]


@pytest.mark.parametrize("extension", ["gif", "webp", "png"])
def test_animation_first_frame_is_read(extension: str, options: ParseOptions, tmp_path: Path) -> None:
    others = [text_image("This comes later and is not read.")]
    path = saved(text_image(), tmp_path / f"x.{extension}", save_all=True, append_images=others, duration=100)
    document = image.parse(path, reading(options))
    assert [block.text for block in document.blocks] == [SENTENCE]
    assert document.warnings == [
        ServiceWarning("animation_frames_not_read", "Only the first frame of the animation was read.")
    ]


TURNED = [
    (2, "jpg", Image.Transpose.FLIP_LEFT_RIGHT),
    (3, "jpg", Image.Transpose.ROTATE_180),
    (4, "webp", Image.Transpose.FLIP_TOP_BOTTOM),
    (5, "png", Image.Transpose.TRANSPOSE),
    (6, "jpg", Image.Transpose.ROTATE_90),
    (6, "tiff", Image.Transpose.ROTATE_90),
    (7, "jpg", Image.Transpose.TRANSVERSE),
    (8, "jpg", Image.Transpose.ROTATE_270),
]
"""Orientation numbers of EXIF, and how a camera in that position turns an upright image."""


@pytest.mark.parametrize(("orientation", "extension", "turn"), TURNED)
def test_photograph_is_turned_upright(
    orientation: int, extension: str, turn: Image.Transpose, options: ParseOptions, tmp_path: Path
) -> None:
    picture = text_image().transpose(turn)
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert text_of(saved(picture, tmp_path / f"x.{extension}", exif=exif), options) == SENTENCE


def transparent() -> Image.Image:
    letters = text_image().convert("L").point(lambda value: 255 - value)
    picture = Image.new("RGBA", letters.size, (0, 0, 0, 0))
    picture.putalpha(letters)
    return picture


def sixteen_bits() -> Image.Image:
    """Return a dark image with values that do not fit into eight bits."""
    letters = text_image().convert("L")
    return Image.frombytes("I;16", letters.size, b"".join(struct.pack("<H", 40 * value) for value in letters.tobytes()))


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(transparent, id="transparent"),
        pytest.param(sixteen_bits, id="sixteen bits"),
        pytest.param(lambda: text_image().convert("P"), id="palette"),
        pytest.param(lambda: text_image().convert("1"), id="one bit"),
        pytest.param(lambda: text_image(dpi=72), id="small letters"),
    ],
)
def test_image_of_every_pixel_type_is_read(
    draw: Callable[[], Image.Image], options: ParseOptions, tmp_path: Path
) -> None:
    assert text_of(saved(draw(), tmp_path / "x.png"), options) == SENTENCE


def test_image_metadata_is_not_text(options: ParseOptions, tmp_path: Path) -> None:
    notes = PngImagePlugin.PngInfo()
    notes.add_text("Comment", "Nobody drew these words.", zip=True)
    assert text_of(saved(text_image(), tmp_path / "x.png", pnginfo=notes), options) == SENTENCE


def test_image_without_words_has_no_text(samples: Path, options: ParseOptions) -> None:
    with pytest.raises(NoTextFound, match=r"^The image has no readable text\.$"):
        image.parse(samples / "photo.png", reading(options))


def test_image_without_time_is_not_read(options: ParseOptions, tmp_path: Path) -> None:
    with pytest.raises(NoTextFound, match=r"readable text: the time for one file was used up\.$"):
        image.parse(
            saved(text_image(), tmp_path / "x.png"), replace(options, ocr=NOWHERE, wall_clock_timeout_seconds=0.0)
        )


async def test_ocr_works_inside_confined_process(options: ParseOptions, tmp_path: Path) -> None:
    """The process's limits on memory, files and system calls are in force; a missing language is named."""
    from app.ingestion.parsers.sandbox.pool import ParserPool

    ocr = replace(reading(options).ocr, missing=("xyz",))
    media_type = "image/webp"
    pool = ParserPool(**{**LIMITS, "parsers": {media_type: PARSERS[media_type]}}, ocr=ocr)
    buffer = io.BytesIO()
    text_image().save(buffer, "WEBP")
    path = tmp_path / "upload"
    path.write_bytes(buffer.getvalue())
    try:
        document = await pool.parse(path, media_type)
    finally:
        await pool.close()
    assert [block.text for block in document.blocks] == [SENTENCE]
    assert document.warnings == [
        ServiceWarning("ocr_languages_missing", "OCR used only eng: the language data of xyz is not installed.")
    ]
