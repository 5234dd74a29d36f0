"""Hostile files through type detection and a real parser process: a quick selection of ``make prove NAME=torture``."""

from __future__ import annotations

import zipfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.documents.types import EmptyUpload, EncryptedUpload, ReceivedFile, UnsupportedFileType
from app.documents.upload.media_type import detect_media_type
from app.ingestion.parsers import PARSERS
from app.ingestion.types import IngestionError
from harness.hostile import HostileFile, iter_sample_files
from harness.hostile.false_types import generate_false_types
from harness.hostile.images import build_png
from harness.hostile.links import generate_linking_files
from harness.hostile.listener import link_listener
from harness.hostile.mutations import generate_mutations
from harness.hostile.pdfs import generate_false_pdfs, generate_pdf_loops
from harness.hostile.texts import build_billion_laughs
from harness.hostile.uploads import BATCH_FILES, EXPECTED_CODES, group_into_batches

if TYPE_CHECKING:
    from app.ingestion.parsers.sandbox.pool import ParserPool

COPIES, SEED = 100, 1
PDFS = [*generate_pdf_loops(), *generate_false_pdfs()]
TYPED = (EmptyUpload, EncryptedUpload, UnsupportedFileType)


async def end_of(file: HostileFile, pool: ParserPool, folder: Path) -> str:
    """Return ``ready``, the code of a failed document, or ``refused`` if no parser gets the file."""
    path = folder / "upload"
    path.write_bytes(file.content)
    try:
        received = ReceivedFile(path, file.name, file.declared_type, len(file.content), b"")
        await pool.parse(path, detect_media_type(received, PARSERS.keys()))
    except TYPED:
        return "refused"
    except IngestionError as error:
        return error.code
    return "ready"


@pytest.mark.capability("format-hostile")
async def test_mutated_files_end_with_known_status(pool: ParserPool, tmp_path: Path) -> None:
    ends = [
        await end_of(file, pool, tmp_path)
        for file in generate_mutations(list(iter_sample_files()), count=COPIES, seed=SEED)
    ]
    assert set(ends) <= EXPECTED_CODES | {"ready", "refused"}
    assert ends.count("ready") > COPIES // 5
    assert ends.count("refused") < COPIES // 2


def test_mutation_is_reproducible_by_number_and_seed() -> None:
    sources = list(iter_sample_files())
    assert list(generate_mutations(sources, count=40, seed=SEED)) == list(
        generate_mutations(sources, count=40, seed=SEED)
    )
    assert len({file.content for file in generate_mutations(sources, count=40, seed=SEED)}) > 35


def test_repacked_archive_is_valid() -> None:
    sources = [(name, data) for name, data in iter_sample_files() if name.endswith("workbook.xlsx")]
    repacked = [file for file in generate_mutations(sources, count=20, seed=SEED) if ".xml" in file.label]
    assert repacked
    assert all(zipfile.ZipFile(BytesIO(file.content)).testzip() is None for file in repacked)


async def test_links_in_files_are_not_followed(pool: ParserPool, tmp_path: Path) -> None:
    with link_listener() as listener:
        ends = {file.label: await end_of(file, pool, tmp_path) for file in generate_linking_files(listener.url)}
        assert listener.connections == 0
    ready = {label for label, end in ends.items() if end == "ready"}
    assert {"html", "css", "markdown", "rst", "mail", "docx", "pptx", "xlsx", "epub", "pdf URI"} <= ready


@pytest.mark.parametrize("file", PDFS, ids=lambda file: file.label)
async def test_looping_pdf_ends_with_known_status(file: HostileFile, pool: ParserPool, tmp_path: Path) -> None:
    assert await end_of(file, pool, tmp_path) in EXPECTED_CODES | {"ready"}


@pytest.mark.parametrize("size", [(60_000, 60_000), (0x7FFFFFFF, 1), (0, 0)])
async def test_image_with_false_dimensions_is_refused(size: tuple[int, int], pool: ParserPool, tmp_path: Path) -> None:
    file = HostileFile("picture", "", "a.png", build_png(*size))
    assert await end_of(file, pool, tmp_path) in {"too_large", "corrupt"}


@pytest.mark.parametrize("name", ["a.xml", "a.svg", "a.html"])
async def test_nested_entities_are_not_expanded(name: str, pool: ParserPool, tmp_path: Path) -> None:
    text = f"{build_billion_laughs('a')}<a>text &l9;</a>".encode()
    assert await end_of(HostileFile("entities", name, name, text), pool, tmp_path) in EXPECTED_CODES | {
        "ready",
        "refused",
    }


def test_false_type_files_are_unique_per_knowledge_base() -> None:
    seen: set[tuple[str, bytes]] = set()
    for kb, batch in group_into_batches(generate_false_types()):
        assert 0 < len(batch) <= BATCH_FILES
        for file in batch:
            assert (kb, file.content) not in seen
            seen.add((kb, file.content))
    assert len(seen) == len(list(generate_false_types()))
