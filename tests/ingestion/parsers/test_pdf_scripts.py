"""PDF: scripts that run their own way, accents, superscripts, symbol fonts and links."""

from pathlib import Path
from typing import Any

import pymupdf
import pytest

from tests.ingestion.parsers.glyph_pages import Glyph, place_column, place_visually, write_glyphs
from tests.ingestion.parsers.pdf_files import parse_pdf, prose, read_text, write_pages

COLUMNS = ("返品は商品到着後三十日以内に", "限り可能です。送料はお客様の", "ご負担となります。")


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([("The colony had 10", 12, 0), ("6", 7, 5), (" cells.", 12, 0)], "The colony had 10⁶ cells."),
        ([("An area of 25 m", 12, 0), ("2", 7, 4), (" and more", 12, 0)], "An area of 25 m² and more"),
        ([("Water is H", 12, 0), ("2", 7, -2), ("O as such", 12, 0)], "Water is H₂O as such"),
        ([("Emission of CO", 10, 0), ("2", 6, -2.5), (" in tons", 10, 0)], "Emission of CO₂ in tons"),
        ([("A rate of 10", 12, 0), ("-3", 7, 5), (" per hour", 12, 0)], "A rate of 10⁻³ per hour"),
        ([("Let x", 12, 0), ("a", 7, 5), (" be the power", 12, 0)], "Let x^a be the power"),
        ([("on the 1", 12, 0), ("st", 7, 5), (" of May", 12, 0)], "on the 1st of May"),
        ([("Net revenue", 12, 0), ("1", 7, 5), (" grew fast", 12, 0)], "Net revenue ¹ grew fast"),
        ([("as shown above.", 12, 0), ("12", 7, 5)], "as shown above. ¹²"),
        ([("Written in L", 12, 0), ("A", 8, 2.5), ("TEX here", 12, 0)], "Written in LATEX here"),
        ([("Once upon ", 12, 0), ("A TIME", 8, 0), (" in small caps", 12, 0)], "Once upon A TIME in small caps"),
        ([("12 lines in small print 345", 6, 0)], "12 lines in small print 345"),
    ],
)
def test_raised_and_lowered_characters_keep_their_sense(
    pieces: list[tuple[str, float, float]], expected: str, tmp_path: Path
) -> None:
    x, line = 72.0, []
    for text, size, rise in pieces:
        line.append((x, 100 - rise, text, size))
        x += pymupdf.get_text_length(text, fontsize=size)
    assert expected in read_text(write_pages(tmp_path / "a.pdf", [[*line, *prose(1)]]))


@pytest.mark.parametrize(
    ("text", "accents", "expected"),
    [
        ("K_uttler", [(1, "¨", 2)], "Küttler"),
        ("Herv_e J_egou", [(4, "´", 5), (8, "´", 9)], "Hervé Jégou"),
        ("_Angstr_om", [(0, "˚", 1), (7, "¨", 8)], "Ångström"),
        ("Dvo_r_ak", [(3, "ˇ", 4), (5, "´", 6)], "Dvořák"),
        ("na_ıve", [(2, "¨", 3)], "naïve"),
        ("Erd_os", [(3, "˝", 4)], "Erdős"),
        ("Fran_cois", [(4, "¸", 5)], "François"),
        ("ma_nana", [(2, "˜", 3)], "mañana"),
        ("Mich_ele", [(4, "`", 5)], "Michèle"),
    ],
)
def test_accent_over_its_letter_is_composed(
    text: str, accents: list[tuple[int, str, int]], expected: str, tmp_path: Path
) -> None:
    # The file has each accent before its letter, at the place of the letter.
    glyphs, x = [], 72.0
    marks = {place: (accent, letter) for place, accent, letter in accents}
    for index, character in enumerate(text):
        if index in marks:
            glyphs.append(Glyph(x, 700, marks[index][0]))
        else:
            glyphs.append(Glyph(x, 700, character))
            x += 6
    assert read_text(write_glyphs(tmp_path / "a.pdf", [glyphs])) == expected


