"""Excerpt measures over the characters of the first passages (Smith and Troynikov 2024, "Evaluating Chunking").

Recall is the share of the excerpts' characters that were retrieved. Precision is the share of the retrieved characters
that belong to excerpts; a character counts as often as it was retrieved. IoU (intersection over union) is the number of
hits, divided by the sum of retrieved and missed characters.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from unicodedata import normalize

from app.cli.evaluation.datasets import DatasetError, ExcerptReference

Range = tuple[int, int]
Normalization = Callable[[str], Iterator[str]]
"""Function that yields the parts of a text that are compared."""
NormalizedText = tuple[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class RetrievedChunk:
    """Retrieved passage: its document, its text and its offset in the stored text.

    ``stored`` is the stored text of the document, set only if the passage occurs in the document more than once.
    """

    document: str
    text: str
    start: int = 0
    stored: str = ""


@dataclass(frozen=True, slots=True)
class ExcerptScores:
    """Scores of one query, and the number of passages that were not found in the text of their document."""

    recall: float
    precision: float
    iou: float
    unlocated: int

    def to_dict(self) -> dict[str, float]:
        """Return the scores by the names of the measures."""
        return {"excerpt_recall": self.recall, "excerpt_precision": self.precision, "excerpt_IoU": self.iou}


@dataclass(frozen=True, slots=True)
class CorpusTexts:
    """Texts of the documents, in which passages and excerpts are located."""

    by_document: Mapping[str, str]
    normalized: dict[tuple[str, Normalization], NormalizedText] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def locate(self, document: str, words: str, *, near: int = 0, stored: str = "") -> Range | None:
        """Return the range of words in the text of a document, or None.

        Three comparisons follow each other: exact characters, characters without white space, letters and digits only.
        The last one is needed because parsers do not store the signs of headings and tables.

        If the words occur several times, the position of the passage among its occurrences in ``stored`` selects the
        range. If ``stored`` is empty, or has another number of occurrences, the range nearest to ``near`` is selected.

        Args:
            document: Name of the document.
            words: Words to locate.
            near: Offset of the words in the stored text.
            stored: Stored text of the document; empty if the words occur once.
        """
        text = self.by_document.get(document)
        if text is None:
            return None
        nearest, stored = None, stored if stored.startswith(words, near) else ""
        for normalization in NORMALIZATIONS:
            corpus_spans, stored_spans = (
                self._find_occurrences(text, words, normalization),
                self._find_occurrences(stored, words, normalization),
            )
            if corpus_spans and nearest is None:
                nearest = min(corpus_spans, key=lambda span: abs(span[0] - near))
            if nearest is not None and not stored:
                break
            numbers = [number for number, span in enumerate(stored_spans) if span[0] >= near]
            if numbers and len(corpus_spans) == len(stored_spans):
                return corpus_spans[numbers[0]]
        return nearest

    def is_ambiguous(self, document: str, words: str) -> bool:
        """Return whether the words occur more than once in the document."""
        text = self.by_document.get(document, "")
        return any(
            len(self._find_occurrences(text, words, normalization)) > 1 for normalization in reversed(NORMALIZATIONS)
        )

    def _find_occurrences(self, text: str, words: str, normalization: Normalization) -> list[Range]:
        """Return all ranges of the words in a text, compared by a normalization."""
        target = "".join(normalization(words))
        if not text or not target:
            return []
        normalized, positions = self._normalize(text, normalization)
        starts, start = [], normalized.find(target)
        while start >= 0:
            starts.append(start)
            start = normalized.find(target, start + 1)
        return [(positions[start], positions[start + len(target) - 1] + 1) for start in starts]

    def _normalize(self, text: str, normalization: Normalization) -> NormalizedText:
        """Return the normalized text and the offset of each character; concurrent callers compute it once."""
        if normalization is _split_characters:
            return text, range(len(text))
        with self.lock:
            if (text, normalization) not in self.normalized:
                pairs = [
                    (mark, position) for position, character in enumerate(text) for mark in normalization(character)
                ]
                self.normalized[text, normalization] = (
                    "".join(mark for mark, _ in pairs),
                    [position for _, position in pairs],
                )
            return self.normalized[text, normalization]

    def locate_references(self, references: Iterable[ExcerptReference]) -> dict[str, list[Range]]:
        """Return the merged ranges of excerpts by document.

        Raises:
            DatasetError: An excerpt is not in the text of its document, or ends after the text.
        """
        ranges_by_document: dict[str, list[Range]] = {}
        for reference in references:
            span = reference.span or self.locate(reference.document, reference.text or "")
            if span is None:
                raise DatasetError(
                    f"a reference is not found in the text of document {reference.document}; give --corpus"
                )
            text = self.by_document.get(reference.document)
            if text is not None and span[1] > len(text):
                raise DatasetError(f"a reference ends at {span[1]}, and document {reference.document} at {len(text)}")
            ranges_by_document.setdefault(reference.document, []).append(span)
        return {document: merge_ranges(ranges) for document, ranges in ranges_by_document.items()}


def _split_characters(text: str) -> Iterator[str]:
    """Yield all characters."""
    return iter(text)


def _split_marks(text: str) -> Iterator[str]:
    """Yield the decomposed characters (NFKD) without white space: the stored text may have another normal form."""
    return (mark for mark in normalize("NFKD", text) if not mark.isspace())


def _split_letters(text: str) -> Iterator[str]:
    """Yield the letters and digits of a text, which no parser removes as markup."""
    return (mark for mark in normalize("NFKD", text) if mark.isalnum())


NORMALIZATIONS: tuple[Normalization, ...] = (_split_characters, _split_marks, _split_letters)


def merge_ranges(ranges: Iterable[Range]) -> list[Range]:
    """Merge ranges that overlap or touch."""
    result: list[Range] = []
    for start, end in sorted(ranges):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((start, end))
    return result


def count_overlap(left: Sequence[Range], right: Sequence[Range]) -> int:
    """Return the number of characters that two lists of merged ranges share."""
    ends = [end for _, end in right]
    shared = 0
    for start, end in left:
        for other_start, other_end in right[bisect_left(ends, start) :]:
            if other_start >= end:
                break
            shared += max(0, min(end, other_end) - max(start, other_start))
    return shared


def score_query(
    chunks: Sequence[RetrievedChunk], expected: Mapping[str, list[Range]], texts: CorpusTexts
) -> ExcerptScores:
    """Return the scores of one query. A passage that cannot be located counts as retrieved without a hit.

    Args:
        chunks: Retrieved passages, best first.
        expected: Merged ranges of the excerpts by document; at least one character.
        texts: Texts of the documents.
    """
    retrieved_ranges: dict[str, list[Range]] = {}
    unlocated = retrieved_count = 0
    for chunk in chunks:
        span = texts.locate(chunk.document, chunk.text, near=chunk.start, stored=chunk.stored)
        if span is None:
            retrieved_count += len(chunk.text)
            unlocated += chunk.document in texts.by_document
        else:
            retrieved_count += span[1] - span[0]
            retrieved_ranges.setdefault(chunk.document, []).append(span)
    hit_count = sum(
        count_overlap(merge_ranges(retrieved_ranges.get(document, [])), ranges) for document, ranges in expected.items()
    )
    total = sum(end - start for ranges in expected.values() for start, end in ranges)
    return ExcerptScores(
        recall=hit_count / total,
        precision=hit_count / retrieved_count if retrieved_count else 0.0,
        iou=hit_count / (retrieved_count + total - hit_count),
        unlocated=unlocated,
    )
