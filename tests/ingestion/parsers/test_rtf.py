"""Rich text files: characters, paragraphs, tables, fields, notes, unread content, and hostile files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from app.documents.upload.file_signatures import HEAD_BYTES, sniff_media_type
from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.rtf import rtf_parser
from app.ingestion.parsers.toolkit.text_cleanup import clean_text
from app.ingestion.types import CorruptFile, IngestionError, ParsedDocument, TextTooLong
from tests.ingestion.parsers.images import png
from tests.ingestion.parsers.word import shown, text_of

if TYPE_CHECKING:
    from app.ingestion.parsers.sandbox.pool import ParserPool

RTF = "application/rtf"
FONTS = (
    r"{\fonttbl{\f0\fswiss\fcharset0 Arial;}{\f1\ftech\fcharset2 Symbol;}{\f2\fnil\fcharset2 Wingdings;}"
    r"{\f3\fcharset204 Arial CYR{\*\falt Helvetica};}{\f4\fcharset128 MS Mincho;}{\f5\fcharset161 Arial Greek;}"
    r"{\f6\fcharset134 SimSun;}{\f7\fcharset178 Arial Arabic;}{\f8\fcharset162 Arial TUR;}}"
)
STYLES = (
    r"{\stylesheet{\s0\f3 Normal;}{\s1\f5\fs28 heading 1;}{\s2\outlinelevel1 Chapter;}{\s3 \'dcberschrift 3;}"
    r"{\s4\sbasedon0 Title;}{\s5\outlinelevel9 heading 5;}{\*\cs10 Emphasis;}}"
)


def read(body: str, tmp_path: Path, options: ParseOptions, *, head: str = r"\ansi\ansicpg1252\deff0") -> ParsedDocument:
    path = tmp_path / "file"
    path.write_bytes(f"{{\\rtf1{head}{FONTS}{STYLES}{body}}}".encode("latin-1"))
    return rtf_parser.parse(path, options)


def codes(document: ParsedDocument) -> dict[str, int | None]:
    return {str(warning.code): warning.count for warning in document.warnings}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (r"caf\'e9 \u8364?5 na\u239\'efve", "café €5 naïve"),
        (r"\uc2\u26085\'93\'fa\u26412\'96\'7b\uc0\u35486 x", "日本語x"),
        (r"\u-10179?\u-8704? ok", "😀 ok"),
        (r"{\uc3\u916 abcD}\u937?", "ΔDΩ"),
        (r"{\f3 \'cf\'f0\'e8\'e2\'e5\'f2}, {\f3 \'ec}\'e8r", "Привет, мèr"),
        (r"{\f4 \'93\'fa\'96\'7b}", "日本"),
        (r"{\f4 \'83e\'83X\'83g}", "テスト"),
        (r"{\f5 \'c5\'eb\'eb\'dc\'e4\'e1}", "Ελλάδα"),
        (r"{\f6 \'d6\'d0\'ce\'c4}", "中文"),
        (r"{\f7 \'e3\'d1\'cd\'c8\'c7}", "مرحبا"),
        (r"{\f8 \'dde\fs20 }", "İe"),
        (r"a\emdash b\endash c \ldblquote d\rdblquote  \lquote e\rquote\bullet", "a—b–c “d” ‘e’•"),
        (r"1\~000\_5 \{x\} \\", "1 000\u20115 {x} \\"),
        (r"one\line two\tab three", "one\ntwo three"),
        ("split\r\n word", "split word"),
        (r"10{\super 6} cells, H{\sub 2}O", "10⁶ cells, H₂O"),
        (r"10{\up6 -3} m{\super 2\nosupersub  x}", "10⁻³ m² x"),
        (r"{\f1 abG} {\f1\'b7} {\f2\'fc\'fb\'fe}", "αβΓ • ✓✗☑"),
        (r"{\f2\u-3844 ?}", "✓"),
        (r"price {\strike 10 EUR}{\striked1 11} 12 EUR", "price 12 EUR"),
        (r"kept {\deleted gone }text", "kept text"),
        (r"kept {\v hidden }text{\v0  on}", "kept text on"),
    ],
)
def test_rtf_characters_are_read(body: str, text: str, tmp_path: Path, options: ParseOptions) -> None:
    assert "\n".join(text_of(read(body, tmp_path, options))) == clean_text(text)


@pytest.mark.parametrize(
    ("head", "data", "text"),
    [
        (r"\ansi\ansicpg1251", rb"\'cf\'f0\'e8", "При"),
        (r"\mac", rb"caf\'8e", "café"),
        (r"\pc", rb"caf\'82", "café"),
        (r"\ansi\ansicpg932", rb"\'93\'fa", "日"),
        (r"\ansi\ansicpg1250", rb"\'9elu\'9d", "žluť"),
        (r"\ansi\ansicpg99999", rb"\'e9", "é"),
        (r"\ansi\ansicpg65001", rb"\'c3\'a9", "é"),
    ],
)
def test_rtf_code_page_of_file_decodes_text(
    head: str, data: bytes, text: str, tmp_path: Path, options: ParseOptions
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"{\\rtf1" + head.encode() + b" " + data + b"}")
    assert text_of(rtf_parser.parse(path, options)) == [text]


@pytest.mark.capability("format-rtf")
def test_rtf_paragraphs_headings_and_lists_are_read(tmp_path: Path, options: ParseOptions) -> None:
    body = (
        r"\pard\s1 First\par\pard\s2 Second\par\pard\s3 Third\par\pard\s4 Name\par\pard\s5 No heading\par"
        r"\pard\outlinelevel3 Fourth\par\pard\s1\outlinelevel9 Plain\par"
        r"\pard{\listtext\f1\'b7\tab}\ls1 bullet\par{\listtext\f2 n\tab}box\par"
        r"{\pntext 2.\tab}two\par{\listtext\pard a)\tab}letter\par\pard\ls3 no label\par"
        r"\pard{\listtext 1.2\tab}\s2 Numbered\par\pard before\page after\par"
    )
    assert shown(read(body, tmp_path, options)) == [
        ("heading", 1, "First"), ("heading", 2, "Second"), ("heading", 3, "Third"), ("heading", 1, "Name"),
        ("paragraph", 0, "No heading"), ("heading", 4, "Fourth"), ("paragraph", 0, "Plain"),
        ("list_item", 0, "- bullet"), ("list_item", 0, "- box"), ("list_item", 0, "2. two"),
        ("list_item", 0, "a) letter"), ("list_item", 0, "- no label"), ("heading", 2, "1.2 Numbered"),
        ("paragraph", 0, "before"), ("paragraph", 0, "after"),
    ]  # fmt: skip


def row(*cells: str, before: str = "") -> str:
    """Return a row; a cell is ``right edge:text``, with control words of its definition before the edge."""
    parts = [cell.partition(":") for cell in cells]
    definitions = "".join(
        f"{edge.rstrip('0123456789')}\\cellx{edge[len(edge.rstrip('0123456789')) :]}" for edge, _, _ in parts
    )
    return rf"\trowd{before}{definitions}\pard\intbl " + "".join(f"{text}\\cell " for _, _, text in parts) + r"\row "


@pytest.mark.parametrize(
    ("body", "table"),
    [
        (row("1000:Plan", "2000:Price") + row("1000:Basic", "2000:10 EUR"), "| Plan | Price |\n- | Basic | 10 EUR |"),
        (row("1000:A", "3000:B") + row("1000:x", "2000:1", "3000:2"), "| A | B | B |\n- | x | 1 | 2 |"),
        (
            row(r"\clvmgf1000:Europe", "2000:Basic") + row(r"\clvmrg1000:", "2000:Pro"),
            "| Europe | Basic |\n- | Europe | Pro |",
        ),
        (
            row(r"\clmgf1000:Name", r"\clmrg2000:", "3000:Age") + row("1000:Ada", "2000:Lovelace", "3000:36"),
            "| Name | Name | Age |\n- | Ada | Lovelace | 36 |",
        ),
        (row("1000:A", "2000:B") + row("1000:", "2000:only b"), "| A | B |\n- | | only b |"),
        (row("1000:A", "2000:B") + row(r"1000:one\par two", r"2000:x\line y"), "| A | B |\n- | one two | x y |"),
        (
            row("1000:2024", "2000:2024", before=r"\trhdr") + row("1000:Q1", "2000:Q2", before=r"\trhdr")
            + row("1000:1", "2000:2"),
            "| 2024 Q1 | 2024 Q2 |\n- | 1 | 2 |",
        ),
        (row("1000:A", "2000:B") + row("1020:1", "1990:2"), "| A | B |\n- | 1 | 2 |"),
        (
            r"\trowd\cellx500\cellx900 A\cell B\cell\row\trowd\cellx500\cellx900 1\cell 2\cell\row",
            "| A | B |\n- | 1 | 2 |",
        ),
        (
            row("1000:A", "2000:B") + row("1000:a|b", r"2000:{\listtext 1.\tab}x\par y"),
            "| A | B |\n- | a\\|b | 1. x y |",
        ),
        (
            row("1000:A", "2000:B")
            + r"\trowd\cellx1000\cellx2000\pard\intbl 1\cell\pard\intbl\itap2 in\nestcell ner\nestcell"
            r"{\*\nesttableprops\trowd\cellx1500\nestrow}{\nonesttables\par}\pard\intbl\itap1 out\cell\row",
            "| A | B |\n- | 1 | in ner; out |",
        ),
    ],
)  # fmt: skip
def test_rtf_tables_do_not_shift(body: str, table: str, tmp_path: Path, options: ParseOptions) -> None:
    header, _, rows = table.partition("\n- ")
    rule = "|" + " --- |" * (header.replace("\\|", "").count("|") - 1)
    expected = ["before", f"{header}\n{rule}\n{rows}", "after"]
    document = read(rf"\pard before\par {body}\pard after\par", tmp_path, options)
    assert text_of(document) == expected


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (
            r'{\*\fldinst{HYPERLINK "https://example.org/a"}}{\fldrslt{\ul our site}}',
            "[our site](https://example.org/a)",
        ),
        (r'{\*\fldinst HYPERLINK \\l "part"}{\fldrslt part}', "part"),
        (r'{\*\fldinst HYPERLINK \\o "tip" "http://example.org/x"}{\fldrslt x}', "x"),
        (r"{\*\fldinst HYPERLINK mailto:a@example.org}{\fldrslt Ann}", "[Ann](mailto:a@example.org)"),
        (r'{\*\fldinst HYPERLINK "javascript:go()"}{\fldrslt go}', "go"),
        (r"{\*\fldinst DATE}{\fldrslt 1 May 2024}", "1 May 2024"),
        (r'{\*\fldinst SYMBOL 252 \\f "Wingdings" \\s 10}{\fldrslt}', "✓"),
        (r"{\*\fldinst FORMCHECKBOX {\*\formfield{\fftype1\ffres25\ffdefres1}}}{\fldrslt}", "☒"),
        (r"{\*\fldinst FORMCHECKBOX {\*\formfield{\fftype1\ffres0\ffdefres1}}}{\fldrslt}", "☐"),
        (
            r"{\*\fldinst FORMDROPDOWN {\*\formfield{\fftype2\ffres1{\*\ffname x}{\*\ffl Berlin}{\*\ffl Hamburg}}}}"
            r"{\fldrslt}",
            "Hamburg",
        ),
        (r"{\*\fldinst FORMTEXT{\*\formfield{\fftype0{\*\ffdeftext d}}}}{\fldrslt typed}", "typed"),
        (r"{\*\fldinst EQ \\f(12,34)}{\fldrslt}", "12/34"),
        (r"{\*\fldinst EQ \\f(a + b;2)}{\fldrslt}", "(a + b)/2"),
    ],
)
def test_rtf_field_is_read(field: str, text: str, tmp_path: Path, options: ParseOptions) -> None:
    document = read(rf"see {{\field{field}}} end", tmp_path, options)
    assert text_of(document) == [f"see {text} end"]
    assert document.warnings == []


def test_rtf_equation_is_linear_text(tmp_path: Path, options: ParseOptions) -> None:
    fraction = r"{\mf{\*\mfPr{\*\mctrlPr\f34}}{\mnum{\mr\mscr0 12}}{\mden{\mr 34}}}"
    power = r"{\*\msSup{\me{\mr y}}{\msup{\mr 2}}}"
    body = rf"Law: {{\mmath{{\*\moMath{{\mr x=}}{fraction}{{\mr +}}{power}}}}} end"
    assert text_of(read(body, tmp_path, options)) == [clean_text("Law: x=12/34+y² end")]


def test_rtf_notes_comments_boxes_and_margins_are_read(tmp_path: Path, options: ParseOptions) -> None:
    body = (
        r"{\header Acme \'a9\par}{\footerl Page {\field{\*\fldinst PAGE}{\fldrslt 3}}\par}{\footer Internal\par}"
        r"{\*\ftnsep\chftnsep}{\info{\title The \'e9 title}{\author Nobody}}"
        r"\pard 10{\super\chftn}{\footnote\pard{\super\chftn} First note.} and{\super\chftn}"
        r"{\footnote\ftnalt Last.}\par "
        r"commented{\*\atnid AB}{\*\atnauthor Ann}\chatn{\*\annotation{\*\atndate 1}\pard A remark.\par}\par"
        r"{\shp{\*\shpinst{\sp{\sn wzDescription}{\sv A red valve}}{\sp{\sn fill}{\sv 7}}{\shptxt\pard In the box\par}}"
        r"{\shprslt{\do{\dptxbxtext old}}}}beside\par"
    )
    document = read(body, tmp_path, options)
    assert shown(document) == [
        ("paragraph", 0, "Acme ©"),
        ("paragraph", 0, clean_text("10 ¹ and ²")),
        ("note", 0, "1 First note."),
        ("note", 0, "Last."),
        ("paragraph", 0, "commented"),
        ("note", 0, "A remark."),
        ("paragraph", 0, "beside"),
        ("paragraph", 0, "A red valve"),
        ("paragraph", 0, "In the box"),
        ("paragraph", 0, "Internal"),
    ]
    assert document.title == "The é title"


def test_rtf_kinds_of_content_are_read_or_counted(tmp_path: Path, options: ParseOptions) -> None:
    body = (
        r"{\*\shppict{\pict\pngblip 89504e47}}{\nonshppict{\pict\wmetafile8 0100}}{\pict\wmetafile8 0100}"
        r"{\object\objemb{\*\objclass Excel.Sheet.8}{\*\objdata 0105}{\result{\pict\wmetafile8 01}Total 7}}"
        r"{\v two words}{\strike old price}{\f2\'1f\u-4064 ?}{\field{\*\fldinst EQ \\i(1,2,x)}{\fldrslt}}"
        r"{\*\unknown lost}{\xe index entry}{\*\bkmkstart b}{\*\generator G;}{\*\pict\bin5 }}}}}} seen\par"
    )
    document = read(body, tmp_path, options)
    text = " ".join(text_of(document))
    assert [word for word in ("Total 7", "seen", "lost", "index") if word in text] == ["Total 7", "seen"]
    found = codes(document)
    assert found.keys() >= {
        "images_not_read", "embedded_documents_not_read", "equations_not_read", "hidden_text_not_read",
        "struck_text_not_read",
    }  # fmt: skip
    assert (found["hidden_text_not_read"], found["struck_text_not_read"]) == (2, 2)
    assert document.warnings[0].message == "2 images were not read."


def test_rtf_images_are_returned_on_request(tmp_path: Path) -> None:
    picture = png(Image.new("RGB", (80, 80), "blue")).hex()
    options = ParseOptions(None, max_pages=9, max_characters=10_000, needs_images=True)
    body = rf"text{{\pict\pngblip {picture}}}{{\pict\wmetafile8 01zz}}\par"
    document = read(body, tmp_path, options)
    assert len(document.images) == 1
    assert document.warnings[0].message == "1 image was not read."


@pytest.mark.parametrize("content", [b"", b"plain", b"{\\rt", b"\\rtf1 no group", b"PK\x03\x04{\\rtf1"])
def test_rtf_other_content_is_corrupt(content: bytes, tmp_path: Path, options: ParseOptions) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(CorruptFile):
        rtf_parser.parse(path, options)


HOSTILE = {
    "open groups": b"{" * 300_000,
    "closing braces": b"}" * 300_000 + b"text",
    "nested fields": b'{\\field{\\*\\fldinst HYPERLINK "http://a"}{\\fldrslt ' * 20_000,
    "nested notes": b"x{\\footnote y" * 20_000,
    "nested boxes": b"{\\shp{\\*\\shpinst{\\shptxt " * 20_000,
    "nested equations": b"{\\mmath{\\*\\moMath" + b"{\\mf{\\mnum{\\mr 1}}{\\mden" * 20_000,
    "many cells": b"\\cell " * 300_000,
    "many columns": b"".join(b"\\trowd\\cellx%d\\intbl a\\cell\\row" % (index * 70) for index in range(20_000)),
    "merged rows": b"\\trowd\\clvmgf\\cellx1\\intbl " + b"long " * 2000 + b"\\cell\\row"
    + b"\\trowd\\clvmrg\\cellx1\\cell\\row" * 20_000,
    "binary beyond the end": b"\\bin99999999999 abc",
    "backslashes": b"\\" * 300_001,
    "half bytes": b"\\'" * 200_000,
    "huge numbers": b"\\u99999999999999\\cellx-99999999999\\uc9999999 " * 20_000,
    "fonts": b"{\\fonttbl" + b";" * 300_000 + b"}" + b"\\f9999999 x" * 10_000,
    "surrogates": b"\\u-10179?" * 100_000,
    "labels": b"{\\listtext " * 100_000,
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
async def test_rtf_hostile_file_is_document_or_typed_error(name: str, pool: ParserPool, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"{\\rtf1 " + HOSTILE[name])
    assert await end_of(path, pool) in {"ready", "no_text", "too_large", "corrupt"}


async def end_of(path: Path, pool: ParserPool) -> str:
    try:
        await pool.parse(path, RTF)
    except IngestionError as error:
        return error.code
    return "ready"


def test_rtf_with_too_much_text_is_refused(tmp_path: Path, options: ParseOptions) -> None:
    with pytest.raises(TextTooLong):
        read(r"many words \par " * 30_000, tmp_path, options)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"{\\rtf1 x}", RTF),
        (b"\xef\xbb\xbf{\\rtf1 x}", RTF),
        (b" \r\n{\\rtf1 x}", RTF),
        (b"see {\\rtf1 x}", "text/plain"),
    ],
)
def test_rtf_is_recognized_by_its_first_group(content: bytes, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert sniff_media_type(content[:HEAD_BYTES], path, filename="a.txt", declared=None) == expected
