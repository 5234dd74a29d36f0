"""Tokens of RTF: control words, groups, encoded bytes and text ([RTF 1.9.1], "RTF Syntax")."""

import re
from collections.abc import Iterator
from typing import NamedTuple

SIGNATURE = b"{\\rtf"
# White space before the first group, and a byte order mark, which editors of plain text may add.
_START = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*+\{\\rtf")
_TOKEN = re.compile(
    rb"\\(?:([a-zA-Z]{1,32})(-?\d{1,10})?[ ]?|'([0-9a-fA-F]{2})|([\s\S]))|([{}])|[\r\n\0]++|([^\\{}\r\n\0]++)"
)


class Token(NamedTuple):
    """Token of an RTF file. Exactly one of the four kinds of content is set.

    Attributes:
        word: Control word without its backslash; a control symbol is a word of one character.
        number: Parameter of the control word; None if it has none.
        brace: ``{`` or ``}``; empty for any other token.
        content: Bytes of text in the current code page.
        is_encoded: Whether the content is one byte in hexadecimal digits.
    """

    word: str = ""
    number: int | None = None
    brace: str = ""
    content: bytes = b""
    is_encoded: bool = False


_OPEN, _CLOSE = Token(brace="{"), Token(brace="}")


def is_rich_text(data: bytes) -> bool:
    """Return whether a file begins like an RTF file."""
    return _START.match(data) is not None


def iter_tokens(data: bytes) -> Iterator[Token]:
    """Yield the tokens of a file in linear time. Binary data after ``\\bin`` is left out."""
    position, end = max(0, data.find(b"{")), len(data)
    while position < end:
        match = _TOKEN.match(data, position)
        if match is None:  # a backslash at the end of the file
            return
        position = match.end()
        word, number, digits, symbol, brace, text = match.groups()
        if text is not None:
            yield Token(content=text)
        elif word is not None:
            value = None if number is None else int(number)
            if word == b"bin":
                position += max(0, value or 0)
            else:
                yield Token(word.decode("ascii"), value)
        elif brace is not None:
            yield _OPEN if brace == b"{" else _CLOSE
        elif digits is not None:
            yield Token(content=bytes.fromhex(digits.decode("ascii")), is_encoded=True)
        elif symbol is not None:
            yield Token("par" if symbol in b"\r\n" else symbol.decode("latin-1"))
