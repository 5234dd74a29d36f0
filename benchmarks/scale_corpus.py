"""What the scale benchmark searches: made-up passages of any number, and real ones with the model's vectors."""

import asyncio
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from app.inference.embedding.minilm import MiniLMEmbedder
from app.inference.embedding.weights import find_weights
from app.lexical.analyzer import get_analyzer
from app.settings import get_user_cache_dir
from benchmarks.search import Vocabulary
from harness.embedding_endpoint import DIMENSIONS
from harness.loader import PER_DOCUMENT, Batch, TermTable

BATCH = 10_000
SHORTEST, LONGEST = 40, 120
MEAN = (SHORTEST + LONGEST) / 2
CLUSTERS, LATENT = 1000, 48
SETS = ("scifact", "mtrag-un", "chroma-dev")
WORDS, MOST_PASSAGES, MOST_QUERIES = 60, 25_000, 300

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Question:
    """A query with its vector, so that no model is asked."""

    text: str
    vector: Floats


def shares(number: int) -> dict[str, Any]:
    """Metadata by which filters of every selectivity can ask; ``number`` counts documents."""
    return {
        "all": True,
        "third": number % 3,
        "tenth": number % 10,
        "hundredth": number % 100,
        "thousandth": number % 1000,
        "number": number * 7919 % 10_000,
    }


class MadeUp:
    """Passages of Zipf's words around random centres, the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self.vocabulary = Vocabulary(seed)
        self._rng = np.random.default_rng(seed)
        analyzer = get_analyzer("english")
        found = [
            (word, analyzer.tokenize(word), weight)
            for word, weight in zip(self.vocabulary.words, self.vocabulary.weights, strict=True)
        ]
        usable = [(word, terms[0], weight) for word, terms, weight in found if len(terms) == 1]
        self.terms = TermTable.of(term for _, term, _ in usable)
        self._words = np.array([word for word, _, _ in usable], object)
        self._numbers = np.array([self.terms.numbers[term] for _, term, _ in usable], np.int64)
        weights = np.array([weight for _, _, weight in usable])
        self._rising = np.cumsum(weights / weights.sum())
        self._centres = self._rng.standard_normal((CLUSTERS, LATENT), np.float32)
        self._basis = self._rng.standard_normal((LATENT, DIMENSIONS), np.float32)

    def vectors(self, count: int, rng: np.random.Generator) -> Floats:
        """Of unit length: a cluster's centre and what sets a passage apart, most of it in few dimensions, as texts."""
        place = self._centres[rng.integers(CLUSTERS, size=count)] + 0.7 * rng.standard_normal(
            (count, LATENT), np.float32
        )
        made = place @ self._basis + 2 * rng.standard_normal((count, DIMENSIONS), np.float32)
        unit: Floats = made / np.linalg.norm(made, axis=1, keepdims=True)
        return unit

    def batches(self, chunks: int, *, seed: int) -> Iterator[Batch]:
        rng = np.random.default_rng(seed)
        for start in range(0, chunks, BATCH):
            count = min(BATCH, chunks - start)
            lengths = rng.integers(SHORTEST, LONGEST + 1, count)
            drawn = np.minimum(np.searchsorted(self._rising, rng.random(int(lengths.sum()))), len(self._words) - 1)
            ends = np.cumsum(lengths)
            texts = [
                " ".join(self._words[drawn[end - length : end]]) for end, length in zip(ends, lengths, strict=True)
            ]
            yield Batch(texts, self.vectors(count, rng).astype(np.float16), self._numbers[drawn], lengths)

    def questions(self, count: int) -> list[Question]:
        vectors = self.vectors(count, self._rng)
        return [Question(self.vocabulary.query(), vector) for vector in vectors]


@dataclass(frozen=True, slots=True)
class Real:
    """Passages of the evaluation sets, ten a document, and their sets' questions."""

    texts: Sequence[str]
    sets: Sequence[str]
    vectors: Floats
    questions: Sequence[Question]

    def describe(self, document: int) -> dict[str, Any]:
        return shares(document) | {"set": self.sets[document * PER_DOCUMENT]}

    def batches(self) -> tuple[TermTable, list[Batch]]:
        analyzer = get_analyzer("english")
        tokens = [analyzer.tokenize(text) for text in self.texts]
        table = TermTable.of({term for each in tokens for term in each})
        made = []
        for start in range(0, len(tokens), BATCH):
            part = tokens[start : start + BATCH]
            numbers = [table.numbers[term] for each in part for term in each]
            lengths = np.array([len(each) for each in part], np.int64)
            halves = self.vectors[start : start + BATCH].astype(np.float16)
            made.append(Batch(self.texts[start : start + BATCH], halves, np.array(numbers, np.int64), lengths))
        return table, made


def read_real(data: Path) -> Real:
    """Embedded on the first run, which takes minutes; kept in the user's cache directory."""
    texts, sets, asked = [], [], []
    for name in SETS:
        cut = list(_passages(data / name / "corpus.jsonl"))
        cut = cut[: len(cut) // PER_DOCUMENT * PER_DOCUMENT]
        texts += cut
        sets += [name] * len(cut)
        asked += [line["text"] for line in _lines(data / name / "queries.jsonl")]
    texts, sets = texts[-MOST_PASSAGES:], sets[-MOST_PASSAGES:]
    asked = asked[:: max(1, len(asked) // MOST_QUERIES)][:MOST_QUERIES]
    digest = hashlib.sha256("\0".join([*texts, *asked]).encode()).hexdigest()[:16]
    kept = get_user_cache_dir() / "carrel" / f"scale-vectors-{digest}.npy"
    if not kept.is_file():
        print(f"embedding {len(texts)} passages", flush=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.save(kept, asyncio.run(_embed([*texts, *asked])))
    vectors = np.load(kept)
    questions = [Question(text, vector) for text, vector in zip(asked, vectors[len(texts) :], strict=True)]
    return Real(texts, sets, vectors[: len(texts)], questions)


async def _embed(texts: Sequence[str]) -> Floats:
    embedder = MiniLMEmbedder.load(find_weights(None, get_user_cache_dir()), precision="int8", bulk_threads=2)
    try:
        return (await embedder.embed_documents(texts)).vectors
    finally:
        await embedder.close()


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in path.read_text("utf-8").split("\n") if line)


def _passages(path: Path) -> Iterator[str]:
    """Consecutive cuts of so many words; a short rest is left out."""
    for line in _lines(path):
        words = line["text"].split()
        for start in range(0, len(words), WORDS):
            if start == 0 or len(words) - start >= WORDS // 2:
                yield " ".join(words[start : start + WORDS])
