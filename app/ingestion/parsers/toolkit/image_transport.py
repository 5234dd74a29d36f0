"""Transfer of images from a parser process to the service: in small pieces, which the service joins and validates."""

import base64
from collections.abc import Iterator
from typing import Any

from app.ingestion.types import EncodedImage

MAX_IMAGES = 200
MAX_IMAGE_BYTES = 8 * 1024 * 1024
MAX_TOTAL_IMAGE_BYTES = 64 * 1024 * 1024
PIECE_BYTES = 45_000
MAX_SIDE_PIXELS = 1 << 14
"""Maximum width and height of an image."""

_FILE_SIGNATURES = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}


def iter_image_pieces(images: list[EncodedImage]) -> Iterator[list[Any]]:
    """Yield the pieces of all images, as lists for JSON.

    A piece consists of the image's index, media type, width, height, and up to 45,000 of its bytes in Base64.
    """
    for number, image in enumerate(images):
        for start in range(0, len(image.data), PIECE_BYTES):
            piece = base64.b64encode(image.data[start : start + PIECE_BYTES]).decode("ascii")
            yield [number, image.media_type, image.width, image.height, piece]


class ImageAssembler:
    """Assembler of images from pieces. It validates them, because a hostile file may control the parser process."""

    def __init__(self) -> None:
        self._headers: list[tuple[str, int, int]] = []
        self._data: list[bytearray] = []
        self._remaining_bytes = MAX_TOTAL_IMAGE_BYTES

    def add_piece(self, fields: Any) -> None:
        """Add a piece, which belongs to the last image or begins the next image.

        Args:
            fields: Index, media type, width, height and Base64 data, as ``iter_image_pieces`` yields them.

        Raises:
            ValueError: A field is invalid, the piece is out of order, or the images are larger than allowed.
            TypeError: A field has the wrong type.
        """
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
            raise ValueError("larger images than allowed")

    def build_images(self) -> list[EncodedImage]:
        """Return all images. Raises ValueError if the bytes of an image do not fit its media type."""
        images = [EncodedImage(*header, bytes(data)) for header, data in zip(self._headers, self._data, strict=True)]
        if not all(image.data.startswith(_FILE_SIGNATURES[image.media_type]) for image in images):
            raise ValueError("the bytes do not fit the media type")
        return images


def _check_side(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= MAX_SIDE_PIXELS:
        raise ValueError("not a size")
    return value
