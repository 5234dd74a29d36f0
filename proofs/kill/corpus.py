"""Generator of documents of several formats. Every part of a document has a mark with its slot and serial."""

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
from proofs.kill.expectations import build_mark

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
WORDS = ["harbour", "island", "jetty", "kelp", "lagoon", "marsh", "northern", "oxbow", "peninsula", "quarry", "reef"]
PARTS_PER_PAGE = 8
# MuPDF is not thread-safe.
_pdf_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class UploadContent:
    """Content of an upload: a file or a JSON body."""

    kind: str
    filename: str = ""
    media_type: str = ""
    file: bytes | None = None
    body: dict[str, Any] | None = None


def create_content(slot: int, serial: int, rng: random.Random) -> UploadContent:
    """Create a document of random kind and size. The largest have several hundred chunks."""
    kind = rng.choice(sorted(CONTENT_BUILDERS))
    minimum, limit = PART_COUNTS.get(kind, (3, 40))
    parts = rng.randint(minimum, limit)
    texts = [f"{build_mark(slot, serial, n, parts)} {' '.join(rng.choices(WORDS, k=18))}." for n in range(1, parts + 1)]
    return CONTENT_BUILDERS[kind](texts)


def _build_text(texts: Sequence[str]) -> UploadContent:
    return UploadContent("text", "notes.txt", "text/plain", "\n\n".join(texts).encode())


def _build_long_text(texts: Sequence[str]) -> UploadContent:
    return UploadContent("long text", "long.txt", "text/plain", "\n\n".join(texts).encode())


def _build_markdown(texts: Sequence[str]) -> UploadContent:
    sections = "\n\n".join(f"## Section {number}\n\n{text}" for number, text in enumerate(texts, 1))
    return UploadContent("Markdown", body={"text": f"# Notes\n\n{sections}\n", "media_type": "text/markdown"})


def _build_html(texts: Sequence[str]) -> UploadContent:
    body = "".join(f"<p>{text}</p>" for text in texts)
    page = f"<!doctype html><html><head><title>Notes</title></head><body><h1>Notes</h1>{body}</body></html>"
    return UploadContent("HTML", "page.html", "text/html", page.encode())


def _build_csv(texts: Sequence[str]) -> UploadContent:
    rows = "".join(f"{number},{text}\n" for number, text in enumerate(texts, 1))
    return UploadContent("CSV", "table.csv", "text/csv", f"number,text\n{rows}".encode())


def _build_pdf(texts: Sequence[str]) -> UploadContent:
    """Build a PDF of generated pages, followed by the sample handbook."""
    with _pdf_lock, pymupdf.open() as created, pymupdf.open(SAMPLES / "handbook.pdf") as handbook:  # type: ignore[no-untyped-call]
        for start in range(0, len(texts), PARTS_PER_PAGE):
            page = created.new_page()
            page.insert_textbox((60, 90, 540, 760), "\n\n".join(texts[start : start + PARTS_PER_PAGE]), fontsize=9)
        created.insert_pdf(handbook)
        data: bytes = created.tobytes(no_new_id=True)
    return UploadContent("PDF", "handbook.pdf", "application/pdf", data)


def _build_pptx(texts: Sequence[str]) -> UploadContent:
    """Build the sample presentation with an additional slide for each part."""
    show = Presentation(str(SAMPLES / "product-tour.pptx"))
    for text in texts:
        slide = show.slides.add_slide(show.slide_layouts[6])
        box = slide.shapes.add_textbox(Inches(1), Inches(1), Inches(8), Inches(3))
        box.text_frame.text = text
    data = io.BytesIO()
    show.save(data)
    kind = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
    return UploadContent("PPTX", "tour.pptx", kind, with_fixed_times(data.getvalue()))


def _build_docx(texts: Sequence[str]) -> UploadContent:
    document: Any = docx.Document()
    document.add_heading("Notes", 1)
    for text in texts:
        document.add_paragraph(text)
    data = io.BytesIO()
    document.save(data)
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    return UploadContent("DOCX", "notes.docx", kind, with_fixed_times(data.getvalue()))


def _build_chunks(texts: Sequence[str]) -> UploadContent:
    return UploadContent("ready chunks", body={"chunks": [{"text": text} for text in texts]})


CONTENT_BUILDERS: dict[str, Callable[[Sequence[str]], UploadContent]] = {
    "text": _build_text,
    "long text": _build_long_text,
    "markdown": _build_markdown,
    "html": _build_html,
    "csv": _build_csv,
    "pdf": _build_pdf,
    "pptx": _build_pptx,
    "docx": _build_docx,
    "chunks": _build_chunks,
}
PART_COUNTS = {"long text": (250, 350), "pdf": (40, 160), "pptx": (3, 15)}
