"""The parsers by media type: one module and one registry line a format; the modules are imported in the child alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from app.ingestion.types import ParsedDocument


@dataclass(frozen=True, slots=True)
class ParserSpec:
    """Where a format's parser lives; ``module`` has a ``parse`` function as in ``Parser``."""

    media_type: str
    extensions: tuple[str, ...]
    module: str


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """What the caller knows about the file, and the limits in pages (or slides) and in characters of text."""

    encoding: str | None
    max_pages: int
    max_characters: int


class Parser(Protocol):
    """What every parser module offers."""

    def parse(self, path: Path, options: ParseOptions) -> ParsedDocument:
        """Read the file; raises subclasses of IngestionError."""


def _registry(*specs: ParserSpec) -> Mapping[str, ParserSpec]:
    return MappingProxyType({spec.media_type: spec for spec in specs})


_OFFICE = "application/vnd.openxmlformats-officedocument"

PARSERS: Mapping[str, ParserSpec] = _registry(
    ParserSpec("application/pdf", ("pdf",), "app.ingestion.parsers.pdf"),
    ParserSpec(f"{_OFFICE}.presentationml.presentation", ("pptx",), "app.ingestion.parsers.pptx"),
    ParserSpec("text/html", ("html", "htm", "xhtml"), "app.ingestion.parsers.html"),
    ParserSpec("text/markdown", ("md", "markdown"), "app.ingestion.parsers.markdown"),
    ParserSpec("text/plain", ("txt", "text", "log"), "app.ingestion.parsers.text"),
)
