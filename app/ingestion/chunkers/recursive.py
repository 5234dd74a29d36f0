"""The recursive chunker: paragraphs, sentences and words packed up to the limit, whatever the headings."""

from itertools import groupby

from app.ingestion.chunkers.packing import ChunkOptions, leaves_of, pack_regions
from app.ingestion.chunkers.splitting import TokenCounter
from app.ingestion.types import ChunkDraft, DocumentTree


def chunk(tree: DocumentTree, options: ChunkOptions, count_tokens: TokenCounter) -> list[ChunkDraft]:
    """Chunks that may run on from one section to the next, but never from one slide or sheet to another."""
    places = groupby(leaves_of(tree.root), key=lambda leaf: (leaf.slide, leaf.sheet))
    return pack_regions(tree, [list(leaves) for _, leaves in places], options, count_tokens)
