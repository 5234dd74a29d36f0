"""How much a JSON body may hold: bytes, and what stands in them, for reading it holds up everybody else.

A number takes a twentieth of a microsecond or two, a name, a list or an object up to two microseconds, so that a body
of sixteen megabytes could take ten seconds. It is counted while it comes in, and refused before it is read.
"""

from dataclasses import dataclass

from app.errors import TooLarge

MAX_JSON_BYTES = 16 * 1024 * 1024
# A media type, a boundary of 70 characters, and room. The library takes the square of the header's length.
LONGEST_CONTENT_TYPE = 1000


@dataclass(frozen=True, slots=True)
class JsonLimit:
    """The most ``values`` of a body, and the most ``names``, lists and objects among them."""

    values: int
    names: int

    def __str__(self) -> str:
        return f"{self.values} values, and {self.names} names, lists and objects"


# The most that any route can use are 16 vectors of 4,000 numbers, or 10,000 messages of two names.
LIMIT = JsonLimit(values=200_000, names=100_000)
# Ready chunks bring vectors; 10,000 of them have fifteen names each.
CHUNKS_LIMIT = JsonLimit(values=2_000_000, names=150_000)


class JsonCount:
    """Counts the separators of a body outside of its strings, piece by piece; the pieces may be cut anywhere."""

    def __init__(self, limit: JsonLimit) -> None:
        self._limit = limit
        self._values = self._names = 0
        self._inside = self._escaped = False

    def feed(self, piece: bytes) -> None:
        """Count one more piece. Raises TooLarge."""
        if not piece:
            return
        if self._escaped:
            piece = piece[1:]
        # A backslash that is left over at the end hides the first character of the next piece.
        plain = piece.replace(rb"\\", b"").replace(rb"\"", b"")
        self._escaped = plain.endswith(b"\\")
        parts = plain.split(b'"')
        outside = b"".join(parts[self._inside :: 2])
        self._inside ^= len(parts) % 2 == 0
        self._values += outside.count(b",")
        self._names += outside.count(b":") + outside.count(b"[") + outside.count(b"{")
        if self._values >= self._limit.values or self._names > self._limit.names:
            raise TooLarge(f"A body may have at most {self._limit}.")
