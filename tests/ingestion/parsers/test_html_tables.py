"""Tables of HTML: spans, heads, captions, lists in cells, layout tables, and tables of roles and styles."""

from pathlib import Path

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats import html
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import BlockKind, ParsedDocument


def parsed(markup: str, directory: Path, options: ParseOptions) -> ParsedDocument:
    path = directory / "page.html"
    path.write_text(f"<html><body>{markup}</body></html>", encoding="utf-8")
    return html.parse(path, options)


def tables(markup: str, directory: Path, options: ParseOptions) -> list[str]:
    return [block.text for block in parsed(markup, directory, options).blocks if block.kind is BlockKind.TABLE]


def row(*cells: str, tag: str = "td") -> str:
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"


@pytest.mark.parametrize(
    ("markup", "table"),
    [
        (
            "<tr><th>Region<th>Plan<th>Price</tr><tr><td rowspan=3>Asia<td>S<td>1<tr><td>M<td>2<tr><td>L<td>3</tr>",
            "| Region | Plan | Price |\n| --- | --- | --- |\n| Asia | S | 1 |\n| Asia | M | 2 |\n| Asia | L | 3 |",
        ),
        (
            "<tr><th>Plan<th colspan=2>Limits</tr><tr><td><td>Users<td>Storage</tr><tr><td>Pro<td>10<td>5 GB</tr>",
            "| Plan | Limits Users | Limits Storage |\n| --- | --- | --- |\n| Pro | 10 | 5 GB |",
        ),
        (
            "<tr><th rowspan=2>City<th colspan=2>23<th colspan=2>24</tr><tr><th>H1<th>H2<th>H1<th>H2</tr>"
            "<tr><td>Oslo<td>1<td>2<td>3<td>4</tr>",
            "| City | 23 H1 | 23 H2 | 24 H1 | 24 H2 |\n| --- | --- | --- | --- | --- |\n| Oslo | 1 | 2 | 3 | 4 |",
        ),
        (
            "<tr><th>A<th>B<th>C</tr><tr><td>1<td rowspan=0>x<td>2</tr><tr><td>3<td>4</tr>",
            "| A | B | C |\n| --- | --- | --- |\n| 1 | x | 2 |\n| 3 | x | 4 |",
        ),
        (
            "<tr><th>A<th>B</tr><tr><td colspan=100>Group</tr><tr><td>a<td>1</tr>",
            "| A | B |\n| --- | --- |\n| Group | |\n| a | 1 |",
        ),
        (
            "<tr><th>A<th>B<th>C</tr><tr><td rowspan=2 colspan=2>both<td>1</tr><tr><td>2</tr>",
            "| A | B | C |\n| --- | --- | --- |\n| both | both | 1 |\n| both | both | 2 |",
        ),
        (
            "<thead><tr><th>A<th>B</thead><tbody><tr><td rowspan=9>x<td>1</tbody><tbody><tr><td>y<td>2</tbody>",
            "| A | B |\n| --- | --- |\n| x | 1 |\n| y | 2 |",
        ),
        ("<tr><td colspan=x rowspan=-1>A<td>B</tr><tr><td>c<td>d</tr>", "| A | B |\n| --- | --- |\n| c | d |"),
    ],
    ids=["rowspan", "lower head", "head of two rows", "rowspan 0", "full width", "both", "end of section", "invalid"],
)
def test_table_spans_are_expanded(markup: str, table: str, tmp_path: Path, options: ParseOptions) -> None:
    assert tables(f"<table>{markup}</table>", tmp_path, options) == [table]


