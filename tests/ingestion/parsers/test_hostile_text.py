"""The parsers of mail, books, data and code on other files: a document, or a typed error."""

from __future__ import annotations

import importlib
import random
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.ingestion.parsers import PARSERS, ParseOptions, Parser
from app.ingestion.parsers.formats import html
from app.ingestion.types import MAX_NODES, IngestionError, TooManyNodes
from tests.ingestion.parsers.conftest import ROOT

if TYPE_CHECKING:
    from app.ingestion.parsers.sandbox.pool import ParserPool

SIZE = 1_000_000
NAMES = ("epub", "json_data", "mail", "rst_parser", "source_code", "xml_data", "yaml_text")
MODULES = {spec.module.rpartition(".")[2]: spec.module for spec in PARSERS.values()}
SEEDS = {
    "json_data": b'{"a": [1, 2.5, {"b": "c\\n"}], "rows": [{"k": "v"}, {"k": null}]}\n' * 20,
    "mail": b"From: a\nSubject: =?utf-8?q?b?=\nContent-Type: multipart/mixed; boundary=X\n\n--X\n\ntext\n--X--\n" * 5,
    "rst_parser": b"Title\n=====\n\n- item::\n\n    code\n\n.. note:: x\n\n+--+--+\n|a |b |\n+--+--+\n\n`a <b>`_ ``c``"
    b"\n\n" * 8,
    "source_code": (ROOT / "app" / "errors.py").read_bytes(),
    "xml_data": b"<a><b c='d'>e &amp; f</b>" + b"<g>h<i/>j</g>" * 40 + b"</a>",
    "yaml_text": b"a:\n  - b: |\n      c\n# d\n---\ne: {f: g}\n" * 20,
}


def parser_of(name: str) -> Parser:
    module: Parser = importlib.import_module(MODULES[name])
    return module


def survives(name: str, content: bytes, path: Path, options: ParseOptions) -> None:
    path.write_bytes(content)
    with suppress(IngestionError):
        document = parser_of(name).parse(path, options)
        assert all(block.text.strip() for block in document.blocks)


def test_hostile_text_formats_are_registered() -> None:
    assert set(NAMES) <= MODULES.keys()


@pytest.mark.parametrize("name", sorted(SEEDS))
async def test_seed_files_are_parsed_in_process(name: str, pool: ParserPool, tmp_path: Path) -> None:
    media_type = next(kind for kind, spec in PARSERS.items() if spec.module.endswith(f".{name}"))
    path = tmp_path / "file"
    path.write_bytes(SEEDS[name])
    assert (await pool.parse(path, media_type)).blocks


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("byte", b'\0\t\n "#&*+-1:<=>[`a{|\xff')
def test_repeated_byte_is_document_or_typed_error(name: str, byte: int, tmp_path: Path, options: ParseOptions) -> None:
    survives(name, bytes([byte]) * SIZE, tmp_path / "file", options)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "content",
    [
        b"", b"[" + b"[]," * 50_000 + b"1]", b"{}\n" * 50_000, b"{\n" * 50_000, b"a\n\n" * 50_000, b"a::\n" * 50_000,
        b"== ==\na\n\n" * 20_000, b".. x::\n" * 20_000, b"`a <" * 50_000, b":a:`" * 50_000, b"* a\n" * 30_000,
        b"From: a\nContent-Type: multipart/mixed; boundary=" + b"x" * 100_000 + b"\n\n" + b"--x\n" * 50_000,
        b"".join(b" " * depth + b"a:\n\n" for depth in range(800)), b"a" + b"\n" * SIZE + b"b",
    ],
    ids=[
        "empty", "many lists", "many objects", "many braces", "many paragraphs", "many literals", "many tables",
        "many directives", "many links", "many roles", "many items", "many parts", "a staircase", "a gap",
    ],
)  # fmt: skip
def test_repeated_pattern_is_document_or_typed_error(
    name: str, content: bytes, tmp_path: Path, options: ParseOptions
) -> None:
    survives(name, content, tmp_path / "file", options)


@pytest.mark.parametrize("name", sorted(SEEDS))
def test_damaged_copies_are_document_or_typed_error(name: str, tmp_path: Path, options: ParseOptions) -> None:
    dice = random.Random(name)
    for _ in range(60):
        content = bytearray(SEEDS[name][: dice.randrange(1, len(SEEDS[name]) + 1)])
        for _ in range(dice.randrange(8)):
            content[dice.randrange(len(content))] = dice.randrange(256)
        survives(name, bytes(content), tmp_path / "file", options)


@pytest.mark.parametrize(("part", "name"), [("<p>a", "a.html"), ("<h2>a</h2>", "b.html")])
def test_file_of_many_tiny_elements_is_refused(part: str, name: str, tmp_path: Path) -> None:
    """Each element takes memory, however short it is."""
    path = tmp_path / name
    path.write_text(part * (MAX_NODES + 1))
    with pytest.raises(TooManyNodes) as refused:
        html.parse(path, ParseOptions(None, max_pages=100, max_characters=20_000_000))
    assert (refused.value.code, refused.value.fields) == ("too_large", {"limit": MAX_NODES})
