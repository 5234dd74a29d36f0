"""OpenDocument presentations: titles, text, tables, notes and comments of the slides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.odf import odp_parser
from app.ingestion.types import CorruptFile, ParsedDocument, TooManyPages
from tests.ingestion.parsers.opendocument import PRESENTATION, cell, p, row, table, write
from tests.ingestion.parsers.test_odt import CHART

if TYPE_CHECKING:
    from app.ingestion.parsers.sandbox.pool import ParserPool

Shown = list[tuple[str, int | None, str]]


def box(text: str, kind: str = "", place: str = "", more: str = "") -> str:
    attributes = (f'presentation:class="{kind}" ' if kind else "") + place + more
    return f"<draw:frame {attributes}><draw:text-box>{text}</draw:text-box></draw:frame>"


def at(x: float, y: float) -> str:
    return f' svg:x="{x}cm" svg:y="{y}cm"'


def slide(*shapes: str) -> str:
    return f'<draw:page draw:name="page">{"".join(shapes)}</draw:page>'


def read(body: str, tmp_path: Path, options: ParseOptions, **more: object) -> ParsedDocument:
    path = write(tmp_path / "f", body, kind="presentation", **more)  # type: ignore[arg-type]
    return odp_parser.parse(path, options)


def shown(document: ParsedDocument) -> Shown:
    return [(block.kind.value, block.slide, block.text) for block in document.blocks]


@pytest.mark.capability("format-odp")
def test_odp_slides_are_read_in_reading_order(tmp_path: Path, options: ParseOptions) -> None:
    items = "<text:list><text:list-item>" + p("first") + "</text:list-item></text:list>"
    notes = (
        '<presentation:notes><draw:page-thumbnail/><draw:frame presentation:class="notes"><draw:text-box>'
        + p("Say this.") + "</draw:text-box></draw:frame>" + box(p("date"), "date-time") + "</presentation:notes>"
    )  # fmt: skip
    body = slide(
        box(p("right"), "", at(9, 5)), box(p("left"), "", at(1, 5)), box(p("bottom"), "", at(1, 9)),
        box(p("The ") + p("title"), "title", at(1, 12)), box(items, "outline", at(1, 2)), notes,
    ) + slide(
        box(p("Click to add title"), "title", more=' presentation:placeholder="true"'),
        "<draw:g><draw:g><draw:custom-shape>" + p("grouped") + "</draw:custom-shape></draw:g></draw:g>",
        "<draw:frame>" + table(row(cell("A"), cell("B")), row(cell("1"), cell("2"))) + "</draw:frame>",
        '<draw:frame><draw:object xlink:href="./Object 1"/></draw:frame>',
        "<office:annotation><dc:creator>Ann</dc:creator>" + p("A remark.") + "</office:annotation>",
        '<draw:frame><draw:image xlink:href="gone.png"/><svg:title>A red valve</svg:title></draw:frame>',
    )  # fmt: skip
    document = read(body, tmp_path, options, parts={"Object 1/content.xml": CHART})
    assert shown(document) == [
        ("heading", 1, "The title"),
        ("list_item", 1, "- first"),
        ("paragraph", 1, "left"),
        ("paragraph", 1, "right"),
        ("paragraph", 1, "bottom"),
        ("note", 1, "Say this."),
        ("paragraph", 2, "grouped"),
        ("table", 2, "| A | B |\n| --- | --- |\n| 1 | 2 |"),
        ("table", 2, "Sales\n| Year | EUR |\n| --- | --- |\n| 2024 | 7 |"),
        ("note", 2, "A remark."),
        ("paragraph", 2, "A red valve"),
    ]
    assert (document.title, document.page_count) == ("The title", 2)
    assert [(warning.code, warning.count) for warning in document.warnings] == [("images_not_read", 1)]


def test_odp_title_of_properties_is_title(tmp_path: Path, options: ParseOptions) -> None:
    assert read(slide(box(p("x"))), tmp_path, options, title="Named").title == "Named"


def test_odp_too_many_slides_are_refused(tmp_path: Path, options: ParseOptions) -> None:
    with pytest.raises(TooManyPages):
        read(slide() * 101, tmp_path, options)


def test_odp_without_slides_is_corrupt(tmp_path: Path, options: ParseOptions) -> None:
    path = write(tmp_path / "f", p("x"), kind="text")
    with pytest.raises(CorruptFile):
        odp_parser.parse(path, options)


@pytest.mark.parametrize("place", [' svg:x="1e999cm"', ' svg:y="-5in"', ' svg:y="99999999999cm"', ' svg:x="a"', ""])
async def test_odp_odd_position_is_read_in_process(place: str, pool: ParserPool, tmp_path: Path) -> None:
    path = write(tmp_path / "f", slide(box(p("text"), "", place)), kind="presentation")
    assert [block.text for block in (await pool.parse(path, PRESENTATION)).blocks] == ["text"]
