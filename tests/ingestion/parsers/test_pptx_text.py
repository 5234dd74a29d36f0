"""PowerPoint: raised text, equations, symbols, links, lists and tables of slides, and shows and templates."""

from pathlib import Path

import pytest

from app.documents.types import ReceivedFile
from app.documents.upload.media_type import detect_media_type
from app.ingestion.parsers import PARSERS, ParseOptions
from app.ingestion.parsers.formats.pptx import pptx_parser
from tests.ingestion.parsers.slides import (
    line,
    list_warnings,
    read_slides,
    shape,
    slide_cell,
    slide_table,
    text_run,
    write_slides,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.pptx"


def raised(text: str, baseline: str = "30000") -> str:
    return text_run(text, attributes=f'baseline="{baseline}"')


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (text_run("10") + raised("6") + text_run(" cells"), "10⁶ cells"),
        (text_run("10") + raised("1") + raised("2"), "10¹²"),
        (text_run("m") + raised("2", "20000"), "m²"),
        (text_run("H") + raised("2", "-25000") + text_run("O"), "H₂O"),
        (text_run("10") + raised("6", "30%"), "10⁶"),
        (text_run("10") + raised("6", "0"), "106"),
        (text_run("1") + raised("st") + text_run(" place"), "1st place"),
        (text_run("x") + raised("a+b"), "x^(a+b)"),
        (text_run("10 EUR ", attributes='strike="sngStrike"') + text_run("12 EUR"), "12 EUR"),
        (text_run("10") + "<a:br/>" + text_run("20"), "10\n20"),
        ("<a:fld type='datetime'><a:rPr/><a:t>1 May</a:t></a:fld>", "1 May"),
    ],
)
def test_pptx_raised_text_is_no_part_of_a_number(content: str, text: str, path: Path, options: ParseOptions) -> None:
    assert read_slides(write_slides(path, shape(line(content))), options) == [text]


def equation(content: str) -> str:
    choice = (
        f"<mc:Choice Requires='a14'><a14:m><m:oMathPara><m:oMath>{content}</m:oMath></m:oMathPara></a14:m></mc:Choice>"
    )
    return f"<mc:AlternateContent>{choice}<mc:Fallback>{text_run(' ')}</mc:Fallback></mc:AlternateContent>"


def math(text: str) -> str:
    return f"<m:r><m:t>{text}</m:t></m:r>"


FRACTION = f"<m:f><m:num>{math('12')}</m:num><m:den>{math('34')}</m:den></m:f>"
POWER = f"<m:sSup><m:e>{math('10')}</m:e><m:sup>{math('6')}</m:sup></m:sSup>"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (text_run("Law: ") + equation(math("E=mc")), "Law: E=mc"),
        (equation(math("x=") + FRACTION), "x=12/34"),
        (equation(POWER) + text_run(" cells"), "10⁶ cells"),
        (f"<a14:m><m:oMath>{FRACTION}</m:oMath></a14:m>", "12/34"),
        (text_run("a") + equation(math("b")) + text_run("c"), "a b c"),
    ],
)
def test_pptx_equations_are_read(content: str, text: str, path: Path, options: ParseOptions) -> None:
    assert read_slides(write_slides(path, shape(line(content))), options) == [text]


def test_pptx_equation_in_an_alternative_shape_is_read(path: Path, options: ParseOptions) -> None:
    choice = shape(line(f"<a14:m><m:oMath>{FRACTION}</m:oMath></a14:m>"))
    content = (
        f"<mc:AlternateContent><mc:Choice Requires='a14'>{choice}</mc:Choice><mc:Fallback>{shape(line(text_run(' ')))}"
    )
    assert read_slides(write_slides(path, f"{content}</mc:Fallback></mc:AlternateContent>"), options) == ["12/34"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (text_run("\uf0fc", '<a:sym typeface="Wingdings"/>') + text_run(" yes"), "✓ yes"),
        (text_run("ü", '<a:latin typeface="Wingdings"/>'), "✓"),
        (text_run("ab \uf0fb", '<a:latin typeface="Arial"/><a:sym typeface="Wingdings"/>'), "ab ✗"),
        (text_run("m", '<a:latin typeface="Symbol"/>') + text_run("m"), "μm"),
        (text_run("\uf0e0 next", '<a:sym typeface="Wingdings"/>'), "→ next"),
        (text_run("\uf0b7 item"), "• item"),
    ],
)
def test_pptx_symbols_of_fonts_are_characters(content: str, text: str, path: Path, options: ParseOptions) -> None:
    assert read_slides(write_slides(path, shape(line(content))), options) == [text]


