"""The registry, the product's parsers in real processes, and a service process without parser libraries."""

import subprocess
import sys
from pathlib import Path

import pytest

from app.ingestion.parsers import PARSERS
from app.ingestion.parsers.sandbox.pool import ParserPool
from app.ingestion.types import (
    BlockKind,
    CorruptFile,
    EncryptedFile,
    IngestionError,
    NoTextFound,
    TextTooLong,
    TooManyPages,
)
from tests.ingestion.parsers.conftest import LIMITS, ROOT

PDF, PPTX = list(PARSERS)[:2]
SAMPLES = ROOT / "tests" / "samples"


@pytest.mark.capability("format-all")
@pytest.mark.parametrize(
    ("path", "media_type", "blocks", "pages"),
    [
        (ROOT / "samples" / "handbook.pdf", PDF, 56, 8),
        (ROOT / "samples" / "product-tour.pptx", PPTX, 23, 6),
        (SAMPLES / "page.html", "text/html", 11, None),
        (SAMPLES / "notes.md", "text/markdown", 10, None),
        (SAMPLES / "latin1.txt", "text/plain", 2, None),
    ],
)
async def test_every_format_is_parsed_in_process(
    path: Path, media_type: str, blocks: int, pages: int | None, pool: ParserPool
) -> None:
    document = await pool.parse(path, media_type)
    assert (len(document.blocks), document.page_count) == (blocks, pages)


@pytest.mark.capability("format-errors")
@pytest.mark.parametrize(
    ("name", "media_type", "error"),
    [
        ("encrypted.pdf", PDF, EncryptedFile),
        ("truncated.pdf", PDF, CorruptFile),
        ("renamed.pdf", PDF, CorruptFile),
        ("empty.bin", PDF, CorruptFile),
        ("pictures_only.pdf", PDF, NoTextFound),
        ("truncated.pptx", PPTX, CorruptFile),
        ("photo.png", PPTX, CorruptFile),
        ("photo.png", "text/plain", CorruptFile),
        ("empty.bin", "text/plain", NoTextFound),
        ("empty.bin", "text/html", NoTextFound),
        ("empty.bin", "text/markdown", NoTextFound),
    ],
)
async def test_bad_file_is_typed_error(
    name: str, media_type: str, error: type[IngestionError], pool: ParserPool
) -> None:
    with pytest.raises(error) as caught:
        await pool.parse(SAMPLES / name, media_type)
    assert type(caught.value) is error
    assert caught.value.message


async def test_limits_reach_parsers(demo: Path, samples: Path) -> None:
    pool = ParserPool(**{**LIMITS, "max_pages": 5, "max_characters": 100})
    try:
        for name, media_type in (("handbook.pdf", PDF), ("product-tour.pptx", PPTX)):
            with pytest.raises(TooManyPages):
                await pool.parse(demo / name, media_type)
        for name, media_type in (("two_columns.pdf", PDF), ("page.html", "text/html"), ("notes.md", "text/markdown")):
            with pytest.raises(TextTooLong):
                await pool.parse(samples / name, media_type)
    finally:
        await pool.close()


async def test_encoding_reaches_parser(pool: ParserPool, tmp_path: Path) -> None:
    path = tmp_path / "greek.txt"
    path.write_bytes("Ελλάδα".encode("iso-8859-7"))
    document = await pool.parse(path, "text/plain", encoding="iso-8859-7")
    assert document.blocks[0].text == "Ελλάδα"


async def test_file_path_with_unusual_characters_is_parsed(pool: ParserPool, tmp_path: Path) -> None:
    path = tmp_path / "zwei\nZeilen \udcff.txt"
    path.write_text("content")
    assert [block.kind for block in (await pool.parse(path, "text/plain")).blocks] == [BlockKind.PARAGRAPH]


async def test_long_document_arrives_complete(tmp_path: Path) -> None:
    """The document is longer than a pipe's buffer and than one line of the protocol."""
    paragraphs = [f"Absatz {number} über „{'wörter ' * 30}Ende“" for number in range(3000)]
    path = tmp_path / "long.txt"
    path.write_text("\n\n".join(paragraphs), encoding="utf-8")
    pool = ParserPool(**{**LIMITS, "max_characters": 2_000_000})
    try:
        document = await pool.parse(path, "text/plain")
    finally:
        await pool.close()
    assert [block.text for block in document.blocks] == paragraphs


def test_service_does_not_import_parser_libraries() -> None:
    code = (
        "import sys, app.ingestion.parsers.sandbox.pool, app.documents.upload.file_signatures;"
        "print({'pymupdf', 'pptx', 'lxml', 'selectolax', 'markdown_it'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
