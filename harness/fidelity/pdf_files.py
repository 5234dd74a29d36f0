"""Cases of PDF: running lines, forms, attachments, raised digits, tables and scripts."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pymupdf

from harness.fidelity.cases import FidelityCase

# Types of form fields in MuPDF.
CHECK_BOX, TEXT_FIELD = 2, 7
LINES = "The guest pays the bill at the desk before leaving. The desk is open all night and takes cards."


def _render(*pages: Callable[[Any], None], after: Callable[[Any], None] | None = None) -> bytes:
    with pymupdf.open() as document:  # type: ignore[no-untyped-call]  # PyMuPDF ships no types
        for draw in pages:
            draw(document.new_page())
        if after is not None:
            after(document)
        data: bytes = document.tobytes(no_new_id=True)
        return data


def _draw_page(header: str, footer: str = "", body: str = LINES) -> Callable[[Any], None]:
    def draw(page: Any) -> None:
        page.insert_text((72, 40), header, fontsize=10)
        for number in range(12):
            page.insert_text((72, 120 + 30 * number), f"{number + 1}. {body}", fontsize=9)
        if footer:
            page.insert_text((260, 815), footer, fontsize=9)

    return draw


def iter_pdfs() -> Iterator[FidelityCase]:
    """Yield the cases of PDF."""
    yield from _iter_running_lines()
    yield from _iter_tables()
    yield from _iter_page_contents()


def _iter_running_lines() -> Iterator[FidelityCase]:
    for name, lines in {
        "deliveries": [f"Delivery note {4711 + 7 * number}" for number in range(5)],
        "dates": [f"Minutes of {number}.0{number}.2024" for number in range(1, 6)],
        "rooms": [f"Room {letter}" for letter in "ABCDE"],
        "amounts": [f"Total due {amount} EUR" for amount in (120, 80, 310, 45, 77)],
    }.items():
        data = _render(*(_draw_page(line, f"Page {number} of 5") for number, line in enumerate(lines, 1)))
        yield FidelityCase("running lines", f"{name}.pdf", data, has=tuple(lines), hasnot=("Page 3 of 5",))
    data = _render(*(_draw_page("Handbook of the plant") for _ in range(5)))
    yield FidelityCase(
        "running lines", "handbook.pdf", data, has=("pays the bill",), warning_codes=("repeated_lines_removed",)
    )


def _iter_tables() -> Iterator[FidelityCase]:
    rows = [("Plan", "Storage", "Support"), ("Basic", "10 GB", "Mail"), ("Pro", "", "Phone 24/7"), ("Max", "1 TB", "")]

    def draw_ruled(page: Any) -> None:
        page.insert_text((72, 80), LINES, fontsize=9)
        _draw_grid(page, rows)

    yield FidelityCase("tables", "ruled.pdf", _render(draw_ruled), any_of=("| Pro | | Phone 24/7 |",))

    def draw_unruled(page: Any) -> None:
        page.insert_text((72, 80), LINES, fontsize=9)
        page.insert_text((72, 130), "Revenue by region (in millions)", fontsize=10)
        for number, (label, *values) in enumerate(
            (
                ("", "2023", "2022"),
                ("Asia", "1,204", "998"),
                ("Europe", "2,310", "2,001"),
                ("America", "3,415", "3,120"),
            )
        ):
            page.insert_text((72, 160 + 20 * number), label, fontsize=10)
            for column, value in enumerate(values):
                page.insert_text((300 + 90 * column, 160 + 20 * number), value, fontsize=10)

    yield FidelityCase("tables", "unruled.pdf", _render(draw_unruled), any_of=("| Europe | 2,310 | 2,001 |",))


def _draw_grid(page: Any, rows: Sequence[Sequence[str]]) -> None:
    for number, row in enumerate(rows):
        for column, text in enumerate(row):
            box = pymupdf.Rect(72 + 130 * column, 140 + 24 * number, 202 + 130 * column, 164 + 24 * number)  # type: ignore[no-untyped-call]
            page.draw_rect(box)
            page.insert_text((box.x0 + 4, box.y0 + 15), text, fontsize=10)


def _iter_page_contents() -> Iterator[FidelityCase]:
    def draw_raised(page: Any) -> None:
        page.insert_text((72, 100), "About 10", fontsize=12)
        page.insert_text((119, 95), "9", fontsize=7)
        page.insert_text((127, 100), "stars", fontsize=12)

    yield FidelityCase("superscripts", "raised.pdf", _render(draw_raised), any_of=("10⁹", "10^9"), hasnot=("109",))

    def draw_bold(page: Any) -> None:
        for shift in (0, 0.3):
            page.insert_text((72 + shift, 100), "SAFETY RULES", fontsize=12)
        page.insert_text((72, 140), LINES, fontsize=9)

    yield FidelityCase(
        "overprinted text", "bold.pdf", _render(draw_bold), has=("SAFETY RULES",), hasnot=("SAFETY RULES SAFETY",)
    )
    yield FidelityCase(
        "attachments",
        "attached.pdf",
        _render(_draw_page("Offer"), after=_attach),
        warning_codes=("attachments_not_read",),
    )

    def draw_comment(page: Any) -> None:
        page.insert_text((72, 100), LINES, fontsize=9)
        page.add_text_annot((300, 300), "Ask for the group price")

    yield FidelityCase("annotations", "comment.pdf", _render(draw_comment), has=("Ask for the group price",))

    def draw_linked(page: Any) -> None:
        page.insert_text((72, 100), "Ask the help desk", fontsize=12)
        box = pymupdf.Rect(72, 86, 180, 104)  # type: ignore[no-untyped-call]
        page.insert_link({"kind": pymupdf.LINK_URI, "from": box, "uri": "https://example.com/desk"})

    yield FidelityCase("links", "linked.pdf", _render(draw_linked), has=("https://example.com/desk",))

    def draw_form(page: Any) -> None:
        page.insert_text((72, 100), "Insured:", fontsize=12)
        for kind, value, box in (
            (CHECK_BOX, True, (130, 88, 146, 104)),
            (TEXT_FIELD, "42 kg", (72, 130, 200, 150)),
        ):
            widget = pymupdf.Widget()  # type: ignore[no-untyped-call]
            widget.field_type, widget.field_name, widget.rect = kind, f"field {kind}", pymupdf.Rect(*box)  # type: ignore[no-untyped-call]
            widget.field_value = value
            page.add_widget(widget)

    yield FidelityCase(
        "forms", "form.pdf", _render(draw_form), any_of=("☒", "☑"), has=("42 kg",), hasnot=("Insured: 4",)
    )

    def draw_hebrew(page: Any) -> None:
        page.insert_htmlbox(pymupdf.Rect(72, 80, 500, 200), '<p dir="rtl">שעות הפתיחה של Museum הן 9 עד 17</p>')  # type: ignore[no-untyped-call]

    yield FidelityCase("scripts", "hebrew.pdf", _render(draw_hebrew), has=("שעות הפתיחה של Museum הן",))


def _attach(document: Any) -> None:
    document.embfile_add("prices.txt", b"Bolt 5 EUR")
