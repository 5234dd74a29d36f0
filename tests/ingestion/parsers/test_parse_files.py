"""Files of parse results restore the result of every format, and the identity of a parse changes with its code."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app.ingestion.parse_files import ParseSource, read_parse_file, write_parse_file
from app.ingestion.parsers import PARSERS
from app.ingestion.parsers.sandbox.pool import ParserPool
from app.ingestion.types import IngestionError, ParsedDocument
from tests.ingestion import illustrated
from tests.ingestion.parsers.conftest import LIMITS, ROOT

SOURCE = ParseSource(b"bytes", b"parse")
TYPES = {
    extension: spec.media_type for spec in PARSERS.values() for extension in spec.extensions if not spec.conversion
}
SAMPLES = sorted(
    path
    for folder in (ROOT / "samples", ROOT / "tests" / "samples", ROOT / "tests" / "samples" / "fidelity")
    for path in folder.iterdir()
    if path.suffix[1:] in TYPES
)
IDENTITY = """
from app.ingestion.parsers import ParserSpec
from app.ingestion.parsers.sandbox.parse_identity import compute_parse_identity
spec = ParserSpec("text/x-plugin", ("plugin",), "the_plugin", is_plugin=True)
limits = {"ocr": {"directory": "", "languages": []}}
print(compute_parse_identity(spec, {"media_type": "text/x-plugin"}, limits).hex())
"""


def restore(parsed: ParsedDocument, path: Path, *, source: ParseSource = SOURCE) -> ParsedDocument | None:
    """Write a result and read it."""
    assert write_parse_file(path, parsed, SOURCE, max_bytes=1 << 24)
    return read_parse_file(path, source, max_characters=LIMITS["max_characters"])


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
async def test_parse_file_of_sample_restores_result(sample: Path, pool: ParserPool, tmp_path: Path) -> None:
    try:
        parsed = await pool.parse(sample, TYPES[sample.suffix[1:]], needs_images=True)
    except IngestionError:
        return  # a failure is not stored
    assert restore(parsed, tmp_path / "a") == parsed
    again = await pool.parse(sample, TYPES[sample.suffix[1:]], needs_images=True)
    restore(again, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


async def test_parse_file_with_images_restores_images(pool: ParserPool, tmp_path: Path) -> None:
    for file in (illustrated.pdf(tmp_path / "a.pdf"), illustrated.docx(tmp_path / "a.docx")):
        parsed = await pool.parse(file, TYPES[file.suffix[1:]], needs_images=True)
        restored = restore(parsed, tmp_path / "result")
        assert restored is not None
        assert restored == parsed
        assert len(restored.images) == 2


async def test_parse_file_of_other_source_is_not_read(pool: ParserPool, tmp_path: Path) -> None:
    parsed = await pool.parse(ROOT / "tests" / "samples" / "notes.md", "text/markdown")
    assert restore(parsed, tmp_path / "a") == parsed
    for source in (replace(SOURCE, sha256=b"other"), replace(SOURCE, identity=b"other")):
        assert restore(parsed, tmp_path / "a", source=source) is None
    assert not write_parse_file(tmp_path / "a", parsed, SOURCE, max_bytes=100)


def test_identity_changes_with_plugin_code_and_package_version(tmp_path: Path) -> None:
    about = tmp_path / "the_plugin-1.0.dist-info"
    about.mkdir()

    def compute(code: str, version: str) -> str:
        (tmp_path / "the_plugin.py").write_text(code)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: the-plugin\nVersion: {version}\n")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
        done = subprocess.run(
            [sys.executable, "-c", IDENTITY], env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    first = compute("A = 1", "1.0")
    assert compute("A = 1", "1.0") == first
    assert len({first, compute("A = 2", "1.0"), compute("A = 1", "1.1")}) == 3


def test_identity_changes_with_request_and_limits() -> None:
    def compute(media_type: str = "text/plain", encoding: str | None = None, *, images: bool = False) -> bytes | None:
        return ParserPool(**LIMITS).compute_identity(media_type, encoding=encoding, needs_images=images)

    identities = [compute(), compute("text/csv"), compute(encoding="cp1252"), compute(images=True)]
    for name in ("memory_mb", "cpu_timeout_seconds", "wall_clock_timeout_seconds", "max_pages", "max_characters"):
        pool = ParserPool(**{**LIMITS, name: LIMITS[name] + 1})
        identities.append(pool.compute_identity("text/plain", encoding=None, needs_images=False))
    assert len(set(identities)) == len(identities)
    assert compute() == identities[0]
    assert (
        ParserPool(**{**LIMITS, "processes": 2}).compute_identity("text/plain", encoding=None, needs_images=False)
        == compute()
    )
    assert compute("test/unknown") is None