WEB = [("w", "hyperlink", "https://example.org/refund"), ("s", "slide", "slide1.xml")]
CLICK = '<a:hlinkClick r:id="w"/>'


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (shape(line(text_run("our terms", CLICK))), "[our terms](https://example.org/refund)"),
        (shape(line(text_run("our ", CLICK), text_run("terms", CLICK), text_run("."))), "[our terms](https://example.org/refund)."),
        (shape(line(text_run("next", '<a:hlinkClick r:id="s" action="ppaction://hlinksldjump"/>'))), "next"),
        (shape(line(text_run("terms")), name=f">{CLICK}</p:cNvPr>"), "[terms](https://example.org/refund)"),
        (shape(line(text_run("https://example.org/refund", CLICK))), "https://example.org/refund"),
        (shape(line(text_run("Refunds", CLICK)), placeholder='<p:ph type="title"/>'), "Refunds"),
    ],
)  # fmt: skip
def test_pptx_addresses_of_links_are_read(content: str, text: str, path: Path, options: ParseOptions) -> None:
    assert read_slides(write_slides(path, content, targets=WEB), options) == [text]


def number(kind: str, text: str, start: int = 1, level: int = 0) -> str:
    properties = f'<a:pPr lvl="{level}"><a:buAutoNum type="{kind}" startAt="{start}"/></a:pPr>'
    return line(properties, text_run(text))


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        ([number("arabicPeriod", "a"), number("arabicPeriod", "b")], ["1. a", "2. b"]),
        ([number("alphaLcParenBoth", "a"), number("alphaLcParenBoth", "b")], ["(a) a", "(b) b"]),
        ([number("romanUcParenR", "a", 4), number("romanUcParenR", "b", 4)], ["IV) a", "V) b"]),
        ([number("arabicPlain", "a"), line(text_run("x")), number("arabicPlain", "b")], ["1 a", "x", "1 b"]),
        (
            [number("arabicPeriod", "a"), number("arabicPeriod", "i", level=1), number("arabicPeriod", "b")],
            ["1. a", "1. i", "2. b"],
        ),
        ([line('<a:pPr><a:buChar char="•"/></a:pPr>', text_run("a")), line(text_run("b"))], ["a", "b"]),
    ],
)
def test_pptx_numbers_of_lists_are_read(lines: list[str], texts: list[str], path: Path, options: ParseOptions) -> None:
    assert read_slides(write_slides(path, shape(*lines)), options) == texts


def row(*texts: str) -> list[str]:
    return [slide_cell(text) for text in texts]


