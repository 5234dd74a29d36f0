"""What kind of text a file is: XML and HTML by how they begin, the rest by name, and without one by a close look."""

import re
from pathlib import PurePath

from app.documents.text_types import BY_DECLARED_TYPE, BY_EXTENSION, HTML, JSON, MAIL, PLAIN, XML

_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_NEAR = 1024
_COMMENTS = re.compile(rb"\A(\s*+<!--.*?-->)+\s*+", re.DOTALL)
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
_MAIL_HEADERS = frozenset(
    {b"from", b"to", b"date", b"subject", b"received", b"return-path", b"message-id", b"mime-version", b"delivered-to"}
)


def kind_of_text(head: bytes, *, filename: str, declared: str | None, whole: bool) -> str:
    """The media type of a text that begins with ``head``; ``whole`` where that is all of it.

    The extension decides, then the declared type; but a page is a page and XML is XML, whatever a text file's name is.
    """
    start = head.replace(b"\0", b"")
    for mark in _MARKS:
        start = start.removeprefix(mark)
    start = start.lstrip()
    named = _named(filename, declared)
    if start.startswith(b"<?xml"):
        return HTML if _XHTML.search(start[:_NEAR]) else XML
    if named not in (PLAIN, None):
        return named
    if _HTML_START.match(_COMMENTS.sub(b"", start[:_NEAR])):
        return HTML
    return PLAIN if named == PLAIN else _unnamed(start, whole=whole)


def _named(filename: str, declared: str | None) -> str | None:
    extension = PurePath(filename).suffix.lower().removeprefix(".")
    return BY_EXTENSION.get(extension) or BY_DECLARED_TYPE.get((declared or "").partition(";")[0].strip().lower())


def _unnamed(start: bytes, *, whole: bool) -> str:
    if _XML_ROOT.match(_COMMENTS.sub(b"", start)):
        return XML
    if _JSON_START.match(start) and _is_json(start, whole=whole):
        return JSON
    return MAIL if _is_mail(start) else PLAIN


def _is_json(start: bytes, *, whole: bool) -> bool:
    """Nothing but JSON's own signs and words, as far as one sees: a footnote's ``[1]`` goes on with prose."""
    tokens = _JSON_TOKENS.match(start)
    rest = start[tokens.end() :] if tokens else start
    return not rest if whole else _CUT_OFF_TOKEN.fullmatch(rest) is not None


def _is_mail(start: bytes) -> bool:
    """Header lines alone up to the first empty line, at least two of them such as every mail has."""
    lines = _HEADER_LINES.match(start)
    if lines is None or not start[lines.end() :].startswith((b"\n", b"\r\n")):
        return False
    return len(_MAIL_HEADERS.intersection(name.lower() for name in _HEADER_NAME.findall(lines[1]))) >= 2
