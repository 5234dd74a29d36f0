"""PDF: form fields, comments, attachments and other content beyond the text of the pages."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymupdf
import pytest

from app.ingestion.types import BlockKind, ParsedDocument
from tests.ingestion.parsers.pdf_files import parse_pdf

FITZ: Any = pymupdf


def write_page(path: Path, change: Callable[[Any, Any], None], *, rotation: int = 0) -> ParsedDocument:
    """Write a page with labels, let a test add content, and parse the file."""
    document = FITZ.open()
    page = document.new_page()
    page.insert_text((72, 100), "Insured:")
    page.insert_text((172, 100), "yes")
    page.insert_text((232, 100), "no")
    page.insert_text((72, 140), "Name:")
    page.insert_text((72, 180), "City:")
    change(document, page)
    if rotation:
        page.set_rotation(rotation)
    document.save(path)
    document.close()
    return parse_pdf(path)


def add_field(page: Any, kind: int, box: tuple[float, float, float, float], **values: Any) -> None:
    widget = FITZ.Widget()
    widget.field_type, widget.rect = kind, FITZ.Rect(box)
    for name, value in values.items():
        setattr(widget, name, value)
    page.add_widget(widget)


def text_of(document: ParsedDocument) -> str:
    return "\n".join(block.text for block in document.blocks)


def messages(document: ParsedDocument) -> list[tuple[str, str, int | None]]:
    return [(str(warning.code), warning.message, warning.count) for warning in document.warnings]


@pytest.mark.parametrize(("is_yes", "expected"), [(True, "Insured: ☒ yes ☐ no"), (False, "Insured: ☐ yes ☒ no")])
def test_check_boxes_are_read_by_their_state(is_yes: bool, expected: str, tmp_path: Path) -> None:
    def change(_: Any, page: Any) -> None:
        box = pymupdf.PDF_WIDGET_TYPE_CHECKBOX  # type: ignore[attr-defined]
        add_field(page, box, (155, 90, 167, 102), field_name="yes", field_value=is_yes)
        add_field(page, box, (215, 90, 227, 102), field_name="no", field_value=not is_yes)

    assert expected in text_of(write_page(tmp_path / "a.pdf", change))


@pytest.mark.parametrize("rotation", [0, 90])
def test_texts_and_choices_are_read_at_their_labels(rotation: int, tmp_path: Path) -> None:
    def change(_: Any, page: Any) -> None:
        add_field(page, FITZ.PDF_WIDGET_TYPE_TEXT, (120, 126, 300, 144), field_name="name", field_value="Ada Example")
        add_field(
            page, FITZ.PDF_WIDGET_TYPE_COMBOBOX, (120, 166, 300, 184), field_name="city", field_value="hh",
            choice_values=[("b", "Berlin"), ("hh", "Hamburg")],
        )  # fmt: skip

    text = text_of(write_page(tmp_path / "a.pdf", change, rotation=rotation))
    assert "Name: Ada Example" in text
    assert "City: Hamburg" in text


def test_password_and_hidden_fields_are_left_out(tmp_path: Path) -> None:
    def change(_: Any, page: Any) -> None:
        text = FITZ.PDF_WIDGET_TYPE_TEXT
        add_field(page, text, (120, 126, 300, 144), field_name="a", field_value="secret", field_flags=1 << 13)
        add_field(page, text, (120, 166, 300, 184), field_name="b", field_value="concealed", field_display=1)

    text = text_of(write_page(tmp_path / "a.pdf", change))
    assert "secret" not in text
    assert "concealed" not in text


@pytest.mark.parametrize("kind", ["note", "highlight", "free text", "square", "stamp"])
def test_comments_are_read_once(kind: str, tmp_path: Path) -> None:
    def change(_: Any, page: Any) -> None:
        box = FITZ.Rect(72, 300, 300, 330)
        annotation = {
            "note": lambda: page.add_text_annot((72, 300), "Ask Ada about this"),
            "highlight": lambda: page.add_highlight_annot(FITZ.Rect(72, 90, 120, 104)),
            "free text": lambda: page.add_freetext_annot(box, "Ask Ada about this"),
            "square": lambda: page.add_rect_annot(box),
            "stamp": lambda: page.add_stamp_annot(box),
        }[kind]()
        annotation.set_info(content="Ask Ada about this")
        annotation.update()

    document = write_page(tmp_path / "a.pdf", change)
    assert text_of(document).count("Ask Ada about this") == 1
    if kind != "free text":
        assert [block.text for block in document.blocks if block.kind is BlockKind.NOTE] == ["Ask Ada about this"]


def test_embedded_and_attached_files_are_counted_by_name(tmp_path: Path) -> None:
    def change(document: Any, page: Any) -> None:
        document.embfile_add("prices", b"1", filename="prices.txt")
        document.embfile_add("b", b"2", filename="b.pdf")
        page.add_file_annot((300, 300), b"3", "plan.dwg")

    expected = "3 attachments were not read: prices.txt, b.pdf, plan.dwg."
    assert messages(write_page(tmp_path / "a.pdf", change)) == [("attachments_not_read", expected, 3)]


def test_one_attachment_with_a_long_name_is_counted(tmp_path: Path) -> None:
    def change(document: Any, _: Any) -> None:
        document.embfile_add("x", b"1", filename="n" * 300 + ".txt")

    (code, message, count), = messages(write_page(tmp_path / "a.pdf", change))  # fmt: skip
    assert (code, count, len(message) < 150) == ("attachments_not_read", 1, True)


def test_layer_that_is_off_is_counted(tmp_path: Path) -> None:
    def change(document: Any, page: Any) -> None:
        page.insert_text((72, 300), "text of the layer", oc=document.add_ocg("Draft notes", on=False))
        page.insert_text((72, 330), "visible layer", oc=document.add_ocg("Shown", on=True))

    document = write_page(tmp_path / "a.pdf", change)
    assert messages(document) == [("hidden_layers_not_read", "1 hidden layer was not read: Draft notes.", 1)]
    assert "visible layer" in text_of(document)


def test_media_are_counted(tmp_path: Path) -> None:
    def change(document: Any, page: Any) -> None:
        entries = []
        for kind in ("Movie", "Sound", "RichMedia"):
            xref = document.get_new_xref()
            document.update_object(xref, f"<</Type/Annot/Subtype/{kind}/Rect[300 300 330 330]>>")
            entries.append(f"{xref} 0 R")
        document.xref_set_key(page.xref, "Annots", f"[{' '.join(entries)}]")

    expected = ("media_not_read", "3 videos, sounds or models were not read.", 3)
    assert messages(write_page(tmp_path / "a.pdf", change)) == [expected]


@pytest.mark.parametrize("has_fields", [True, False])
def test_xfa_form_without_usual_fields_is_counted(has_fields: bool, tmp_path: Path) -> None:
    def change(document: Any, page: Any) -> None:
        if has_fields:
            add_field(page, FITZ.PDF_WIDGET_TYPE_TEXT, (120, 126, 300, 144), field_name="name", field_value="Ada")
        xref = document.get_new_xref()
        document.update_object(xref, "<<>>")
        document.update_stream(xref, b"<xdp:xdp xmlns:xdp='http://ns.adobe.com/xdp/'/>")
        catalog = document.pdf_catalog()
        if not has_fields:
            document.xref_set_key(catalog, "AcroForm", "<</Fields[]>>")
        document.xref_set_key(catalog, "AcroForm/XFA", f"{xref} 0 R")

    expected = [] if has_fields else [("xfa_forms_not_read", "1 XFA form was not read.", 1)]
    assert messages(write_page(tmp_path / "a.pdf", change)) == expected


def test_javascript_is_ignored(tmp_path: Path) -> None:
    def change(document: Any, _: Any) -> None:
        document.xref_set_key(document.pdf_catalog(), "OpenAction", "<</S/JavaScript/JS(app.alert\\(1\\))>>")

    document = write_page(tmp_path / "a.pdf", change)
    assert (document.warnings, "alert" in text_of(document)) == ([], False)
