"""Pictures between service and parser child: in pieces of small lines, put together again and checked."""

import base64
from collections.abc import Iterator
from typing import Any

from app.ingestion.types import Picture

MAX_PICTURES = 200
MAX_PICTURE_BYTES = 8 * 1024 * 1024
MAX_PICTURES_BYTES = 64 * 1024 * 1024
PIECE_BYTES = 45_000
MOST_PIXELS = 1 << 14
"""A side."""

_BEGINNINGS = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}


def picture_pieces(pictures: list[Picture]) -> Iterator[list[Any]]:
    """What the lines say: number, media type, width, height, and some of the bytes."""
    for number, picture in enumerate(pictures):
        for start in range(0, len(picture.data), PIECE_BYTES):
            piece = base64.b64encode(picture.data[start : start + PIECE_BYTES]).decode("ascii")
            yield [number, picture.media_type, picture.width, picture.height, piece]


class PictureReader:
    """Puts the pieces together. Raises ValueError or TypeError for what an honest child would not send."""

    def __init__(self) -> None:
        self._facts: list[tuple[str, int, int]] = []
        self._data: list[bytearray] = []
        self._left = MAX_PICTURES_BYTES

    def feed(self, fields: Any) -> None:
        """Take a piece: of the last picture, or of one behind it."""
        number, media_type, width, height, piece = fields
        if number == len(self._data) < MAX_PICTURES:
            self._facts.append((media_type, _pixels(width), _pixels(height)))
            self._data.append(bytearray())
        if number != len(self._data) - 1 or self._facts[-1] != (media_type, width, height):
            raise ValueError("pieces out of order")
        data = base64.b64decode(piece, validate=True)
        self._data[-1] += data
        self._left -= len(data)
        if self._left < 0 or len(self._data[-1]) > MAX_PICTURE_BYTES:
            raise ValueError("larger pictures than allowed")

    def pictures(self) -> list[Picture]:
        """All of them."""
        found = [Picture(*facts, bytes(data)) for facts, data in zip(self._facts, self._data, strict=True)]
        if not all(picture.data.startswith(_BEGINNINGS[picture.media_type]) for picture in found):
            raise ValueError("not what it says it is")
        return found


def _pixels(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= MOST_PIXELS:
        raise ValueError("not a size")
    return value
