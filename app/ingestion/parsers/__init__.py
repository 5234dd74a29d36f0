"""Interface and registry of parsers: one module and one registry entry for each format.

Only the sandboxed parser processes import the modules of the formats.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from app.documents.upload.notebooks import NOTEBOOK
from app.documents.upload.open_document import ODP, ODS, ODT
from app.documents.upload.text_formats import EXTENSIONS, JSON, MAIL, RST, SOURCE_TYPES, TEX, XML, YAML
from app.ingestion.types import ParsedDocument


@dataclass(frozen=True, slots=True)
class ParserSpec:
    """Registry entry of a parser.

    Attributes:
        media_type: Media type of the files.
        extensions: Extensions of the file names, without a dot.
        module: Name of the module that implements ``Parser``.
        is_plugin: Whether a plugin provides the parser.
        conversion: Extension of the format to which LibreOffice converts a file before the parser reads it; empty for
            a format that the parser reads itself.
    """

    media_type: str
    extensions: tuple[str, ...]
    module: str
    is_plugin: bool = False
    conversion: str = ""


@dataclass(frozen=True, slots=True)
class LanguageData:
    """Language data that is available for optical character recognition (OCR).

    Attributes:
        directory: Directory of the language data of Tesseract; empty if there is none.
        languages: Requested languages that the directory contains.
        missing: Requested languages that it does not contain.
    """

    directory: str = ""
    languages: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


NO_OCR = LanguageData()


def _ignore_progress(done: int, total: int) -> None:
    """Discard a progress report."""


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """Options and limits of one parser call.

    Attributes:
        encoding: Encoding of the text as the uploader declared it; None if the uploader declared none.
        max_pages: Maximum number of pages or slides.
        max_characters: Maximum number of characters of text.
        ocr: Language data for OCR.
        cpu_timeout_seconds: Processor time until the parser process is killed.
        wall_clock_timeout_seconds: Time until the parser process is killed.
        on_progress: Callback for progress: the number of pages read, and the number of all pages.
        needs_images: Whether the caller wants the images. If false, a parser may leave them out.
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
    """Interface of a parser module."""

    def parse(self, path: Path, options: ParseOptions) -> ParsedDocument:
        """Parse one file.

        Args:
            path: File to read. The path names a descriptor: it has no file name and no extension.
            options: Options and limits.

        Returns:
            The blocks of the document in reading order. A document without blocks fails with ``no_text``.

        Raises:
            IngestionError: The file cannot be parsed; the class says why. Any other error counts as ``CorruptFile``.
        """


def _build_registry(*specs: ParserSpec) -> Mapping[str, ParserSpec]:
    return MappingProxyType({spec.media_type: spec for spec in specs})


_IMAGE_MODULE = "app.ingestion.parsers.formats.image"
_OFFICE_TYPE_PREFIX = "application/vnd.openxmlformats-officedocument"

PARSERS: Mapping[str, ParserSpec] = _build_registry(
    ParserSpec("application/pdf", ("pdf",), "app.ingestion.parsers.formats.pdf.pdf_parser"),
    ParserSpec(
        f"{_OFFICE_TYPE_PREFIX}.presentationml.presentation",
        ("pptx", "pptm", "ppsx", "ppsm", "potx", "potm"),
        "app.ingestion.parsers.formats.pptx.pptx_parser",
    ),
    ParserSpec(
        f"{_OFFICE_TYPE_PREFIX}.wordprocessingml.document",
        ("docx", "docm", "dotx", "dotm"),
        "app.ingestion.parsers.formats.docx.docx_parser",
    ),
    ParserSpec(
        "application/msword", ("doc", "dot"), "app.ingestion.parsers.formats.docx.docx_parser", conversion="docx"
    ),
    ParserSpec(
        "application/vnd.ms-powerpoint",
        ("ppt", "pps", "pot"),
        "app.ingestion.parsers.formats.pptx.pptx_parser",
        conversion="pptx",
    ),
    ParserSpec(
        f"{_OFFICE_TYPE_PREFIX}.spreadsheetml.sheet",
        ("xlsx", "xlsm", "xltx", "xltm", "xlsb"),
        "app.ingestion.parsers.formats.spreadsheets",
    ),
    ParserSpec("application/vnd.ms-excel", ("xls", "xlt"), "app.ingestion.parsers.formats.spreadsheets"),
    ParserSpec("text/csv", ("csv", "tsv"), "app.ingestion.parsers.formats.csv_table"),
    ParserSpec("text/html", ("html", "htm", "xhtml"), "app.ingestion.parsers.formats.html"),
    ParserSpec("text/markdown", ("md", "markdown"), "app.ingestion.parsers.formats.markdown"),
    ParserSpec("text/plain", ("txt", "text", "log"), "app.ingestion.parsers.formats.text"),
    ParserSpec("application/epub+zip", ("epub",), "app.ingestion.parsers.formats.epub"),
    ParserSpec("application/rtf", ("rtf",), "app.ingestion.parsers.formats.rtf.rtf_parser"),
    ParserSpec(ODT, ("odt", "ott", "fodt"), "app.ingestion.parsers.formats.odf.odt_parser"),
    ParserSpec(ODS, ("ods", "ots", "fods"), "app.ingestion.parsers.formats.odf.ods_parser"),
    ParserSpec(ODP, ("odp", "otp", "fodp"), "app.ingestion.parsers.formats.odf.odp_parser"),
    ParserSpec("application/vnd.ms-outlook", ("msg",), "app.ingestion.parsers.formats.outlook.msg_parser"),
    ParserSpec(MAIL, EXTENSIONS[MAIL], "app.ingestion.parsers.formats.mail"),
    ParserSpec(NOTEBOOK, ("ipynb",), "app.ingestion.parsers.formats.ipynb"),
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
