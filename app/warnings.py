"""Warnings: a stable code and one sentence about something that was left out or done otherwise."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

MAX_CODE_CHARACTERS = 64
_CODE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


class WarningCode(StrEnum):
    """Every warning code of the service with its meaning; ``docs/reference/errors.md`` lists all of them."""

    meaning: str

    def __new__(cls, code: str, meaning: str) -> Self:
        member = str.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    # Documents and previews: parsing.
    ANIMATION_FRAMES_NOT_READ = "animation_frames_not_read", "Only the first frame of an animated image was read."
    ATTACHMENTS_NOT_READ = "attachments_not_read", "The attachments of a mail were not read."
    CHAPTERS_NOT_READ = "chapters_not_read", "Damaged chapters of an e-book were not read."
    CHARACTERS_REPLACED = "characters_replaced", "Bytes that are invalid in the file's encoding became U+FFFD."
    DAMAGED_PAGES_NOT_READ = "damaged_pages_not_read", "Damaged pages were not read."
    DAMAGED_PARTS_NOT_READ = "damaged_parts_not_read", "Damaged parts of an Office file were not read."
    DAMAGED_SHEETS_NOT_READ = "damaged_sheets_not_read", "Damaged sheets of a workbook were not read."
    EMBEDDED_DOCUMENTS_NOT_READ = (
        "embedded_documents_not_read",
        "Documents that are embedded in an Office file were not read.",
    )
    ENCODING_UNKNOWN = "encoding_unknown", "The `encoding` of the upload is unknown, so the encoding was detected."
    FILE_REPAIRED = "file_repaired", "The file is damaged, and only its readable parts were read."
    FONTS_NOT_READABLE = "fonts_not_readable", "The fonts of some pages do not name their characters."
    HIDDEN_SHEETS_NOT_READ = "hidden_sheets_not_read", "Hidden sheets of a workbook were not read."
    IMAGES_NOT_READ = "images_not_read", "Images in the file were not read."
    LINES_NOT_READ = "lines_not_read", "Damaged lines of a JSON Lines file were not read."
    NUL_CHARACTERS_REMOVED = "nul_characters_removed", "NUL characters were removed from the text."
    OCR_LANGUAGES_MISSING = "ocr_languages_missing", "OCR data of some configured languages is not installed."
    OCR_PAGES_NOT_READ = "ocr_pages_not_read", "Pages that need OCR were not read: the message says why."
    PAGES_WITHOUT_TEXT = "pages_without_text", "OCR found no text on some pages."
    PLUGIN_WARNING = "plugin_warning", "A plugin gave a warning without a code of its own."
    SLIDES_PARTLY_READ = "slides_partly_read", "Damaged slides were read in part."

    # Documents and previews: titles, images and embedding.
    CHUNKS_NOT_EMBEDDED = "chunks_not_embedded", "The embedding model refused chunks; only words find them."
    HEADINGS_SHORTENED = "headings_shortened", "Headings were too long; the rest of each became a paragraph."
    IMAGES_NOT_DESCRIBED = "images_not_described", "The vision model did not describe some images."
    IMAGES_NOT_EMBEDDED = "images_not_embedded", "The embedding model refused images; only words find them."
    PROCESSING_POSTPONED = "processing_postponed", "The document waits: the message says why, and until when."
    SECTION_TITLES_OMITTED = "section_titles_omitted", "Chunks repeat only their innermost section titles."
    TITLE_SHORTENED = "title_shortened", "The title was too long; its rest became a paragraph."


@dataclass(frozen=True, slots=True)
class ServiceWarning:
    """A warning: ``code`` is stable and one word for programs, ``message`` is one sentence for people."""

    code: str
    message: str

    def to_json(self) -> dict[str, str]:
        """Return the warning as the API shows it and as the database stores it."""
        return {"code": str(self.code), "message": self.message}


def is_warning_code(code: object) -> bool:
    """Return whether a value is a well-formed code, whoever defined it."""
    return isinstance(code, str) and len(code) <= MAX_CODE_CHARACTERS and _CODE.fullmatch(code) is not None


def normalize_warning(warning: ServiceWarning | str) -> ServiceWarning:
    """Return the warning of a plugin as an object: a plain string, or a malformed code, becomes `plugin_warning`."""
    if isinstance(warning, str):
        return ServiceWarning(WarningCode.PLUGIN_WARNING, warning)
    return warning if is_warning_code(warning.code) else ServiceWarning(WarningCode.PLUGIN_WARNING, warning.message)


def parse_stored_warnings(stored: Any) -> list[ServiceWarning]:
    """Return the warnings in a column of JSON; an entry that is no warning is skipped."""
    return list(_iter_stored_warnings(stored))


def _iter_stored_warnings(stored: Any) -> Iterator[ServiceWarning]:
    for entry in stored if isinstance(stored, list) else ():
        if isinstance(entry, str):
            yield normalize_warning(entry)
        elif isinstance(entry, dict) and is_warning_code(entry.get("code")) and isinstance(entry.get("message"), str):
            yield ServiceWarning(entry["code"], entry["message"])
