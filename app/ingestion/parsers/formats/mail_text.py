"""Text parts of mails: flowed lines, PGP blocks, calendar entries and fields of delivery reports."""

import re
from collections.abc import Iterable, Iterator

from app.ingestion.parsers.toolkit.text_cleanup import clean_line

MAX_EVENTS = 200
_PGP_START = re.compile(
    r"^-----BEGIN PGP (MESSAGE|SIGNATURE|PUBLIC KEY BLOCK|SIGNED MESSAGE)-----[^\n]*$", re.MULTILINE
)
_QUOTES = re.compile(r"^>+")
_FOLD = re.compile(r"\r?\n[ \t]")
_EVENT_FIELDS = {
    "SUMMARY": "Event", "DTSTART": "Start", "DTEND": "End", "LOCATION": "Location", "ORGANIZER": "Organizer",
    "DESCRIPTION": "Description",
}  # fmt: skip
_MOMENT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?")
_COMMON_NAME = re.compile(r"CN=\"?([^\";:]{1,200})", re.IGNORECASE)
_STUB = re.compile(
    r"(?:not support|cannot (?:display|show|read)|can(?:no|')t (?:display|view)|unable to (?:display|view)|"
    r"view (?:it|this|online|in)|read online|online version|web version|kein(?:e)? html|unterstützt kein|"
    r"im browser (?:ansehen|anzeigen|öffnen)|online ansehen|version en ligne|ver(?:la)? en (?:el|tu) navegador)",
    re.IGNORECASE,
)
STUB_SHARE, SHORT_SHARE = 0.8, 0.5
"""Share of the words of the HTML below which a plain part is a stub: if it says so, and in any other case."""

MIN_MISSING_WORDS = 8


def is_stub(plain: str, html_words: int) -> bool:
    """Return whether the plain part of a mail is only a substitute for the HTML part, which says much more.

    Args:
        plain: Text of the plain part.
        html_words: Number of words of the HTML part.
    """
    words = len(plain.split())
    if html_words - words < MIN_MISSING_WORDS:
        return False
    return words < (STUB_SHARE if _STUB.search(plain[:2000]) else SHORT_SHARE) * html_words


def join_flowed_lines(text: str, *, deletes_space: bool) -> str:
    """Join the lines of a text in the format flowed (RFC 3676): a space at the end of a line continues the paragraph.

    Args:
        text: The text with ``\\n`` as line break.
        deletes_space: Whether the space at the end of a joined line is deleted, as the parameter DelSp says.
    """
    lines: list[str] = []
    pieces: list[str] = []
    depth = -1
    for line in text.split("\n"):
        quotes = _QUOTES.match(line)
        own_depth = len(quotes[0]) if quotes else 0
        content = line[own_depth:].removeprefix(" ")
        if pieces and own_depth != depth:
            lines.append(_close_paragraph(pieces, depth))
            pieces = []
        depth = own_depth
        is_flowed = content.endswith(" ") and content != "-- "
        pieces.append(content[:-1] if is_flowed and deletes_space else content)
        if not is_flowed:
            lines.append(_close_paragraph(pieces, depth))
            pieces = []
    if pieces:
        lines.append(_close_paragraph(pieces, depth))
    return "\n".join(lines)


def _close_paragraph(pieces: list[str], depth: int) -> str:
    return f"{'>' * depth}{' ' * bool(depth)}{''.join(pieces)}"


def remove_pgp_blocks(text: str) -> tuple[str, int]:
    """Return a text without PGP signatures, keys and encrypted messages, and the number of encrypted messages."""
    if "-----BEGIN PGP " not in text:
        return text, 0
    shown, encrypted, position = [], 0, 0
    for match in _PGP_START.finditer(text):
        if match.start() < position:
            continue
        shown.append(text[position : match.start()])
        if match[1] == "SIGNED MESSAGE":
            end = text.find("\n\n", match.end())
            position = end if end >= 0 else match.end()
            continue
        mark = f"-----END PGP {match[1]}-----"
        end = text.find(mark, match.end())
        position = end + len(mark) if end >= 0 else len(text)
        encrypted += match[1] == "MESSAGE"
    return "".join([*shown, text[position:]]), encrypted


def iter_events(calendar: str) -> Iterator[str]:
    """Yield the entries of a calendar part (RFC 5545) as lines of ``name: value``."""
    lines: list[str] | None = None
    count = 0
    for line in _FOLD.sub("", calendar).splitlines():
        head, _, value = line.partition(":")
        name, _, parameters = head.partition(";")
        name = name.strip().upper()
        if name == "BEGIN" and value.strip().upper() in ("VEVENT", "VTODO"):
            lines = []
        elif name == "END" and lines:
            yield "\n".join(lines)
            lines, count = None, count + 1
            if count >= MAX_EVENTS:
                return
        elif lines is not None and name in _EVENT_FIELDS and value.strip():
            lines.append(f"{_EVENT_FIELDS[name]}: {_format_field(name, parameters, value)}")


def _format_field(name: str, parameters: str, value: str) -> str:
    if name in ("DTSTART", "DTEND"):
        return _format_moment(value.strip())
    if name == "ORGANIZER":
        label = _COMMON_NAME.search(parameters)
        return clean_line(label[1] if label else value.partition(":")[2] or value)
    return clean_line(value.replace("\\n", " ").replace("\\N", " ").replace("\\,", ",").replace("\\;", ";"))


def _format_moment(value: str) -> str:
    match = _MOMENT.fullmatch(value)
    if match is None:
        return clean_line(value)
    day = f"{match[1]}-{match[2]}-{match[3]}"
    return f"{day} {match[4]}:{match[5]}{' UTC' if match[7] else ''}" if match[4] else day


def format_report_fields(fields: Iterable[tuple[str, str]]) -> str:
    """Return the fields of a delivery report as lines; the reporting program and identifiers are left out."""
    shown = ("final-recipient", "original-recipient", "action", "status", "diagnostic-code", "disposition", "subject")
    return "\n".join(f"{name}: {clean_line(value)}" for name, value in fields if name.lower() in shown)
