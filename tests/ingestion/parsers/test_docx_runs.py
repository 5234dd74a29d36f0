"""Word: raised text, symbol fonts, forms, links, hidden and struck text, and alternative texts."""

from pathlib import Path

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.docx import docx_parser
from app.ingestion.types import ParsedDocument
from app.warnings import ServiceWarning
from tests.ingestion.parsers.word import (
    LINKS,
    cell,
    field,
    formatted,
    p,
    paragraph,
    part,
    plain,
    run,
    styles,
    t,
    table,
    text_of,
    write,
)

RAISED = '<w:vertAlign w:val="superscript"/>'
LOWERED = '<w:vertAlign w:val="subscript"/>'
STYLES = styles(
    f'<w:style w:type="character" w:styleId="Power"><w:rPr>{RAISED}</w:rPr></w:style>',
    '<w:style w:type="character" w:styleId="Child"><w:basedOn w:val="Power"/></w:style>',
    '<w:style w:type="character" w:styleId="Tick"><w:rPr><w:rFonts w:ascii="Wingdings" w:hAnsi="Wingdings"/></w:rPr>'
    "</w:style>",
    '<w:style w:type="character" w:styleId="Note"><w:name w:val="footnote reference"/>'
    f"<w:rPr>{RAISED}</w:rPr></w:style>",
    '<w:style w:type="character" w:styleId="Secret"><w:rPr><w:vanish/></w:rPr></w:style>',
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.docx"


def read(path: Path, options: ParseOptions, *content: str, links: str = "") -> ParsedDocument:
    return docx_parser.parse(write(path, paragraph(*content), STYLES, extra_links=links), options)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (plain("10") + formatted("6", RAISED) + plain(" cells"), "10⁶ cells"),
        (plain("10") + formatted("1", RAISED) + formatted("2", RAISED) + plain(" cells"), "10¹² cells"),
        (plain("10") + formatted("−3", RAISED) + plain(" m"), "10⁻³ m"),
        (plain("25 m") + formatted("2", RAISED), "25 m²"),
        (plain("H") + formatted("2", LOWERED) + plain("O"), "H₂O"),
        (plain("x") + formatted("max", LOWERED), "x_max"),
        (plain("2") + formatted("n+1", RAISED), "2ⁿ⁺¹"),
        (plain("the 1") + formatted("st", RAISED) + plain(" day"), "the 1st day"),
        (plain("10") + formatted("6", '<w:rStyle w:val="Power"/>'), "10⁶"),
        (plain("10") + formatted("6", '<w:rStyle w:val="Child"/>'), "10⁶"),
        (plain("10") + formatted("6", f'<w:rStyle w:val="Power"/>{RAISED.replace("superscript", "baseline")}'), "106"),
        (plain("10") + formatted("6", '<w:position w:val="8"/>'), "10⁶"),
        (plain("CO") + formatted("2", '<w:position w:val="-6"/>'), "CO₂"),
        (plain("10") + formatted("6", '<w:position w:val="1"/>'), "106"),
        (plain("Ada") + formatted("1,2", RAISED), "Ada¹,²"),
        (plain("a word") + formatted(" raised by itself", RAISED), "a word raised by itself"),
        (plain("10") + run("<w:footnoteReference w:id='2' w:customMarkFollows='1'/>", t("1")), "10 ¹"),
        (plain("1,000") + run("<w:footnoteReference w:id='2'/>") + plain("5"), "1,000 5"),
        (plain("10") + formatted("1", '<w:rStyle w:val="Note"/>') + plain(" cells"), "10 ¹ cells"),
        (plain("10") + f'<w:hyperlink w:anchor="_ftn1">{formatted("1", RAISED)}</w:hyperlink>' + plain(" a"), "10 ¹ a"),
    ],
)  # fmt: skip
def test_docx_raised_and_lowered_text_is_no_part_of_a_number(
    content: str, text: str, path: Path, options: ParseOptions
) -> None:
    assert text_of(read(path, options, content)) == [text]


def symbol(font: str, code: str) -> str:
    return run(f'<w:sym w:font="{font}" w:char="{code}"/>')


