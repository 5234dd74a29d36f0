"""Images of documents: extracted on request, once each, at their place, within limits."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats import image
from app.ingestion.parsers.formats.docx import docx_parser
from app.ingestion.parsers.formats.pdf import pdf_parser
from app.ingestion.parsers.formats.pptx import pptx_parser
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.image_list import MAX_SIDE_PIXELS, ImageList
from app.ingestion.parsers.toolkit.image_transport import MAX_IMAGES, ImageAssembler, iter_image_pieces
from app.ingestion.types import Block, BlockKind, EncodedImage, NoTextFound, ParsedDocument
from harness.protocol_servers.chat import find_colour
from tests.ingestion import illustrated

if TYPE_CHECKING:
    from app.ingestion.parsers.sandbox.pool import ParserPool

PDF = "application/pdf"
PNG_BEGINS = b"\x89PNG\r\n\x1a\n"
PHOTO = Image.merge(
    "RGB", (Image.linear_gradient("L"), Image.radial_gradient("L"), Image.linear_gradient("L").rotate(90))
)


@pytest.fixture
def looking(options: ParseOptions) -> ParseOptions:
    return replace(options, needs_images=True)


def seen(document: ParsedDocument) -> list[str]:
    """Return headings and images in their order; an image is named by its colour."""
    found = []
    for block in document.blocks:
        if block.kind is BlockKind.HEADING:
            found.append(block.text)
        if block.image_index is not None:
            found.append(find_colour(Image.open(io.BytesIO(document.images[block.image_index].data))))
    return found


@pytest.mark.parametrize(
    ("make", "parse", "order", "unread"),
    [
        (illustrated.pdf, pdf_parser.parse, ["Harbours", "red", "Rivers", "blue"], []),
        (illustrated.pptx, pptx_parser.parse, ["Ships", "green", "Locks", "blue"], ["1 image was not read."]),
        (illustrated.docx, docx_parser.parse, ["Gulls", "red", "Terns", "green", "Again"], []),
    ],
    ids=["pdf", "pptx", "docx"],
)
def test_images_are_in_their_sections(
    make: Callable[[Path], Path],
    parse: Callable[[Path, ParseOptions], ParsedDocument],
    order: list[str],
    unread: list[str],
    tmp_path: Path,
    options: ParseOptions,
    looking: ParseOptions,
) -> None:
    path = make(tmp_path / "file")
    document = parse(path, looking)
    assert (seen(document), [warning.message for warning in document.warnings]) == (order, unread)
    # An image is below the text that is above it, and has the number of its page or slide.
    at = [block.image_index is not None for block in document.blocks].index(True)
    assert document.blocks[at - 1].kind is not BlockKind.HEADING or parse is pptx_parser.parse
    assert {(block.page, block.slide) for block in document.blocks if block.image_index is not None} <= {
        (None, None), (1, None), (2, None), (None, 1), (None, 2),
    }  # fmt: skip
    unasked = parse(path, options)
    assert unasked.images == []
    assert unasked.blocks == [block for block in document.blocks if block.image_index is None]
    assert "images_not_read" in [warning.code for warning in unasked.warnings]


def test_pdf_pages_of_images_only_give_images(tmp_path: Path, options: ParseOptions, looking: ParseOptions) -> None:
    path = illustrated.pdf(tmp_path / "photos.pdf", text=False)
    with pytest.raises(NoTextFound):
        pdf_parser.parse(path, options)
    document = pdf_parser.parse(path, looking)
    assert [(block.page, block.kind) for block in document.blocks] == [
        (1, BlockKind.IMAGE), (2, BlockKind.IMAGE),
    ]  # fmt: skip


def test_logo_on_every_page_is_no_image(tmp_path: Path, looking: ParseOptions) -> None:
    path = tmp_path / "logo.pdf"
    logo = illustrated.square("red")
    with illustrated.FITZ.open() as document:
        for number in range(4):
            page = document.new_page()
            page.insert_text((50, 60), f"Text of page {number}.")
            page.insert_image(illustrated.FITZ.Rect(400, 20, 460, 80), stream=logo)
        document.save(path)
    assert seen(pdf_parser.parse(path, looking)) == []


def test_image_file_is_one_image(tmp_path: Path, options: ParseOptions, looking: ParseOptions) -> None:
    path = tmp_path / "red.png"
    path.write_bytes(illustrated.square("red"))
    with pytest.raises(NoTextFound):
        image.parse(path, options)
    document = image.parse(path, looking)
    assert seen(document) == ["red"]
    assert [block.kind for block in document.blocks] == [BlockKind.IMAGE]


def test_tiff_pages_are_images(tmp_path: Path, looking: ParseOptions) -> None:
    path = tmp_path / "pages.tiff"
    first, *others = (Image.new("RGB", (90, 90), colour) for colour in ("red", "green", "blue"))
    first.save(path, save_all=True, append_images=others)
    document = image.parse(path, looking)
    assert seen(document) == ["red", "green", "blue"]
    assert [block.page for block in document.blocks] == [1, 2, 3]


def listed(options: ParseOptions) -> ImageList:
    return ImageList(BlockList(options), options)


def saved(picture: Image.Image, kind: str, **parameters: object) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **parameters)
    return buffer.getvalue()


def exif(orientation: int) -> Image.Exif:
    made = Image.Exif()
    made[0x0112] = orientation
    return made


@pytest.mark.parametrize(
    ("data", "kind", "size"),
    [
        (saved(Image.new("RGB", (64, 64)), "GIF"), "image/png", (64, 64)),
        (saved(PHOTO, "PNG"), "image/jpeg", (256, 256)),
        (saved(Image.new("RGB", (4000, 100), "red"), "PNG"), "image/png", (MAX_SIDE_PIXELS, 39)),
        (saved(Image.new("RGB", (300, 100)), "JPEG", exif=exif(6)), "image/png", (100, 300)),
        (saved(Image.new("I;16", (80, 80), 60_000), "PNG"), "image/png", (80, 80)),
        (saved(Image.new("CMYK", (80, 80)), "JPEG"), "image/png", (80, 80)),
        (saved(Image.new("1", (80, 80)), "TIFF"), "image/png", (80, 80)),
    ],
    ids=["gif", "photo", "large", "turned", "deep", "cmyk", "bits"],
)
def test_image_is_reencoded_without_metadata(
    looking: ParseOptions, data: bytes, kind: str, size: tuple[int, int]
) -> None:
    pictures = listed(looking)
    pictures.add_file(data)
    (made,) = pictures.images
    assert (made.media_type, (made.width, made.height)) == (kind, size)
    with Image.open(io.BytesIO(made.data)) as opened:
        opened.load()
        assert opened.size == size
        assert not opened.getexif()


def test_transparent_image_is_shown_on_white(looking: ParseOptions) -> None:
    pictures = listed(looking)
    pictures.add_file(saved(Image.new("RGBA", (80, 80), (0, 0, 0, 0)), "PNG"))
    with Image.open(io.BytesIO(pictures.images[0].data)) as opened:
        assert opened.convert("RGB").getpixel((40, 40)) == (255, 255, 255)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GIF89a",
        illustrated.square("red", (63, 500)),
        illustrated.square("red")[:60],
        b"\xd7\xcd\xc6\x9a" + bytes(60),
    ],
    ids=["nothing", "beginning", "small", "truncated", "metafile"],
)
def test_unreadable_image_is_counted(looking: ParseOptions, data: bytes) -> None:
    pictures = listed(looking)
    pictures.add_file(data)
    assert (pictures.images, pictures.skipped_count) == ([], 1)


def test_images_above_limits_are_counted(looking: ParseOptions) -> None:
    pictures = listed(looking)
    for number in range(MAX_IMAGES + 3):
        pictures.add_file(illustrated.square("red", (64 + number, 64)))
    assert (len(pictures.images), pictures.skipped_count) == (MAX_IMAGES, 3)
    hasty = listed(replace(looking, wall_clock_timeout_seconds=0.0))
    hasty.add_file(illustrated.square("red"))
    assert (hasty.images, hasty.skipped_count) == ([], 1)


async def test_images_arrive_from_parser_process(pool: ParserPool, tmp_path: Path) -> None:
    path = illustrated.pdf(tmp_path / "two.pdf")
    assert seen(await pool.parse(path, PDF, needs_images=True)) == ["Harbours", "red", "Rivers", "blue"]
    assert (await pool.parse(path, PDF)).images == []


def read(pieces: list[list[object]]) -> list[EncodedImage]:
    reader = ImageAssembler()
    for piece in pieces:
        reader.add_piece(piece)
    return reader.build_images()


def test_image_pieces_are_joined() -> None:
    large = saved(PHOTO, "BMP")
    pictures = [
        EncodedImage("image/png", 256, 256, PNG_BEGINS + large),
        EncodedImage("image/png", 120, 100, illustrated.square("red")),
    ]
    pieces = list(iter_image_pieces(pictures))
    assert len(pieces) > 4
    assert max(len(piece[-1]) for piece in pieces) <= 60_000
    assert read(pieces) == pictures


PNG = ["image/png", 64, 64, "iVBORw0KGgo="]


@pytest.mark.parametrize(
    "pieces",
    [
        [[1, *PNG]],
        [[0, *PNG], [2, *PNG]],
        [[0, *PNG], [1, *PNG], [0, *PNG]],
        [[0, *PNG], [0, "image/jpeg", 64, 64, "AAAA"]],
        [[0, "image/svg+xml", 64, 64, "iVBORw0KGgo="]],
        [[0, "image/jpeg", 64, 64, "iVBORw0KGgo="]],
        [[0, "image/png", 64, 1 << 20, "iVBORw0KGgo="]],
        [[0, "image/png", 64, 64, "not base64"]],
        [[0, "image/png", 64]],
        [[number, *PNG] for number in range(MAX_IMAGES + 1)],
    ],
)
def test_malformed_image_pieces_are_refused(pieces: list[list[object]]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError, IndexError)):
        read(pieces)


def test_image_block_is_never_empty(looking: ParseOptions) -> None:
    blocks = BlockList(looking)
    pictures = ImageList(blocks, looking)
    pictures.add_file(illustrated.square("red"), slide=3)
    assert blocks.blocks == [Block(BlockKind.IMAGE, "Picture 1", slide=3, image_index=0)]
