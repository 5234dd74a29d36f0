"""Optical character recognition (OCR) by the Tesseract library inside MuPDF. Only language data must be installed."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from statistics import median
from typing import Any

import pymupdf
from pymupdf import mupdf

from app.ingestion.parsers import LanguageData, ParseOptions
from app.ingestion.parsers.formats.pdf.mupdf_page import JSON_SCALE, TEXT_FLAGS, get_mupdf_page, iter_raw_lines
from app.ingestion.parsers.formats.pdf.text_line import TextLine
from app.ingestion.types import CorruptFile, ParserOutOfMemory
from app.warnings import ServiceWarning, WarningCode

PIXELS_PER_POINT = 200 / 72
MAX_PIXELS = 9_000_000
"""Maximum number of pixels, about an A4 page at 300 dpi. Larger images are scaled down."""

MAX_SIDE_PIXELS = 32_000
"""Maximum width and height in pixels: Tesseract counts pixels in 16 bits."""

TIME_SHARE = 0.8
"""Share of the parser's timeouts that OCR may use. The rest is for the steps after OCR."""

TIME_LIMIT_REASON = "the time for one file was used up"
MAX_RANGES = 30
_WORD = re.compile(r"[^\W\d_]{3}|\d{2}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Text that a line must contain: three letters, two digits, or a Chinese, Japanese or Korean character.

In photographs Tesseract finds single letters and signs, which are not text.
"""


class OcrEngine:
    """OCR for the pages and images of one document, within a share of the parser's timeouts."""

    def __init__(
        self,
        options: ParseOptions,
        *,
        wall_clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.process_time,
    ) -> None:
        self._language_data = options.ocr
        self._deadlines = (
            (wall_clock, wall_clock() + TIME_SHARE * options.wall_clock_timeout_seconds),
            (cpu_clock, cpu_clock() + TIME_SHARE * options.cpu_timeout_seconds),
        )
        self._longest_seconds = 0.0

    @property
    def unavailable_reason(self) -> str:
        """Reason why OCR cannot read another page, as the end of a sentence; empty if it can.

        OCR is unavailable if the remaining time is shorter than the longest time that a page has taken so far.
        """
        if not self._language_data.languages:
            return "no OCR language data is installed"
        return "" if self._get_remaining_seconds() > self._longest_seconds else TIME_LIMIT_REASON

    def read_page(self, page: Any, *, pixels_per_point: float = PIXELS_PER_POINT) -> list[TextLine]:
        """Read the lines of a rendered page.

        Args:
            page: Page of PyMuPDF.
            pixels_per_point: Maximum resolution of the rendered page. The limits of pixels can lower it.

        Returns:
            The lines that contain text, with coordinates in points on the displayed page.

        Raises:
            CorruptFile: The page cannot be rendered.
            ParserOutOfMemory: The process has reached its memory limit.
        """
        remaining_before = self._get_remaining_seconds()
        try:
            return self._read_lines(get_mupdf_page(page), pixels_per_point)
        except mupdf.FzErrorSystem as exc:  # MuPDF raises it if an allocation fails
            raise ParserOutOfMemory from exc
        except (mupdf.FzErrorBase, RuntimeError, ValueError) as exc:
            raise CorruptFile from exc
        finally:
            self._longest_seconds = max(self._longest_seconds, remaining_before - self._get_remaining_seconds())

    def read_image(self, pixels: bytes, width: int, height: int) -> list[TextLine]:
        """Read the lines of a grayscale image.

        Args:
            pixels: Pixels, row by row, one byte each.
            width: Width in pixels.
            height: Height in pixels.

        Returns:
            The lines that contain text, with coordinates in points.

        Raises:
            CorruptFile: The image cannot be read.
            ParserOutOfMemory: The process has reached its memory limit.
        """
        fitz: Any = pymupdf  # a library without type annotations
        with fitz.open(stream=b"P5 %d %d 255\n" % (width, height) + pixels, filetype="pgm") as document:
            page = document.load_page(0)
            return self.read_page(page, pixels_per_point=width / page.rect.width)

    def _get_remaining_seconds(self) -> float:
        return min(end - clock() for clock, end in self._deadlines)

    def _read_lines(self, source: Any, pixels_per_point: float) -> list[TextLine]:
        box = mupdf.fz_bound_page(source)
        width, height = max(1.0, box.x1 - box.x0), max(1.0, box.y1 - box.y0)
        zoom = min(pixels_per_point, (MAX_PIXELS / (width * height)) ** 0.5, MAX_SIDE_PIXELS / max(width, height))
        text = self._run_tesseract(source, box, zoom)
        return _normalize_sizes([line for line in _iter_lines(text, zoom) if _WORD.search(line.text)])

    def _run_tesseract(self, source: Any, box: Any, zoom: float) -> Any:
        matrix = mupdf.FzMatrix(zoom, 0, 0, zoom, 0, 0)
        text = mupdf.FzStextPage(mupdf.fz_transform_rect(box, matrix))
        device = mupdf.fz_new_stext_device(text, mupdf.FzStextOptions(TEXT_FLAGS))
        languages = "+".join(self._language_data.languages)
        ocr = mupdf.fz_new_ocr_device(device, matrix, box, 0, languages, self._language_data.directory, None, None)
        mupdf.fz_run_page(source, ocr, matrix, mupdf.FzCookie())
        mupdf.fz_close_device(ocr)
        mupdf.fz_close_device(device)
        return text


def _iter_lines(text: Any, zoom: float) -> Iterator[TextLine]:
    """Yield the lines with corrected boxes.

    The boxes of adjacent lines overlap in the output of Tesseract, but the vertical center of each box is correct. The
    corrected boxes have the same center and the height of the font.
    """
    scale = JSON_SCALE * zoom
    for block, raw_line in iter_raw_lines(text):
        size, box = raw_line["font"]["size"] / scale, raw_line["bbox"]
        x, middle = box["x"] / scale, (box["y"] + box["h"] / 2) / scale
        yield TextLine(x, middle - size / 2, x + box["w"] / scale, middle + size / 2, size, raw_line["text"], block)


def _normalize_sizes(lines: Sequence[TextLine]) -> list[TextLine]:
    """Return the lines with one font size for all lines of about the usual size.

    Tesseract estimates the size of each line from the letters in it, so that the sizes of similar lines vary.
    """
    usual_size = median(line.size for line in lines) if lines else 0.0
    return [line._replace(size=_normalize_size(line.size, usual_size)) for line in lines]


def _normalize_size(size: float, usual_size: float) -> float:
    """Return the usual font size, or 1.5 or 2 times that size for a line that is clearly larger."""
    return usual_size * (1.0 if size < 1.35 * usual_size else 1.5 if size < 1.8 * usual_size else 2.0)


def format_install_hint(data: LanguageData) -> str:
    """Return the instruction for the operator to install missing language data, as the end of a sentence."""
    packages = " ".join(f"tesseract-ocr-{name.replace('_', '-')}" for name in data.missing)
    return f"install Tesseract's language data (Debian and Ubuntu: {packages or 'tesseract-ocr-eng'})"


def list_language_warnings(data: LanguageData) -> list[ServiceWarning]:
    """Return a warning if language data is installed for some, but not all of the configured languages."""
    if not data.languages or not data.missing:
        return []
    languages, missing = ", ".join(data.languages), ", ".join(data.missing)
    message = f"OCR used only {languages}: the language data of {missing} is not installed."
    return [ServiceWarning(WarningCode.OCR_LANGUAGES_MISSING, message)]


def format_page_ranges(numbers: Iterable[int]) -> str:
    """Format page numbers, for example "Page 2" or "Pages 2, 5-9".

    Args:
        numbers: Page numbers in ascending order.

    Returns:
        The start of a sentence, with at most 30 ranges and the number of further ranges.
    """
    runs = []
    for _, members in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        run = [number for _, number in members]
        runs.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    more = f" and {len(runs) - MAX_RANGES} more ranges" if len(runs) > MAX_RANGES else ""
    is_single_page = len(runs) == 1 and "-" not in runs[0]
    return f"{'Page' if is_single_page else 'Pages'} {', '.join(runs[:MAX_RANGES])}{more}"
