"""The pictures of a document: decoded under limits, and made anew, upright, in a size that models look at."""

import hashlib
import io
import struct
import time
import warnings
from collections.abc import Callable
from typing import cast

from PIL import ExifTags, Image

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.blocks import BlockList
from app.ingestion.parsers.picture_lines import MAX_PICTURE_BYTES, MAX_PICTURES, MAX_PICTURES_BYTES
from app.ingestion.types import Block, BlockKind, Picture

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF")
DAMAGED = (
    OSError, SyntaxError, ValueError, EOFError, struct.error, LookupError, TypeError, AttributeError, ArithmeticError,
    RuntimeError,
)  # fmt: skip
"""What Pillow lets through on damaged files."""

MIN_SIDE = 64
"""In both directions, in pixels; what is smaller is a bullet, a rule or an icon."""

MAX_SIDE = 1568
"""Vision models look at no more; what is larger is made smaller."""

MEGAPIXELS = 40
"""What is larger is not decoded."""

MAX_COLOURS = 128
"""A picture of more is a photograph or the like, for which JPEG is; plain drawings keep their edges as PNG."""

TIME_SHARE = 0.1
"""Of the parser's time; the rest is for the text."""

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""By EXIF's number of the orientation."""


class PictureList:
    """The pictures of one document, each once, where they are ``wanted``; ``left_out`` counts those not taken."""

    def __init__(self, blocks: BlockList, options: ParseOptions) -> None:
        self.pictures: list[Picture] = []
        self.left_out = 0
        self.wanted = options.pictures
        self._blocks = blocks
        self._seen: set[bytes] = set()
        self._bytes = 0
        self._seconds = TIME_SHARE * min(options.wall_seconds, options.cpu_seconds)

    def add_file(self, data: bytes, *, slide: int | None = None) -> None:
        """Append a block for the picture in these bytes, unless they were there before. Raises TooMuchText."""
        digest = hashlib.sha256(data).digest()
        if digest not in self._seen:
            self._seen.add(digest)
            self.place(self.take(lambda: Image.open(io.BytesIO(data), formats=FORMATS)), slide=slide)

    def take(self, load: Callable[[], Image.Image]) -> int | None:
        """The new picture's place in the list; None where it is left out."""
        started = time.monotonic()
        made = self._made(load) if self._seconds > 0 and len(self.pictures) < MAX_PICTURES else None
        self._seconds -= time.monotonic() - started
        if made is None or self._bytes + len(made.data) > MAX_PICTURES_BYTES:
            self.left_out += 1
            return None
        self._bytes += len(made.data)
        self.pictures.append(made)
        return len(self.pictures) - 1

    def place(self, picture: int | None, *, page: int | None = None, slide: int | None = None) -> None:
        """Append the block of a picture that was taken. Raises TooMuchText."""
        if picture is not None:
            text = f"Picture {picture + 1}"
            self._blocks.append(Block(BlockKind.PICTURE, text, page=page, slide=slide, picture=picture))

    def _made(self, load: Callable[[], Image.Image]) -> Picture | None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Pillow warns of large pictures, which have a limit here
                with load() as image:
                    made = made_anew(image)
        except (*DAMAGED, Image.DecompressionBombError, MemoryError):
            return None
        return made if len(made.data) <= MAX_PICTURE_BYTES else None


def made_anew(image: Image.Image) -> Picture:
    """The picture without anything but its pixels. Raises what Pillow raises, ValueError for an impossible size."""
    if min(image.size) < MIN_SIDE or image.width * image.height > MEGAPIXELS * 1_000_000:
        raise ValueError("too small or too large")
    turn = turn_of(image)
    image.draft("RGB", (MAX_SIDE, MAX_SIDE))  # a JPEG is decoded in about the size that is wanted
    image.load()
    plain = _on_paper(eight_bits(image))
    plain.thumbnail((MAX_SIDE, MAX_SIDE), Image.Resampling.LANCZOS)
    if turn is not None:
        plain = plain.transpose(turn)
    kind = "JPEG" if plain.getcolors(MAX_COLOURS) is None else "PNG"
    buffer = io.BytesIO()
    plain.save(buffer, kind, **({"quality": 85} if kind == "JPEG" else {}))
    return Picture(f"image/{kind.lower()}", plain.width, plain.height, buffer.getvalue())


def _on_paper(image: Image.Image) -> Image.Image:
    """In RGB or grey; what is transparent shows white."""
    if not image.has_transparency_data:
        return image.convert("L" if image.mode in ("1", "L") else "RGB")
    layer = image.convert("RGBA")
    paper = Image.new("RGB", layer.size, "white")
    paper.paste(layer, mask=layer.getchannel("A"))
    return paper


def eight_bits(image: Image.Image) -> Image.Image:
    """Grey of more than 8 bits a pixel spread over the range of 8, which Pillow would cut off; others as they are."""
    if not image.mode.startswith(("I", "F")):
        return image
    deep = image.convert("F")
    low, high = cast("tuple[float, float]", deep.getextrema())  # a pair of pairs where there are several bands
    step = 255 / (high - low) if high > low else 1.0
    return deep.point(lambda value: value * step - low * step).convert("L")


def turn_of(image: Image.Image) -> Image.Transpose | None:
    """How to turn the pixels upright; Pillow turns TIFF by itself."""
    return None if image.format == "TIFF" else _TURNS.get(_orientation(image))


def _orientation(image: Image.Image) -> int:
    """What the camera noted in EXIF; 1 is upright."""
    try:
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    except DAMAGED:
        return 1