def test_accent_at_its_own_place_stays(tmp_path: Path) -> None:
    path = write_glyphs(tmp_path / "a.pdf", [place_visually("C´est la vie 5° warm", 72, 700)])
    assert read_text(path).split()[1:] == ["la", "vie", "5°", "warm"]


@pytest.mark.parametrize(
    ("visual", "expected"),
    [
        (".Linux לע Python 3.11 םע תדבוע R הליבחה", "החבילה R עובדת עם Python 3.11 על Linux."),
        ("(הסרג 3.11) Python", "Python (3.11 גרסה)"),
        (".17% מ״עמ ללוכ ,120.50 אוה ריחמה", "המחיר הוא 120.50, כולל מע״מ 17%."),
        ("ןימז Python (3.11) רבכ", "כבר Python (3.11) זמין"),
        ("ديدج Excel 2019 جمانرب", "برنامج Excel 2019 جديد"),
        ("۲٫۵ ۀخسن", "نسخۀ ۲٫۵"),
        ("The word םולש means peace", "The word שלום means peace"),
    ],
)
def test_line_from_right_to_left_is_in_reading_order(visual: str, expected: str, tmp_path: Path) -> None:
    path = write_glyphs(tmp_path / "a.pdf", [place_visually(visual, 72, 700)])
    assert read_text(path) == expected


def test_pieces_from_right_to_left_are_in_reading_order(tmp_path: Path) -> None:
    glyphs = place_visually("לבא ימש", 72, 700) + place_visually("םולש", 300, 700)
    assert read_text(write_glyphs(tmp_path / "a.pdf", [glyphs])) == "שלום שמי אבל"


@pytest.mark.parametrize("is_vertical", [True, False])
def test_vertical_columns_are_read_from_right_to_left(is_vertical: bool, tmp_path: Path) -> None:
    glyphs = [glyph for index, column in enumerate(COLUMNS) for glyph in place_column(column, 500 - 20 * index, 700)]
    path = write_glyphs(tmp_path / "a.pdf", [glyphs], is_vertical=is_vertical)
    assert read_text(path) == "".join(COLUMNS)


def test_vertical_columns_of_two_tiers_are_read_tier_by_tier(tmp_path: Path) -> None:
    tiers = [
        glyph
        for tier in range(2)
        for index in range(3)
        for glyph in place_column(
            f"第{'上下'[tier]}段の{'一二三'[index]}列目である", 500 - 20 * index, 700 - 250 * tier
        )
    ]
    text = read_text(write_glyphs(tmp_path / "a.pdf", [tiers], is_vertical=True)).replace("\n", "")
    assert text == "".join(f"第{tier}段の{row}列目である" for tier in "上下" for row in "一二三")


def test_vertical_columns_come_after_their_horizontal_heading(tmp_path: Path) -> None:
    columns = [glyph for index, text in enumerate(COLUMNS) for glyph in place_column(text, 500 - 20 * index, 650)]
    heading = place_visually("返品について", 72, 780, size=20, width=1)
    document = read_text(write_glyphs(tmp_path / "a.pdf", [[*columns, *heading]]))
    assert document.splitlines() == ["返品について", "".join(COLUMNS)]


def test_upright_digits_stay_in_their_column(tmp_path: Path) -> None:
    glyphs = place_column("平成", 500, 700) + place_visually("12", 500, 676) + place_column("年の報告", 500, 664)
    assert read_text(write_glyphs(tmp_path / "a.pdf", [glyphs])) == "平成12年の報告"


def test_chinese_columns_are_read_from_right_to_left(tmp_path: Path) -> None:
    glyphs = place_column("退貨須於三十日內", 400, 700) + place_column("辦理運費由客戶負擔", 380, 700)
    assert (
        read_text(write_glyphs(tmp_path / "a.pdf", [glyphs], is_vertical=True)) == "退貨須於三十日內辦理運費由客戶負擔"
    )


