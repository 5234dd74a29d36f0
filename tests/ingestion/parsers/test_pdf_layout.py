"""Page layout of lines that the tests create."""

import pytest

from app.ingestion.parsers.formats.pdf.layout import group_page_lines
from app.ingestion.parsers.formats.pdf.text_line import TextLine


def line(x: float, y: float, text: str, *, width: float = 200, size: float = 10) -> TextLine:
    return TextLine(x, y, x + width, y + size, size, text)


def texts(lines: list[TextLine]) -> list[str]:
    return [group.text for group in group_page_lines(lines)]


def column(x: float, start: float, name: str, count: int = 6) -> list[TextLine]:
    return [line(x, start + 12 * number, f"{name} line {number} of many words here") for number in range(count)]


def test_layout_full_width_lines_divide_columns() -> None:
    upper = [*column(0, 40, "A"), *column(220, 40, "B")]
    lower = [*column(0, 160, "C"), *column(220, 160, "D")]
    page = [line(0, 0, "Title", width=420, size=20), *upper, line(0, 130, "Between", width=420, size=14), *lower]
    shuffled = page[::2] + page[1::2]
    assert [text.split()[0] for text in texts(shuffled)] == ["Title", "A", "B", "Between", "C", "D"]


def test_layout_short_cells_are_table() -> None:
    rows = [[line(x, y, f"r{y // 20}c{x // 100}", width=40) for x in (0, 100, 200)] for y in (0, 20, 40)]
    groups = list(group_page_lines([cell for row in reversed(rows) for cell in row]))
    assert [group.rows for group in groups] == [
        (("r0c0", "r0c1", "r0c2"), ("r1c0", "r1c1", "r1c2"), ("r2c0", "r2c1", "r2c2"))
    ]


def test_layout_wide_word_spaces_are_no_table() -> None:
    pieces = []
    for number, gap in enumerate((60, 120, 90, 150)):
        y = 12 * number
        pieces += [
            TextLine(0, y, gap, y + 10, 10, f"left{number}"),
            TextLine(gap + 15, y, 200, y + 10, 10, f"right{number}"),
        ]
    assert texts(pieces) == ["left0 right0 left1 right1 left2 right2 left3 right3"]


@pytest.mark.parametrize(
    ("second", "paragraphs"),
    [
        (line(0, 12, "goes on here."), 1),
        (line(0, 40, "after a gap."), 2),
        (line(0, 12, "• a bullet"), 2),
        (line(0, 12, "set larger", size=14), 2),
    ],
)
def test_layout_paragraph_breaks_are_found(second: TextLine, paragraphs: int) -> None:
    assert len(texts([line(0, 0, "A first line that"), second])) == paragraphs


def test_layout_vertical_text_comes_last() -> None:
    stamp = TextLine(0, 0, 10, 300, 10, "arXiv stamp")
    assert texts([stamp, line(20, 0, "The text.")]) == ["The text.", "arXiv stamp"]


def test_layout_empty_page_has_no_groups() -> None:
    assert texts([]) == []
