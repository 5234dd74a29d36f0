"""The recursive chunker: paragraphs, sentences and words packed up to the limit, and a heading like any text."""

from itertools import groupby

from app.ingestion.chunkers.drafting import leaves_of
from app.ingestion.chunkers.packing import pack_regions
from app.ingestion.chunkers.regions import records_apart
from app.ingestion.chunkers.spec import Chunked, ChunkerSpec, ChunkSizes, ChunkTools, NoOptions
from app.ingestion.types import DocumentTree


def chunk(tree: DocumentTree, sizes: ChunkSizes, _options: NoOptions, tools: ChunkTools) -> Chunked:
    """Chunks of what stands together below one node of the tree, so that every section has one, a bare heading too."""
    together = groupby(leaves_of(tree.root), key=lambda leaf: leaf.path[:-1])
    regions = records_apart([list(leaves) for _, leaves in together])
    return Chunked(pack_regions(tree, regions, sizes, tools.count_tokens))


CHUNKER = ChunkerSpec(
    "recursive",
    "Packs the paragraphs, sentences and words of one section; every section has a chunk, a bare heading too.",
    NoOptions,
    chunk,
)
