"""Base64 data inside of texts: it is left out and counted in all text formats; words, hashes and code stay."""

import base64
import importlib
import random
from pathlib import Path

import pytest

from app.ingestion.parsers import PARSERS, ParseOptions
from app.ingestion.parsers.toolkit.base64_blobs import remove_base64_blobs
from app.ingestion.types import ParsedDocument

BYTES = random.Random(27).randbytes(3000)
BLOB = base64.b64encode(BYTES).decode()
LINES = base64.encodebytes(BYTES).decode()


def parsed(content: str, kind: str, directory: Path, options: ParseOptions) -> ParsedDocument:
    path = directory / "file"
    path.write_text(content, encoding="utf-8")
    document: ParsedDocument = importlib.import_module(PARSERS[kind].module).parse(path, options)
    return document


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (f'{{"name": "heron", "image": "{BLOB}"}}', "application/json"),
        (f'{{"name": "heron", "image": "{BLOB.replace("/", chr(92) + "/")}"}}', "application/json"),
        ('{"name": "heron", "image": "' + LINES.replace("\n", "\\n") + '"}', "application/json"),
        (f'{{"name": "heron", "image": "data:image/png;base64,{BLOB[:120]}"}}', "application/json"),
        (f'{{"name": "heron"}}\n{{"name": "b", "image": "{BLOB}"}}\n', "application/json"),
        (f"name: heron\nimage: {BLOB}\nsize: 5\n", "application/yaml"),
        ("name: heron\nimage: |\n  " + LINES.strip().replace("\n", "\n  ") + "\nsize: 5\n", "application/yaml"),
        (f"<a><name>heron</name><image>{LINES}</image></a>", "application/xml"),
        (f'<a name="heron"><image data="{BLOB}"/></a>', "application/xml"),
        (f"name,image\nheron,{BLOB}\nstork,{BLOB}\n", "text/csv"),
        (f"heron\n\n{LINES}\n\nmore text", "text/plain"),
        (f'NAME = "heron"\nIMAGE = "{BLOB}"\n', "text/x-python"),
        (f'NAME = "heron"\nIMAGE = """\n{LINES}"""\n', "text/x-python"),
        (f"From: a@example.org\n\nheron\n\n{LINES}\n", "message/rfc822"),
        (f"heron\n\n{base64.urlsafe_b64encode(BYTES).decode()}\n", "text/plain"),
    ],
)
def test_parsers_leave_base64_data_out(content: str, kind: str, tmp_path: Path, options: ParseOptions) -> None:
    document = parsed(content, kind, tmp_path, options)
    shown = "\n".join(block.text for block in document.blocks)
    assert "heron" in shown
    assert len(shown) < 400
    assert [(warning.code, warning.count) for warning in document.warnings] == [
        ("encoded_data_left_out", 2 if kind == "text/csv" else 1)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "ACGT" * 100,
        "MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQAPILSRVGDGTQDNLSGAEKAVQ" * 5,
        "com/example/service/implementation/AbstractSingletonProxyFactoryBean" * 4,
        "verylongwordwithoutanyspacesatall" * 10,
        "1234567890" * 40,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
        "-" * 500,
        "the-quick-brown-fox-jumps-over-the-lazy-dog-2024-" * 8,
        "保証期間" * 200,
    ],
)
def test_remove_base64_blobs_other_long_words_stay(text: str) -> None:
    assert remove_base64_blobs(f"before {text} after").text == f"before {text} after"


def test_remove_base64_blobs_message_counts_blocks() -> None:
    result = remove_base64_blobs(f"one {BLOB} two {BLOB} three")
    assert result.text == "one … two … three"
    assert result.list_warnings()[0].message == "2 blocks of base64 data (8,000 characters) were left out."
