"""Check of an upload before it is stored: detection of its media type, and whether a parser reads it."""

from collections.abc import Collection, Mapping
from pathlib import PurePath
from types import MappingProxyType

from app.documents.types import EmptyUpload, EncryptedUpload, ReceivedFile, UnsupportedFileType
from app.documents.upload.file_signatures import (
    DOC,
    ENCRYPTED_OFFICE,
    HEAD_BYTES,
    OCTET_STREAM,
    OLE,
    PPT,
    ZIP,
    sniff_media_type,
)
from app.documents.upload.text_formats import (
    EXTENSIONS,
    MEDIA_TYPE_BY_EXTENSION,
    TEXT_TYPES,
    resolve_text_type,
)
from app.errors import InvalidInputError

# Formats without a parser that users often have, with the format that their program can save instead.
_ADVICE: Mapping[str, str] = {
    DOC: "This is an old Word document (DOC). Save it as .docx and upload the copy. "
    "A server on which LibreOffice is installed reads it as it is.",
    PPT: "This is an old PowerPoint presentation (PPT). Save it as .pptx and upload the copy. "
    "A server on which LibreOffice is installed reads it as it is.",
    "application/zip": "This is an archive. Extract it and upload its files one by one.",
}

# A plugin can claim files of these types by extension. Files of other types keep the detected type.
_AMBIGUOUS_TYPES = frozenset({OCTET_STREAM, ZIP, OLE, *EXTENSIONS})
_NO_PLUGINS: Mapping[str, Collection[str]] = MappingProxyType({})


def detect_media_type(
    received: ReceivedFile, parseable_types: Collection[str], plugin_types: Mapping[str, Collection[str]] = _NO_PLUGINS
) -> str:
    """Return the media type of an upload, detected from its content. The function reads the file and blocks.

    Args:
        received: The file.
        parseable_types: Media types that a parser reads.
        plugin_types: File extensions by media type of a plugin. They apply to files that are detected as text, as an
            archive or as unknown. Such a file gets the plugin's media type if it has the extension. It also gets the
            type if the caller declared it and the file's extension belongs to no text format.

    Returns:
        The media type.

    Raises:
        EmptyUpload: The file has no bytes.
        EncryptedUpload: The file is an encrypted Office file.
        UnsupportedFileType: No parser reads the media type.
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
            _ADVICE.get(media_type)
            or f"No parser reads files of type {media_type}. Upload a file of a supported type: {supported_types}."
        )
        raise UnsupportedFileType(message, media_type=media_type)
    return media_type


def require_text_type(
    media_type: str, parseable_types: Collection[str], plugin_types: Mapping[str, Collection[str]] = _NO_PLUGINS
) -> str:
    """Return the service's name of the media type of a text in a JSON body.

    Args:
        media_type: Media type as the caller sends it, with any case and parameters.
        parseable_types: Media types that a parser reads.
        plugin_types: File extensions by media type of a plugin. A plugin may read texts.

    Raises:
        InvalidInputError: The media type is no text format, or no parser reads it.
    """
    name = media_type.partition(";")[0].strip().lower()
    resolved = name if name in plugin_types else resolve_text_type(name)
    if resolved is None or resolved not in parseable_types:
        supported = sorted(({*EXTENSIONS, *TEXT_TYPES} & set(parseable_types)) | plugin_types.keys())
        message = f"No parser reads texts of type {name[:100]!r}. Use one of: {', '.join(supported)}."
        raise InvalidInputError(message, loc=("body", "media_type"))
    return resolved


def _find_plugin_type(received: ReceivedFile, plugin_types: Mapping[str, Collection[str]]) -> str | None:
    extension = PurePath(received.filename).suffix.lower().removeprefix(".")
    for media_type, extensions in plugin_types.items():
        if extension in extensions:
            return media_type
    declared = received.declared_type
    return declared if declared in plugin_types and extension not in MEDIA_TYPE_BY_EXTENSION else None
