"""Text of a paragraph from its runs: raised and lowered text, links, alternative texts, equations and ruby."""

from enum import Enum

from app.ingestion.parsers.toolkit.links import format_link
from app.ingestion.parsers.toolkit.superscripts import format_note_mark, format_subscript, format_superscript

_BEFORE_CHARACTERS = 8


class Position(Enum):
    """Position of a run relative to the base line."""

    NORMAL = "normal"
    RAISED = "raised"
    LOWERED = "lowered"


class RunText:
    """Collector of the text of a paragraph.

    Runs that follow each other in one position are one superscript or subscript. The time is linear in the text.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._tail = ""
        self._position = Position.NORMAL
        self._pending: list[str] = []
        self._links: list[tuple[int, str]] = []
        self._ruby: list[str] = []
        self._needs_gap = False

    @property
    def is_empty(self) -> bool:
        """Whether no text was added."""
        return not self._parts and not self._pending

    def add(self, text: str, position: Position = Position.NORMAL) -> None:
        """Add the text of a run.

        Args:
            text: Text of the run.
            position: Position of the run.
        """
        if not text:
            return
        if self._ruby:
            self._end_ruby()
        if position is not self._position:
            self._end_position()
            self._position = position
        if position is Position.NORMAL:
            self._append(text)
        else:
            self._pending.append(text)

    def add_apart(self, text: str) -> None:
        """Add a text that never touches a neighboring letter or digit, such as an equation or an alternative text."""
        self._end_ruby()
        self._end_position()
        if text:
            self._append(f" {text}" if self._tail[-1:].isalnum() and text[0].isalnum() else text)
            self._needs_gap = True

    def add_note_mark(self, text: str) -> None:
        """Add the mark of a note. It never reads as an exponent."""
        self._end_ruby()
        self._end_position()
        self._append(format_note_mark(text, before=self._tail))

    def end_number(self) -> None:
        """Keep the next text apart from a number before it, because the mark of a note is between them."""
        self._end_ruby()
        self._end_position()
        self._needs_gap = self._needs_gap or self._tail[-1:].isdigit()

    def add_ruby(self, text: str, annotation: str) -> None:
        """Add a text with its ruby annotation. Annotations of texts that follow each other stand behind the last one.

        Args:
            text: The base text.
            annotation: The annotation; an empty one is left out.
        """
        self._end_position()
        self._append(text)
        self._ruby.append(annotation)

    def open_link(self, address: str) -> None:
        """Begin a link. Its text is added until ``close_link``."""
        self._end_ruby()
        self._end_position()
        self._links.append((len(self._parts), address))

    def close_link(self) -> None:
        """End the innermost link. A call without an open link changes nothing."""
        if not self._links:
            return
        self._end_ruby()
        self._end_position()
        start, address = self._links.pop()
        if not self._links:
            label = "".join(self._parts[start:])
            self._parts[start:] = [format_link(label, address)] if "\n" not in label.strip() else [label]

    def close_links(self) -> None:
        """End all open links, at the end of a paragraph."""
        while self._links:
            self.close_link()

    def finish(self) -> str:
        """Close all links, and return the text."""
        self.close_links()
        self._end_ruby()
        self._end_position()
        return "".join(self._parts)

    def _append(self, text: str) -> None:
        if self._needs_gap and text:
            self._needs_gap = False
            if text[0].isalnum() and self._tail[-1:].isalnum():
                text = f" {text}"
        self._parts.append(text)
        self._tail = (self._tail + text[-_BEFORE_CHARACTERS:])[-_BEFORE_CHARACTERS:]

    def _end_position(self) -> None:
        if not self._pending:
            return
        text, before = "".join(self._pending), self._tail
        if before[-1:].isspace():
            before = ""  # A raised word after a space is no exponent.
        self._pending.clear()
        formatter = format_superscript if self._position is Position.RAISED else format_subscript
        self._append(formatter(text, before=before))

    def _end_ruby(self) -> None:
        if self._ruby:
            annotation = "".join(self._ruby).strip()
            self._ruby.clear()
            if annotation:
                self._append(f"({annotation})")
