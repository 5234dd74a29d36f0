"""RTF bodies of Outlook messages: decompression ([MS-OXRTFCP]), and HTML that is stored in RTF ([MS-OXRTFEX])."""

import struct
from dataclasses import dataclass, replace

from app.ingestion.parsers.formats.rtf.tokens import Token, iter_tokens
from app.ingestion.parsers.toolkit.code_pages import WESTERN, decode_bytes, find_charset_codec, find_codec

MAX_BODY_BYTES = 64 << 20
_COMPRESSED, _UNCOMPRESSED = 0x75465A4C, 0x414C454D
_WINDOW = 4096
_MAX_FALLBACK = 100
_INITIAL_WINDOW = (
    b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript "
    b"\\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par "
    b"\\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx"
)
_CHARACTERS = {
    "par": "\n", "line": "\n", "tab": "\t", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”",
    "bullet": "•", "endash": "–", "emdash": "—", "~": "\u00a0", "_": "\u00ad", "{": "{", "}": "}", "\\": "\\",
}  # fmt: skip
_SKIPPED = frozenset({"fonttbl", "colortbl", "stylesheet", "info", "pict", "pntext", "listtable"})


def unpack_rtf(data: bytes) -> bytes:
    """Return the RTF of a compressed body; empty if the data has another format. Damaged data ends early."""
    if len(data) < 16:
        return b""
    _, _, kind, _ = struct.unpack_from("<4I", data)
    if kind == _UNCOMPRESSED:
        return data[16 : 16 + MAX_BODY_BYTES]
    return _unpack(data) if kind == _COMPRESSED else b""


def _unpack(data: bytes) -> bytes:
    window = bytearray(_INITIAL_WINDOW.ljust(_WINDOW, b"\0"))
    target, position, result = len(_INITIAL_WINDOW), 16, bytearray()
    while position < len(data) and len(result) < MAX_BODY_BYTES:
        control = data[position]
        position += 1
        for bit in range(8):
            if control >> bit & 1:
                if position + 1 >= len(data):
                    return bytes(result)
                reference = data[position] << 8 | data[position + 1]
                position += 2
                source, length = reference >> 4, (reference & 15) + 2
                if source == target:
                    return bytes(result)
                for _ in range(length):
                    value = window[source]
                    source = (source + 1) % _WINDOW
                    window[target] = value
                    target = (target + 1) % _WINDOW
                    result.append(value)
            elif position < len(data):
                value = data[position]
                position += 1
                window[target] = value
                target = (target + 1) % _WINDOW
                result.append(value)
    return bytes(result)


def is_html_in_rtf(data: bytes) -> bool:
    """Return whether RTF is a container of HTML."""
    return b"\\fromhtml" in data[:1000]


@dataclass(frozen=True, slots=True)
class _Group:
    is_skipped: bool = False
    is_tag: bool = False
    is_replaced: bool = False
    is_font_table: bool = False
    fallback_length: int = 1
    font: int = 0


class _HtmlExtractor:
    """Extractor of the HTML in RTF: the text of HTML tags, and the text that is not marked as a replacement."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._group = _Group()
        self._stack: list[_Group] = []
        self._bytes = bytearray()
        self._skip = 0
        self._codec = WESTERN
        self._fonts: dict[int, int] = {}
        self._is_starred = False

    def read_token(self, token: Token) -> None:
        if token.content:
            content = token.content[self._skip :] if self._skip else token.content
            self._skip -= min(self._skip, len(token.content))
            if self._is_visible():
                self._bytes += content
            return
        self._flush()
        if token.brace == "{":
            self._stack.append(self._group)
            self._skip, self._is_starred = 0, False
        elif token.brace:
            self._group = self._stack.pop() if self._stack else _Group()
            self._skip = 0
        elif self._skip:
            self._skip -= 1
        else:
            self._read_word(token.word, token.number)

    def finish(self) -> str:
        self._flush()
        return "".join(self.parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _is_visible(self) -> bool:
        return not self._group.is_skipped and (self._group.is_tag or not self._group.is_replaced)

    def _flush(self) -> None:
        if self._bytes:
            charset = None if self._group.is_tag else self._fonts.get(self._group.font)
            self.parts.append(decode_bytes(bytes(self._bytes), find_charset_codec(charset, self._codec)))
            self._bytes.clear()

    def _read_word(self, word: str, number: int | None) -> None:
        is_starred, self._is_starred = self._is_starred, word == "*"
        if word == "htmltag":
            self._group = replace(self._group, is_tag=True, is_skipped=False)
        elif word in _SKIPPED or (is_starred and word != "*"):
            self._group = replace(self._group, is_skipped=True, is_font_table=word == "fonttbl")
        elif word == "htmlrtf":
            self._group = replace(self._group, is_replaced=number != 0)
        elif word == "f" and number is not None:
            self._group = replace(self._group, font=number)
        elif word == "fcharset" and number is not None and self._group.is_font_table:
            self._fonts[self._group.font] = number
        elif word == "ansicpg":
            self._codec = find_codec(number)
        else:
            self._read_character(word, number)

    def _read_character(self, word: str, number: int | None) -> None:
        if word == "uc":
            self._group = replace(self._group, fallback_length=max(0, min(number or 0, _MAX_FALLBACK)))
        elif word == "u" and number is not None:
            if self._is_visible():
                self.parts.append(chr(number & 0xFFFF))
            self._skip = self._group.fallback_length
        elif word in _CHARACTERS and self._is_visible():
            self.parts.append(_CHARACTERS[word])


def extract_html(data: bytes) -> str:
    """Return the HTML that RTF contains, in linear time.

    Args:
        data: The RTF.
    """
    extractor = _HtmlExtractor()
    for token in iter_tokens(data):
        extractor.read_token(token)
    return extractor.finish()
