"""Interface for parser plugins: options, results, errors, and helpers for text, archives and images.

Importing this module loads no model, no database driver and no parser library. ``decode_text``, ``read_text``,
``decode_xml``, ``read_xml`` and ``ImageList`` import the library they need when the name is first used.
"""

from typing import TYPE_CHECKING, Any

from app.ingestion.parsers import LanguageData, ParseOptions, Parser
from app.ingestion.parsers.toolkit.archives import check_archive, read_member
from app.ingestion.parsers.toolkit.blocks import BlockList, check_page_count
from app.ingestion.parsers.toolkit.tables import format_markdown_table
from app.ingestion.parsers.toolkit.text_cleanup import clean_code, clean_line, clean_text
from app.ingestion.types import (
    Block,
    BlockKind,
    CorruptFile,
    EncodedImage,
    EncryptedFile,
    IngestionError,
    LineLayout,
    NoTextFound,
    ParsedDocument,
    TextTooLong,
    TooManyPages,
)
from app.warnings import ServiceWarning

if TYPE_CHECKING:
    from app.ingestion.parsers.toolkit.character_decoding import DecodedText, decode_text
    from app.ingestion.parsers.toolkit.image_list import ImageList
    from app.ingestion.parsers.toolkit.read_text import read_text
    from app.ingestion.parsers.toolkit.safe_xml import decode_xml, read_xml
else:

    def __getattr__(name: str) -> Any:
        """Import a helper that needs letter frequencies, lxml or Pillow when its name is first used."""
        if name in ("DecodedText", "decode_text"):
            from app.ingestion.parsers.toolkit import character_decoding as module
        elif name == "ImageList":
            from app.ingestion.parsers.toolkit import image_list as module
        elif name == "read_text":
            from app.ingestion.parsers.toolkit import read_text as module
        elif name in ("decode_xml", "read_xml"):
            from app.ingestion.parsers.toolkit import safe_xml as module
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(module, name)


__all__ = [
    "Block",
    "BlockKind",
    "BlockList",
    "CorruptFile",
    "DecodedText",
    "EncodedImage",
    "EncryptedFile",
    "ImageList",
    "IngestionError",
    "LanguageData",
    "LineLayout",
    "NoTextFound",
    "ParseOptions",
    "ParsedDocument",
    "Parser",
    "ServiceWarning",
    "TextTooLong",
    "TooManyPages",
    "check_archive",
    "check_page_count",
    "clean_code",
    "clean_line",
    "clean_text",
    "decode_text",
    "decode_xml",
    "format_markdown_table",
    "read_member",
    "read_text",
    "read_xml",
]
