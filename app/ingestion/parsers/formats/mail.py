"""Parser of mail (RFC 5322, MIME): headers, text and attached messages. Other attachments are named in a warning."""

import base64
import binascii
import quopri
import re
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from email.policy import EmailPolicy
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.html.html_parser import add_fragment
from app.ingestion.parsers.formats.html.page_state import MarkupReport, list_markup_warnings, merge_reports
from app.ingestion.parsers.formats.mail_headers import decode_encoded_words
from app.ingestion.parsers.formats.mail_text import (
    format_report_fields,
    is_stub,
    iter_events,
    join_flowed_lines,
    remove_pgp_blocks,
)
from app.ingestion.parsers.toolkit.attachment_warnings import list_attachment_warnings
from app.ingestion.parsers.toolkit.base64_blobs import remove_base64_blobs
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.character_decoding import DecodedText, decode_text
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import BlockKind, CorruptFile, EncryptedFile, ParsedDocument, TextTooLong
from app.warnings import ServiceWarning, WarningCode

MAX_LINES = 3_000_000
MAX_HEADER_CHARACTERS = 2000
HEAD_BYTES = 4096
MAX_PARTS = 2000
MAX_DEPTH = 5
"""Maximum depth of messages in messages. Deeper messages count as attachments."""

_SHOWN_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_EXPECTED_HEADERS = (*_SHOWN_HEADERS, "Received", "Return-Path", "Message-ID", "MIME-Version", "Content-Type")
_PARAGRAPH_BREAK = re.compile(r"\n[^\S\n]*+\n\s*+")
_LINE_BREAKS = re.compile(r"[\r\n]+")
_TEXT_TYPES = ("text/plain", "text/html")
_READ_TYPES = (*_TEXT_TYPES, "text/calendar", "text/markdown", "text/rfc822-headers")
_MESSAGE_TYPES = ("message/rfc822", "message/global")
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
        value = decode_encoded_words(value)
        if name.title() != "Date":
            return value
        try:
            return str(self.header_factory(name, value)) or value
        except _HEADER_ERRORS:
            return value


@dataclass(slots=True)
class _MailContent:
    """Blocks, attachments and warnings that the parts of a mail have added so far.

    Attributes:
        is_recoded: Whether the mail was stored in UTF-16 or UTF-32, so that its text without a transfer encoding is
            UTF-8 whatever its parts declare.
        encrypted: Number of encrypted parts.
        reports: Reports about the HTML parts.
    """

    blocks: BlockList
    options: ParseOptions
    is_recoded: bool = False
    encrypted: int = 0
    reports: list[MarkupReport] = field(default_factory=list)
    attachments: list[str] = field(default_factory=list)
    warnings: list[ServiceWarning] = field(default_factory=list)


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse a mail. If it has its text both as plain text and as HTML, the plain text is read unless it is a stub.

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
    data, is_recoded = _convert_to_utf8(path.read_bytes())
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
    mail = _MailContent(BlockList(options), options, is_recoded)
    _read_message(message, mail)
    report = merge_reports(mail.reports)
    warnings = [
        *dict.fromkeys(mail.warnings),
        *list_markup_warnings(report),
        *_list_encryption_warnings(mail.encrypted),
        *list_attachment_warnings(mail.attachments),
    ]
    title = clean_line(message.get("Subject", "")) or None
    return ParsedDocument(mail.blocks.blocks, title=title, warnings=warnings, words_left_out=report.words_left_out)


def _convert_to_utf8(data: bytes) -> tuple[bytes, bool]:
    """Return a mail without a byte order mark, and whether it was in UTF-16 or UTF-32 and is now in UTF-8."""
    data = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    head = data[:HEAD_BYTES]
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")) or head.count(0) > len(head) // 4:
        return decode_text(data, encoding=None).text.lstrip().encode(), True
    return data, False


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
        inner = _find_attached_message(part, kind) if depth < MAX_DEPTH else None
        if inner is not None:
            heading = clean_line(inner.get("Subject", "")) or "Attached message"
            mail.blocks.add(BlockKind.HEADING, heading, level=depth + 1)
            _add_headers(inner, mail)
            waiting.append((inner, depth + 1))
        elif kind == "message/delivery-status":
            _add_delivery_status(part, mail)
        elif kind in _ENCRYPTED_TYPES and "signed-data" not in part.get("Content-Type", ""):
            mail.encrypted += 1
        elif part.is_multipart() and part.get_content_maintype() == "multipart":
            children = _list_children(part)
            if kind == "multipart/alternative" and children:
                calendars = [child for child in children if child.get_content_type() == "text/calendar"]
                children = list(dict.fromkeys([_choose_alternative(children, mail), *calendars]))
            waiting.extend((child, depth) for child in reversed(children))
        else:
            _read_leaf(part, kind, mail)


def _find_attached_message(part: Message, kind: str) -> Message | None:
    """Return the message in an attachment, whatever its transfer encoding is; None if the attachment is no message."""
    if kind in _MESSAGE_TYPES and part.is_multipart():
        inner = _list_children(part)[0]
        encoding = str(part.get("Content-Transfer-Encoding", "")).strip().lower()
        if encoding not in ("base64", "quoted-printable"):
            return inner
        # The standard library reads the encoded lines as the message.
        try:
            raw = inner.as_bytes()
        except (*_HEADER_ERRORS, KeyError):
            return inner
        data = quopri.decodestring(raw) if encoding == "quoted-printable" else _decode_base64(raw)
        return _parse_attached(data) or inner
    if kind in _MESSAGE_TYPES or _read_filename(part).lower().endswith(".eml"):
        return _parse_attached(_read_content(part))
    return None


