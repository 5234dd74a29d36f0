"""Units in the shortened head of a table."""

import pytest

from app.documents.table_heads import find_table_head, list_head_variants

NAMES = "|  | 2025 | 2024 |\n| --- | --- | --- |"


@pytest.mark.parametrize(
    ("caption", "units"),
    [
        ("Statement of income\n(in millions, except per share data)", "(in millions, except per share data)"),
        ("Balance sheet\nDollars in thousands\n(Unaudited)", "Dollars in thousands"),
        (
            "The following table shows net sales and the income of each segment of the company (in billions):",
            "(in billions)",
        ),
        ("Umsatz nach Sparten\n(in Mio. EUR)", "(in Mio. EUR)"),
        ("Gross margin\nShare of net sales, %", "Share of net sales, %"),
    ],
)
def test_head_variants_caption_with_unit_has_form_with_the_unit_alone(caption: str, units: str) -> None:
    text = f"{caption}\n{NAMES}\n| Sales | 1 | 2 |"
    head = find_table_head(text, 0, len(text))
    assert head is not None
    assert list_head_variants(text, head) == [f"{caption}\n{NAMES}", f"{units}\n{NAMES}", NAMES]


def test_head_variants_caption_without_unit_has_no_form_with_units() -> None:
    text = f"Members of the board\n{NAMES}\n| Sales | 1 | 2 |"
    head = find_table_head(text, 0, len(text))
    assert head is not None
    assert list_head_variants(text, head) == [f"Members of the board\n{NAMES}", NAMES]
