"""How much a JSON body may hold: bytes, and what stands in them, for reading it holds up everybody else.

A number takes a twentieth of a microsecond or two, a name, a list or an object up to two microseconds, so that a body
of sixteen megabytes could take ten seconds. It is counted while it comes in, and refused before it is read.
"""

from dataclasses import dataclass

from app.errors import TooLargeError

MAX_JSON_BYTES = 16 * 1024 * 1024
# A media type, a boundary of 70 characters, and room. The library takes the square of the header's length.
MAX_CONTENT_TYPE_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class JsonLimit:
    """The most ``max_values`` of a body, and the most ``max_names``, lists and objects among them."""

    max_values: int
    max_names: int

    def __str__(self) -> str:
        return f"{self.max_values} values, and {self.max_names} names, lists and objects"


# The most that any route can use are 16 vectors of 4,000 numbers, or 10,000 messages of two names.
DEFAULT_JSON_LIMIT = JsonLimit(max_values=200_000, max_names=100_000)
# Ready chunks bring vectors; 10,000 of them have fifteen names each.
CHUNKS_JSON_LIMIT = JsonLimit(max_values=2_000_000, max_names=150_000)


class JsonValueCounter:
    """Counts the separators of a body outside of its strings, piece by piece; the pieces may be cut anywhere."""

    def __init__(self, limit: JsonLimit) -> None:
        self._limit = limit
        self._values = self._names = 0
        self._is_in_string = self._is_escaped = False

    def update(self, piece: bytes) -> None:
        """Count one more piece. Raises TooLargeError."""
        if not piece:
            return
        if self._is_escaped:
            piece = piece[1:]
        # A backslash that is left over at the end hides the first character of the next piece.
        plain = piece.replace(rb"\\", b"").replace(rb"\"", b"")
        self._is_escaped = plain.endswith(b"\\")
        parts = plain.split(b'"')
        outside = b"".join(parts[self._is_in_string :: 2])
        self._is_in_string ^= len(parts) % 2 == 0
        self._values += outside.count(b",")
        self._names += outside.count(b":") + outside.count(b"[") + outside.count(b"{")
        if self._values >= self._limit.max_values or self._names > self._limit.max_names:
            raise TooLargeError(f"A body may have at most {self._limit}.")
