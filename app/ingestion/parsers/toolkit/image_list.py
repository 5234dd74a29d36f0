"""Images of a document: each is decoded under limits, rotated upright, scaled down and encoded again."""

import hashlib
import io
import struct
import time
import warnings
from collections.abc import Callable
from typing import cast

from PIL import ExifTags, Image

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.image_transport import MAX_IMAGE_BYTES, MAX_IMAGES, MAX_TOTAL_IMAGE_BYTES
from app.ingestion.types import Block, BlockKind, EncodedImage

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF")
DAMAGED_ERRORS = (
    OSError, SyntaxError, ValueError, EOFError, struct.error, LookupError, TypeError, AttributeError, ArithmeticError,
    RuntimeError,
)  # fmt: skip
"""Exceptions that Pillow raises for damaged files."""

MIN_SIDE_PIXELS = 64
"""Minimum width and height. A smaller image is a bullet, a rule or an icon."""

MAX_SIDE_PIXELS = 1568
"""Maximum width and height of an encoded image. Larger images are scaled down; vision models do not use more pixels."""

MAX_MEGAPIXELS = 40
"""Maximum size of an image, in millions of pixels. Larger images are left out, not decoded."""

MAX_PNG_COLORS = 128
"""Maximum number of colors of a PNG file.

An image with more colors, such as a photograph, becomes a JPEG file. A drawing keeps its sharp edges as a PNG file.
"""

TIME_SHARE = 0.1
"""Share of the parser's timeout that images may use. The rest is for the text."""