@pytest.mark.parametrize("rise", [9, 11, 13])
def test_ruby_is_not_in_its_line(rise: float, tmp_path: Path) -> None:
    line = place_visually("これは漢字を読む練習です", 72, 700, width=1)
    ruby = place_visually("かんじ", 108, 700 + rise, size=6, width=1) + place_visually("よ", 156, 700 + rise, size=6)
    text = read_text(write_glyphs(tmp_path / "a.pdf", [[*line, *ruby]]))
    assert text.splitlines()[0] == "これは漢字を読む練習です"
    assert "かんじ" in text


def test_japanese_lines_are_joined_without_spaces(tmp_path: Path) -> None:
    glyphs = place_visually("返品は商品到着後三十日以", 72, 700, width=1) + place_visually(
        "内に限り可能です", 72, 684, width=1
    )
    assert read_text(write_glyphs(tmp_path / "a.pdf", [glyphs])) == "返品は商品到着後三十日以内に限り可能です"


@pytest.mark.parametrize(
    ("font", "code", "expected"),
    [("Wingdings", "\uf0fc", "✓"), ("Wingdings", "\uf0fb", "✗"), ("Wingdings-Regular", "þ", "☑"),
     ("ZapfDingbats", "4", "✔"), ("Symbol", "\uf0b7", "•"), ("ABCDEF+Wingdings", "¨", "☐"), ("Wingdings", "à", "→")],
)  # fmt: skip
def test_character_of_a_symbol_font_is_its_symbol(font: str, code: str, expected: str, tmp_path: Path) -> None:
    assert read_text(write_glyphs(tmp_path / "a.pdf", [[Glyph(72, 700, code)]], font=font)) == expected


def write_links(path: Path, links: list[tuple[tuple[float, float, float, float], str]]) -> Path:
    fitz: Any = pymupdf
    document = fitz.open()
    page = document.new_page()
    page.insert_text((72, 100), "Read the terms of use and the price list before you order.")
    page.insert_text((72, 116), "Questions go to the support team at any time of the day.")
    for box, address in links:
        page.insert_link({"kind": pymupdf.LINK_URI, "from": fitz.Rect(box), "uri": address})
    document.save(path)
    document.close()
    return path


def find_box(text: str, before: str, y: float) -> tuple[float, float, float, float]:
    x = 72 + pymupdf.get_text_length(before, fontsize=11)
    return x, y - 10, x + pymupdf.get_text_length(text, fontsize=11), y + 3


def test_links_keep_their_addresses(tmp_path: Path) -> None:
    links = [
        (find_box("terms of use", "Read the ", 100), "https://example.com/terms"),
        (find_box("price list", "Read the terms of use and the ", 100), "https://example.com/prices.pdf"),
        (find_box("support team", "Questions go to the ", 116), "mailto:help@example.com"),
        ((300, 300, 320, 320), "https://example.com/nothing"),
    ]
    text = read_text(write_links(tmp_path / "a.pdf", links))
    assert (
        "Read the [terms of use](https://example.com/terms) and the [price list](https://example.com/prices.pdf)"
        in text
    )
    assert "[support team](mailto:help@example.com) at any time" in text
    assert "nothing" not in text


def test_link_over_two_lines_has_its_address_once(tmp_path: Path) -> None:
    address = "https://example.com/order"
    links = [(find_box("order.", "Read the terms of use and the price list before you ", 100), address)]
    links.append((find_box("Questions", "", 116), address))
    assert read_text(write_links(tmp_path / "a.pdf", links)).count(address) == 1


def test_link_that_shows_its_address_stays_as_it_is(tmp_path: Path) -> None:
    fitz: Any = pymupdf
    document = fitz.open()
    page = document.new_page()
    page.insert_text((72, 100), "See https://example.com/a for more")
    box = find_box("https://example.com/a", "See ", 100)
    page.insert_link({"kind": pymupdf.LINK_URI, "from": fitz.Rect(box), "uri": "https://example.com/a"})
    document.save(tmp_path / "a.pdf")
    assert [block.text for block in parse_pdf(tmp_path / "a.pdf").blocks] == ["See https://example.com/a for more"]
