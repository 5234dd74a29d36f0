"""Extractive summary and keywords of a section, from the stored vectors and BM25 weights of its chunks."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from app.lexical.sentences import find_sentence_spans, strip_range
from app.section_notes.types import Keyword, SectionChunk

MAX_SUMMARY_SENTENCES = 3
MAX_SUMMARY_CHARACTERS = 600
MAX_SENTENCE_CHARACTERS = 400
MIN_SENTENCE_WORDS = 4
MAX_KEYWORDS = 10
MAX_CENTRAL_CHUNKS = 4
"""Number of chunks, the nearest to the centroid, whose sentences a summary may use."""
MAX_CHUNK_CHARACTERS = 4_000
"""Number of characters of a chunk that are read. A chunk that was uploaded with its vector may be longer."""
MAX_KEYWORD_CHARACTERS = 80
CANDIDATE_TERMS = 24
MIN_CENTRALITY = 0.05
_WORD = re.compile(r"\w[\w'’.-]{0,60}", re.UNICODE)
_SPACE = re.compile(r"\s+")

TermIds = Callable[[str], Sequence[int]]
"""Function that returns the ids of the terms of a word."""


def compute_centralities(chunks: Sequence[SectionChunk]) -> list[float]:
    """Return the cosine of each chunk's vector with the centroid of the section, from ``MIN_CENTRALITY`` to 1.

    Chunks without a vector get the lowest value. If no chunk has a vector, all are equal.
    """
    if not any(len(chunk.vector) for chunk in chunks):
        return [1.0] * len(chunks)
    dimensions = max(len(chunk.vector) for chunk in chunks)
    vectors: npt.NDArray[np.float64] = np.zeros((len(chunks), dimensions))
    for position, chunk in enumerate(chunks):
        if len(chunk.vector) == dimensions:
            vectors[position] = chunk.vector
    centroid = vectors.sum(axis=0)
    norm = float(np.linalg.norm(centroid)) or 1.0
    cosines: list[float] = np.clip(vectors @ (centroid / norm), MIN_CENTRALITY, 1.0).tolist()
    return cosines


def summarize_section(chunks: Sequence[SectionChunk], centralities: Sequence[float], weigh: "TermWeigher") -> str:
    """Return the most central sentences of a section in reading order, or an empty text.

    A sentence has the centrality of its chunk times the mean weight of its terms. Of each chunk, the best sentence
    comes first. Headings, rows of tables and sentences of fewer than four words are left out.

    Args:
        chunks: Chunks of the section, in reading order.
        centralities: Centrality of each chunk.
        weigh: Weights of the section's terms.
    """
    central = sorted(range(len(chunks)), key=lambda position: (-centralities[position], position))[:MAX_CENTRAL_CHUNKS]
    ranked: list[tuple[int, float, tuple[int, int], str]] = []
    for position in central:
        sentences = [
            (centralities[position] * weigh.compute_sentence_weight(sentence), (position, start), sentence)
            for start, sentence in _iterate_sentences(chunks[position].text[:MAX_CHUNK_CHARACTERS])
        ]
        sentences.sort(key=lambda item: (-item[0], item[1]))
        ranked += [(rank, -score, place, text) for rank, (score, place, text) in enumerate(sentences)]
    chosen: dict[str, tuple[int, int]] = {}
    length = 0
    for _, _, place, sentence in sorted(ranked):
        if len(chosen) == MAX_SUMMARY_SENTENCES or length + len(sentence) > MAX_SUMMARY_CHARACTERS:
            break
        if sentence not in chosen:
            chosen[sentence] = place
            length += len(sentence) + 1
    return " ".join(sorted(chosen, key=chosen.__getitem__))


def _iterate_sentences(text: str) -> Iterable[tuple[int, str]]:
    """Yield the sentences of the paragraphs of a text, with their offsets."""
    position = 0
    for line in text.split("\n"):
        start, position = position, position + len(line) + 1
        if line.lstrip().startswith(("|", "#", "```")):
            continue
        for first, last in find_sentence_spans(line, 0, len(line)):
            first, last = strip_range(line, first, last)
            sentence = _SPACE.sub(" ", line[first:last])
            if len(sentence) <= MAX_SENTENCE_CHARACTERS and _is_statement(sentence):
                yield start + first, sentence


def _is_statement(sentence: str) -> bool:
    """Return whether a sentence has enough words, or enough characters in a script without spaces."""
    if not sentence or sentence[-1] not in ".!?…؟۔।॥。！？｡)\"'”’»":
        return False
    return sentence.count(" ") + 1 >= MIN_SENTENCE_WORDS or (not sentence.isascii() and len(sentence) >= 12)


class TermWeigher:
    """Weights of the terms of a section: the sum of their BM25 weights in the chunks, times the idf.

    Words are mapped to terms by the analyzer, because the database stores only hashes of terms.
    """

    def __init__(
        self, chunks: Sequence[SectionChunk], idf: Mapping[int, float], term_ids: TermIds, centralities: Sequence[float]
    ) -> None:
        """Compute the weights of the terms.

        Args:
            chunks: Chunks of the section.
            idf: Rarity of each term in the search index, by the id of the term; a missing term has none.
            term_ids: Function that returns the ids of the terms of a word.
            centralities: Centrality of each chunk.
        """
        self._term_ids = term_ids
        self._chunks = chunks
        self._word_terms: dict[str, tuple[int, ...]] = {}
        self.weights: dict[int, float] = {}
        for chunk, centrality in zip(chunks, centralities, strict=True):
            for term, weight in chunk.weights.items():
                self.weights[term] = self.weights.get(term, 0.0) + weight * centrality * idf.get(term, 0.0)

    def compute_sentence_weight(self, sentence: str) -> float:
        """Return the mean weight of the words of a sentence; longer sentences are damped less than by their length."""
        words = [match.group() for match in _WORD.finditer(sentence)]
        terms = {term for word in words for term in self._find_terms(word)}
        return sum(self.weights.get(term, 0.0) for term in terms) / (5 + len(words))

    def list_keywords(self) -> list[Keyword]:
        """Return the best entities and words of the section, best first.

        The score of an entity is the sum of the weights of its words. A word of a chosen entity is no further keyword.
        """
        best = sorted(self.weights, key=lambda term: (-self.weights[term], term))[:CANDIDATE_TERMS]
        candidates = self._find_words({term for term in best if self.weights[term] > 0})
        candidates |= self._compute_name_weights()
        chosen: list[tuple[str, float]] = []
        used: set[int] = set()
        for name, score in sorted(candidates.items(), key=lambda item: (-item[1], item[0])):
            terms = {term for word in _WORD.findall(name) for term in self._find_terms(word)}
            if not terms or score <= 0 or terms <= used:
                continue
            used |= terms
            chosen.append((name, score))
            if len(chosen) == MAX_KEYWORDS:
                break
        top = chosen[0][1] if chosen else 1.0
        return [Keyword(name, round(score / top, 4)) for name, score in chosen]

    def _find_terms(self, word: str) -> tuple[int, ...]:
        terms = self._word_terms.get(word)
        if terms is None:
            terms = self._word_terms[word] = tuple(dict.fromkeys(self._term_ids(word)))
        return terms

    def _find_words(self, terms: set[int]) -> dict[str, float]:
        """Return the most frequent spelling of each term, with the weight of the term."""
        spellings: dict[int, dict[str, int]] = {}
        for chunk in self._chunks:
            for match in _WORD.finditer(chunk.text[:MAX_CHUNK_CHARACTERS]):
                word = match.group().rstrip(".'’-")
                for term in self._find_terms(word):
                    if term in terms:
                        counts = spellings.setdefault(term, {})
                        counts[word] = counts.get(word, 0) + 1
        words: dict[str, float] = {}
        for term, counts in spellings.items():
            word = min(counts, key=lambda spelling: (-counts[spelling], spelling.lower(), spelling))
            words[word] = max(self.weights[term], words.get(word, 0.0))
        return words

    def _compute_name_weights(self) -> dict[str, float]:
        """Return the names of entities of the section with the weights of their words."""
        names: dict[str, float] = {}
        for name in {name for chunk in self._chunks for name in chunk.names}:
            if len(name) <= MAX_KEYWORD_CHARACTERS:
                terms = {term for word in _WORD.findall(name) for term in self._find_terms(word)}
                names[name] = sum(self.weights.get(term, 0.0) for term in terms)
        return names


def extract_notes(
    chunks: Sequence[SectionChunk], idf: Mapping[int, float], term_ids: TermIds, *, needs_keywords: bool
) -> tuple[str, list[Keyword]]:
    """Return the summary and the keywords of a section.

    Args:
        chunks: Chunks of the section, in reading order.
        idf: Rarity of each term in the search index, by the id of the term.
        term_ids: Function that returns the ids of the terms of a word.
        needs_keywords: Whether keywords are wanted; without them the list is empty.
    """
    centralities = compute_centralities(chunks)
    weigher = TermWeigher(chunks, idf, term_ids, centralities)
    summary = summarize_section(chunks, centralities, weigher)
    return summary, weigher.list_keywords() if needs_keywords else []


def to_term_weights(terms: Any) -> dict[int, float]:
    """Return the weights of a stored sparse vector by the id of the term."""
    return dict(zip(terms.indices(), terms.values(), strict=True))
