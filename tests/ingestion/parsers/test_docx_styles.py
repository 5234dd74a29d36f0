"""Word: headings by style and outline, and the labels of numbering."""

from pathlib import Path

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.docx import docx_parser
from tests.ingestion.parsers.word import p, part, shown, style, text_of, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.docx"


STYLES = part(
    "w:styles",
    '<w:style w:type="paragraph" w:default="1" w:styleId="Standard"><w:name w:val="Normal"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="berschrift2"><w:name w:val="heading 2"/></w:style>'
    '<w:style w:styleId="Kapitel"><w:name w:val="Kapitel"/><w:basedOn w:val="berschrift2"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Otsikko"><w:name w:val="Otsikko"/><w:pPr><w:outlineLvl w:val="3"/></w:pPr>'
    '</w:style><w:style w:type="paragraph" w:styleId="Quiet"><w:name w:val="Quiet"/><w:basedOn w:val="Otsikko"/>'
    '<w:pPr><w:outlineLvl w:val="9"/></w:pPr></w:style>'
    '<w:style w:type="paragraph" w:styleId="A"><w:name w:val="A"/><w:basedOn w:val="B"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="B"><w:name w:val="B"/><w:basedOn w:val="A"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Titel"><w:name w:val="Title"/></w:style>',
)


@pytest.mark.capability("format-docx")
@pytest.mark.parametrize(
    ("properties", "level"),
    [
        ("", 0),
        (style("berschrift2"), 2),
        (style("Kapitel"), 2),
        (style("Otsikko"), 4),
        (style("Quiet"), 0),
        (style("A"), 0),
        (style("Titel"), 1),
        (style("Heading3"), 3),
        (style("Unknown"), 0),
        ('<w:outlineLvl w:val="4"/>', 5),
        (style("Kapitel") + '<w:outlineLvl w:val="9"/>', 0),
        ('<w:outlineLvl w:val="-1"/>', 0),
        ('<w:outlineLvl w:val="99999999999999999999"/>', 0),
    ],
)
def test_docx_headings_follow_style_and_outline(properties: str, level: int, path: Path, options: ParseOptions) -> None:
    document = docx_parser.parse(write(path, p("text", properties), {"styles": STYLES}), options)
    assert shown(document) == [("heading" if level else "paragraph", level, "text")]


def numbered(number: int, level: int, text: str = "x") -> str:
    return p(text, f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>')


def level(at: int, number_format: str, text: str, more: str = "") -> str:
    return f'<w:lvl w:ilvl="{at}"><w:numFmt w:val="{number_format}"/><w:lvlText w:val="{text}"/>{more}</w:lvl>'


NUMBERING = part(
    "w:numbering",
    '<w:abstractNum w:abstractNumId="0">'
    + level(0, "decimal", "%1.", '<w:start w:val="1"/>')
    + level(1, "lowerLetter", "%1.%2)")
    + level(2, "upperRoman", "(%3)", '<w:start w:val="4"/>')
    + level(3, "decimal", "%3-%4", "<w:isLgl/>")
    + '</w:abstractNum><w:abstractNum w:abstractNumId="1">'
    + level(0, "bullet", "\uf0b7")
    + level(1, "none", "")
    + level(2, "lowerLetter", "%3", '<w:start w:val="27"/>')
    + level(3, "lowerRoman", "%4", '<w:start w:val="999999999"/>')
    + level(4, "decimalZero", "%5")
    + '</w:abstractNum><w:abstractNum w:abstractNumId="2"><w:styleLink w:val="L"/>'
    + level(0, "upperLetter", "§ %1", '<w:pStyle w:val="Clause"/>')
    + '</w:abstractNum><w:abstractNum w:abstractNumId="3"><w:numStyleLink w:val="L"/></w:abstractNum>'
    + "".join(f'<w:num w:numId="{at + 1}"><w:abstractNumId w:val="{at}"/></w:num>' for at in range(4))
    + '<w:num w:numId="9"><w:abstractNumId w:val="0"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/>'
    "</w:lvlOverride></w:num>",
)


@pytest.mark.parametrize(
    ("items", "labels"),
    [
        ([(1, 0), (1, 0), (1, 1), (1, 1), (1, 0), (1, 1)], ["1.", "2.", "2.a)", "2.b)", "3.", "3.a)"]),
        ([(1, 2), (1, 2), (1, 3)], ["(IV)", "(V)", "5-1"]),
        ([(1, 0), (9, 0), (9, 0), (1, 0)], ["1.", "1.", "2.", "3."]),
        ([(2, 0), (2, 1), (2, 2), (2, 3), (2, 4), (2, 8)], ["-", "", "aa", "999999999", "01", "-"]),
        ([(4, 0), (3, 0)], ["§ A", "§ B"]),
    ],
)
def test_docx_list_labels_follow_numbering(
    items: list[tuple[int, int]], labels: list[str], path: Path, options: ParseOptions
) -> None:
    body = "".join(numbered(number, at) for number, at in items)
    document = docx_parser.parse(write(path, body, {"numbering": NUMBERING}), options)
    assert shown(document) == [("list_item", 0, f"{label} x".strip()) for label in labels]


def test_docx_list_without_numbering_is_paragraph(path: Path, options: ParseOptions) -> None:
    body = numbered(0, 0) + numbered(77, 0)
    document = docx_parser.parse(write(path, body, {"numbering": NUMBERING}), options)
    assert shown(document) == [("paragraph", 0, "x")] * 2


def test_docx_numbered_headings_have_number(path: Path, options: ParseOptions) -> None:
    styles = part(
        "w:styles",
        '<w:style w:styleId="Clause"><w:name w:val="heading 1"/><w:pPr><w:numPr><w:numId w:val="3"/></w:numPr></w:pPr>'
        "</w:style>",
    )
    body = p("Rent", style("Clause")) + p("", style("Clause")) + p("Notice", style("Clause"))
    document = docx_parser.parse(write(path, body, {"styles": styles, "numbering": NUMBERING}), options)
    assert text_of(document) == ["§ A Rent", "§ C Notice"]
