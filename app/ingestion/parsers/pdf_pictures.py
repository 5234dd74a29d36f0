"""The pictures of a PDF: each looked at once, and put in reading order between the text around it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image
from pymupdf import mupdf

from app.ingestion.parsers.mupdf_page import Picture, checksum
from app.ingestion.parsers.pdf_layout import Group
from app.ingestion.parsers.pictures import MAX_SIDE, MEGAPIXELS, PictureList


@dataclass(frozen=True, slots=True)
class ShownPicture:
    """A picture on a page: its checksum, its place among those that were taken (None: not taken), and its box."""

    key: int
    picture: int | None
    x0: float
    y0: float
    x1: float
    y1: float


class PdfPictures:
    """Takes the pictures of a document, by their checksums."""

    def __init__(self, pictures: PictureList) -> None:
        self.list = pictures
        self._taken: dict[int, int | None] = {}

    def shown(self, found: Iterable[Picture]) -> list[ShownPicture]:
        """Those of a page, without gradients and the like; taken where pictures are wanted."""
        keyed = [(key, one) for one in found if (key := checksum(one))]
        return [ShownPicture(key, self._take(key, one), one.x0, one.y0, one.x1, one.y1) for key, one in keyed]

    def _take(self, key: int, picture: Picture) -> int | None:
        if self.list.wanted and key not in self._taken:
            self._taken[key] = self.list.take(lambda: _drawn(picture))
        return self._taken.get(key)


def _drawn(picture: Picture) -> Image.Image:
    """As the page shows it, on white, in the size that is wanted. Raises ValueError, RuntimeError."""
    if picture.width * picture.height > MEGAPIXELS * 1_000_000:
        raise ValueError("too large")
    scale = min(1.0, MAX_SIDE / max(picture.width, picture.height))
    width, height = max(1, round(picture.width * scale)), max(1, round(picture.height * scale))
    try:
        paper = mupdf.fz_new_pixmap_with_bbox(
            mupdf.fz_device_rgb(), mupdf.FzIrect(0, 0, width, height), mupdf.FzSeparations(0), 0
        )
        mupdf.fz_clear_pixmap_with_value(paper, 255)
        device = mupdf.fz_new_draw_device(mupdf.FzMatrix(), paper)
        place = mupdf.FzMatrix(width, 0, 0, height, 0, 0)
        mupdf.fz_fill_image(device, picture.image, place, 1.0, mupdf.FzColorParams())
        mupdf.fz_close_device(device)
    except mupdf.FzErrorBase as exc:
        raise ValueError("damaged") from exc
    samples: Any = mupdf.fz_pixmap_samples_memoryview(paper)
    return Image.frombytes("RGB", (width, height), bytes(samples))


def worthwhile(pages: Sequence[Sequence[ShownPicture]]) -> set[int]:
    """The checksums of those that are no logo and no background: not on more than half of the pages, at least three."""
    shown = Counter(key for page in pages for key in {one.key for one in page})
    return {key for key, times in shown.items() if times < 3 or 2 * times <= len(pages)}


def with_pictures(groups: Sequence[Group], pictures: Iterable[ShownPicture]) -> Iterator[Group | ShownPicture]:
    """A page's groups in their order, each picture behind the last group that stands above it."""
    behind: dict[int, list[ShownPicture]] = {}
    for one in sorted(pictures, key=lambda one: (one.y0, one.x0)):
        above = [number for number, group in enumerate(groups, start=1) if _stands_above(group, one)]
        behind.setdefault(max(above, default=0), []).append(one)
    yield from behind.get(0, ())
    for number, group in enumerate(groups, start=1):
        yield group
        yield from behind.get(number, ())


def _stands_above(group: Group, picture: ShownPicture) -> bool:
    if not group.lines:
        return False
    beside = max(line.x1 for line in group.lines) > picture.x0 and min(line.x0 for line in group.lines) < picture.x1
    return beside and max(line.y1 for line in group.lines) <= (picture.y0 + picture.y1) / 2