SPANS = {
    "row label": (
        [
            row("Region", "Plan", "Price"),
            [slide_cell("Europe", 'rowSpan="2"'), *row("Basic", "10")],
            [slide_cell("", 'vMerge="1"'), *row("Pro", "20")],
        ],
        ["| Region | Plan | Price |", "| Europe | Basic | 10 |", "| Europe | Pro | 20 |"],
    ),
    "head over two columns": (
        [[slide_cell("Name", 'gridSpan="2"'), slide_cell("", 'hMerge="1"'), *row("Age")], row("Ada", "Lovelace", "36")],
        ["| Name | Name | Age |", "| Ada | Lovelace | 36 |"],
    ),
    "block of two columns and two rows": (
        [
            row("A", "B", "C"),
            [slide_cell("wide", 'gridSpan="2" rowSpan="2"'), slide_cell("", 'hMerge="1"'), *row("1")],
            [slide_cell("", 'gridSpan="2" vMerge="1"'), slide_cell("", 'hMerge="1" vMerge="1"'), *row("2")],
        ],
        ["| A | B | C |", "| wide | wide | 1 |", "| wide | wide | 2 |"],
    ),
    "two header rows": (
        [
            [slide_cell("Item", 'rowSpan="2"'), slide_cell("Price", 'gridSpan="2"'), slide_cell("", 'hMerge="1"')],
            [slide_cell("", 'vMerge="1"'), *row("net", "gross")],
            row("Pen", "1", "2"),
        ],
        ["| Item | Price net | Price gross |", "| Pen | 1 | 2 |"],
    ),
    "title row": (
        [[slide_cell("Prices", 'gridSpan="2"'), slide_cell("", 'hMerge="1"')], row("Plan", "Net"), row("Pro", "1")],
        ["Prices", "| Plan | Net |", "| Pro | 1 |"],
    ),
    "empty cells": ([row("A", "B", "C"), row("1", "", "3")], ["| A | B | C |", "| 1 | | 3 |"]),
}


@pytest.mark.parametrize(("rows", "lines"), SPANS.values(), ids=SPANS.keys())
def test_pptx_spans_never_shift_cells(
    rows: list[list[str]], lines: list[str], path: Path, options: ParseOptions
) -> None:
    texts = read_slides(write_slides(path, slide_table(*rows)), options)
    assert [text for text in texts[0].split("\n") if not text.startswith("| ---")] == lines


def test_pptx_lines_of_a_cell_are_divided(path: Path, options: ParseOptions) -> None:
    bullet = '<a:pPr><a:buChar char="•"/></a:pPr>'
    items = line(bullet, text_run("10 GB")) + line(bullet, text_run("100 GB"))
    plain = line(text_run("10")) + line(text_run("20"))
    cells = [f"<a:tc><a:txBody>{content}</a:txBody></a:tc>" for content in (items, plain)]
    texts = read_slides(write_slides(path, slide_table(row("a", "b"), cells)), options)
    assert texts[0].split("\n")[-1] == "| 10 GB; 100 GB | 10 20 |"


_MAIN = "application/vnd.openxmlformats-officedocument.presentationml"
_MACRO = "application/vnd.ms-powerpoint"
CONTENT_TYPES = {
    "ppsx": f"{_MAIN}.slideshow.main+xml",
    "potx": f"{_MAIN}.template.main+xml",
    "pptm": f"{_MACRO}.presentation.macroEnabled.main+xml",
    "ppsm": f"{_MACRO}.slideshow.macroEnabled.main+xml",
    "potm": f"{_MACRO}.template.macroEnabled.main+xml",
    "pptx": "application/xml",
}


@pytest.mark.parametrize(("extension", "content_type"), CONTENT_TYPES.items())
@pytest.mark.parametrize("renamed", [False, True], ids=["own name", "renamed"])
def test_pptx_show_template_and_macro_file_are_detected_and_read(
    extension: str, content_type: str, renamed: bool, tmp_path: Path, options: ParseOptions
) -> None:
    path = tmp_path / f"test.{'pptx' if renamed else extension}"
    write_slides(path, shape(line(text_run("Nine to five"))), content_type=content_type)
    received = ReceivedFile(path, path.name, None, path.stat().st_size, b"")
    media_type = detect_media_type(received, PARSERS)
    assert extension in PARSERS[media_type].extensions
    assert read_slides(path, options) == ["Nine to five"]


def test_pptx_struck_words_are_counted(path: Path, options: ParseOptions) -> None:
    write_slides(path, shape(line(text_run("10 EUR", attributes='strike="dblStrike"'), text_run("12 EUR"))))
    assert list_warnings(pptx_parser.parse(path, options)) == [("struck_text_not_read", 2)]
