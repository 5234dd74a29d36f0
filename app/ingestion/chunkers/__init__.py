"""Registry of the built-in chunkers, which divide a document tree into chunks, by their name in a knowledge base."""

from typing import Any

from app.ingestion.chunkers import approx_tokens, headered, hierarchical, recursive, semantic, sentence
from app.ingestion.chunkers.spec import (
    ChunkerOutput,
    ChunkerSpec,
    ChunkSizes,
    ChunkTools,
    NoChunkerOptions,
    PageOptions,
    TokenCounter,
)

__all__ = [
    "CHUNKERS",
    "DEFAULT_CHUNKER",
    "ChunkSizes",
    "ChunkTools",
    "ChunkerOutput",
    "ChunkerSpec",
    "NoChunkerOptions",
    "PageOptions",
    "TokenCounter",
]

DEFAULT_CHUNKER = "headered"
CHUNKERS: dict[str, ChunkerSpec[Any]] = {
    spec.name: spec
    for spec in (
        headered.CHUNKER,
        recursive.CHUNKER,
        hierarchical.CHUNKER,
        semantic.CHUNKER,
        sentence.CHUNKER,
        approx_tokens.CHUNKER,
    )
}
