"""Detection of text formats: XML and HTML by their first bytes, other formats by filename, declared type or content."""

import re
from pathlib import PurePath

from app.documents.upload.text_formats import (
    HTML,
    JSON,
    MAIL,
    MEDIA_TYPE_BY_DECLARED_TYPE,
    MEDIA_TYPE_BY_EXTENSION,
    PLAIN,
    XML,
)

_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_MARKUP_SCAN_BYTES = 1024
_COMMENTS = re.compile(rb"\A(\s*+<!--.*?-->)+\s*+", re.DOTALL)
# The XML declaration, processing instructions and comments before the root element.
_PROLOG = re.compile(rb"\A(?:\s*+(?:<!--.*?-->|<\?.*?\?>))+\s*+", re.DOTALL)
_HTML_START = re.compile(rb"<!doctype\s+html|<html[\s>]|<(head|body|title|meta)[\s>]", re.IGNORECASE)
_XHTML = re.compile(rb"<!doctype\s+html|<html[\s>]", re.IGNORECASE)
_XML_ROOT = re.compile(rb"<!DOCTYPE\s+[A-Za-z_]|<[A-Za-z_][\w.:-]*+\s[^<>]*\bxmlns[:=]|<(rss|svg|feed|plist)[\s>]")
_JSON_START = re.compile(rb"[\[{]\s*+[\[{\"\d\]}tfn-]")
_JSON_TOKENS = re.compile(
    rb"(?:\s++|[\[\]{},:]|\"(?:[^\"\\\n]|\\.)*+\"|-?\d[\d.eE+-]*+|true\b|false\b|null\b)++", re.DOTALL
)
_CUT_OFF_TOKEN = re.compile(rb"\"[^\n]*+|[a-z]{0,5}|-")
_HEADER_LINES = re.compile(rb"(?:From .*\r?\n)?((?:[!-9;-~]+:.*(?:\r?\n[ \t].*)*(?:\r?\n|\Z))+)")
_HEADER_NAME = re.compile(rb"^([!-9;-~]+):", re.MULTILINE)
# Headers that memos have too. A mail with no other header has an address.
_MEMO_HEADERS = frozenset({b"from", b"to", b"date", b"subject"})
_MAIL_HEADERS = frozenset(
    {b"from", b"to", b"date", b"subject", b"received", b"return-path", b"message-id", b"mime-version", b"delivered-to"}
)


def sniff_text_type(head: bytes, *, filename: str, declared: str | None, is_complete: bool) -> str:
    """Return the media type of a text file.

    XML and HTML are recognized by their first bytes, even in a file named ``.txt``. Otherwise the extension decides,
    then the declared type, then the content.

    Args:
        head: The first bytes of the file.
        filename: The name of the upload.
        declared: The media type that the client declared, or None.
        is_complete: Whether ``head`` is the whole file.

    Returns:
        The media type, ``text/plain`` if no other format matches.
    """
    start = _decode_wide(head).replace(b"\0", b"")
    for mark in _BYTE_ORDER_MARKS:
        start = start.removeprefix(mark)
    start = start.lstrip()
    named_type = _find_named_type(filename, declared)
    if named_type not in (PLAIN, HTML, XML, None):
        return named_type
    if start.startswith(b"<?xml") and not (named_type == PLAIN and is_complete and not start.rstrip().endswith(b">")):
        is_xhtml = _XHTML.match(_PROLOG.sub(b"", start[:_MARKUP_SCAN_BYTES]))
        return HTML if is_xhtml or named_type == HTML else XML
    if named_type not in (PLAIN, None):
        return named_type
    if _HTML_START.match(_COMMENTS.sub(b"", start[:_MARKUP_SCAN_BYTES])):
        return HTML
    return PLAIN if named_type == PLAIN else _sniff_unnamed_text(start, is_complete=is_complete)


def _decode_wide(head: bytes) -> bytes:
    """Return text in UTF-16 or UTF-32 as UTF-8. Any other text stays as it is."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-32" if head.startswith(b"\xff\xfe\0\0") else "utf-16"
        return head[: len(head) & ~3].decode(encoding, "replace").encode("utf-8", "replace")
    return head


def _find_named_type(filename: str, declared: str | None) -> str | None:
    extension = PurePath(filename).suffix.lower().removeprefix(".")
    return MEDIA_TYPE_BY_EXTENSION.get(extension) or MEDIA_TYPE_BY_DECLARED_TYPE.get(
        (declared or "").partition(";")[0].strip().lower()
    )


def _sniff_unnamed_text(start: bytes, *, is_complete: bool) -> str:
    if _XML_ROOT.match(_COMMENTS.sub(b"", start)):
        return XML
    if _JSON_START.match(start) and _is_json(start, is_complete=is_complete):
        return JSON
    return MAIL if _is_mail(start) else PLAIN


def _is_json(start: bytes, *, is_complete: bool) -> bool:
    """Return whether the text consists of JSON tokens; prose that starts with a footnote like ``[1]`` does not."""
    tokens = _JSON_TOKENS.match(start)
    remainder = start[tokens.end() :] if tokens else start
    return not remainder if is_complete else _CUT_OFF_TOKEN.fullmatch(remainder) is not None


def _is_mail(start: bytes) -> bool:
    """Return whether the text starts with mail headers up to an empty line, of which at least two are common."""
    lines = _HEADER_LINES.match(start)
    if lines is None or not start[lines.end() :].startswith((b"\n", b"\r\n")):
        return False
    names = _MAIL_HEADERS.intersection(name.lower() for name in _HEADER_NAME.findall(lines[1]))
    return len(names) >= 2 and (b"@" in lines[1] or not names <= _MEMO_HEADERS)
