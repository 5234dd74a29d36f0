"""Reader of the tokens of an RTF file: groups with their states, and text in the code pages of its fonts."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

from app.ingestion.parsers.formats.rtf.destinations import CHARACTERS, READ, SKIPPED
from app.ingestion.parsers.formats.rtf.equations import add_equation_text, open_equation_part
from app.ingestion.parsers.formats.rtf.fields import FieldState
from app.ingestion.parsers.formats.rtf.name_tables import Font, NameTables
from app.ingestion.parsers.formats.rtf.state import GroupState, Sink
from app.ingestion.parsers.formats.rtf.stories import Item, Story
from app.ingestion.parsers.formats.rtf.tokens import Token
from app.ingestion.parsers.toolkit.code_pages import SYMBOL, WESTERN, decode_bytes
from app.ingestion.parsers.toolkit.symbol_fonts import replace_symbols

_MAX_CAPTURED = 200_000

Handler: TypeAlias = "Callable[[RtfReader, int | None], None]"
"""Function that reads one control word with its parameter."""


class OpenTable(Enum):
    """Table of names that is open."""

    NONE = "none"
    FONTS = "fonts"
    STYLES = "styles"


@dataclass(slots=True)
class UnreadCounts:
    """Numbers of the things that the reader does not read."""

    images: int = 0
    objects: int = 0
    equations: int = 0
    symbols: int = 0
    hidden_words: int = 0
    struck_words: int = 0


class RtfReader:
    """Reader that turns tokens into blocks. It uses a stack of groups instead of recursion.

    Args:
        handlers: Functions by control word.
        needs_images: Whether the bytes of images are collected.

    Attributes:
        state: State of the open group.
        story: Story that gets the text: the body, a note, a text box or a header.
        end_action: Function that runs at the end of the open group; None if there is nothing to do.
        open_table: Table of names that is open.
        fields: Fields that are open, the innermost last.
        name_tables: Fonts and styles.
        codec: Code page of the file.
        default_font: Number of the default font.
        cell_flags: Control words of the next cell definition.
        property_name: Name of the open property of a shape.
        note_number: Number of notes so far.
        headers: Texts of the page headers.
        footers: Texts of the page footers.
        title: Title in the properties of the file.
        images: Bytes of the images, if they are needed.
        unread: Numbers of the things that were not read.
    """

    def __init__(self, handlers: Mapping[str, Handler], *, needs_images: bool = False) -> None:
        self.state = GroupState()
        self.story = Story()
        self.end_action: Callable[[], None] | None = None
        self.open_table = OpenTable.NONE
        self.fields: list[FieldState] = []
        self.name_tables = NameTables()
        self.codec = WESTERN
        self.default_font: int | None = None
        self.cell_flags: set[str] = set()
        self.property_name = ""
        self.note_number = 0
        self.headers: list[str] = []
        self.footers: list[str] = []
        self.title = ""
        self.images: list[bytes] = []
        self.needs_images = needs_images
        self.unread = UnreadCounts()
        self._handlers = handlers
        self._stack: list[tuple[GroupState, Callable[[], None] | None]] = []
        self._fonts: dict[tuple[int | None, str, int], tuple[str, str]] = {}
        self._bytes = bytearray()
        self._skip = 0
        self._is_starred = False
        self._is_group_start = False
        self._high_surrogate = 0
        self._capture: list[str] = []
        self._captured_length = 0

    def read_tokens(self, tokens: Iterable[Token]) -> list[Item]:
        """Read all tokens.

        Args:
            tokens: The tokens of the file.

        Returns:
            The blocks of the body in reading order.
        """
        for token in tokens:
            if token.content:
                self._read_content(token.content)
            elif token.brace:
                self._flush_bytes()
                self._skip = 0
                if token.brace == "{":
                    self._open_group()
                else:
                    self._close_group()
            elif self._skip:
                self._skip -= 1
            else:
                self._flush_bytes()
                self._read_word(token.word, token.number)
        self._flush_bytes()
        while self._stack:
            self._close_group()
        return self.story.finish(self.state.paragraph, self.find_level())

    def set_state(self, **changes: Any) -> None:
        """Change the state of the open group."""
        self.state = self.state._replace(**changes)

    def set_paragraph(self, **changes: Any) -> None:
        """Change the format of the open paragraph."""
        self.set_state(paragraph=replace(self.state.paragraph, **changes))

    def find_level(self) -> int:
        """Return the level of the open paragraph as a heading; 0 for ordinary text."""
        return self.name_tables.find_level(self.state.paragraph.style, self.state.paragraph.outline)

    def add_text(self, text: str) -> None:
        """Add text to the open story or capture, as the state of the group says."""
        state = self.state
        if state.sink is Sink.CAPTURE:
            self._add_captured_text(text)
        elif state.sink is Sink.LABEL:
            self._add_captured_text(replace_symbols(text, self._find_font()[0])[0])
        elif state.sink is Sink.MATH:
            add_equation_text(state.equation, text)
        elif state.sink is Sink.SKIPPED or state.is_deleted:
            return
        elif state.is_hidden:
            self.unread.hidden_words += len(text.split())
        elif state.is_struck:
            self.unread.struck_words += len(text.split())
        elif text:
            text, unknown_count = replace_symbols(text, self._find_font()[0])
            self.unread.symbols += unknown_count
            self.story.runs.add(text, state.position)
            if self.fields and text.strip():
                self.fields[-1].has_result = True

    def start_capture(self, sink: Sink = Sink.CAPTURE) -> None:
        """Collect the text of the open group separately from the story."""
        self.set_state(sink=sink)
        self._capture, self._captured_length = [], 0

    def take_capture(self) -> str:
        """Return the text that was collected since ``start_capture``."""
        text = "".join(self._capture)
        self._capture, self._captured_length = [], 0
        return text

    def _read_content(self, content: bytes) -> None:
        self._is_group_start = False
        if self._skip:
            skipped = min(self._skip, len(content))
            self._skip -= skipped
            content = content[skipped:]
        if self.state.sink is not Sink.SKIPPED:
            self._bytes += content

    def _flush_bytes(self) -> None:
        """Decode the bytes in one font. The bytes of one character may come in several tokens."""
        if not self._bytes:
            return
        data = bytes(self._bytes)
        self._bytes.clear()
        codec = self.codec if self.state.sink in (Sink.CAPTURE, Sink.MATH) else self._find_font()[1]
        self.add_text(data.decode("latin-1") if codec == SYMBOL else decode_bytes(data, codec))

    def _find_font(self) -> tuple[str, str]:
        """Return the name and the code page of the font. The result is cached until the font table changes."""
        number = self.default_font if self.state.font is None else self.state.font
        key = (number, self.codec, len(self.name_tables.fonts))
        if key not in self._fonts:
            font = self.name_tables.fonts.get(number or 0, Font())
            self._fonts[key] = font.name, font.find_codec(self.codec)
        return self._fonts[key]

    def _add_captured_text(self, text: str) -> None:
        """Add text to the open capture. An entry of the font table or the style sheet ends with a semicolon."""
        if self.open_table is not OpenTable.NONE:
            add = self.name_tables.add_font if self.open_table is OpenTable.FONTS else self.name_tables.add_style
            *entries, text = text.split(";")
            for entry in entries:
                self._capture.append(entry)
                add(self.take_capture())
        if self._captured_length < _MAX_CAPTURED or self.needs_images:
            self._capture.append(text)
            self._captured_length += len(text)

    def _open_group(self) -> None:
        self._stack.append((self.state, self.end_action))
        self.end_action = None
        self._is_group_start, self._is_starred = True, False

    def _close_group(self) -> None:
        self._is_group_start = self._is_starred = False
        if self._stack:
            if self.end_action is not None:
                self.end_action()
            self.state, self.end_action = self._stack.pop()

    def _read_word(self, word: str, number: int | None) -> None:
        if word == "*" and self._is_group_start:
            self._is_starred = True
            return
        is_starred, self._is_starred = self._is_starred, False
        is_group_start, self._is_group_start = self._is_group_start, False
        name = word.lower() if is_starred else word
        if self.state.sink is Sink.SKIPPED:
            return
        if self.state.sink is Sink.MATH and word.startswith("m"):
            self._open_equation_part(word, is_group_start=is_group_start)
        elif name in SKIPPED or (is_starred and name not in READ):
            self.set_state(sink=Sink.SKIPPED)
        elif word == "u" and number is not None:
            self._add_unicode(number)
            self._skip = self.state.fallback_length
        elif word in CHARACTERS:
            self.add_text(CHARACTERS[word])
        elif self.state.sink is not Sink.MATH and (handler := self._handlers.get(name)) is not None:
            handler(self, number)

    def _open_equation_part(self, word: str, *, is_group_start: bool) -> None:
        """Open a part of an equation, if the control word begins a group. The format of characters is left out."""
        if word == "mctrlPr":
            self.set_state(sink=Sink.SKIPPED)
        elif is_group_start:
            self.set_state(equation=open_equation_part(self.state.equation, word))

    def _add_unicode(self, number: int) -> None:
        """Add a character. Characters beyond U+FFFF come as two surrogates."""
        code = number & 0xFFFF if number < 0 else number
        high, self._high_surrogate = self._high_surrogate, 0
        if 0xD800 <= code < 0xDC00:
            self._high_surrogate = code
        elif 0xDC00 <= code < 0xE000:
            self.add_text(chr(0x10000 + ((high - 0xD800) << 10) + code - 0xDC00) if high else "\ufffd")
        else:
            self.add_text(chr(code) if code <= 0x10FFFF else "\ufffd")
