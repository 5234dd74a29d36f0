"""The mixed corpus: a document of any kind for a slot and a serial, marked in every part."""

import io
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docx
import pymupdf
from pptx import Presentation
from pptx.util import Inches

from harness.reproducible_files import with_fixed_times
from proofs.kill.expectations import mark

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
WORDS = ["harbour", "island", "jetty", "kelp", "lagoon", "marsh", "northern", "oxbow", "peninsula", "quarry", "reef"]
PARTS_OF_A_PAGE = 8
# MuPDF is not made for threads.
_pdf = threading.Lock()


@dataclass(frozen=True, slots=True)
class Content:
    """What is sent: a file, or a JSON body."""

    kind: str
    filename: str = ""
    media_type: str = ""
    file: bytes | None = None
    body: dict[str, Any] | None = None


def make_content(slot: int, serial: int, rng: random.Random) -> Content:
    """A document of a random kind and size; the largest have several hundred passages."""
    kind = rng.choice(sorted(MAKERS))
    least, most = SIZES.get(kind, (3, 40))
    parts = rng.randint(least, most)
    texts = [f"{mark(slot, serial, n, parts)} {' '.join(rng.choices(WORDS, k=18))}." for n in range(1, parts + 1)]
    return MAKERS[kind](texts)


def _text(texts: Sequence[str]) -> Content:
    return Content("text", "notes.txt", "text/plain", "\n\n".join(texts).encode())


def _long_text(texts: Sequence[str]) -> Content:
    return Content("long text", "long.txt", "text/plain", "\n\n".join(texts).encode())


def _markdown(texts: Sequence[str]) -> Content:
    sections = "\n\n".join(f"## Section {number}\n\n{text}" for number, text in enumerate(texts, 1))
    return Content("Markdown", body={"text": f"# Notes\n\n{sections}\n", "media_type": "text/markdown"})


def _html(texts: Sequence[str]) -> Content:
    body = "".join(f"<p>{text}</p>" for text in texts)
    page = f"<!doctype html><html><head><title>Notes</title></head><body><h1>Notes</h1>{body}</body></html>"
    return Content("HTML", "page.html", "text/html", page.encode())


def _csv(texts: Sequence[str]) -> Content:
    rows = "".join(f"{number},{text}\n" for number, text in enumerate(texts, 1))
    return Content("CSV", "table.csv", "text/csv", f"number,text\n{rows}".encode())


def _pdf_pages(texts: Sequence[str]) -> Content:
    """The sample handbook behind pages of our own."""
    with _pdf, pymupdf.open() as made, pymupdf.open(SAMPLES / "handbook.pdf") as handbook:  # type: ignore[no-untyped-call]
        for start in range(0, len(texts), PARTS_OF_A_PAGE):
            page = made.new_page()
            page.insert_textbox((60, 90, 540, 760), "\n\n".join(texts[start : start + PARTS_OF_A_PAGE]), fontsize=9)
        made.insert_pdf(handbook)
        data: bytes = made.tobytes(no_new_id=True)
    return Content("PDF", "handbook.pdf", "application/pdf", data)


def _pptx(texts: Sequence[str]) -> Content:
    """The sample presentation, and a slide of our own for each part."""
    show = Presentation(str(SAMPLES / "product-tour.pptx"))
    for text in texts:
        slide = show.slides.add_slide(show.slide_layouts[6])
        box = slide.shapes.add_textbox(Inches(1), Inches(1), Inches(8), Inches(3))
        box.text_frame.text = text
    data = io.BytesIO()
    show.save(data)
    kind = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
    return Content("PPTX", "tour.pptx", kind, with_fixed_times(data.getvalue()))


def _docx(texts: Sequence[str]) -> Content:
    document: Any = docx.Document()
    document.add_heading("Notes", 1)
    for text in texts:
        document.add_paragraph(text)
    data = io.BytesIO()
    document.save(data)
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    return Content("DOCX", "notes.docx", kind, with_fixed_times(data.getvalue()))


def _chunks(texts: Sequence[str]) -> Content:
    return Content("ready chunks", body={"chunks": [{"text": text} for text in texts]})


MAKERS: dict[str, Callable[[Sequence[str]], Content]] = {
    "text": _text,
    "long text": _long_text,
    "markdown": _markdown,
    "html": _html,
    "csv": _csv,
    "pdf": _pdf_pages,
    "pptx": _pptx,
    "docx": _docx,
    "chunks": _chunks,
}
SIZES = {"long text": (250, 350), "pdf": (40, 160), "pptx": (3, 15)}
