"""Parser of mail (RFC 5322, MIME): headers and text. Attachments are named in a warning, not read."""

import re
from dataclasses import dataclass, field
from email.header import decode_header, make_header
from email.message import Message
from email.parser import BytesParser
from email.policy import EmailPolicy
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.html import add_fragment
from app.ingestion.parsers.toolkit.attachment_warnings import list_attachment_warnings
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.character_decoding import decode_text
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import BlockKind, CorruptFile, EncryptedFile, ParsedDocument, TextTooLong
from app.warnings import ServiceWarning

MAX_LINES = 3_000_000
MAX_HEADER_CHARACTERS = 2000
MAX_PARTS = 2000
MAX_DEPTH = 5
"""Maximum depth of messages in messages. Deeper messages count as attachments."""

_SHOWN_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_EXPECTED_HEADERS = (*_SHOWN_HEADERS, "Received", "Return-Path", "Message-ID", "MIME-Version", "Content-Type")
_PARAGRAPH_BREAK = re.compile(r"\n[^\S\n]*+\n\s*+")
_LINE_BREAKS = re.compile(r"[\r\n]+")
_TEXT_TYPES = ("text/plain", "text/html")
_SIGNATURE_TYPES = frozenset(
    {"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"}
)
_ENCRYPTED_TYPES = frozenset({"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"})
_HEADER_ERRORS = (ValueError, LookupError, AttributeError, TypeError, AssertionError, RecursionError)
"""Exceptions that the standard library raises for invalid headers."""


class _LenientPolicy(EmailPolicy):
    """Mail policy that parses only the headers that the text shows, and keeps an invalid header as it is written.

    Parsing a header is slow, and takes quadratic time for hostile headers.
    """

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name, value[:MAX_HEADER_CHARACTERS]

    def header_fetch_parse(self, name: str, value: str) -> str:
        # The standard library passes bytes beyond ASCII as surrogates. They are invalid in headers, but often UTF-8.
        raw = _LINE_BREAKS.sub("", value).encode("ascii", "surrogateescape")
        value = decode_text(raw, encoding=None).text
        if name.title() not in _SHOWN_HEADERS:
            return value
        try:
            return str(self.header_factory(name, value)) or value
        except _HEADER_ERRORS:
            return value


@dataclass(slots=True)
class _MailContent:
    """Blocks, attachments and warnings that the parts of a mail have added so far."""

    blocks: BlockList
    encoding: str | None
    attachments: list[str] = field(default_factory=list)
    warnings: list[ServiceWarning] = field(default_factory=list)


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse a mail. If it has its text both as plain text and as HTML, the plain text is read.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The blocks of all messages in the mail, with the subject as the title.

    Raises:
        CorruptFile: The file is not a mail, or its parts are nested too deeply.
        EncryptedFile: The mail is encrypted.
        TextTooLong: The mail has more lines, parts or characters than the limits allow.
    """
    data = path.read_bytes().lstrip()
    if not data:
        return ParsedDocument([])
    if data.count(b"\n") > MAX_LINES:
        raise TextTooLong(f"The mail has more than {MAX_LINES:,} lines; shorten it.", limit=MAX_LINES)
    try:
        message = BytesParser(policy=_LenientPolicy()).parsebytes(data)
    except RecursionError as exc:
        raise CorruptFile("The parts of this mail are nested too deeply.") from exc
    if not any(name in message for name in _EXPECTED_HEADERS):
        raise CorruptFile("The file is not a mail: it has none of the usual headers.")
    if message.get_content_type() in _ENCRYPTED_TYPES and "signed-data" not in message.get("Content-Type", ""):
        raise EncryptedFile("The mail is encrypted; upload a decrypted copy.")
    mail = _MailContent(BlockList(options), options.encoding)
    _read_message(message, mail)
    warnings = [*dict.fromkeys(mail.warnings), *list_attachment_warnings(mail.attachments)]
    return ParsedDocument(mail.blocks.blocks, title=clean_line(message.get("Subject", "")) or None, warnings=warnings)


def _read_message(root: Message, mail: _MailContent) -> None:
    _add_headers(root, mail)
    parts = 0
    waiting = [(root, 0)]
    while waiting:
        part, depth = waiting.pop()
        parts += 1
        if parts > MAX_PARTS:
            raise TextTooLong(f"The mail has more than {MAX_PARTS:,} parts; split it.", limit=MAX_PARTS)
        kind = part.get_content_type()
        if kind == "message/rfc822" and part.is_multipart() and depth < MAX_DEPTH:
            inner = _list_children(part)[0]
            heading = clean_line(inner.get("Subject", "")) or "Attached message"
            mail.blocks.add(BlockKind.HEADING, heading, level=depth + 1)
            _add_headers(inner, mail)
            waiting.append((inner, depth + 1))
        elif part.is_multipart() and part.get_content_maintype() == "multipart":
            children = [_choose_alternative(part)] if kind == "multipart/alternative" else _list_children(part)
            waiting.extend((child, depth) for child in reversed(children))
        else:
            _read_leaf(part, kind, mail)


def _add_headers(message: Message, mail: _MailContent) -> None:
    values = {name: clean_line(message.get(name, "")) for name in _SHOWN_HEADERS}
    mail.blocks.add(BlockKind.PARAGRAPH, "\n".join(f"{name}: {value}" for name, value in values.items() if value))


def _list_children(part: Message) -> list[Message]:
    payload = part.get_payload()
    return [child for child in payload if isinstance(child, Message)] if isinstance(payload, list) else []


def _choose_alternative(alternative: Message) -> Message:
    """Return the alternative with plain text, else the alternative with HTML, else the last (richest) alternative."""
    children = _list_children(alternative)
    for kind in _TEXT_TYPES:
        for child in children:
            if any(leaf.get_content_type() == kind and _read_content(leaf).strip() for leaf in child.walk()):
                return child
    return children[-1]


def _read_content(leaf: Message) -> bytes:
    payload = None if leaf.is_multipart() else leaf.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _read_leaf(leaf: Message, kind: str, mail: _MailContent) -> None:
    # A multipart without its boundary is read as text, as mail programs show it.
    is_text = kind in _TEXT_TYPES or (leaf.get_content_maintype() == "multipart" and not leaf.is_multipart())
    if not is_text or leaf.get_content_disposition() == "attachment":
        if kind not in _SIGNATURE_TYPES:
            mail.attachments.append(_read_filename(leaf) or kind)
        return
    charset = leaf.get_content_charset()
    decoded = decode_text(_read_content(leaf), encoding=None if charset else mail.encoding, declared_encoding=charset)
    mail.warnings.extend(decoded.warnings)
    if kind == "text/html":
        add_fragment(decoded.text, mail.blocks)
        return
    text = decoded.text.replace("\r\n", "\n").replace("\r", "\n")
    for paragraph in _PARAGRAPH_BREAK.split(text):
        mail.blocks.add(BlockKind.PARAGRAPH, paragraph)


def _read_filename(leaf: Message) -> str:
    """Return the name of an attachment. Many programs encode it as a header, which the standard does not allow."""
    try:
        name = leaf.get_filename("")
        name = str(make_header(decode_header(name)))
    except _HEADER_ERRORS:
        name = ""
    return clean_line(name)[:100]
