"""Look at an upload before it is stored: what it really is, and whether anything can read it."""

from collections.abc import Collection

from app.documents.sniffing import HEAD, OLE, is_encrypted_office, sniff
from app.documents.types import EncryptedUpload, ReceivedFile, UnsupportedMediaType


def inspect_upload(received: ReceivedFile, parseable: Collection[str]) -> str:
    """The media type by content; blocking. Raises EncryptedUpload, UnsupportedMediaType."""
    with received.path.open("rb") as file:
        head = file.read(HEAD)
    found = sniff(head, received.path, filename=received.filename, declared=received.declared_type)
    if found == OLE and is_encrypted_office(received.path):
        raise EncryptedUpload
    if found not in parseable:
        known = ", ".join(sorted(parseable))
        raise UnsupportedMediaType(f"This file is {found}, which no parser reads; parsers: {known}.", media_type=found)
    return found
