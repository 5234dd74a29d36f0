"""Look at an upload before it is stored: what it really is, and whether anything can read it."""

from collections.abc import Collection, Mapping
from pathlib import PurePath
from types import MappingProxyType

from app.documents.sniffing import DOC, ENCRYPTED_OFFICE, HEAD, MSG, OCTETS, OLE, PPT, ZIP, sniff
from app.documents.text_types import BY_EXTENSION, EXTENSIONS
from app.documents.types import EmptyUpload, EncryptedUpload, ReceivedFile, UnsupportedMediaType

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
_OPEN_KINDS = frozenset({OCTETS, ZIP, OLE, *EXTENSIONS})
_NO_PLUGINS: Mapping[str, Collection[str]] = MappingProxyType({})


def inspect_upload(
    received: ReceivedFile, parseable: Collection[str], plugins: Mapping[str, Collection[str]] = _NO_PLUGINS
) -> str:
    """The media type by content; blocking. Raises EmptyUpload, EncryptedUpload, UnsupportedMediaType.

    ``plugins`` are media types that no signature is known of, each with its extensions: a file that is a text, an
    archive or unknown bytes is one of them by its extension, or by its declared type where the extension says nothing.
    """
    if received.size == 0:
        raise EmptyUpload(loc=("body", "file"))
    with received.path.open("rb") as file:
        head = file.read(HEAD)
    found = sniff(head, received.path, filename=received.filename, declared=received.declared_type)
    if found == ENCRYPTED_OFFICE:
        raise EncryptedUpload
    if found in _OPEN_KINDS:
        found = _plugin_type(received, plugins) or found
    if found not in parseable:
        known = ", ".join(sorted(parseable))
        message = _ADVICE.get(found) or f"This file is {found}, which no parser reads; parsers: {known}."
        raise UnsupportedMediaType(message, media_type=found)
    return found


def _plugin_type(received: ReceivedFile, plugins: Mapping[str, Collection[str]]) -> str | None:
    extension = PurePath(received.filename).suffix.lower().removeprefix(".")
    for media_type, extensions in plugins.items():
        if extension in extensions:
            return media_type
    declared = received.declared_type
    return declared if declared in plugins and extension not in BY_EXTENSION else None
