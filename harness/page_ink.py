"""Ink of the words of a chunk on the images of its pages, and the share of the ink that the chunk's boxes cover."""

import io
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, cast

import numpy as np
import pymupdf
from PIL import Image

INK_CONTRAST = 64
"""Difference from the background, in 256 shades of grey, from which a pixel is ink."""

MIN_ALIGNED_WORDS = 3
"""Length of a sequence of equal words that is aligned. A shorter one may be the same words in another place."""

_LETTERS = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class InkCount:
    """Number of pixels of ink of a chunk's words, and of these pixels in the chunk's boxes.

    Attributes:
        covered: Pixels of ink in the boxes.
        total: Pixels of ink.
        aligned_words: Words of the chunk that were found on its pages.
        words: Words of the chunk.
    """

    covered: int
    total: int
    aligned_words: int
    words: int

    @property
    def share(self) -> float:
        """Share of the ink that is covered; 1 without ink."""
        return self.covered / self.total if self.total else 1.0


@dataclass(frozen=True, slots=True)
class PrintedWord:
    """Word on a page as displayed, with its box in points."""

    page: int
    text: str
    box: tuple[float, float, float, float]


def normalize_word(text: str) -> str:
    """Return a word in lower case and without marks, for comparison."""
    return "".join(_LETTERS.findall(unicodedata.normalize("NFKC", text).casefold()))


def list_words(document: Any, number: int) -> list[PrintedWord]:
    """Return the visible words of a page of a document of PyMuPDF, in the order of the file.

    Args:
        document: The document.
        number: Page number from 1.
    """
    page, fitz = document[number - 1], cast("Any", pymupdf)
    words = []
    for *corners, text, _, _, _ in page.get_text("words"):
        rect = fitz.Rect(corners) * page.rotation_matrix
        rect.normalize()
        box = rect & page.rect
        if normalize_word(text) and not box.is_empty:
            words.append(PrintedWord(number, normalize_word(text), tuple(box)))
    return words


def list_tokens(chunk: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield the words of a chunk with their offsets in the text of the document.

    Args:
        chunk: Chunk of the API. The head of a table that the chunk repeats is left out.
    """
    head = 0 if chunk["table_head"] is None else len(chunk["table_head"]) + 1
    for match in re.finditer(r"\S+", chunk["text"][head:]):
        if word := normalize_word(match[0]):
            yield chunk["start"] + match.start(), word


def assign_words(
    chunks: Sequence[Mapping[str, Any]], words: Mapping[int, Sequence[PrintedWord]]
) -> dict[int, list[PrintedWord]]:
    """Return the printed words of each chunk, by its index.

    The words of a page are aligned with the text of all its chunks. The same words elsewhere on the page are therefore
    not taken for those of a chunk.

    Args:
        chunks: All chunks of a document.
        words: Words of each page.
    """
    assigned: dict[int, list[PrintedWord]] = {chunk["chunk_index"]: [] for chunk in chunks}
    for page, printed in words.items():
        present = [
            chunk for chunk in chunks if chunk["page"] is not None and chunk["page"] <= page <= chunk["page_end"]
        ]
        tokens = sorted({token for chunk in present for token in list_tokens(chunk)})
        matcher = SequenceMatcher(None, [word for _, word in tokens], [word.text for word in printed], autojunk=False)
        for block in matcher.get_matching_blocks():
            if block.size < min(MIN_ALIGNED_WORDS, len(tokens)):
                continue
            for (offset, _), word in zip(
                tokens[block.a : block.a + block.size], printed[block.b : block.b + block.size], strict=True
            ):
                for chunk in present:
                    if chunk["start"] <= offset < chunk["end"]:
                        assigned[chunk["chunk_index"]].append(word)
    return assigned


def measure_ink(
    chunk: Mapping[str, Any], words: Sequence[PrintedWord], images: Mapping[int, bytes], scale: float
) -> InkCount:
    """Count the ink of a chunk's words and the ink in the chunk's boxes.

    Args:
        chunk: Reply of ``GET …/chunks/{chunk}``.
        words: Printed words of the chunk.
        images: Images of the chunk's pages as PNG, by page number.
        scale: Pixels for each point.
    """
    covered = total = 0
    for page in sorted({word.page for word in words}):
        grey = np.asarray(Image.open(io.BytesIO(images[page])).convert("L")).astype(np.int16)
        ink = np.zeros(grey.shape, dtype=bool)
        for rows, columns in _iter_areas((word.box for word in words if word.page == page), scale):
            part = grey[rows, columns]
            if part.size:
                background = np.bincount(part.ravel(), minlength=256).argmax()
                ink[rows, columns] |= np.abs(part - int(background)) > INK_CONTRAST
        boxes = ((box["x0"], box["y0"], box["x1"], box["y1"]) for box in chunk["boxes"] if box["page"] == page)
        inside = np.zeros(grey.shape, dtype=bool)
        for rows, columns in _iter_areas(boxes, scale):
            inside[rows, columns] = True
        total += int(ink.sum())
        covered += int((ink & inside).sum())
    return InkCount(covered, total, len(words), sum(1 for _ in list_tokens(chunk)))


def _iter_areas(boxes: Iterable[tuple[float, float, float, float]], scale: float) -> Iterator[tuple[slice, slice]]:
    """Yield the rows and columns of boxes in points."""
    for x0, y0, x1, y1 in boxes:
        left, top, right, bottom = (round(scale * value) for value in (x0, y0, x1, y1))
        yield slice(max(0, top), max(0, bottom)), slice(max(0, left), max(0, right))
