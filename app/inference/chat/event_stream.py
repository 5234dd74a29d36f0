"""Incremental parser of the data of server-sent events (WHATWG HTML, section 9.2); other fields are ignored."""

from collections.abc import Iterator


class EventStreamParser:
    """Parser that accepts pieces of any length. The caller limits the total length."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the data of each event that this piece completes."""
        first, *lines = piece.split(b"\n")
        self._buffer += first
        for line in lines:
            yield from self._parse_line(bytes(self._buffer).removesuffix(b"\r"))
            self._buffer[:] = line

    def _parse_line(self, line: bytes) -> Iterator[bytes]:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif not line and self._data:
            yield b"\n".join(self._data)
            self._data.clear()
