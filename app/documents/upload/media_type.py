"""Look at an upload before it is stored: what it really is, and whether anything can read it."""

from collections.abc import Collection, Mapping
from pathlib import PurePath
from types import MappingProxyType

from app.documents.types import EmptyUpload, EncryptedUpload, ReceivedFile, UnsupportedFileType
from app.documents.upload.file_signatures import (
    DOC,
    ENCRYPTED_OFFICE,
    HEAD_BYTES,
    MSG,
    OCTET_STREAM,
    OLE,
    PPT,
    ZIP,
    sniff_media_type,
)
from app.documents.upload.text_formats import EXTENSIONS, MEDIA_TYPE_BY_EXTENSION

_OPEN_DOCUMENT = "application/vnd.oasis.opendocument"
# Formats that people have, and what their program can save instead.
_ADVICE: Mapping[str, str] = {
    DOC: "This is an old Word document. Save it as .docx and upload that.",
    PPT: "This is an old PowerPoint presentation. Save it as .pptx and upload that.",
    MSG: "This is an Outlook message. Save it as .eml or .html and upload that.",
    "application/rtf": "This is a rich text file. Save it as .docx and upload that.",
    f"{_OPEN_DOCUMENT}.text": "This is an OpenDocument text. Save it as .docx or .pdf and upload that.",
    f"{_OPEN_DOCUMENT}.spreadsheet": "This is an OpenDocument spreadsheet. Save it as .xlsx and upload that.",
    f"{_OPEN_DOCUMENT}.presentation": "This is an OpenDocument presentation. Save it as .pptx and upload that.",
    "application/zip": "This is an archive. Upload the files in it one by one.",
}

# What may be a format of its own inside; anything else is what its content says, whatever it is called.
_AMBIGUOUS_TYPES = frozenset({OCTET_STREAM, ZIP, OLE, *EXTENSIONS})
_NO_PLUGINS: Mapping[str, Collection[str]] = MappingProxyType({})


def detect_media_type(
    received: ReceivedFile, parseable_types: Collection[str], plugin_types: Mapping[str, Collection[str]] = _NO_PLUGINS
) -> str:
    """The media type by content; blocking. Raises EmptyUpload, EncryptedUpload, UnsupportedFileType.

    ``plugin_types`` are media types that no signature is known of, each with its extensions: a file that is a text, an
    archive or unknown bytes is one of them by its extension, or by its declared type where the extension says nothing.
    """
    if received.size == 0:
        raise EmptyUpload(loc=("body", "file"))
    with received.path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    media_type = sniff_media_type(head, received.path, filename=received.filename, declared=received.declared_type)
    if media_type == ENCRYPTED_OFFICE:
        raise EncryptedUpload
    if media_type in _AMBIGUOUS_TYPES:
        media_type = _find_plugin_type(received, plugin_types) or media_type
    if media_type not in parseable_types:
        supported_types = ", ".join(sorted(parseable_types))
        message = (
            _ADVICE.get(media_type) or f"This file is {media_type}, which no parser reads; parsers: {supported_types}."
        )
        raise UnsupportedFileType(message, media_type=media_type)
    return media_type


def _find_plugin_type(received: ReceivedFile, plugin_types: Mapping[str, Collection[str]]) -> str | None:
    extension = PurePath(received.filename).suffix.lower().removeprefix(".")
    for media_type, extensions in plugin_types.items():
        if extension in extensions:
            return media_type
    declared = received.declared_type
    return declared if declared in plugin_types and extension not in MEDIA_TYPE_BY_EXTENSION else None
