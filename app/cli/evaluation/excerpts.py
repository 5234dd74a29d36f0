"""Excerpt measures over the characters of the first passages (Smith and Troynikov 2024, "Evaluating Chunking").

Recall is the share of the excerpts' characters that were retrieved; precision the share of the retrieved characters
that belong to excerpts, a character counted as often as it was retrieved; IoU puts the missed ones below as well.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from unicodedata import normalize

from app.cli.evaluation.sets import Reference, SetError

Range = tuple[int, int]
Reading = Callable[[str], Iterator[str]]
"""What is compared of a text."""
Squeezed = tuple[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Passage:
    """What was retrieved: a text, the document that it says it is from, and where it begins in what is stored of it.

    That is ``stored``, where it is needed: the same words stand in the document more than once.
    """

    document: str
    text: str
    start: int = 0
    stored: str = ""


@dataclass(frozen=True, slots=True)
class ExcerptScores:
    """The measures of one query, and how many passages of its documents could not be found in them."""

    recall: float
    precision: float
    iou: float
    unlocated: int

    def named(self) -> dict[str, float]:
        """By the measures' names."""
        return {"excerpt_recall": self.recall, "excerpt_precision": self.precision, "excerpt_IoU": self.iou}


@dataclass(frozen=True, slots=True)
class Texts:
    """The documents' texts, in which passages and excerpts are located."""

    by_document: Mapping[str, str]
    squeezed: dict[tuple[str, Reading], Squeezed] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def locate(self, document: str, words: str, *, near: int = 0, stored: str = "") -> Range | None:
        """Where they stand: as they are, else whatever became of white space and compatibility characters.

        Else of all signs, too: those of a heading or a table in a plain text are not stored. Of several places it is
        the one with the same number as theirs in ``stored``, where they begin at ``near``; without that, and where
        they do not come as often there, the one nearest to ``near``.
        """
        text = self.by_document.get(document)
        if text is None:
            return None
        nearest, stored = None, stored if stored.startswith(words, near) else ""
        for reading in READINGS:
            there, here = self._occurrences(text, words, reading), self._occurrences(stored, words, reading)
            if there and nearest is None:
                nearest = min(there, key=lambda span: abs(span[0] - near))
            if nearest is not None and not stored:
                break
            numbers = [number for number, span in enumerate(here) if span[0] >= near]
            if numbers and len(there) == len(here):
                return there[numbers[0]]
        return nearest

    def has_several(self, document: str, words: str) -> bool:
        """Whether it is a question which place of the document they are from."""
        text = self.by_document.get(document, "")
        return any(len(self._occurrences(text, words, reading)) > 1 for reading in reversed(READINGS))

    def _occurrences(self, text: str, words: str, reading: Reading) -> list[Range]:
        """Every place where a text has them, in this reading."""
        wanted = "".join(reading(words))
        if not text or not wanted:
            return []
        dense, places = self._squeeze(text, reading)
        starts, start = [], dense.find(wanted)
        while start >= 0:
            starts.append(start)
            start = dense.find(wanted, start + 1)
        return [(places[start], places[start + len(wanted) - 1] + 1) for start in starts]

    def _squeeze(self, text: str, reading: Reading) -> Squeezed:
        """What is compared of the text, and where each character of it stood; made once, whoever waits for it."""
        if reading is _characters:
            return text, range(len(text))
        with self.lock:
            if (text, reading) not in self.squeezed:
                pairs = [(mark, place) for place, character in enumerate(text) for mark in reading(character)]
                self.squeezed[text, reading] = "".join(mark for mark, _ in pairs), [place for _, place in pairs]
            return self.squeezed[text, reading]

    def wanted(self, references: Iterable[Reference]) -> dict[str, list[Range]]:
        """The excerpts' ranges by document. Raises SetError for one that is not in its document.

        Of a document that is not in the corpus nobody knows how long it is.
        """
        found: dict[str, list[Range]] = {}
        for reference in references:
            span = reference.span or self.locate(reference.document, reference.text or "")
            if span is None:
                raise SetError(f"a reference is not found in the text of document {reference.document}; give --corpus")
            text = self.by_document.get(reference.document)
            if text is not None and span[1] > len(text):
                raise SetError(f"a reference ends at {span[1]}, and document {reference.document} at {len(text)}")
            found.setdefault(reference.document, []).append(span)
        return {document: merged(ranges) for document, ranges in found.items()}


def _characters(text: str) -> Iterator[str]:
    """All of it."""
    return iter(text)


def _marks(text: str) -> Iterator[str]:
    """Stored text is in another normal form than its original may be; decomposed, both are the same."""
    return (mark for mark in normalize("NFKD", text) if not mark.isspace())


def _letters(text: str) -> Iterator[str]:
    """What no parser takes for markup."""
    return (mark for mark in normalize("NFKD", text) if mark.isalnum())


READINGS: tuple[Reading, ...] = (_characters, _marks, _letters)


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The same characters in ranges that do not touch."""
    out: list[Range] = []
    for start, end in sorted(ranges):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def overlap(left: Sequence[Range], right: Sequence[Range]) -> int:
    """How many characters two merged lists share."""
    ends = [end for _, end in right]
    shared = 0
    for start, end in left:
        for other_start, other_end in right[bisect_left(ends, start) :]:
            if other_start >= end:
                break
            shared += max(0, min(end, other_end) - max(start, other_start))
    return shared


def score(passages: Sequence[Passage], wanted: Mapping[str, list[Range]], texts: Texts) -> ExcerptScores:
    """One query's; passages that cannot be located count as retrieved and hit nothing."""
    found: dict[str, list[Range]] = {}
    unlocated = retrieved = 0
    for passage in passages:
        span = texts.locate(passage.document, passage.text, near=passage.start, stored=passage.stored)
        if span is None:
            retrieved += len(passage.text)
            unlocated += passage.document in texts.by_document
        else:
            retrieved += span[1] - span[0]
            found.setdefault(passage.document, []).append(span)
    hit = sum(overlap(merged(found.get(document, [])), ranges) for document, ranges in wanted.items())
    total = sum(end - start for ranges in wanted.values() for start, end in ranges)
    return ExcerptScores(
        recall=hit / total,
        precision=hit / retrieved if retrieved else 0.0,
        iou=hit / (retrieved + total - hit),
        unlocated=unlocated,
    )
