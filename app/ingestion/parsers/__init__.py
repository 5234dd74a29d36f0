"""The parsers by media type: one module and one registry line a format; the modules are imported in the child alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from app.documents.upload.text_formats import EXTENSIONS, JSON, MAIL, RST, SOURCE_TYPES, TEX, XML, YAML
from app.ingestion.types import ParsedDocument


@dataclass(frozen=True, slots=True)
class ParserSpec:
    """Where a format's parser lives; ``module`` has a ``parse`` function as in ``Parser``. A ``is_plugin`` is not
    ours.
    """

    media_type: str
    extensions: tuple[str, ...]
    module: str
    is_plugin: bool = False


@dataclass(frozen=True, slots=True)
class LanguageData:
    """What OCR can read here: the directory of Tesseract's data, and which of the wanted languages are in it or not."""

    directory: str = ""
    languages: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


NO_OCR = LanguageData()


def _ignore_progress(done: int, total: int) -> None:
    """For a parser that nobody listens to."""


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """What the caller knows about the file, and the limits: pages (or slides), characters of text, and time.

    The process is killed at the end of either time. ``on_progress`` takes how many pages are read, of how many.
    ``needs_images`` says that somebody looks at them; else they are counted.
    """

    encoding: str | None
    max_pages: int
    max_characters: int
    ocr: LanguageData = NO_OCR
    cpu_timeout_seconds: float = 120.0
    wall_clock_timeout_seconds: float = 180.0
    on_progress: Callable[[int, int], None] = _ignore_progress
    needs_images: bool = False


class Parser(Protocol):
    """What every parser module offers."""

    def parse(self, path: Path, options: ParseOptions) -> ParsedDocument:
        """Read the file; raises subclasses of IngestionError."""


def _build_registry(*specs: ParserSpec) -> Mapping[str, ParserSpec]:
    return MappingProxyType({spec.media_type: spec for spec in specs})


_IMAGE_MODULE = "app.ingestion.parsers.formats.image"
_OFFICE_TYPE_PREFIX = "application/vnd.openxmlformats-officedocument"

PARSERS: Mapping[str, ParserSpec] = _build_registry(
    ParserSpec("application/pdf", ("pdf",), "app.ingestion.parsers.formats.pdf.pdf_parser"),
    ParserSpec(f"{_OFFICE_TYPE_PREFIX}.presentationml.presentation", ("pptx",), "app.ingestion.parsers.formats.pptx"),
    ParserSpec(
        f"{_OFFICE_TYPE_PREFIX}.wordprocessingml.document", ("docx",), "app.ingestion.parsers.formats.docx.docx_parser"
    ),
    ParserSpec(f"{_OFFICE_TYPE_PREFIX}.spreadsheetml.sheet", ("xlsx",), "app.ingestion.parsers.formats.spreadsheets"),
    ParserSpec("application/vnd.ms-excel", ("xls",), "app.ingestion.parsers.formats.spreadsheets"),
    ParserSpec("text/csv", ("csv", "tsv"), "app.ingestion.parsers.formats.csv_table"),
    ParserSpec("text/html", ("html", "htm", "xhtml"), "app.ingestion.parsers.formats.html"),
    ParserSpec("text/markdown", ("md", "markdown"), "app.ingestion.parsers.formats.markdown"),
    ParserSpec("text/plain", ("txt", "text", "log"), "app.ingestion.parsers.formats.text"),
    ParserSpec("application/epub+zip", ("epub",), "app.ingestion.parsers.formats.epub"),
    ParserSpec(MAIL, EXTENSIONS[MAIL], "app.ingestion.parsers.formats.mail"),
    ParserSpec(JSON, EXTENSIONS[JSON], "app.ingestion.parsers.formats.json_data"),
    ParserSpec(XML, EXTENSIONS[XML], "app.ingestion.parsers.formats.xml_data"),
    ParserSpec(YAML, EXTENSIONS[YAML], "app.ingestion.parsers.formats.yaml_text"),
    ParserSpec(RST, EXTENSIONS[RST], "app.ingestion.parsers.formats.rst.rst_parser"),
    ParserSpec(TEX, EXTENSIONS[TEX], "app.ingestion.parsers.formats.text"),
    *(ParserSpec(kind, names, "app.ingestion.parsers.formats.source_code") for kind, names in SOURCE_TYPES.items()),
    ParserSpec("image/png", ("png",), _IMAGE_MODULE),
    ParserSpec("image/jpeg", ("jpg", "jpeg"), _IMAGE_MODULE),
    ParserSpec("image/gif", ("gif",), _IMAGE_MODULE),
    ParserSpec("image/bmp", ("bmp",), _IMAGE_MODULE),
    ParserSpec("image/webp", ("webp",), _IMAGE_MODULE),
    ParserSpec("image/tiff", ("tif", "tiff"), _IMAGE_MODULE),
)
