"""Chunkers called as in ingestion, with a small embedding function."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from app.inference.embedding import Vectors
from app.ingestion.chunkers import CHUNKERS, ChunkerOutput, ChunkSizes, ChunkTools, TokenCounter
from app.ingestion.tree import add_sentences
from app.ingestion.types import ChunkDraft, DocumentTree
from harness.word_vectors import compute_word_vector


@cache
def _direction(word: str) -> Vectors:
    return np.array(compute_word_vector(word, 32), np.float32)


def embed(texts: Sequence[str]) -> Vectors:
    """Return vectors of unit length; texts that share words are close."""
    vectors = np.zeros((len(texts), 32), np.float32)
    for vector, text in zip(vectors, texts, strict=True):
        for word in re.findall(r"\w+", text.lower()) or [""]:
            vector += _direction(word)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def cut(
    name: str, tree: DocumentTree, sizes: ChunkSizes, count: TokenCounter, *, limit: int = 8192, **options: Any
) -> ChunkerOutput:
    """Return the chunking of a tree, to which sentences are added if the chunker needs them."""
    spec = CHUNKERS[name]
    if spec.needs_sentences:
        add_sentences(tree)
    return spec.chunk(tree, sizes, spec.options(**options), ChunkTools(count, embed, limit))


def drafts(name: str, tree: DocumentTree, sizes: ChunkSizes, count: TokenCounter, **options: Any) -> list[ChunkDraft]:
    """Return the chunks alone."""
    return cut(name, tree, sizes, count, **options).drafts
