"""Lines of a page that a range of the text touches."""

import pytest

from app.db.models.tenant_data import DocumentPage
from app.documents.content.line_boxes import MAX_LINE_BOXES, LineBox, PageSize, select_line_boxes

# as single precision returns them
PAGES = [
    DocumentPage(
        page=2, width=595.2999877929688, height=841.7999877929688,
        starts=[0, 6], ends=[5, 11], boxes=[100, 200, 305, 300, 100, 310, 305, 410],
    ),
    DocumentPage(page=4, width=100.0, height=50.0, starts=[13], ends=[20], boxes=[0, 0, 1000, 500]),
]  # fmt: skip
FIRST, SECOND, THIRD = (
    LineBox(2, 10.0, 20.0, 30.5, 30.0),
    LineBox(2, 10.0, 31.0, 30.5, 41.0),
    LineBox(4, 0.0, 0.0, 100.0, 50.0),
)


@pytest.mark.parametrize(
    ("start", "end", "boxes", "pages"),
    [
        (0, 20, [FIRST, SECOND, THIRD], [2, 4]),
        (0, 5, [FIRST], [2]),
        (4, 7, [FIRST, SECOND], [2]),
        (5, 6, [], []),
        (11, 13, [], []),
        (19, 99, [THIRD], [4]),
        (10, 14, [SECOND, THIRD], [2, 4]),
        (20, 30, [], []),
    ],
)
def test_select_line_boxes_returns_touched_lines(start: int, end: int, boxes: list[LineBox], pages: list[int]) -> None:
    found = select_line_boxes(PAGES, start=start, end=end)
    assert found.boxes == boxes
    assert [size.page for size in found.sizes] == pages
    assert set(found.sizes) <= {PageSize(2, 595.3, 841.8), PageSize(4, 100.0, 50.0)}


def test_select_line_boxes_is_limited() -> None:
    count = MAX_LINE_BOXES - 1
    page = DocumentPage(page=1, width=9.0, height=9.0, starts=[*range(count)], ends=[*range(1, count + 1)])
    page.boxes = [0, 0, 10, 10] * count
    found = select_line_boxes([page, *PAGES], start=0, end=MAX_LINE_BOXES)
    assert len(found.boxes) == MAX_LINE_BOXES
    assert [size.page for size in found.sizes] == [1, 2]
