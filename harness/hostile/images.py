"""Images with false claims: huge sizes, no size, missing ends, and files that are valid in two formats."""

import io
import struct
import zlib
from collections.abc import Iterator

from PIL import Image

from harness.hostile import HostileFile
from harness.hostile.pdfs import TEXT, build_pdf
from harness.hostile.zip_packages import build_paragraph, build_word_document, pack_zip


def _build_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def build_png(width: int, height: int, *more: bytes, data: bytes = b"") -> bytes:
    """Build a PNG with one bit per pixel. Its header may not match its data."""
    header = _build_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    body = _build_chunk(b"IDAT", data or zlib.compress(b"\0" * 100))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(more) + body + _build_chunk(b"IEND", b"")


def _generate_false_headers() -> Iterator[tuple[str, str, bytes]]:
    yield "60,000 by 60,000", "a.png", build_png(60_000, 60_000)
    packer = zlib.compressobj(9)
    rows = b"".join(packer.compress(bytes((1 + 60_000 // 8) * 1_000)) for _ in range(60)) + packer.flush()
    yield "60,000 by 60,000, all of it there", "a.png", build_png(60_000, 60_000, data=rows)
    yield "two billion wide", "a.png", build_png(0x7FFFFFFF, 1)
    yield "of no size", "a.png", build_png(0, 0)
    note = zlib.compress(b"a" * (100 << 20), 9)
    yield "a note that unpacks to 100 MB", "a.png", build_png(8, 8, _build_chunk(b"zTXt", b"k\0\0" + note))
    yield "a profile that unpacks to 100 MB", "a.png", build_png(8, 8, _build_chunk(b"iCCP", b"k\0\0" + note))
    frames = _build_chunk(b"acTL", struct.pack(">II", 0x7FFFFFFF, 0))
    yield "two billion frames", "a.png", build_png(8, 8, frames)
    yield (
        "gif of 65,535 by 65,535",
        "a.gif",
        b"GIF89a\xff\xff\xff\xff\x80\0\0" + bytes(6) + b",\0\0\0\0\xff\xff\xff\xff\0\2\0;",
    )
    yield (
        "bmp of two billion",
        "a.bmp",
        b"BM" + struct.pack("<IIIIiiHHIIiiII", 99, 0, 54, 40, 0x7FFFFFFF, 0x7FFFFFFF, 1, 24, 0, 0, 0, 0, 0, 0),
    )
    directory = struct.pack("<H", 1) + struct.pack("<HHII", 256, 4, 1, 8)
    yield (
        "tiff whose directory is its own next",
        "a.tiff",
        b"II*\0" + struct.pack("<I", 8) + directory + struct.pack("<I", 8),
    )
    yield "webp cut off", "a.webp", b"RIFF\xff\xff\xff\x7fWEBPVP8X" + bytes(20)
    yield (
        "jpeg of 65,535 by 65,535",
        "a.jpg",
        b"\xff\xd8\xff\xc0\0\x11\x08\xff\xff\xff\xff\3\1\x11\0\2\x11\0\3\x11\0\xff\xd9",
    )


def _generate_spoiled_images() -> Iterator[tuple[str, str, bytes]]:
    image = Image.new("RGB", (300, 200), "white")
    for kind, name in (("PNG", "a.png"), ("JPEG", "a.jpg"), ("GIF", "a.gif"), ("BMP", "a.bmp"), ("TIFF", "a.tiff"),
                       ("WEBP", "a.webp")):  # fmt: skip
        file = io.BytesIO()
        image.save(file, kind)
        whole = file.getvalue()
        yield f"{kind} cut in half", name, whole[: len(whole) // 2]
        yield f"{kind} and a PDF", name, whole + build_pdf(TEXT)
        yield f"{kind} and a Word document", name, whole + pack_zip(build_word_document(build_paragraph("text")))
    yield (
        "a PDF and a Word document",
        "a.docx",
        build_pdf(TEXT) + pack_zip(build_word_document(build_paragraph("text"))),
    )
    yield "a Word document and a PDF", "a.pdf", pack_zip(build_word_document(build_paragraph("text"))) + build_pdf(TEXT)
    yield "HTML and a PDF", "a.html", b"<html><body><p>text</p>" + build_pdf(TEXT)


def generate_hostile_images() -> Iterator[HostileFile]:
    """Generate all hostile images."""
    yield from (
        HostileFile("picture", label, name, data)
        for label, name, data in (*_generate_false_headers(), *_generate_spoiled_images())
    )