def in_font(text: str, font: str) -> str:
    return formatted(text, f'<w:rFonts w:ascii="{font}" w:hAnsi="{font}"/>')


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (symbol("Wingdings", "F0FC") + plain(" yes"), "✓ yes"),
        (symbol("Wingdings", "FC") + plain(" yes"), "✓ yes"),
        (symbol("Wingdings", "F0FB"), "✗"),
        (symbol("Wingdings", "F0E0") + plain(" next"), "→ next"),
        (symbol("Wingdings", "F028") + plain(" 030 12"), "☎ 030 12"),
        (symbol("Wingdings 2", "F052") + symbol("Wingdings 2", "F0A3"), "☑☐"),
        (symbol("Wingdings 3", "F022"), "→"),
        (symbol("Webdings", "F061"), "✓"),
        (symbol("ZapfDingbats", "0033"), "✓"),
        (plain("5 ") + symbol("Symbol", "F06D") + plain("m"), "5 μm"),
        (plain("x ") + symbol("Symbol", "F0A3") + plain(" 3"), "x ≤ 3"),
        (symbol("Arial", "2713"), "✓"),
        (in_font("\uf0fc", "Wingdings") + plain(" yes"), "✓ yes"),
        (in_font("ü", "Wingdings") + plain(" yes"), "✓ yes"),
        (in_font("abg", "Symbol"), "αβγ"),
        (in_font("Δ10", "Symbol"), "Δ10"),
        (formatted("\uf0fe", '<w:rStyle w:val="Tick"/>') + plain(" insured"), "☑ insured"),
        (plain("\uf0b7 first"), "- first"),
        (in_font("§", "Wingdings") + plain(" item"), "- item"),
        (in_font("text", "Verdana"), "text"),
    ],
)  # fmt: skip
def test_docx_symbols_of_fonts_are_characters(content: str, text: str, path: Path, options: ParseOptions) -> None:
    assert text_of(read(path, options, content)) == [text]


def test_docx_unknown_symbols_are_counted(path: Path, options: ParseOptions) -> None:
    document = read(path, options, plain("a"), symbol("Wingdings", "F0FF"), symbol("House Icons", "F041"))
    assert (text_of(document), document.warnings) == (
        ["a"],
        [ServiceWarning("symbols_not_read", "2 characters of symbol fonts have no equivalent and were not read.", 2)],
    )


def form_field(data: str, result: str = "") -> str:
    begin = run(f'<w:fldChar w:fldCharType="begin"><w:ffData>{data}</w:ffData></w:fldChar>')
    middle = field("separate") + result if result else ""
    return begin + run("<w:instrText> FORM </w:instrText>") + middle + field("end")


ENTRIES = '<w:listEntry w:val="Berlin"/><w:listEntry w:val="Hamburg"/>'
BLANK = run("<w:sdtPlaceholder/>")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (form_field('<w:checkBox><w:default w:val="1"/></w:checkBox>') + plain(" yes"), "☒ yes"),
        (form_field('<w:checkBox><w:default w:val="0"/></w:checkBox>') + plain(" no"), "☐ no"),
        (form_field('<w:checkBox><w:default w:val="0"/><w:checked/></w:checkBox>') + plain(" a"), "☒ a"),
        (form_field('<w:checkBox><w:default w:val="1"/><w:checked w:val="0"/></w:checkBox>') + plain(" b"), "☐ b"),
        (form_field(f'<w:ddList><w:result w:val="1"/>{ENTRIES}</w:ddList>'), "Hamburg"),
        (form_field(f'<w:ddList><w:default w:val="1"/>{ENTRIES}</w:ddList>'), "Hamburg"),
        (form_field(f"<w:ddList>{ENTRIES}</w:ddList>"), "Berlin"),
        (form_field(f'<w:ddList><w:result w:val="1"/>{ENTRIES}</w:ddList>', plain("Hamburg")), "Hamburg"),
        (form_field(f'<w:ddList><w:result w:val="9"/>{ENTRIES}</w:ddList>') + plain("x"), "x"),
        (form_field("<w:textInput/>", plain("Ada Lovelace")), "Ada Lovelace"),
        (form_field('<w:textInput><w:default w:val="name"/></w:textInput>'), "name"),
        (form_field('<w:textInput><w:default w:val="name"/></w:textInput>', plain("Ada")), "Ada"),
    ],
)  # fmt: skip
def test_docx_legacy_form_fields_are_read(content: str, text: str, path: Path, options: ParseOptions) -> None:
    assert text_of(read(path, options, content)) == [text]


