"""Files with one table each, in the formats that the benchmarks of tables compare."""

import html
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import docx
import pptx
import pymupdf
import xlsxwriter  # type: ignore[import-untyped]
from pptx.util import Inches

_FITZ: Any = pymupdf  # a library without type annotations

PDF_MARGIN = 40
PDF_FONT_SIZE = 9
PDF_ROW_HEIGHT = 14
PDF_ROWS_PER_PAGE = 45


@dataclass(frozen=True, slots=True)
class PlainTable:
    """Table without spans.

    Attributes:
        title: Line above the table.
        heads: Names of the columns.
        rows: Rows of cells.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def render_markdown(table: PlainTable) -> bytes:
    """Return a Markdown file with a heading and a table."""
    lines = [f"# {table.title}", "", _join_cells(table.heads), _join_cells(["---"] * len(table.heads))]
    return "\n".join([*lines, *map(_join_cells, table.rows), ""]).encode()


def render_html(table: PlainTable) -> bytes:
    """Return a page with a heading and a table."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in table.heads)
    rows = "\n".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    title = html.escape(table.title)
    return (
        f"<html><head><title>{title}</title></head><body><h1>{title}</h1>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></body></html>"
    ).encode()


def render_csv(table: PlainTable) -> bytes:
    """Return a CSV file with a header line, without the title."""
    quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in [table.heads, *table.rows]]
    return "\n".join([*quoted, ""]).encode()


def render_xlsx(table: PlainTable) -> bytes:
    """Return a workbook with one sheet: the title, the column names and the rows. Numbers are stored as numbers."""
    target = io.BytesIO()
    with xlsxwriter.Workbook(target, {"in_memory": True, "strings_to_numbers": True}) as workbook:
        sheet = workbook.add_worksheet("Sheet1")
        sheet.write_row(0, 0, [table.title])
        for number, row in enumerate([table.heads, *table.rows], start=1):
            sheet.write_row(number, 0, row)
    return target.getvalue()


def render_docx(table: PlainTable) -> bytes:
    """Return a Word document with a heading and a table."""
    document = docx.Document()
    document.add_heading(table.title, level=1)
    grid = document.add_table(rows=0, cols=len(table.heads), style="Table Grid")
    for row in [table.heads, *table.rows]:
        for cell, text in zip(grid.add_row().cells, row, strict=True):
            cell.text = text
    target = io.BytesIO()
    document.save(target)
    return target.getvalue()


def render_pptx(table: PlainTable) -> bytes:
    """Return a show with the title and the table on one slide."""
    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[5])
    slide.shapes.title.text = table.title
    size = (Inches(0.5), Inches(1.5), Inches(9), Inches(5))
    grid = slide.shapes.add_table(len(table.rows) + 1, len(table.heads), *size).table
    for number, row in enumerate([table.heads, *table.rows]):
        for column, text in enumerate(row):
            grid.cell(number, column).text = text
    target = io.BytesIO()
    show.save(target)
    return target.getvalue()


def render_pdf(table: PlainTable) -> bytes:
    """Return a PDF with the title and an unruled table. A long table goes on over pages without its column names."""
    document = _FITZ.open()
    lines = [table.heads, *table.rows]
    widths = [max(len(row[column]) for row in lines) for column in range(len(table.heads))]
    page_width = document.new_page().rect.width - 2 * PDF_MARGIN
    document.delete_page(0)
    unit = page_width / sum(widths)
    for first in range(0, len(lines), PDF_ROWS_PER_PAGE):
        page = document.new_page()
        y = 60.0
        if first == 0:
            page.insert_text((PDF_MARGIN, y), table.title, fontsize=16, fontname="hebo")
            y += 30
        for row in lines[first : first + PDF_ROWS_PER_PAGE]:
            for column, text in enumerate(row):
                name = "hebo" if row is table.heads else "helv"
                x = PDF_MARGIN + unit * sum(widths[:column])
                page.insert_text((x, y), text, fontsize=PDF_FONT_SIZE, fontname=name)
            y += PDF_ROW_HEIGHT
    data: bytes = document.tobytes()
    return data


RENDERERS: Mapping[str, Callable[[PlainTable], bytes]] = {
    "xlsx": render_xlsx,
    "csv": render_csv,
    "pdf": render_pdf,
    "docx": render_docx,
    "html": render_html,
    "md": render_markdown,
    "pptx": render_pptx,
}
"""Renderer of each format, by the extension of its files."""


def _join_cells(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
