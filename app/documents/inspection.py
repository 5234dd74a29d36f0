"""Look at an upload before it is stored: what it really is, and whether anything can read it."""

from collections.abc import Collection, Mapping

from app.documents.sniffing import DOC, ENCRYPTED_OFFICE, HEAD, MSG, PPT, sniff
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


def inspect_upload(received: ReceivedFile, parseable: Collection[str]) -> str:
    """The media type by content; blocking. Raises EmptyUpload, EncryptedUpload, UnsupportedMediaType."""
    if received.size == 0:
        raise EmptyUpload(loc=("body", "file"))
    with received.path.open("rb") as file:
        head = file.read(HEAD)
    found = sniff(head, received.path, filename=received.filename, declared=received.declared_type)
    if found == ENCRYPTED_OFFICE:
        raise EncryptedUpload
    if found not in parseable:
        known = ", ".join(sorted(parseable))
        message = _ADVICE.get(found) or f"This file is {found}, which no parser reads; parsers: {known}."
        raise UnsupportedMediaType(message, media_type=found)
    return found