_EXIF_ROTATIONS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""Transformations that rotate an image upright, by the orientation number of EXIF."""


class ImageList:
    """List of the images of one document, without duplicates, that enforces the limits.

    Args:
        blocks: Blocks of the document; each image adds one.
        options: Options of the parser call, with the time limits.

    Attributes:
        images: The images collected so far, for ``ParsedDocument``.
        skipped_count: Number of images that were left out: too small, too large, damaged, or over a limit.
        is_enabled: Whether the caller wants images. If false, do not add any.
    """

    def __init__(self, blocks: BlockList, options: ParseOptions) -> None:
        self.images: list[EncodedImage] = []
        self.skipped_count = 0
        self.is_enabled = options.needs_images
        self._blocks = blocks
        self._digests: set[bytes] = set()
        self._total_bytes = 0
        self._remaining_seconds = TIME_SHARE * min(options.wall_clock_timeout_seconds, options.cpu_timeout_seconds)

    def add_file(self, data: bytes, *, slide: int | None = None) -> None:
        """Add the image of a file, with a block for it. A file with the same bytes is added once.

        Args:
            data: Bytes of a PNG, JPEG, GIF, BMP, WebP or TIFF file.
            slide: Slide number from 1; None if the format has no slides.

        Raises:
            TextTooLong: The document has more characters or nodes than the limits allow.
        """
        digest = hashlib.sha256(data).digest()
        if digest not in self._digests:
            self._digests.add(digest)
            self.append_block(self.add_image(lambda: Image.open(io.BytesIO(data), formats=FORMATS)), slide=slide)

    def add_image(self, load: Callable[[], Image.Image]) -> int | None:
        """Add an image without a block for it.

        Args:
            load: Function that opens the image; errors of Pillow count as a damaged image.

        Returns:
            The index of the image in ``images``; None if the image was left out.
        """
        started = time.monotonic()
        encoded = self._try_reencode(load) if self._remaining_seconds > 0 and len(self.images) < MAX_IMAGES else None
        self._remaining_seconds -= time.monotonic() - started
        if encoded is None or self._total_bytes + len(encoded.data) > MAX_TOTAL_IMAGE_BYTES:
            self.skipped_count += 1
            return None
        self._total_bytes += len(encoded.data)
        self.images.append(encoded)
        return len(self.images) - 1

    def append_block(self, image_index: int | None, *, page: int | None = None, slide: int | None = None) -> None:
        """Append the block of an image.

        Args:
            image_index: Result of ``add_image``; None appends nothing.
            page: Page number from 1; None if the format has no pages.
            slide: Slide number from 1; None if the format has no slides.

        Raises:
            TextTooLong: The document has more characters or nodes than the limits allow.
        """
        if image_index is not None:
            text = f"Picture {image_index + 1}"
            self._blocks.append(Block(BlockKind.IMAGE, text, page=page, slide=slide, image_index=image_index))

    def _try_reencode(self, load: Callable[[], Image.Image]) -> EncodedImage | None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Pillow warns of large images, which MAX_MEGAPIXELS limits
                with load() as image:
                    encoded = reencode_image(image)
        except (*DAMAGED_ERRORS, Image.DecompressionBombError, MemoryError):
            return None
        return encoded if len(encoded.data) <= MAX_IMAGE_BYTES else None


def reencode_image(image: Image.Image) -> EncodedImage:
    """Encode an image again, without metadata: rotated upright, scaled down, transparent areas in white.

    Args:
        image: The opened image.

    Returns:
        A PNG file if the image has at most 128 colors, else a JPEG file.

    Raises:
        ValueError: The image is smaller than 64 pixels in one direction, or larger than 40 megapixels.
        OSError: The image is damaged. Pillow raises any of ``DAMAGED_ERRORS``.
    """
    if min(image.size) < MIN_SIDE_PIXELS or image.width * image.height > MAX_MEGAPIXELS * 1_000_000:
        raise ValueError("too small or too large")
    rotation = get_exif_rotation(image)
    image.draft("RGB", (MAX_SIDE_PIXELS, MAX_SIDE_PIXELS))  # a JPEG file is decoded at a smaller size, which is faster
    image.load()
    plain = _flatten_transparency(to_8bit(image))
    plain.thumbnail((MAX_SIDE_PIXELS, MAX_SIDE_PIXELS), Image.Resampling.LANCZOS)
    if rotation is not None:
        plain = plain.transpose(rotation)
    kind = "JPEG" if plain.getcolors(MAX_PNG_COLORS) is None else "PNG"
    buffer = io.BytesIO()
    plain.save(buffer, kind, **({"quality": 85} if kind == "JPEG" else {}))
    return EncodedImage(f"image/{kind.lower()}", plain.width, plain.height, buffer.getvalue())


def _flatten_transparency(image: Image.Image) -> Image.Image:
    """Return the image in RGB or grayscale, with transparent areas in white."""
    if not image.has_transparency_data:
        return image.convert("L" if image.mode in ("1", "L") else "RGB")
    layer = image.convert("RGBA")
    background = Image.new("RGB", layer.size, "white")
    background.paste(layer, mask=layer.getchannel("A"))
    return background


def to_8bit(image: Image.Image) -> Image.Image:
    """Scale a grayscale image with more than 8 bits per pixel to 8 bits. Pillow's conversion would clip the values.

    Args:
        image: An image of any mode.

    Returns:
        The converted image; an image of another mode unchanged.
    """
    if not image.mode.startswith(("I", "F")):
        return image
    deep = image.convert("F")
    low, high = cast("tuple[float, float]", deep.getextrema())  # images with several bands have a pair per band
    step = 255 / (high - low) if high > low else 1.0
    return deep.point(lambda value: value * step - low * step).convert("L")


def get_exif_rotation(image: Image.Image) -> Image.Transpose | None:
    """Return the transformation that rotates an image upright; None for TIFF files, which Pillow rotates itself."""
    return None if image.format == "TIFF" else _EXIF_ROTATIONS.get(_read_exif_orientation(image))


def _read_exif_orientation(image: Image.Image) -> int:
    """Return the orientation number of EXIF; 1, which means upright, if there is none."""
    try:
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    except DAMAGED_ERRORS:
        return 1
