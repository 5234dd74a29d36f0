"""Inline markup of reStructuredText: roles, links, marks of notes, substitutions and emphasis."""

import re

from app.ingestion.parsers.formats.rst.definitions import RstDefinitions, normalize_name
from app.ingestion.parsers.toolkit.links import format_link
from app.ingestion.parsers.toolkit.superscripts import format_subscript, format_superscript

_MATH = re.compile(r"(:math:`[^`]{1,2000}`)")
_RAISED = re.compile(r"(?:\\ )?:(sup|superscript|sub|subscript):`([^`]{1,500})`(?:\\ )?")
_NOTE_MARK = re.compile(r"(?:(?<!\w)|\\ )\[(#[\w.-]{0,80}|\d{1,6}|\*|[A-Za-z][\w.-]{0,80})\]_(?!\w)")
_SUBSTITUTION = re.compile(r"\|([^|\s][^|\n]{0,98}?)\|_{0,2}(?!\w)")
_EMBEDDED_LINK = re.compile(r"(?<![\w`:])`([^`<]{1,500}?)\s*<([^`<>]{1,1000})>`__?(?!\w)")
_NAMED_LINK = re.compile(r"(?<![\w`:])`([^`]{1,500})`(__?)(?!\w)")
_SIMPLE_LINK = re.compile(r"(?<![\w`/:.@-])([A-Za-z0-9](?:[\w.-]{0,100}?[A-Za-z0-9])?)(__?)(?![\w_])")
_MARKUP = (
    (re.compile(r"(?<![\w`])`([^`]{1,500})`:[a-zA-Z][\w:+.-]{0,40}:(?!\w)"), r"\1"),
    (re.compile(r"(?<![\w`]):[a-zA-Z][\w:+.-]{0,40}:`[~!]?([^`<]{1,500}?)(?:\s*<[^`<>]{1,500}>)?`"), r"\1"),
    (re.compile(r"(?<![\w`])_`([^`]{1,500})`"), r"\1"),
    (re.compile(r"(?<![\w`])`([^`]{1,500})`(?:__?)?"), r"\1"),
    (re.compile(r"(?<![\w*\\])\*\*(?=\S)([^*\n]{1,500})(?<=\S)\*\*(?![\w*])"), r"\1"),
    (re.compile(r"(?<![\w*\\])\*(?=\S)([^*\n]{1,500})(?<=\S)\*(?![\w*])"), r"\1"),
    (re.compile(r"\\([*`|_\\])"), r"\1"),
    (re.compile(r"\\ "), ""),
)


class InlineMarkup:
    """Reader of inline markup. It counts the links and notes without a name, which refer to definitions in order."""

    def __init__(self, definitions: RstDefinitions) -> None:
        self._definitions = definitions
        self._anonymous = 0
        self._notes = self._note_marks = 0

    def strip(self, text: str, *, is_heading: bool = False) -> str:
        """Return a text without inline markup. Text in double backquotes and formulas do not change.

        Args:
            text: Text of a block.
            is_heading: Whether links are only their labels.
        """
        parts = text.split("``")
        if len(parts) % 2 == 0:  # the last double backquote is not closed
            parts[-2:] = ["``".join(parts[-2:])]
        for index in range(0, len(parts), 2):
            pieces = _MATH.split(parts[index])
            pieces[1::2] = [piece.removeprefix(":math:")[1:-1] for piece in pieces[1::2]]
            pieces[::2] = [self._strip_piece(piece, is_heading=is_heading) for piece in pieces[::2]]
            parts[index] = "".join(pieces)
        return "".join(parts)

    def number_note(self, label: str) -> str:
        """Return the label that the next note shows. Its number replaces a label that begins with ``#``."""
        self._notes += label == "#"
        return self._format_label(label, self._notes)

    def _replace_note_mark(self, match: re.Match[str]) -> str:
        self._note_marks += match[1] == "#"
        space = " " if match[0].startswith("\\") else ""
        return f"{space}[{self._format_label(match[1], self._note_marks)}]"

    def _format_label(self, label: str, position: int) -> str:
        numbers = self._definitions.automatic_numbers
        if label == "#" and position <= len(numbers):
            return str(numbers[position - 1])
        return str(self._definitions.note_numbers.get(label, label))

    def _strip_piece(self, text: str, *, is_heading: bool) -> str:
        if "|" in text:
            text = _SUBSTITUTION.sub(self._replace_substitution, text)
        if ":su" in text:
            text = _RAISED.sub(_replace_raised, text)
        if "]_" in text:
            text = _NOTE_MARK.sub(self._replace_note_mark, text)
        if "_" in text:
            text = self._replace_links(text, is_heading=is_heading)
        for pattern, replacement in _MARKUP:
            text = pattern.sub(replacement, text)
        return text

    def _replace_substitution(self, match: re.Match[str]) -> str:
        return self._definitions.substitutions.get(match[1], match[0])

    def _replace_links(self, text: str, *, is_heading: bool) -> str:
        if is_heading:
            return _EMBEDDED_LINK.sub(r"\1", text)
        text = _EMBEDDED_LINK.sub(self._replace_embedded_link, text)
        text = _NAMED_LINK.sub(lambda match: format_link(match[1], self._find_address(match[1], match[2])), text)
        return _SIMPLE_LINK.sub(self._replace_simple_link, text) if self._definitions.targets else text

    def _replace_embedded_link(self, match: re.Match[str]) -> str:
        address = match[2].strip()
        if address.endswith("_") and not address.endswith("\\_"):
            address = self._definitions.targets.get(normalize_name(address[:-1]), "")
        return format_link(match[1], address)

    def _replace_simple_link(self, match: re.Match[str]) -> str:
        address = self._definitions.targets.get(normalize_name(match[1])) if match[2] == "_" else None
        return match[0] if address is None else format_link(match[1], address)

    def _find_address(self, label: str, suffix: str) -> str:
        if suffix == "_":
            address = self._definitions.targets.get(normalize_name(label), "")
            if address.endswith("_"):
                address = self._definitions.targets.get(normalize_name(address[:-1]), "")
            return address
        self._anonymous += 1
        anonymous = self._definitions.anonymous
        return anonymous[self._anonymous - 1] if self._anonymous <= len(anonymous) else ""


def _replace_raised(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - 3) : match.start()]
    formatter = format_superscript if match[1].startswith("sup") else format_subscript
    return formatter(match[2], before=before)