def control(properties: str, content: str) -> str:
    return f"<w:sdt><w:sdtPr>{properties}</w:sdtPr><w:sdtContent>{content}</w:sdtContent></w:sdt>"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (control('<w14:checkbox><w14:checked w14:val="1"/></w14:checkbox>', plain("☒")) + plain(" yes"), "☒ yes"),
        (control('<w14:checkbox><w14:checked w14:val="1"/></w14:checkbox>', "") + plain(" yes"), "☒ yes"),
        (control('<w14:checkbox><w14:checked w14:val="0"/></w14:checkbox>', "<w:r/>") + plain(" no"), "☐ no"),
        (
            control('<w14:checkbox><w14:checked w14:val="1"/></w14:checkbox>', symbol("Wingdings", "F0FE"))
            + plain(" sym"),
            "☑ sym",
        ),
        (control("<w:dropDownList/>", plain("Hamburg")), "Hamburg"),
        (control('<w:date w:fullDate="2026-01-01T00:00:00Z"/>', plain("1 January 2026")), "1 January 2026"),
        (control("<w15/>", control("<w15item/>", plain("one, ")) + control("<w15item/>", plain("two"))), "one, two"),
    ],
)  # fmt: skip
def test_docx_content_controls_are_read(content: str, text: str, path: Path, options: ParseOptions) -> None:
    assert text_of(read(path, options, content)) == [text]


def test_docx_prompts_of_empty_controls_are_counted(path: Path, options: ParseOptions) -> None:
    hint = control("<w:showingPlcHdr/>", plain("Click here"))
    body = paragraph(plain("Name: "), hint) + control("<w:showingPlcHdr/>", p("Choose an item"))
    document = docx_parser.parse(write(path, body), options)
    assert (text_of(document), document.warnings) == (
        ["Name:"],
        [ServiceWarning("prompts_not_read", "2 prompts of empty form fields were not read.", 2)],
    )


EXTERNAL = (
    f'<Relationship Id="web" Type="{LINKS}/hyperlink" Target="https://example.org/refund" TargetMode="External"/>'
)
MAIL = "HYPERLINK &quot;mailto:a@example.org&quot;"
MATH_RUN = "<m:r><m:t>7</m:t></m:r>"


def link_field(code: str, label: str) -> str:
    return field("begin") + run(f"<w:instrText>{code}</w:instrText>") + field("separate") + plain(label) + field("end")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (f'See <w:hyperlink r:id="web">{plain("our ") + plain("terms")}</w:hyperlink>', "[our terms](https://example.org/refund)"),
        (f'<w:hyperlink r:id="web" w:anchor="p2">{plain("terms")}</w:hyperlink>', "[terms](https://example.org/refund#p2)"),
        (f'<w:hyperlink w:anchor="p2">{plain("terms")}</w:hyperlink>', "terms"),
        (f'<w:hyperlink r:id="web">{plain("https://example.org/refund")}</w:hyperlink>', "https://example.org/refund"),
        (link_field(' HYPERLINK "https://example.org/a" ', "here"), "[here](https://example.org/a)"),
        (link_field(' HYPERLINK "https://example.org/a" \\l "b" \\o "tip" ', "here"), "[here](https://example.org/a#b)"),
        (link_field(' HYPERLINK \\l "b" ', "here"), "here"),
        (link_field(" REF other ", "here"), "here"),
        (f'<w:fldSimple w:instr="{MAIL}">{plain("mail")}</w:fldSimple>', "[mail](mailto:a@example.org)"),
        (
            field("begin") + run("<w:instrText> HYPER</w:instrText>")
            + run('<w:instrText>LINK "https://example.org"</w:instrText>')
            + field("separate") + plain("split") + field("end") + plain(" end"),
            "[split](https://example.org) end",
        ),
        (f'<w:hyperlink r:id="web">{plain("10") + formatted("6", RAISED)}</w:hyperlink>', "[10⁶](https://example.org/refund)"),
    ],
)  # fmt: skip
def test_docx_addresses_of_links_are_read(content: str, text: str, path: Path, options: ParseOptions) -> None:
    content = content.removeprefix("See ")
    assert text_of(read(path, options, content, links=EXTERNAL)) == [text]


def test_docx_links_stay_out_of_headings(path: Path, options: ParseOptions) -> None:
    link = f'<w:hyperlink r:id="web">{plain("Refunds")}</w:hyperlink>'
    heading = f'<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr>{link}</w:p>'
    assert text_of(docx_parser.parse(write(path, heading, extra_links=EXTERNAL), options)) == ["Refunds"]


def test_docx_links_of_notes_use_the_relationships_of_their_part(path: Path, options: ParseOptions) -> None:
    note = f'<w:footnote w:id="2"><w:p><w:hyperlink r:id="web">{plain("source")}</w:hyperlink></w:p></w:footnote>'
    parts = {
        "footnotes": part("w:footnotes", note),
        "word/_rels/footnotes.xml.rels": f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/'
        f'relationships">{EXTERNAL}</Relationships>',
    }
    body = paragraph(plain("text"), run('<w:footnoteReference w:id="2"/>'))
    assert text_of(docx_parser.parse(write(path, body, parts), options)) == [
        "text",
        "[source](https://example.org/refund)",
    ]


