"""Renderings of small tables as DOCX, PPTX, XLSX, HTML and Markdown files, with spans where the format has them."""

import html
import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import docx
import pptx
import xlsxwriter  # type: ignore[import-untyped]
from pptx.util import Inches

from benchmarks.small_table_grids import GridCell, SmallTable
from benchmarks.small_table_pdfs import render_pdf


def render_markdown(table: SmallTable) -> bytes:
    """Return a Markdown file. Spans are written out, because Markdown has none."""
    lines = [*table.caption, "", _join(table.list_heads()), _join(["---"] * len(table.list_heads()))]
    for row in table.rows:
        texts = [""] * len(row)
        for column, cell in enumerate(row):
            if cell is not None:
                texts[column : column + cell.columns] = [cell.text.replace("\n", "<br>")] * cell.columns
        lines.append(_join(texts))
    expanded = table.list_rows()
    for number, row in enumerate(table.rows):
        if any(cell is None for cell in row):
            lines[len(lines) - len(table.rows) + number] = _join(expanded[number])
    return "\n".join([*lines, "", *table.footnotes, ""]).encode()


def render_html(table: SmallTable) -> bytes:
    """Return a page with a table that has a caption, header cells and spans."""
    head = "".join(_format_html_row(row, "th") for row in table.header)
    body = "".join(_format_html_row(row, "td") for row in table.rows)
    caption = "<br>".join(map(html.escape, table.caption))
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in table.footnotes)
    page = f"<table><caption>{caption}</caption><thead>{head}</thead><tbody>{body}</tbody></table>{notes}"
    return f"<html><head><title>Table</title></head><body><main>{page}</main></body></html>".encode()


def render_docx(table: SmallTable) -> bytes:
    """Return a Word document with the caption above the table. Spans are merged cells."""
    document = docx.Document()
    for line in table.caption:
        document.add_paragraph(line, style="Caption")
    rows = [*table.header, *table.rows]
    grid = document.add_table(rows=len(rows), cols=len(rows[0]), style="Table Grid")
    for number, column, cell in _iter_cells(table):
        corner = grid.cell(number + cell.rows - 1, column + cell.columns - 1)
        grid.cell(number, column).merge(corner).text = cell.text
    for note in table.footnotes:
        document.add_paragraph(note)
    target = io.BytesIO()
    document.save(target)
    return target.getvalue()


def render_pptx(table: SmallTable) -> bytes:
    """Return a show with the caption as the title of a slide. Spans are merged cells."""
    show: Any = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[5])
    slide.shapes.title.text = "\n".join(table.caption)
    rows = [*table.header, *table.rows]
    size = (Inches(0.5), Inches(1.5), Inches(9), Inches(4))
    grid = slide.shapes.add_table(len(rows), len(rows[0]), *size).table
    for number, column, cell in _iter_cells(table):
        if cell.rows > 1 or cell.columns > 1:
            grid.cell(number, column).merge(grid.cell(number + cell.rows - 1, column + cell.columns - 1))
        grid.cell(number, column).text = cell.text
    if table.footnotes:
        box = slide.shapes.add_textbox(Inches(0.5), Inches(6), Inches(9), Inches(1))
        box.text_frame.text = "\n".join(table.footnotes)
    target = io.BytesIO()
    show.save(target)
    return target.getvalue()


def render_xlsx(table: SmallTable) -> bytes:
    """Return a workbook with the caption in the rows above the table. Spans are merged cells, all cells are texts."""
    target = io.BytesIO()
    with xlsxwriter.Workbook(target, {"in_memory": True}) as workbook:
        sheet = workbook.add_worksheet("Sheet1")
        first = len(table.caption)
        for number, line in enumerate(table.caption):
            sheet.write_string(number, 0, line)
        for number, column, cell in _iter_cells(table):
            last = (first + number + cell.rows - 1, column + cell.columns - 1)
            if cell.rows > 1 or cell.columns > 1:
                sheet.merge_range(first + number, column, *last, cell.text)
            elif cell.text:
                sheet.write_string(*last, cell.text)
        end = first + len(table.header) + len(table.rows)
        for number, note in enumerate(table.footnotes):
            sheet.write_string(end + number, 0, note)
    return target.getvalue()


RENDERERS: Mapping[str, Callable[[SmallTable], bytes]] = {
    "pdf": render_pdf,
    "docx": render_docx,
    "pptx": render_pptx,
    "xlsx": render_xlsx,
    "html": render_html,
    "md": render_markdown,
}
"""Renderer of each format, by the extension of its files."""


def _iter_cells(table: SmallTable) -> Iterator[tuple[int, int, GridCell]]:
    """Yield each cell with its row and column, header rows first."""
    for number, row in enumerate([*table.header, *table.rows]):
        for column, cell in enumerate(row):
            if cell is not None:
                yield number, column, cell


def _format_html_row(row: Any, name: str) -> str:
    cells = []
    for cell in row:
        if cell is not None:
            text = html.escape(cell.text).replace("\n", "<br>")
            cells.append(f'<{name} colspan="{cell.columns}" rowspan="{cell.rows}">{text}</{name}>')
    return f"<tr>{''.join(cells)}</tr>"


def _join(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
