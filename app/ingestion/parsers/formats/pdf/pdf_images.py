"""Extraction of the images of a PDF file, each once, and their place in the reading order."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image
from pymupdf import mupdf

from app.ingestion.parsers.formats.pdf.mupdf_page import PdfImage, compute_checksum
from app.ingestion.parsers.formats.pdf.text_line import LayoutGroup
from app.ingestion.parsers.toolkit.image_list import MAX_MEGAPIXELS, MAX_SIDE_PIXELS, ImageList


@dataclass(frozen=True, slots=True)
class PdfImagePlacement:
    """Place of an image on a page, in points.

    Attributes:
        key: Checksum of the image.
        image_index: Index of the image in the document's ``ImageList``; None if it was not extracted.
        x0: Left edge.
        y0: Top edge.
        x1: Right edge.
        y1: Bottom edge.
    """

    key: int
    image_index: int | None
    x0: float
    y0: float
    x1: float
    y1: float


class PdfImageExtractor:
    """Extractor of the images of one document. It recognizes repeated images by their checksums."""

    def __init__(self, images: ImageList) -> None:
        self.images = images
        self._image_indexes: dict[int, int | None] = {}

    def extract_images(self, images: Iterable[PdfImage]) -> list[PdfImagePlacement]:
        """Add the images of a page to the list if the caller requested images, and return their placements.

        Args:
            images: Images of the page.

        Returns:
            The placements. Gradients and similar drawings, which are not image files, are left out.
        """
        keyed = [(key, image) for image in images if (key := compute_checksum(image))]
        return [
            PdfImagePlacement(key, self._extract_image(key, image), image.x0, image.y0, image.x1, image.y1)
            for key, image in keyed
        ]

    def _extract_image(self, key: int, image: PdfImage) -> int | None:
        if self.images.is_enabled and key not in self._image_indexes:
            self._image_indexes[key] = self.images.add_image(lambda: _render_image(image))
        return self._image_indexes.get(key)


def _render_image(image: PdfImage) -> Image.Image:
    """Render an image on white, scaled down to the maximum size. Raises ValueError, RuntimeError."""
    if image.width * image.height > MAX_MEGAPIXELS * 1_000_000:
        raise ValueError("too large")
    scale = min(1.0, MAX_SIDE_PIXELS / max(image.width, image.height))
    width, height = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    try:
        pixmap = mupdf.fz_new_pixmap_with_bbox(
            mupdf.fz_device_rgb(), mupdf.FzIrect(0, 0, width, height), mupdf.FzSeparations(0), 0
        )
        mupdf.fz_clear_pixmap_with_value(pixmap, 255)
        device = mupdf.fz_new_draw_device(mupdf.FzMatrix(), pixmap)
        matrix = mupdf.FzMatrix(width, 0, 0, height, 0, 0)
        mupdf.fz_fill_image(device, image.handle, matrix, 1.0, mupdf.FzColorParams())
        mupdf.fz_close_device(device)
    except mupdf.FzErrorBase as exc:
        raise ValueError("damaged") from exc
    samples: Any = mupdf.fz_pixmap_samples_memoryview(pixmap)
    return Image.frombytes("RGB", (width, height), bytes(samples))


def find_content_images(pages: Sequence[Sequence[PdfImagePlacement]]) -> set[int]:
    """Return the checksums of the images that are content, not a logo or a background.

    An image that is on at least three pages, and on more than half of the pages, is a logo or a background.
    """
    page_counts = Counter(key for page in pages for key in {placement.key for placement in page})
    return {key for key, count in page_counts.items() if count < 3 or 2 * count <= len(pages)}


def interleave_images(
    groups: Sequence[LayoutGroup], placements: Iterable[PdfImagePlacement]
) -> Iterator[LayoutGroup | PdfImagePlacement]:
    """Yield the groups of a page in their order, with each image after the last group above it.

    Args:
        groups: Paragraphs and tables of the page, in reading order.
        placements: Images of the page.

    Yields:
        A group or an image.
    """
    placements_by_group: dict[int, list[PdfImagePlacement]] = {}
    for placement in sorted(placements, key=lambda placement: (placement.y0, placement.x0)):
        groups_above = [number for number, group in enumerate(groups, start=1) if _is_above(group, placement)]
        placements_by_group.setdefault(max(groups_above, default=0), []).append(placement)
    yield from placements_by_group.get(0, ())
    for number, group in enumerate(groups, start=1):
        yield group
        yield from placements_by_group.get(number, ())


def _is_above(group: LayoutGroup, placement: PdfImagePlacement) -> bool:
    if not group.lines:
        return False
    is_overlapping = (
        max(line.x1 for line in group.lines) > placement.x0 and min(line.x0 for line in group.lines) < placement.x1
    )
    return is_overlapping and max(line.y1 for line in group.lines) <= (placement.y0 + placement.y1) / 2
