"""Data of the scale benchmark: generated passages in any number, and real passages with the model's vectors."""

import asyncio
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from app.inference.embedding.local_loader import get_identity, load_local_embedder
from app.inference.embedding.local_models import LOCAL_MODELS
from app.inference.embedding.weights import require_weights
from app.lexical.analyzers import get_analyzer
from app.settings import get_user_cache_dir
from benchmarks.search import Vocabulary
from harness.embedding_endpoint import DIMENSIONS
from harness.loader import CHUNKS_PER_DOCUMENT, LoadBatch, TermTable

BATCH_CHUNKS = 10_000
MIN_WORDS, MAX_WORDS = 40, 120
MEAN_WORDS = (MIN_WORDS + MAX_WORDS) / 2
CLUSTERS, LATENT_DIMENSIONS = 1000, 48
SETS = ("scifact", "mtrag-un", "chroma-dev")
CHUNK_WORDS, MAX_CHUNKS, MAX_QUERIES = 60, 25_000, 300

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Question:
    """Query with its vector, so that a search calls no model."""

    text: str
    vector: Floats


def build_share_metadata(number: int) -> dict[str, Any]:
    """Build metadata for filters of different selectivity. ``number`` is the ordinal of the document."""
    return {
        "all": True,
        "third": number % 3,
        "tenth": number % 10,
        "hundredth": number % 100,
        "thousandth": number % 1000,
        "number": number * 7919 % 10_000,
    }


class SyntheticCorpus:
    """Generator of passages with Zipf-distributed words and clustered vectors, reproducible by its seed."""

    def __init__(self, seed: int) -> None:
        self.vocabulary = Vocabulary(seed)
        self._rng = np.random.default_rng(seed)
        analyzer = get_analyzer("english")
        result = [
            (word, analyzer.tokenize(word), weight)
            for word, weight in zip(self.vocabulary.words, self.vocabulary.weights, strict=True)
        ]
        usable = [(word, terms[0], weight) for word, terms, weight in result if len(terms) == 1]
        self.terms = TermTable.from_terms(term for _, term, _ in usable)
        self._words = np.array([word for word, _, _ in usable], object)
        self._numbers = np.array([self.terms.numbers[term] for _, term, _ in usable], np.int64)
        weights = np.array([weight for _, _, weight in usable])
        self._cumulative_weights = np.cumsum(weights / weights.sum())
        self._centres = self._rng.standard_normal((CLUSTERS, LATENT_DIMENSIONS), np.float32)
        self._basis = self._rng.standard_normal((LATENT_DIMENSIONS, DIMENSIONS), np.float32)

    def generate_vectors(self, count: int, rng: np.random.Generator) -> Floats:
        """Generate unit vectors around random cluster centres.

        As in vectors of real texts, most of the variation is in few dimensions (48 here).
        """
        place = self._centres[rng.integers(CLUSTERS, size=count)] + 0.7 * rng.standard_normal(
            (count, LATENT_DIMENSIONS), np.float32
        )
        created = place @ self._basis + 2 * rng.standard_normal((count, DIMENSIONS), np.float32)
        unit: Floats = created / np.linalg.norm(created, axis=1, keepdims=True)
        return unit

    def generate_batches(self, chunks: int, *, seed: int) -> Iterator[LoadBatch]:
        rng = np.random.default_rng(seed)
        for start in range(0, chunks, BATCH_CHUNKS):
            count = min(BATCH_CHUNKS, chunks - start)
            lengths = rng.integers(MIN_WORDS, MAX_WORDS + 1, count)
            drawn = np.minimum(
                np.searchsorted(self._cumulative_weights, rng.random(int(lengths.sum()))), len(self._words) - 1
            )
            ends = np.cumsum(lengths)
            texts = [
                " ".join(self._words[drawn[end - length : end]]) for end, length in zip(ends, lengths, strict=True)
            ]
            yield LoadBatch(texts, self.generate_vectors(count, rng).astype(np.float16), self._numbers[drawn], lengths)

    def generate_questions(self, count: int) -> list[Question]:
        vectors = self.generate_vectors(count, self._rng)
        return [Question(self.vocabulary.generate_query(), vector) for vector in vectors]


@dataclass(frozen=True, slots=True)
class RealCorpus:
    """Passages of the evaluation sets, ten to a document, and the questions of the sets."""

    texts: Sequence[str]
    set_names: Sequence[str]
    vectors: Floats
    questions: Sequence[Question]

    def build_metadata(self, document: int) -> dict[str, Any]:
        return build_share_metadata(document) | {"set": self.set_names[document * CHUNKS_PER_DOCUMENT]}

    def build_batches(self) -> tuple[TermTable, list[LoadBatch]]:
        analyzer = get_analyzer("english")
        tokens = [analyzer.tokenize(text) for text in self.texts]
        table = TermTable.from_terms({term for each in tokens for term in each})
        created = []
        for start in range(0, len(tokens), BATCH_CHUNKS):
            part = tokens[start : start + BATCH_CHUNKS]
            numbers = [table.numbers[term] for each in part for term in each]
            lengths = np.array([len(each) for each in part], np.int64)
            halves = self.vectors[start : start + BATCH_CHUNKS].astype(np.float16)
            created.append(
                LoadBatch(self.texts[start : start + BATCH_CHUNKS], halves, np.array(numbers, np.int64), lengths)
            )
        return table, created


def read_real_corpus(data: Path) -> RealCorpus:
    """Read the passages and questions with their vectors.

    The first run embeds them, which takes minutes, and stores the vectors in the user's cache directory.
    """
    texts, sets, requested = [], [], []
    for name in SETS:
        cut = list(_iter_chunks(data / name / "corpus.jsonl"))
        cut = cut[: len(cut) // CHUNKS_PER_DOCUMENT * CHUNKS_PER_DOCUMENT]
        texts += cut
        sets += [name] * len(cut)
        requested += [line["text"] for line in _read_lines(data / name / "queries.jsonl")]
    texts, sets = texts[-MAX_CHUNKS:], sets[-MAX_CHUNKS:]
    requested = requested[:: max(1, len(requested) // MAX_QUERIES)][:MAX_QUERIES]
    digest = hashlib.sha256("\0".join([*texts, *requested]).encode()).hexdigest()[:16]
    stored = get_user_cache_dir() / "carrel" / f"scale-vectors-{digest}.npy"
    if not stored.is_file():
        print(f"embedding {len(texts)} passages", flush=True)
        stored.parent.mkdir(parents=True, exist_ok=True)
        np.save(stored, asyncio.run(_embed([*texts, *requested])))
    vectors = np.load(stored)
    questions = [Question(text, vector) for text, vector in zip(requested, vectors[len(texts) :], strict=True)]
    return RealCorpus(texts, sets, vectors[: len(texts)], questions)


async def _embed(texts: Sequence[str]) -> Floats:
    model = LOCAL_MODELS["all-MiniLM-L6-v2"]
    directory = require_weights(model, None, get_user_cache_dir())
    embedder = load_local_embedder(directory, get_identity(model), bulk_threads=2)
    try:
        return (await embedder.embed_documents(texts)).vectors
    finally:
        await embedder.close()


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in path.read_text("utf-8").split("\n") if line)


def _iter_chunks(path: Path) -> Iterator[str]:
    """Yield passages of 60 words. A last passage of less than 30 words is dropped unless it is the only one."""
    for line in _read_lines(path):
        words = line["text"].split()
        for start in range(0, len(words), CHUNK_WORDS):
            if start == 0 or len(words) - start >= CHUNK_WORDS // 2:
                yield " ".join(words[start : start + CHUNK_WORDS])
