"""Pictures between service and parser child: in pieces of small lines, put together again and checked."""

import base64
from collections.abc import Iterator
from typing import Any

from app.ingestion.types import EncodedImage

MAX_IMAGES = 200
MAX_IMAGE_BYTES = 8 * 1024 * 1024
MAX_TOTAL_IMAGE_BYTES = 64 * 1024 * 1024
PIECE_BYTES = 45_000
MAX_SIDE_PIXELS = 1 << 14
"""A side."""

_FILE_SIGNATURES = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}


def iter_image_pieces(images: list[EncodedImage]) -> Iterator[list[Any]]:
    """What the lines say: number, media type, width, height, and some of the bytes."""
    for number, image in enumerate(images):
        for start in range(0, len(image.data), PIECE_BYTES):
            piece = base64.b64encode(image.data[start : start + PIECE_BYTES]).decode("ascii")
            yield [number, image.media_type, image.width, image.height, piece]


class ImageAssembler:
    """Puts the pieces together. Raises ValueError or TypeError for what an honest child would not send."""

    def __init__(self) -> None:
        self._headers: list[tuple[str, int, int]] = []
        self._data: list[bytearray] = []
        self._remaining_bytes = MAX_TOTAL_IMAGE_BYTES

    def add_piece(self, fields: Any) -> None:
        """Take a piece: of the last picture, or of one behind it."""
        number, media_type, width, height, piece = fields
        if number == len(self._data) < MAX_IMAGES:
            self._headers.append((media_type, _check_side(width), _check_side(height)))
            self._data.append(bytearray())
        if number != len(self._data) - 1 or self._headers[-1] != (media_type, width, height):
            raise ValueError("pieces out of order")
        data = base64.b64decode(piece, validate=True)
        self._data[-1] += data
        self._remaining_bytes -= len(data)
        if self._remaining_bytes < 0 or len(self._data[-1]) > MAX_IMAGE_BYTES:
            raise ValueError("larger pictures than allowed")

    def build_images(self) -> list[EncodedImage]:
        """All of them."""
        images = [EncodedImage(*header, bytes(data)) for header, data in zip(self._headers, self._data, strict=True)]
        if not all(image.data.startswith(_FILE_SIGNATURES[image.media_type]) for image in images):
            raise ValueError("not what it says it is")
        return images


def _check_side(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= MAX_SIDE_PIXELS:
        raise ValueError("not a size")
    return value
