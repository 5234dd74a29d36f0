"""Plain text, decoding, cleaning and tables."""

from pathlib import Path

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats import text
from app.ingestion.parsers.toolkit.character_decoding import decode_text
from app.ingestion.parsers.toolkit.tables import format_markdown_table
from app.ingestion.parsers.toolkit.text_cleanup import clean_code, clean_line, clean_text
from app.ingestion.types import CorruptFile
from app.warnings import ServiceWarning

GERMAN = "Der Mietvertrag für größere Fahrzeuge läuft über Österreich."
RUSSIAN = "Однажды, в студеную зимнюю пору, я из лесу вышел; был сильный мороз."
JAPANESE = "ゾルゲと尾崎は日本にいた。これはテストです。"
GUESSED = ServiceWarning(
    "encoding_guessed",
    "The encoding is a guess: windows-1252 (confidence 99 %). Set `encoding` if the text is wrong.",
)


@pytest.mark.parametrize(
    ("name", "paragraphs", "warnings"),
    [
        ("plain_utf16.txt", ["First paragraph, déjà vu.", "Second paragraph."], []),
        ("latin1.txt", ["Größe und Maß: über 5 £ für Öl.", "Fin de l'été."], [GUESSED]),
        (
            "nul.txt",
            ["A line with aNUL in it, and enough other text around it.", "The end."],
            [ServiceWarning("nul_characters_removed", "NUL characters were removed.")],
        ),
    ],
)
def test_text_samples_give_paragraphs(
    name: str, paragraphs: list[str], warnings: list[ServiceWarning], samples: Path, options: ParseOptions
) -> None:
    document = text.parse(samples / name, options)
    assert ([block.text for block in document.blocks], document.warnings) == (paragraphs, warnings)


@pytest.mark.parametrize(
    ("line", "title", "level"),
    [
        ("= Title =", "Title", 1), ("== Title ==", "Title", 2), ("==Title==", "Title", 2),
        (" = = Early life = = ", "Early life", 2),
        ("== a == b ==", "a == b", 2), ('=== "Quoted" ===', '"Quoted"', 3), ("======== DEEP ========", "DEEP", 6),
        ("== Uneven =", None, 0), ("==Uneven =", None, 0), ("===", None, 0), ("= = =", None, 0), ("a == b", None, 0),
        ("= x", None, 0), (f"= {'long ' * 60} =", None, 0),
    ],
)  # fmt: skip
def test_text_title_between_equals_signs_is_heading(
    line: str, title: str | None, level: int, tmp_path: Path, options: ParseOptions
) -> None:
    path = tmp_path / "marked.txt"
    path.write_text(f"Before.\n{line}\nBehind.", "utf-8")
    headings = [(block.text, block.level) for block in text.parse(path, options).blocks if block.level]
    assert headings == ([(title, level)] if title else [])
    assert [block.text for block in text.parse(path, options).blocks if not block.level] == (
        ["Before.", "Behind."] if title else [f"Before.\n{' '.join(line.split())}\nBehind."]
    )


@pytest.mark.parametrize("content", [bytes(range(256)) * 40, bytes(4000), b"\x89PNG\r\n\x1a\n" + bytes(100)])
def test_text_binary_file_is_corrupt(content: bytes, tmp_path: Path, options: ParseOptions) -> None:
    path = tmp_path / "binary.txt"
    path.write_bytes(content)
    with pytest.raises(CorruptFile):
        text.parse(path, options)


@pytest.mark.parametrize(
    ("original", "encoding"),
    [
        (GERMAN, "utf-8"), (GERMAN, "utf-8-sig"), (GERMAN, "utf-16"), (GERMAN, "utf-32"), (GERMAN, "utf-16-le"),
        (GERMAN, "utf-16-be"), (GERMAN, "latin-1"), ("It’s a “test” of the café", "cp1252"), (RUSSIAN, "cp1251"),
        (RUSSIAN, "cp866"), (RUSSIAN, "koi8-r"), (JAPANESE, "shift_jis"), (JAPANESE, "utf-8"), ("", "utf-8"),
    ],
)  # fmt: skip
def test_decode_text_detects_encoding(original: str, encoding: str) -> None:
    assert decode_text(original.encode(encoding), encoding=None).text == original


def test_decode_text_declared_encoding_precedes_detection() -> None:
    assert decode_text("Ελλάδα".encode("iso-8859-7"), encoding="iso-8859-7").text == "Ελλάδα"
    replaced = decode_text(b"ok \xff", encoding="ascii")
    assert (replaced.text, len(replaced.warnings)) == ("ok \ufffd", 1)


@pytest.mark.parametrize("name", ["no-such-code", "base64", "rot13", "undefined", "a\0b", ""])
def test_decode_text_unknown_encoding_is_detected_with_warning(name: str) -> None:
    decoded = decode_text(GERMAN.encode(), encoding=name)
    assert (decoded.text, len(decoded.warnings)) == (GERMAN, 1)


@pytest.mark.parametrize(
    ("dirty", "clean"),
    [
        ("plain", "plain"),
        ("  two\t spaces \r\nand a break\r", "two spaces\nand a break"),
        ("a\n\n\n \nb", "a\n\nb"),
        ("ﬁne ② ｆｕｌｌ", "fine ② full"),
        ("no\u00adhyphen zero\u200bwidth mark\ufeff", "nohyphen zerowidth mark"),
        ("Auf\u200clage", "Auflage"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("nul\0 bell\x07 escape\x1b del\x7f", "nul bell escape del"),
        ("line\u2028separator\x0cfeed", "line\nseparator\nfeed"),
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        ("e\u0301", "é"),
        ("\u202eright to left", "right to left"),
        ("\u00a0", ""),
        ("ﬁt and ﬁrm", "fit and firm"),
        ("é\u0085next", "é\nnext"),
        *((f"é{sign}t", "ét") for sign in "\x00\x7f\x9f\u00ad\u180e\u200b\u202e\u2060\u206f\ufeff\ufff9\uffff"),
    ],
)
def test_clean_text_normalizes(dirty: str, clean: str) -> None:
    assert clean_text(dirty) == clean
    assert clean_text(clean) == clean


def test_clean_code_preserves_indentation() -> None:
    assert clean_code("\n\tif x:  \n\t\ty()\0\n\n") == "\tif x:\n\t\ty()"
    assert clean_line(" a\n b\u2003c ") == "a b c"


@pytest.mark.parametrize(
    ("rows", "table"),
    [
        ([["a", "b"], ["c"]], "| a | b |\n| --- | --- |\n| c |  |"),
        ([["x|y", "two\nlines"], ["1", "2"]], "| x\\|y | two lines |\n| --- | --- |\n| 1 | 2 |"),
        ([["alone"], ["column"]], "alone\ncolumn"),
        ([["", " "], []], ""),
        ([], ""),
    ],
)
def test_format_markdown_table_formats_rows(rows: list[list[str]], table: str) -> None:
    assert format_markdown_table(rows) == table
