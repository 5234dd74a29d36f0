"""Writing of the runs of a Word paragraph: formats, fields, breaks, and text that is left out."""

from app.ingestion.parsers.formats.docx.fields import Field, format_form_state, read_link_address
from app.ingestion.parsers.formats.docx.run_formats import RunFormat
from app.ingestion.parsers.toolkit.ooxml import Element
from app.ingestion.parsers.toolkit.run_text import Position, RunText
from app.ingestion.parsers.toolkit.symbol_fonts import replace_symbols
from app.ingestion.parsers.toolkit.unread_content import UnreadContent
from app.warnings import WarningCode

_MIN_OFFSET = 4
"""Minimum distance from the base line, in half points, of raised or lowered text."""

_MAX_OFFSET_CHARACTERS = 12


class RunWriter:
    """Writer of the text of an element.

    The result of a field is text, its code is not. The code of a field that is not closed in its paragraph is text too.

    Args:
        unread: Counter of the content that is not read.

    Attributes:
        format: Format of the current run.
        muted_by: Code of the warning about the current run, if it is left out.
        is_note_mark: Whether the text of the current run is the mark of a note.
        is_note_link: Whether the current link leads to a note, as programs without notes write it.
        is_bold: Whether there is text, and all of it is bold.
        size: Size of the largest text in half points; 0 if it is unknown.
    """

    def __init__(self, unread: UnreadContent) -> None:
        self.format = RunFormat()
        self.muted_by: WarningCode | None = None
        self.is_note_mark = False
        self.is_note_link = False
        self.size = 0
        self._unread = unread
        self._text = RunText()
        self._has_text = False
        self._has_plain_text = False
        self._break = ""
        self._fields: list[Field] = []
        self._open_codes = 0
        self._code_texts: list[str] = []

    @property
    def is_bold(self) -> bool:
        return self._has_text and not self._has_plain_text

    @property
    def is_silent(self) -> bool:
        """Whether the text here is left out: in the code of a field, or in a hidden or struck run."""
        return self._open_codes > 0 or self.muted_by is not None

    def start_run(self, run_format: RunFormat) -> None:
        """Begin a run with its format."""
        self.format = run_format
        self.is_note_mark = run_format.is_note_mark
        if run_format.is_hidden:
            self.muted_by = WarningCode.HIDDEN_TEXT_NOT_READ
        elif run_format.is_struck or run_format.is_doubly_struck:
            self.muted_by = WarningCode.STRUCK_TEXT_NOT_READ

    def add_run_text(self, text: str) -> None:
        """Add text in the format of the run. The words of hidden and struck text are counted."""
        if self.muted_by is not None:
            self._unread.add(self.muted_by, len(text.split()))
            return
        font = self.format.font if text.isascii() else self.format.high_font or self.format.font
        text, unknown_count = replace_symbols(text, font)
        if unknown_count:
            self._unread.add(WarningCode.SYMBOLS_NOT_READ, unknown_count)
        if text and not text.isspace():
            self._has_text = True
            self._has_plain_text = self._has_plain_text or not self.format.is_bold
            self.size = max(self.size, self.format.size)
        self.add_symbol(text)

    def add_symbol(self, text: str) -> None:
        """Add text at the position of the run. A small distance, or a long text, is a matter of layout."""
        position, offset = self.format.position, self.format.offset
        if (
            offset
            and position is Position.NORMAL
            and abs(offset) >= _MIN_OFFSET
            and len(text) <= _MAX_OFFSET_CHARACTERS
        ):
            position = Position.RAISED if offset > 0 else Position.LOWERED
        self.add_text(text, position)

    def add_text(self, text: str, position: Position = Position.NORMAL) -> None:
        """Add text at a position, unless the run is left out."""
        if self.muted_by is not None or not text:
            return
        if self._open_codes:
            self._code_texts.append(text)
            return
        if self._fields and self._fields[-1].form is not None:
            if self._fields[-1].replaces_result:
                return
            self._fields[-1].has_result = self._fields[-1].has_result or bool(text.strip())
        if self._break:
            self._flush_break()
        if self.is_note_mark or self.is_note_link:
            self._text.add_note_mark(text)
        else:
            self._text.add(text, position)

    def add_apart(self, text: str) -> None:
        """Add a text that does not touch its neighbors, such as an equation."""
        if text and not self.is_silent:
            self._flush_break()
            self._text.add_apart(text)
            self._has_text = self._has_plain_text = True

    def end_number(self) -> None:
        """Keep the next text apart from a number before it."""
        if not self.is_silent:
            self._text.end_number()

    def add_ruby(self, text: str, annotation: str) -> None:
        """Add a text with its ruby annotation."""
        if text and not self.is_silent:
            self._flush_break()
            self._text.add_ruby(text, annotation)
            self._has_text = self._has_plain_text = True

    def open_link(self, address: str) -> bool:
        """Begin a link, and return whether it has to be closed."""
        if not address or self._open_codes:
            return False
        self._flush_break()
        self._text.open_link(address)
        return True

    def close_link(self) -> None:
        """End the innermost link."""
        self._text.close_link()

    def set_break(self, text: str) -> None:
        """Set what divides the text so far from the next text. The first of several breaks counts."""
        self._break = self._break or text

    def begin_field(self, form: Element | None) -> None:
        """Begin a field; ``form`` is the data of a form field."""
        self._fields.append(Field(form))
        self._open_codes += 1

    def add_field_code(self, text: str) -> None:
        """Add a part of the code of the innermost field."""
        if self._fields and self._fields[-1].is_code:
            self._fields[-1].code.append(text)

    def start_result(self) -> None:
        """Begin the result of the innermost field."""
        if self._fields and self._fields[-1].is_code:
            opened = self._fields[-1]
            opened.is_code = False
            self._open_codes -= 1
            opened.is_link = self.open_link(read_link_address("".join(opened.code)))

    def end_field(self) -> None:
        """End the innermost field, and add the state of a form field."""
        if not self._fields:
            return
        closed = self._fields.pop()
        if closed.is_code:
            self._open_codes -= 1
        if not self._open_codes:
            self._code_texts.clear()
        if closed.is_link:
            self._text.close_link()
        if closed.form is not None:
            self.add_text(format_form_state(closed.form, has_result=closed.has_result))

    def end_paragraph(self) -> None:
        """Close all fields and links, and keep the code of fields that are still open as text."""
        texts, self._code_texts = self._code_texts, []
        self._fields.clear()
        self._open_codes = 0
        for text in texts:
            self.add_text(text)
        self._text.close_links()

    def finish(self) -> str:
        """Close everything that is open, and return the text."""
        self.end_paragraph()
        return self._text.finish().strip("\n")

    def _flush_break(self) -> None:
        if self._break and not self._text.is_empty:
            self._text.add(self._break)
        self._break = ""
