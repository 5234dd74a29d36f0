"""Parser of Outlook messages (MSG): headers, text, and attached messages. Other attachments are named in a warning."""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.html import add_fragment
from app.ingestion.parsers.formats.outlook import properties as names
from app.ingestion.parsers.formats.outlook.properties import Properties
from app.ingestion.parsers.formats.outlook.rtf_body import extract_html, is_html_in_rtf, unpack_rtf
from app.ingestion.parsers.formats.rtf.rtf_parser import read_rich_text
from app.ingestion.parsers.toolkit.attachment_warnings import list_attachment_warnings
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.character_decoding import decode_text
from app.ingestion.parsers.toolkit.compound_files import CompoundFile, Storage
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import BlockKind, CorruptFile, EncryptedFile, ParsedDocument
from app.warnings import ServiceWarning

MAX_DEPTH = 5
"""Maximum depth of messages in messages. Deeper messages count as attachments."""

_MAX_PARTS = 2000
_MAX_NAME_CHARACTERS = 100
_RECIPIENT, _ATTACHMENT = "__recip_version1.0_", "__attach_version1.0_"
_EMBEDDED_MESSAGE = f"__substg1.0_{names.ATTACH_DATA:04x}000d"
_EMBEDDED_METHOD = 5
_ENCRYPTED_CLASS = "ipm.note.smime"
_PARAGRAPH_BREAK = re.compile(r"\n[^\S\n]*+\n\s*+")
_FIELDS = {1: "To", 2: "Cc"}


@dataclass(slots=True)
class _Message:
    """Blocks, attachments and warnings that the parts of a message have added so far."""

    file: CompoundFile
    options: ParseOptions
    blocks: BlockList
    attachments: list[str] = field(default_factory=list)
    warnings: list[ServiceWarning] = field(default_factory=list)


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse an Outlook message. Its text is read from the HTML body, else from the RTF or the plain body.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The blocks of the message and of the messages that are attached to it, with the subject as the title.

    Raises:
        CorruptFile: The file is damaged, or is no message.
        EncryptedFile: The message is encrypted.
        TextTooLong: The message has more text than the limits allow.
    """
    file = CompoundFile(path.read_bytes())
    if names.PROPERTIES not in file.root.streams:
        raise CorruptFile("The file is not an Outlook message.")
    message = _Message(file, options, BlockList(options))
    root = Properties(file, file.root, "message")
    if root.get_text(names.MESSAGE_CLASS).lower() == _ENCRYPTED_CLASS:
        raise EncryptedFile("The message is encrypted; upload a decrypted copy.")
    waiting = [(file.root, root, 0)]
    while waiting:
        storage, properties, depth = waiting.pop()
        if depth:
            heading = clean_line(properties.get_text(names.SUBJECT)) or "Attached message"
            message.blocks.add(BlockKind.HEADING, heading, level=depth)
        _add_headers(storage, properties, message)
        _add_body(properties, message)
        waiting += reversed(_read_attachments(storage, properties, depth, message))
    warnings = [*dict.fromkeys(message.warnings), *list_attachment_warnings(message.attachments)]
    return ParsedDocument(
        message.blocks.blocks, title=clean_line(root.get_text(names.SUBJECT)) or None, warnings=warnings
    )


def _add_headers(storage: Storage, properties: Properties, message: _Message) -> None:
    values = {
        "From": _format_address(
            properties.get_text(names.SENDER_NAME),
            properties.get_text(names.SENDER_SMTP) or properties.get_text(names.SENDER_ADDRESS),
        ),
        **_list_recipients(storage, properties, message),
        "Date": properties.get_date(names.DATE) or properties.get_date(names.DELIVERY_DATE),
        "Subject": properties.get_text(names.SUBJECT),
    }
    lines = (f"{name}: {clean_line(value)}" for name, value in values.items() if value.strip())
    message.blocks.add(BlockKind.PARAGRAPH, "\n".join(lines))


def _list_recipients(storage: Storage, properties: Properties, message: _Message) -> dict[str, str]:
    """Return the texts of the fields To and Cc. Blind copies are left out, as mail programs do."""
    recipients: dict[str, list[str]] = {"To": [], "Cc": []}
    for name in sorted(storage.storages)[:_MAX_PARTS]:
        if name.startswith(_RECIPIENT):
            recipient = Properties(message.file, storage.storages[name], "part", properties.codec)
            address = recipient.get_text(names.SMTP_ADDRESS) or recipient.get_text(names.ADDRESS)
            kind = _FIELDS.get(recipient.get_number(names.RECIPIENT_TYPE))
            if kind:
                recipients[kind].append(_format_address(recipient.get_text(names.NAME), address))
    return {
        "To": ", ".join(recipients["To"]) or properties.get_text(names.DISPLAY_TO),
        "Cc": ", ".join(recipients["Cc"]) or properties.get_text(names.DISPLAY_CC),
    }


def _format_address(name: str, address: str) -> str:
    """Return a name with its mail address. Internal addresses of a mail server, which have no @, are left out."""
    name, address = name.strip(), address.strip()
    if "@" not in address:
        return name or address
    return f"{name} <{address}>" if name and name != address else address


def _add_body(properties: Properties, message: _Message) -> None:
    """Add the richest body that has text: HTML, else RTF, else plain text."""
    count = len(message.blocks.blocks)
    add_fragment(_read_html(properties), message.blocks)
    if len(message.blocks.blocks) > count:
        return
    rtf = unpack_rtf(properties.get_bytes(names.COMPRESSED_RTF))
    if rtf and is_html_in_rtf(rtf):
        add_fragment(extract_html(rtf), message.blocks)
    elif rtf:
        document = read_rich_text(rtf, replace(message.options, needs_images=False))
        for block in document.blocks:
            message.blocks.append(block)
        message.warnings += document.warnings
    if len(message.blocks.blocks) == count:
        text = properties.get_text(names.BODY).replace("\r\n", "\n").replace("\r", "\n")
        for paragraph in _PARAGRAPH_BREAK.split(text):
            message.blocks.add(BlockKind.PARAGRAPH, paragraph)


def _read_html(properties: Properties) -> str:
    data = properties.get_bytes(names.HTML)
    if data:
        return decode_text(data, encoding=None, declared_encoding=properties.internet_codec).text
    return properties.get_text(names.HTML)


def _read_attachments(
    storage: Storage, properties: Properties, depth: int, message: _Message
) -> list[tuple[Storage, Properties, int]]:
    """Return the attached messages, and add the names of the other attachments."""
    messages = []
    for number, name in enumerate(sorted(name for name in storage.storages if name.startswith(_ATTACHMENT))):
        attachment = storage.storages[name]
        part = Properties(message.file, attachment, "part", properties.codec)
        embedded = attachment.storages.get(_EMBEDDED_MESSAGE)
        is_message = part.get_number(names.ATTACH_METHOD) == _EMBEDDED_METHOD and embedded is not None
        if is_message and embedded is not None and depth < MAX_DEPTH and number < _MAX_PARTS:
            messages.append((embedded, Properties(message.file, embedded, "attached"), depth + 1))
        else:
            texts = (part.get_text(identifier) for identifier in (names.LONG_FILENAME, names.FILENAME, names.NAME))
            title = next((clean_line(text) for text in texts if text.strip()), "attachment")
            message.attachments.append(title[:_MAX_NAME_CHARACTERS])
    return messages
