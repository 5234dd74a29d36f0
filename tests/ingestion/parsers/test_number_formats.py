"""Number formats of spreadsheets: numbers, dates and texts as their cells show them, and hostile formats."""

import random

import pytest

from app.ingestion.parsers.toolkit.number_formats import BUILT_IN_FORMATS, format_number, format_text

SHOWN = [
    (7, "00000", "00007"), (0.15, "0%", "15%"), (1234.5, '0.00 "EUR"', "1234.50 EUR"),
    (1234567.891, "#,##0.00 €", "1,234,567.89 €"), (-3.14, "0.0;[Red]-0.0", "-3.1"), (-3.14, "0.0", "-3.1"),
    (1.5, "[h]:mm", "36:00"), (1.25, "[mm]:ss", "1800:00"), (0.75, "# ?/?", "3/4"), (1.75, "# ?/?", "1 3/4"),
    (2, "# ?/?", "2"), (0.333, "??/??", "1/3"), (1.5, "# ?/8", "1 4/8"), (12345.678, "0.00E+00", "1.23E+04"),
    (0.00012, "0.00E+00", "1.20E-04"), (12345, "##0.0E+0", "12.3E+3"), (5551234567, "(000) 000-0000", "(555) 123-4567"),
    (123456789, "000-00-0000", "123-45-6789"), (1234567, "0,", "1235"), (1234567, '#,##0,"k"', "1,235k"),
    (1234567, '0.0,,"M"', "1.2M"), (1234.5, "[$€-407] #,##0.00", "€ 1,234.50"),
    (1234.5, '_-* #,##0.00\\ "€"_-', "1,234.50 €"), (0, '_-* "-"??\\ "€"_-', "- €"), (-5, "#,##0_);(#,##0)", "(5)"),
    (45366, "dd.mm.yyyy", "15.03.2024"), (45366, "yyyy\\-mm\\-dd", "2024-03-15"), (0.5, "hh:mm:ss", "12:00:00"),
    (45366.5, "m/d/yyyy h:mm AM/PM", "3/15/2024 12:00 PM"), (45366, "[$-409]mmmm d, yyyy", "March 15, 2024"),
    (0.0001157, "mm:ss.0", "00:10.0"), (5, "[<100]0.0;[>=100]0", "5.0"), (500, "[<100]0.0;[>=100]0", "500"),
    (1, '[=1]0" day";0" days"', "1 day"), (3, '[=1]0" day";0" days"', "3 days"), (0, '0;-0;"zero"', "zero"),
    (3, '"No. "0', "No. 3"), (0.5, ".00", ".50"), (0.5, "#.##", ".5"), (0.125, "0.00%", "12.50%"),
    (1, '"Yes";"Yes";"No"', "Yes"), (0, '"Yes";"Yes";"No"', "No"), (2.5, "0", "3"), (-0.2, "0", "0"),
    (1234, "0000-00", "0012-34"), (-1, "$#,##0.00", "-$1.00"), (12.3, '0.0"°C"', "12.3°C"), (3, "0.0##", "3.0"),
    (41, "+0;-0;0", "+41"), (1e15, "0", "1000000000000000"), (0.1 + 0.2, "0.0", "0.3"), (1.005, "0.00", "1.01"),
    (0, "0;-0;;@", ""), (1234.5, "# ##0.00", "1 234.50"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "code", "shown"), SHOWN)
def test_format_number_shows_number_as_cell(value: float, code: str, shown: str) -> None:
    assert format_number(value, code) == shown


@pytest.mark.parametrize(
    ("value", "code"),
    [(5, "General"), (5, ""), (5, ";;;"), (5, "@"), (-5, "yyyy-mm-dd"), (1e12, "yyyy"), (float("nan"), "0"),
     (5, "0" * 501)],
)  # fmt: skip
def test_format_number_without_usable_format_gives_none(value: float, code: str) -> None:
    assert format_number(value, code) is None


def test_format_text_adds_words_of_text_section() -> None:
    assert format_text("x", '"Item "@') == "Item x"
    assert format_text("x", '0;-0;0;"Text: "@') == "Text: x"
    assert format_text("x", "0.00") == "x"


def test_format_number_built_in_formats_are_applicable() -> None:
    for code in BUILT_IN_FORMATS.values():
        format_number(1234.5, code)


def test_format_number_hostile_formats_give_short_text() -> None:
    generator = random.Random(27)
    signs = '0#?.,%/@;[]"\\_*ymdhsEe+-<>=$€ aAPpG1'
    patterns = ["0" * 500, "#," * 250, "?/" * 250, "E+" * 250, "[h]" * 160, '"' * 499, "[<" * 250, "0." * 250]
    patterns += ["".join(generator.choices(signs, k=generator.randint(1, 500))) for _ in range(2000)]
    for code in patterns:
        for value in (0.0, 1.0, -1.5, 1e308, 1e-308, 45000.3, -1e15):
            shown = format_number(value, code)
            assert shown is None or len(shown) < 5000
        format_text("text", code)