def _decode_base64(raw: bytes) -> bytes:
    text = re.sub(rb"[^A-Za-z0-9+/]", b"", raw)
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4))
    except (ValueError, binascii.Error):
        return b""


def _parse_attached(data: bytes) -> Message | None:
    content, _ = _convert_to_utf8(data)
    if not content or content.count(b"\n") > MAX_LINES:
        return None
    try:
        message = BytesParser(policy=_LenientPolicy()).parsebytes(content)
    except RecursionError:
        return None
    return message if any(name in message for name in _EXPECTED_HEADERS) else None


def _add_delivery_status(part: Message, mail: _MailContent) -> None:
    for fields in _list_children(part):
        pairs = [(name, str(value)) for name, value in fields.items()]
        mail.blocks.add(BlockKind.PARAGRAPH, format_report_fields(pairs))


def _add_headers(message: Message, mail: _MailContent) -> None:
    values = {name: clean_line(message.get(name, "")) for name in _SHOWN_HEADERS}
    mail.blocks.add(BlockKind.PARAGRAPH, "\n".join(f"{name}: {value}" for name, value in values.items() if value))


def _list_children(part: Message) -> list[Message]:
    payload = part.get_payload()
    return [child for child in payload if isinstance(child, Message)] if isinstance(payload, list) else []


def _choose_alternative(children: list[Message], mail: _MailContent) -> Message:
    """Return the alternative with plain text, or the one with HTML if the plain text is empty or a stub.

    Without both, return the last alternative, which is the richest one.
    """
    plain, html = (_find_alternative(children, kind) for kind in _TEXT_TYPES)
    if plain is not None and html is not None:
        child, leaf = plain
        is_worse = is_stub(_decode_leaf(leaf, mail).text, _count_html_words(_decode_leaf(html[1], mail).text, mail))
        return html[0] if is_worse else child
    chosen = plain or html
    return chosen[0] if chosen else children[-1]


def _find_alternative(children: list[Message], kind: str) -> tuple[Message, Message] | None:
    """Return the first child that contains a part of a type with text, and this part."""
    for child in children:
        for leaf in child.walk():
            if leaf.get_content_type() == kind and _read_content(leaf).strip():
                return child, leaf
    return None


def _count_html_words(markup: str, mail: _MailContent) -> int:
    blocks = BlockList(mail.options)
    try:
        add_fragment(markup, blocks)
    except TextTooLong:
        return 0
    return sum(len(block.text.split()) for block in blocks.blocks)


def _read_content(leaf: Message) -> bytes:
    payload = None if leaf.is_multipart() else leaf.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _decode_leaf(leaf: Message, mail: _MailContent) -> DecodedText:
    charset = leaf.get_content_charset()
    transfer = str(leaf.get("Content-Transfer-Encoding", "")).strip().lower()
    if mail.is_recoded and transfer not in ("base64", "quoted-printable"):
        charset = "utf-8"
    encoding = None if charset else mail.options.encoding
    return decode_text(_read_content(leaf), encoding=encoding, declared_encoding=charset)


def _read_leaf(leaf: Message, kind: str, mail: _MailContent) -> None:
    # A multipart without its boundary is read as text, as mail programs show it.
    is_text = kind in _READ_TYPES or (leaf.get_content_maintype() == "multipart" and not leaf.is_multipart())
    if not is_text or (leaf.get_content_disposition() == "attachment" and kind != "text/calendar"):
        if kind not in _SIGNATURE_TYPES:
            mail.attachments.append(_read_filename(leaf) or kind)
        return
    decoded = _decode_leaf(leaf, mail)
    mail.warnings.extend(decoded.warnings)
    if kind == "text/html":
        mail.reports.append(add_fragment(decoded.text, mail.blocks))
        return
    text = decoded.text.replace("\r\n", "\n").replace("\r", "\n")
    if kind == "text/calendar":
        for event in iter_events(text):
            mail.blocks.add(BlockKind.PARAGRAPH, event)
        return
    if str(leaf.get_param("format", "")).lower() == "flowed":
        text = join_flowed_lines(text, deletes_space=str(leaf.get_param("delsp", "")).lower() == "yes")
    text, encrypted = remove_pgp_blocks(text)
    mail.encrypted += encrypted
    without_blobs = remove_base64_blobs(text)
    mail.warnings.extend(without_blobs.list_warnings())
    for paragraph in _PARAGRAPH_BREAK.split(without_blobs.text):
        mail.blocks.add(BlockKind.PARAGRAPH, paragraph)


def _read_filename(leaf: Message) -> str:
    """Return the name of an attachment. Many programs encode it as a header, which the standard does not allow."""
    try:
        name = decode_encoded_words(leaf.get_filename(""))
    except _HEADER_ERRORS:
        name = ""
    return clean_line(name)[:100]


def _list_encryption_warnings(count: int) -> list[ServiceWarning]:
    if not count:
        return []
    message = "1 encrypted part was not read." if count == 1 else f"{count} encrypted parts were not read."
    return [ServiceWarning(WarningCode.ENCRYPTED_PARTS_NOT_READ, message, count)]