@pytest.mark.parametrize(
    "markup",
    [
        "<tr><th>A<th>B</tr>" + "<tr><td colspan=1000 rowspan=65534>x<td>y</tr>" * 3000,
        "<tr>" + "<td rowspan=60000>x" * 300 + "</tr>" + "<tr><td>y</tr>" * 2500,
        "<tr>" + "<td colspan=1000>x" * 1000 + "</tr>" + "<tr><td>y</tr>" * 500,
        f"<tr><td rowspan=5000>{'long ' * 2000}<td>a</tr>" + "<tr><td>b</tr>" * 4999,
        f"<tr><td colspan=999>{'word ' * 30}</tr><tr>" + "<td>c" * 999 + "</tr>",
    ],
    ids=["both spans", "many row spans", "many column spans", "long label", "long head"],
)
def test_table_hostile_spans_are_bounded(markup: str, tmp_path: Path) -> None:
    options = ParseOptions(None, max_pages=10, max_characters=4_000_000)
    [block] = parsed(f"<table>{markup}</table>", tmp_path, options).blocks
    assert len(block.text) < 3_000_000


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("<ul><li>500</li><li>700</li></ul>", "500; 700"),
        ("<ol><li>one</li><li>two</li></ol>", "1. one; 2. two"),
        ("<p>Phone</p><p>24/7</p>", "Phone 24/7"),
        ("50<br>100", "50 100"),
        ("<div>a</div><div>b</div>", "a b"),
        ("<dl><dt>Size</dt><dd>L</dd></dl>", "Size: L"),
        ("10<sup>6</sup>", "10⁶"),
        ("<img alt='Included'>", "Included"),
        ("<i class='fa fa-check'></i>", "✓"),
        ("<span class='icon-times'></span>", "✗"),
        ("<span title='Not available'></span>", "Not available"),
        ("<pre>a\nb</pre>", "a b"),
        ("<del>10</del> 12", "12"),
        ("<input type=checkbox checked> yes", "☒ yes"),
        ("<a href='https://example.org/x'>Manual</a>", "[Manual](https://example.org/x)"),
        ("a|b", "a\\|b"),
        ("<table><tr><td>x</td><td>y</td></tr></table>", "x y"),
    ],
)
def test_table_cell_content_stays_in_its_cell(cell: str, text: str, tmp_path: Path, options: ParseOptions) -> None:
    markup = f"<table>{row('Key', 'Value', tag='th')}{row('k', cell)}{row('l', 'plain')}</table>"
    [table] = tables(markup, tmp_path, options)
    assert table.splitlines()[2:] == [f"| k | {clean_line(text)} |", "| l | plain |"]


@pytest.mark.parametrize(
    ("markup", "head"),
    [
        (f"<table>{row('Name', 'Count')}{row('a', '1')}{row('b', '2')}</table>", "| Name | Count |"),
        (f"<table>{row('Weight', '10 kg')}{row('Height', '2 m')}</table>", "| | |"),
        ("<table><tr><th>Weight<td>10 kg</tr><tr><th>Height<td>2 m</tr></table>", "| | |"),
        (f"<table>{row('', '2023', '2022')}{row('Sales', '5', '6')}</table>", "| | 2023 | 2022 |"),
        (f"<table>{row('<b>Item</b>', '<b>No. 1</b>')}{row('a', '1')}</table>", "| Item | No. 1 |"),
        (f"<table>{row('Name:', 'Ada')}{row('City:', 'Oslo')}</table>", "| | |"),
        ("<table><tr><td><th>S<th>M</tr><tr><th>Price<td>1<td>2</tr></table>", "| | S | M |"),
        (
            f"<table><thead>{row('Prices', 'in EUR')}</thead><tbody>{row('1', '2')}{row('3', '4')}</tbody></table>",
            "| Prices | in EUR |",
        ),
    ],
)
def test_table_head_is_no_row_of_data(markup: str, head: str, tmp_path: Path, options: ParseOptions) -> None:
    [table] = tables(markup, tmp_path, options)
    assert table.startswith(head + "\n| --- |")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<table><caption>Prices in EUR</caption>", "</table>"),
        ("<figure><table>", "</table><figcaption>Prices in EUR</figcaption></figure>"),
        ("<figure><figcaption>Prices in EUR</figcaption><div><table>", "</table></div></figure>"),
        ('<table aria-label="Prices in EUR">', "</table>"),
        ("<table><tr><th colspan=2>Prices in EUR</th></tr>", "</table>"),
        ("<table><thead><tr><td colspan=2>Prices in EUR</td></tr></thead>", "</table>"),
    ],
)
def test_table_caption_stands_in_the_table_once(before: str, after: str, tmp_path: Path, options: ParseOptions) -> None:
    markup = f"{before}{row('Plan', 'Price', tag='th')}{row('S', '1')}{after}"
    document = parsed(markup, tmp_path, options)
    assert [block.text for block in document.blocks] == ["Prices in EUR\n| Plan | Price |\n| --- | --- |\n| S | 1 |"]


@pytest.mark.parametrize(
    "markup",
    [
        f"<table role=presentation>{row('a', 'b')}{row('c', 'd')}</table>",
        f"<table>{row('<h2>a</h2>', 'b')}{row('c', 'd')}</table>",
        f"<table>{row('a')}{row('b')}{row('c')}{row('d')}</table>",
        f"<table>{row('a', 'b', 'c', 'd')}</table>",
        f"<table>{row('a', '<table><tr><td>b</td></tr></table>')}{row('c', 'd')}</table>",
        f"<table>{row('<form>a</form>', 'b')}{row('c', 'd')}</table>",
        "<table><tr><th>a</th></tr><tr><td><p>b</p><p>c</p></td></tr><tr><td>d</td></tr></table>",
    ],
)
def test_table_for_layout_is_read_as_content(markup: str, tmp_path: Path, options: ParseOptions) -> None:
    document = parsed(markup, tmp_path, options)
    assert [block.text for block in document.blocks] == ["a", "b", "c", "d"]
    assert BlockKind.TABLE not in [block.kind for block in document.blocks]


