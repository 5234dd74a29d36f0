"""The registry of chunkers: ways to cut a document tree into chunks, by the name a knowledge base gives."""

from collections.abc import Callable
from dataclasses import dataclass

from app.ingestion.chunkers import headered, recursive
from app.ingestion.chunkers.packing import ChunkOptions
from app.ingestion.chunkers.splitting import TokenCounter
from app.ingestion.types import ChunkDraft, DocumentTree

__all__ = ["CHUNKERS", "DEFAULT_CHUNKER", "ChunkOptions", "ChunkerSpec", "TokenCounter"]


@dataclass(frozen=True, slots=True)
class ChunkerSpec:
    """A chunker: ``chunk`` gives drafts in reading order, none of which counts over ``max_tokens``."""

    name: str
    description: str
    chunk: Callable[[DocumentTree, ChunkOptions, TokenCounter], list[ChunkDraft]]


DEFAULT_CHUNKER = "headered"
CHUNKERS = {
    spec.name: spec
    for spec in (
        ChunkerSpec("headered", "Packs paragraphs and sentences inside one section, never across.", headered.chunk),
        ChunkerSpec("recursive", "Packs paragraphs and sentences across sections, ignoring headings.", recursive.chunk),
    )
}
