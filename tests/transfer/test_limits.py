"""Limits of archives: refused with file and line, before much memory is used."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.ingestion.title_limits import MAX_TITLE_CHARACTERS
from app.transfer.archive_format import ChunkRecord, NodeRecord, read_lines
from app.transfer.reader_pool import ArchiveReaderPool
from app.transfer.types import MAX_CHUNK_CHARACTERS, MAX_LINE_BYTES, MAX_OVERLAP_FACTOR, MAX_URI_LENGTH, ArchiveDamaged
from harness.archives import ArchiveDocument, build_archive, format_json_lines
from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem
from tests.transfer.test_round_trip import documents, take

TEXTS = ["The tern dives.", "The heron stands."]


@pytest.fixture(scope="module")
def target(service: Service) -> Tenant:
    return service.create_tenant("limits")


def edited(name: str, edit: Callable[[list[dict[str, Any]]], list[Any]]) -> bytes:
    made = ArchiveDocument(TEXTS)
    made.parts[name] = format_json_lines(edit([json.loads(line) for line in made.parts[name].splitlines()]))
    return build_archive(made)


def second(**changes: Any) -> Callable[[list[dict[str, Any]]], list[Any]]:
    return lambda rows: [rows[0], {**rows[1], **changes}, *rows[2:]]


def replaced(**parts: bytes) -> bytes:
    made = ArchiveDocument(TEXTS)
    made.parts |= {name.replace("_", "."): content for name, content in parts.items()}
    return build_archive(made)


def repeating() -> bytes:
    """Return an archive of chunks that repeat one text."""
    made = ArchiveDocument(["word " * 30_000])
    chunk = json.loads(made.parts["chunks.jsonl"])
    made.parts["chunks.jsonl"] = format_json_lines([chunk] * 100)
    made.parts["vectors.f16"] *= 100
    return build_archive(made)


PAGE = b'{"page":1,"width":1,"height":1,"lines":['
REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "title": (
        lambda: build_archive(ArchiveDocument(TEXTS, {"title": "t" * (MAX_TITLE_CHARACTERS + 1)})),
        "document.json: title",
    ),
    "source uri": (
        lambda: build_archive(ArchiveDocument(TEXTS, {"source_uri": "u" * (MAX_URI_LENGTH + 1)})),
        "document.json: source_uri",
    ),
    "warning": (
        lambda: build_archive(ArchiveDocument(TEXTS, {"warnings": [{"code": "a_code", "message": "w" * 3000}]})),
        "document.json: warnings.0.message",
    ),
    "warning code": (
        lambda: build_archive(ArchiveDocument(TEXTS, {"warnings": [{"code": "No code", "message": "w"}]})),
        "document.json: warnings.0.code",
    ),
    "plain warning": (lambda: build_archive(ArchiveDocument(TEXTS, {"warnings": ["w"]})), "document.json: warnings.0"),
    "source": (lambda: build_archive(ArchiveDocument(TEXTS, {"source": "s" * 513})), "document.json: source"),
    "node title": (
        lambda: edited("nodes.jsonl", second(title="t" * (MAX_TITLE_CHARACTERS + 1))),
        "nodes.jsonl, line 2: title",
    ),
    "section title": (
        lambda: edited("chunks.jsonl", second(sections=["a", "s" * (MAX_TITLE_CHARACTERS + 1)])),
        "chunks.jsonl, line 2: sections.1",
    ),
    "many sections": (lambda: edited("chunks.jsonl", second(sections=["s"] * 65)), "chunks.jsonl, line 2: sections"),
    "metadata": (
        lambda: edited("chunks.jsonl", second(metadata={"a": "b" * 20_000})),
        "chunks.jsonl, line 2: metadata",
    ),
    "deep node": (lambda: edited("nodes.jsonl", second(path=[0] * 65)), "nodes.jsonl, line 2: path"),
    "long line": (
        lambda: replaced(pages_jsonl=PAGE + b"1," * MAX_LINE_BYTES + b"1]}\n"),
        f"pages.jsonl, line 1: it has more than {MAX_LINE_BYTES} bytes",
    ),
    "long line without end": (lambda: replaced(nodes_jsonl=b"x" * 20_000_000), "nodes.jsonl, line 1"),
    "many numbers": (lambda: replaced(pages_jsonl=PAGE + b"1," * 60_000 + b"1]}\n"), "pages.jsonl, line 1: lines"),
    "nested line": (lambda: replaced(chunks_jsonl=b"[" * 100_000 + b"\n"), "chunks.jsonl, line 1"),
    "long chunk": (
        lambda: build_archive(ArchiveDocument(["a " * MAX_CHUNK_CHARACTERS])),
        f"chunks.jsonl, line 1: a chunk has more than {MAX_CHUNK_CHARACTERS} characters",
    ),
    "repeating chunks": (repeating, f"the chunks repeat the text more than {MAX_OVERLAP_FACTOR} times"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_import_over_a_limit_names_file_and_line(target: Tenant, name: str) -> None:
    make, place = REFUSED[name]

    detail = assert_problem(take(target, "default", make()), 422, "archive_damaged")["detail"]

    assert place in detail
    assert len(detail) < 1000
    assert documents(target.admin, "default") == {}


def test_import_at_the_limits_is_accepted(service: Service) -> None:
    tenant = service.create_tenant("at the limits")
    made = ArchiveDocument(
        ["a " * (MAX_CHUNK_CHARACTERS // 2 - 1)],
        {"title": "t" * MAX_TITLE_CHARACTERS, "source_uri": "u" * MAX_URI_LENGTH},
    )
    chunk = json.loads(made.parts["chunks.jsonl"])
    made.parts["chunks.jsonl"] = format_json_lines([{**chunk, "sections": ["s" * MAX_TITLE_CHARACTERS] * 64}])

    assert take(tenant, "default", build_archive(made)).json()["documents"] == 1


def test_read_lines_holds_one_line_and_counts(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"a\n\nb\n" + b"c" * (MAX_LINE_BYTES + 1))
    with file.open("rb") as opened:
        found = read_lines(opened, "x.jsonl", max_lines=10)
        assert [next(found), next(found)] == [("x.jsonl, line 1", b"a"), ("x.jsonl, line 3", b"b")]
        with pytest.raises(ArchiveDamaged, match=r"x\.jsonl, line 4"):
            next(found)
    with file.open("rb") as opened, pytest.raises(ArchiveDamaged, match="more than 2 lines"):
        list(read_lines(opened, "x.jsonl", max_lines=2))


def folder_of(document: ArchiveDocument, folder: Path) -> Path:
    for name, content in document.parts.items():
        (folder / name).write_bytes(content)
    return folder


async def test_readers_read_in_a_sandboxed_process_and_reuse_it(tmp_path: Path) -> None:
    readers, folder = ArchiveReaderPool(), folder_of(ArchiveDocument(TEXTS), tmp_path)
    try:
        for _ in range(2):
            found = [type(one) async for one in readers.read_records(folder, image_numbers=[], max_characters=1000)]
            assert found == [NodeRecord] * 3 + [ChunkRecord] * 2
            (process,) = readers._idle
        assert process.request_count == 2
        assert process.confinement.level in ("full", "partial", "none")
    finally:
        await readers.close()
    assert process.process.returncode is not None


async def test_readers_caller_leaves_process_ends(tmp_path: Path) -> None:
    readers, folder = ArchiveReaderPool(), folder_of(ArchiveDocument(["word"] * 50_000), tmp_path)
    reading = readers.read_records(folder, image_numbers=[], max_characters=1_000_000)
    first = await anext(reading)
    assert isinstance(first, NodeRecord)
    await reading.aclose()
    assert readers._idle == []
