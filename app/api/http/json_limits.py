"""Limits of JSON bodies: bytes, values and names. Parsing a body blocks the event loop for all other requests.

A number takes 0.05 to 0.1 µs to parse; a name, a list or an object takes up to 2 µs. A body of 16 MiB could take ten
seconds. Values and names are counted while the body arrives, and a body over a limit is refused before it is parsed.
"""

from dataclasses import dataclass

from app.errors import TooLargeError

MAX_JSON_BYTES = 16 * 1024 * 1024
# Enough for a media type and a boundary of 70 characters. The library takes quadratic time in the header's length.
MAX_CONTENT_TYPE_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class JsonLimit:
    """Limits of one JSON body.

    Attributes:
        max_values: Maximum number of values.
        max_names: Maximum number of names, lists and objects together.
    """

    max_values: int
    max_names: int

    def __str__(self) -> str:
        return f"{self.max_values} values, and {self.max_names} names, lists and objects"


# The largest useful bodies have 16 vectors of 4,000 numbers, or 10,000 messages with two names each.
DEFAULT_JSON_LIMIT = JsonLimit(max_values=200_000, max_names=100_000)
# For uploads of chunks with vectors: 10,000 chunks have 15 names each.
CHUNKS_JSON_LIMIT = JsonLimit(max_values=2_000_000, max_names=150_000)


class JsonValueCounter:
    """Counter of the separators in a JSON body outside of strings. The body arrives in pieces of any length."""

    def __init__(self, limit: JsonLimit) -> None:
        self._limit = limit
        self._values = self._names = 0
        self._is_in_string = self._is_escaped = False

    def update(self, piece: bytes) -> None:
        """Count the next piece of the body.

        Args:
            piece: Next bytes of the body.

        Raises:
            TooLargeError: The body is over a limit.
        """
        if not piece:
            return
        if self._is_escaped:
            piece = piece[1:]
        # A single backslash at the end escapes the first character of the next piece.
        plain = piece.replace(rb"\\", b"").replace(rb"\"", b"")
        self._is_escaped = plain.endswith(b"\\")
        parts = plain.split(b'"')
        outside = b"".join(parts[self._is_in_string :: 2])
        self._is_in_string ^= len(parts) % 2 == 0
        self._values += outside.count(b",")
        self._names += outside.count(b":") + outside.count(b"[") + outside.count(b"{")
        if self._values >= self._limit.max_values or self._names > self._limit.max_names:
            raise TooLargeError(f"A body may have at most {self._limit}.")