def test_table_inside_layout_table_stays_a_table(tmp_path: Path, options: ParseOptions) -> None:
    inner = f"<table>{row('Plan', 'Price', tag='th')}{row('S', '1')}</table>"
    markup = f"<table><tr><td>{inner}</td><td>side</td></tr><tr><td>{inner}</td><td>x</td></tr></table>"
    assert tables(markup, tmp_path, options) == ["| Plan | Price |\n| --- | --- |\n| S | 1 |"] * 2


@pytest.mark.parametrize(
    "markup",
    [
        '<div role="table"><div role="row"><span role="columnheader">Plan</span>'
        '<span role="columnheader">Price</span></div>'
        '<div role="row"><span role="cell">Basic</span><span role="cell">10 EUR</span></div></div>',
        "<div role=grid><div role=rowgroup><div role=row><b role=columnheader>Plan</b>"
        "<b role=columnheader>Price</b></div></div>"
        "<div role=rowgroup><div role=row><i role=rowheader>Basic</i><i role=gridcell>10 EUR</i></div></div></div>",
        '<div style="display: table"><div style="display:table-row"><b style="display:table-cell">Plan</b>'
        '<b style="display:table-cell">Price</b></div><p style="display:table-row"><span style="display:table-cell">'
        "Basic"
        '</span><span style="display:table-cell">10 EUR</span></p></div>',
        "<table role=treegrid><tr role=row><td role=columnheader>Plan</td><td role=columnheader>Price</td></tr>"
        "<tr><td>Basic</td><td>10 EUR</td></tr></table>",
        "<x-table role=table><x-row role=row><x-c role=columnheader>Plan</x-c>"
        "<x-c role=columnheader>Price</x-c></x-row>"
        "<x-row role=row><div><x-c role=cell>Basic</x-c></div><x-c role=cell>10 EUR</x-c></x-row></x-table>",
    ],
)
def test_table_of_roles_or_styles_is_a_table(markup: str, tmp_path: Path, options: ParseOptions) -> None:
    assert tables(markup, tmp_path, options) == ["| Plan | Price |\n| --- | --- |\n| Basic | 10 EUR |"]


def test_table_signs_in_cells_of_their_own_are_joined(tmp_path: Path, options: ParseOptions) -> None:
    markup = (
        "<table><tr><td></td><td colspan=3>2023</td><td></td><td colspan=3>2022</td></tr>"
        "<tr><td>Revenue</td><td>$</td><td>1,234</td><td></td><td></td><td>$</td><td>1,100</td><td></td></tr>"
        "<tr><td>Loss</td><td>$</td><td>(5</td><td>)</td><td></td><td>$</td><td>(7</td><td>)</td></tr></table>"
    )
    assert tables(markup, tmp_path, options) == [
        "| | 2023 | 2022 |\n| --- | --- | --- |\n| Revenue | $1,234 | $1,100 |\n| Loss | $(5) | $(7) |"
    ]


def test_table_words_in_spans_are_not_joined(tmp_path: Path, options: ParseOptions) -> None:
    markup = "<table><tr><th colspan=2>Plan<th>Price<tr><td>Basic<td>x<td>10<tr><td>Pro<td>$<td>on request</table>"
    assert tables(markup, tmp_path, options) == [
        "| Plan | Plan | Price |\n| --- | --- | --- |\n| Basic | x | 10 |\n| Pro | $ | on request |"
    ]


@pytest.mark.parametrize(
    ("markup", "texts"),
    [
        (
            "<dl><dt>Returns</dt><dd>30 days</dd><dt>Shipping?</dt><dd>Free</dd></dl>",
            ["Returns: 30 days", "Shipping? Free"],
        ),
        ("<dl><dt>A</dt><dt>B</dt><dd>both</dd></dl>", ["A, B: both"]),
        ("<dl><div><dt>A:</dt><dd>one</dd><dd>two</dd></div></dl>", ["A: one", "two"]),
        ("<dl><dt>List</dt><dd><ul><li>x</li></ul></dd></dl>", ["List", "- x"]),
        ("<dl><dt>Alone</dt></dl><p>after</p>", ["Alone", "after"]),
        ("<dl><dt><h3>Head</h3></dt><dd>text</dd></dl>", ["Head", "text"]),
    ],
)
def test_definition_list_joins_term_and_definition(
    markup: str, texts: list[str], tmp_path: Path, options: ParseOptions
) -> None:
    assert [block.text for block in parsed(markup, tmp_path, options).blocks] == texts
