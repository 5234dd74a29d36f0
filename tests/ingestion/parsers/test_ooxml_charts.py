"""Charts of Office files: titles of axes, dates, percentages and series with their own categories."""

import pytest
from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.ooxml_drawings import add_chart, add_extended_chart
from app.ingestion.types import CorruptFile
from tests.ingestion.parsers.word import NAMESPACES


def points(tag: str, code: str, *values: str) -> str:
    found = "".join(f'<c:pt idx="{index}"><c:v>{value}</c:v></c:pt>' for index, value in enumerate(values))
    return (
        f"<c:{tag}><c:numRef><c:numCache><c:formatCode>{code}</c:formatCode>{found}</c:numCache></c:numRef></c:{tag}>"
    )


def series(name: str, *data: str) -> str:
    return f"<c:ser><c:tx><c:v>{name}</c:v></c:tx>{''.join(data)}</c:ser>"


def read(area: str, options: ParseOptions, extra: str = "") -> list[str]:
    blocks = BlockList(options)
    chart = f"<c:chartSpace {NAMESPACES}>{extra}<c:chart><c:plotArea>{area}</c:plotArea></c:chart></c:chartSpace>"
    add_chart(etree.fromstring(chart), blocks)
    return [block.text for block in blocks.blocks]


@pytest.mark.parametrize(
    ("code", "value", "shown"),
    [
        ("General", "0.25", "0.25"),
        ("0%", "0.25", "25%"),
        ("0.00%", "0.1234", "12.34%"),
        ("m/d/yyyy", "45292", "2024-01-01"),
        ("dd.mm.yyyy", "45292", "2024-01-01"),
        ("mmm-yy", "45292", "2024-01-01"),
        ("m/d/yyyy", "99999999999", "99999999999"),
        ("General", "4.2999999999999998", "4.3"),
        ("0%", "n/a", "n/a"),
    ],
)
def test_chart_value_is_written_as_it_is_shown(code: str, value: str, shown: str, options: ParseOptions) -> None:
    rows = read(f"<c:barChart>{series('Cars', points('val', code, value))}</c:barChart>", options)
    assert rows == [f"| | Cars |\n| --- | --- |\n| | {shown} |"]


def test_chart_dates_count_from_1904_if_the_file_says_so(options: ParseOptions) -> None:
    area = f"<c:barChart>{series('Cars', points('val', 'm/d/yyyy', '1'))}</c:barChart>"
    assert "1904-01-02" in read(area, options, '<c:date1904 c:val="1"/>')[0]


def test_chart_series_with_their_own_categories_are_separate_tables(options: ParseOptions) -> None:
    area = "".join(
        series(name, points("xVal", "General", *xs), points("yVal", "General", "5", "6"))
        for name, xs in (("A", ("1", "2")), ("B", ("1", "2")), ("C", ("3", "4")))
    )
    assert read(f"<c:scatterChart>{area}</c:scatterChart>", options) == [
        "| | A | B |\n| --- | --- | --- |\n| 1 | 5 | 5 |\n| 2 | 6 | 6 |",
        "| | C |\n| --- | --- |\n| 3 | 5 |\n| 4 | 6 |",
    ]


def test_chart_axes_and_bubble_sizes_are_read(options: ParseOptions) -> None:
    data = [points(tag, "General", "1") for tag in ("xVal", "yVal", "bubbleSize")]
    axes = "".join(
        f"<c:valAx><c:title><a:p><a:r><a:t>{title}</a:t></a:r></a:p></c:title></c:valAx>" for title in ("Year", "Cars")
    )
    assert read(f"<c:bubbleChart>{series('A', *data)}</c:bubbleChart>{axes}", options) == [
        "Year; Cars",
        "| | A | A size |\n| --- | --- | --- |\n| 1 | 1 | 1 |",
    ]


EXTENDED = "http://schemas.microsoft.com/office/drawing/2014/chartex"


def read_extended(content: str, options: ParseOptions) -> list[str]:
    blocks = BlockList(options)
    root = etree.fromstring(f'<cx:chartSpace {NAMESPACES} xmlns:cx="{EXTENDED}">{content}</cx:chartSpace>')
    add_extended_chart(root, blocks)
    return [block.text for block in blocks.blocks]


def level(*values: str, code: str = "") -> str:
    points = "".join(f'<cx:pt idx="{index}">{value}</cx:pt>' for index, value in enumerate(values))
    return f'<cx:lvl formatCode="{code}">{points}</cx:lvl>'


def test_extended_chart_title_categories_and_values_are_read(options: ParseOptions) -> None:
    data = (
        f'<cx:chartData><cx:data id="0"><cx:strDim type="cat">{level("Rent", "Fuel")}</cx:strDim>'
        f'<cx:numDim type="val">{level("0.5", "0.25", code="0%")}</cx:numDim></cx:data></cx:chartData>'
    )
    title = "<cx:title><cx:tx><cx:rich><a:p><a:r><a:t>Costs</a:t></a:r></a:p></cx:rich></cx:tx></cx:title>"
    series = '<cx:series><cx:tx><cx:txData><cx:v>2026</cx:v></cx:txData></cx:tx><cx:dataId val="0"/></cx:series>'
    plot = f"<cx:plotArea><cx:plotAreaRegion>{series}</cx:plotAreaRegion></cx:plotArea>"
    assert read_extended(f"{data}<cx:chart>{title}{plot}</cx:chart>", options) == [
        "Costs",
        "| | 2026 |\n| --- | --- |\n| Rent | 50% |\n| Fuel | 25% |",
    ]


def test_extended_chart_levels_of_categories_are_joined(options: ParseOptions) -> None:
    levels = level("Berlin", "Rome") + level("Germany", "Italy")
    data = f"<cx:strDim>{levels}</cx:strDim><cx:numDim>{level('1', '2')}</cx:numDim>"
    texts = read_extended(f'<cx:chartData><cx:data id="0">{data}</cx:data></cx:chartData><cx:chart/>', options)
    assert texts == ["| | Series 1 |\n| --- | --- |\n| Germany Berlin | 1 |\n| Italy Rome | 2 |"]


def test_extended_chart_without_a_chart_is_corrupt(options: ParseOptions) -> None:
    with pytest.raises(CorruptFile):
        read_extended("", options)