@pytest.mark.parametrize(
    ("properties", "code", "noun"),
    [
        ("<w:vanish/>", "hidden_text_not_read", "2 hidden words were not read."),
        ('<w:rStyle w:val="Secret"/>', "hidden_text_not_read", "2 hidden words were not read."),
        ("<w:strike/>", "struck_text_not_read", "2 words that are struck through were not read."),
        ("<w:dstrike/>", "struck_text_not_read", "2 words that are struck through were not read."),
        ('<w:strike w:val="true"/>', "struck_text_not_read", "2 words that are struck through were not read."),
    ],
)
def test_docx_hidden_and_struck_words_are_counted(
    properties: str, code: str, noun: str, path: Path, options: ParseOptions
) -> None:
    document = read(path, options, plain("costs "), formatted("10 EUR", properties), plain("12 EUR"))
    assert (text_of(document), document.warnings) == (["costs 12 EUR"], [ServiceWarning(code, noun, 2)])


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            "<w:ruby><w:rt>" + run(t("かん")) + "</w:rt><w:rubyBase>" + run(t("漢")) + "</w:rubyBase></w:ruby>"
            "<w:ruby><w:rt>" + run(t("じ")) + "</w:rt><w:rubyBase>" + run(t("字")) + "</w:rubyBase></w:ruby>",
            "漢字(かんじ)",
        ),
        (f"<m:oMath><m:f><m:num>{MATH_RUN}</m:num><m:den>{MATH_RUN}</m:den></m:f></m:oMath>", "7/7"),
        (plain("x is 1") + "<m:oMath><m:r><m:t>2</m:t></m:r></m:oMath>" + plain("3"), "x is 1 2 3"),
        (
            "<m:oMathPara><m:oMath><m:r><m:t>a=1</m:t></m:r></m:oMath></m:oMathPara>" + plain("where"),
            "a=1\nwhere",
        ),
    ],
)  # fmt: skip
def test_docx_ruby_and_equations_are_read(content: str, text: str, path: Path, options: ParseOptions) -> None:
    assert text_of(read(path, options, content)) == [text]


def image_run(alt_text: str) -> str:
    return f'<w:drawing><wp:inline><wp:docPr id="1" name="Picture 1" descr="{alt_text}"/></wp:inline></w:drawing>'


@pytest.mark.parametrize(
    ("alt_text", "text"),
    [
        ("Red wire goes to L1", "Press Red wire goes to L1 now"),
        ("Red wire&#10;&#10;Description automatically generated", "Press Red wire now"),
        ("C:\\Users\\Me\\my photo.png", "Press now"),
        ("IMG_0001.jpg", "Press now"),
        ("Picture 3", "Press now"),
        ("", "Press now"),
    ],
)
def test_docx_alternative_texts_of_images_are_read(alt_text: str, text: str, path: Path, options: ParseOptions) -> None:
    assert text_of(read(path, options, plain("Press "), run(image_run(alt_text)), plain(" now"))) == [text]


def test_docx_alternative_text_in_a_heading_follows_it(path: Path, options: ParseOptions) -> None:
    heading = (
        f'<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr>{run(image_run("Our logo in red"))}{plain("Terms")}</w:p>'
    )
    assert text_of(docx_parser.parse(write(path, heading), options)) == ["Terms", "Our logo in red"]


def test_docx_symbols_raised_text_and_equations_in_cells_are_read(path: Path, options: ParseOptions) -> None:
    equation = "<m:oMath><m:r><m:t>E=mc</m:t></m:r></m:oMath>"
    rows = [
        [cell(p("Feature")), cell(p("Value"))],
        [cell(p("Backup")), cell(paragraph(symbol("Wingdings", "F0FC")))],
        [cell(p("Cells")), cell(paragraph(plain("10"), formatted("6", RAISED)))],
        [cell(p("Law")), cell(paragraph(equation))],
        [cell(p("Plug")), cell(paragraph(run(image_run("Type F"))))],
    ]
    document = docx_parser.parse(write(path, table(*rows)), options)
    assert document.blocks[0].text.split("\n")[2:] == [
        "| Backup | ✓ |",
        "| Cells | 10⁶ |",
        "| Law | E=mc |",
        "| Plug | Type F |",
    ]
